//! Senders of bursts, and of the same messages one by one.

use softrdma::queues::burst::Burst;
use softrdma::queues::receive::next_in_ring;
use softrdma::queues::respond::{Queues, Respond, Want};
use softrdma::queues::shared::{CqWord, Memory, Object, Word};
use softrdma::queues::transaction::Progress;
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::{Next, ReceiveRequest, Sge};
use softrdma::rules::requester::Outcome;
use softrdma::rules::responder::{Incoming, TargetQp};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma_testing::post::post;

use crate::place::{CQ, Place, QP};

pub const QUEUES: Queues = Queues { qp: QP, cq: CQ, srq: None };

pub const TARGET: TargetQp = TargetQp {
    qp_num: 1,
    qp_type: QpType::Rc,
    state: QpState::Rts,
    pd: 1,
    receive_pd: 1,
    access: Access::NONE,
    dest_qp_num: 2,
    qkey: 0x11,
    max_dest_rd_atomic: 1,
    min_rnr_timer: 1,
    srq: false,
};

/// A message that goes straight through: as much payload as an entry takes.
pub const SEND: Incoming = Incoming {
    qp_type: QpType::Rc,
    opcode: Opcode::SendWithImm,
    src_qp: 2,
    path_matches: true,
    qkey: 0x11,
    ipv4: false,
    length: 96,
    addr: 0,
    imm_or_key: 0,
    solicited: false,
    timestamp: 0,
};

/// The keys of the target; 1 serves.
pub fn key(lkey: u32) -> Option<Key> {
    let good = Key {
        kind: Kind::Region,
        valid: true,
        pd: 1,
        start: 0,
        length: u64::MAX,
        access: Access::LOCAL_WRITE,
    };
    match lkey {
        1 => Some(good),
        2 => Some(Key { pd: 2, ..good }),
        3 => Some(Key { access: Access::NONE, ..good }),
        4 => Some(Key { kind: Kind::Window1, ..good }),
        5 => Some(Key { valid: false, ..good }),
        6 => Some(Key { length: 1, ..good }),
        _ => None,
    }
}

/// The payload of a message, which is for the request of the same number.
pub fn payload(number: u64) -> Vec<u8> {
    (0..12).flat_map(|n| (number + n).to_ne_bytes()).collect()
}

/// Message `number` of sender `src_qp`, as a completion tells it. The immediate data says who sent it.
pub fn arrived(number: u64, sender: u32) -> Completion {
    Completion {
        status: Status::Success,
        byte_len: 96,
        imm_or_key: sender,
        src_qp: 2,
        flags: WcFlags::WITH_IMM,
        ..Completion::flushed(number, WcOpcode::Recv, 1)
    }
}

/// A place where nobody waits for a bell.
pub fn quiet(receives: u32, completions: u32) -> Place {
    let place = Place::with_rings(receives, completions);
    place.segment.store(Word::Cq(CQ, CqWord::Armed), 0);
    place
}

pub fn post_long(place: &Place, wr_id: u64) {
    let request = ReceiveRequest { wr_id, sges: [Sge { addr: wr_id, length: 96, lkey: 1 }].into() };
    post(&place.segment, Object::Qp(QP), &request).expect("there is room");
}

/// A sender in the middle of a burst.
pub struct Sender<'a> {
    place: &'a Place,
    burst: Burst,
}

impl<'a> Sender<'a> {
    /// `None` here and below: it died.
    pub fn open(place: &'a Place) -> Option<Self> {
        place.lock(Object::Qp(QP))?;
        let mut burst = Burst::default();
        burst.open(&place.segment, &QUEUES);
        Some(Self { place, burst })
    }

    /// Whether the message went straight through. If not, the burst is closed, and the lock given back.
    pub fn offer(&mut self, target: &TargetQp, request: &Incoming, bytes: &[u8]) -> Option<bool> {
        self.burst.bytes()[..bytes.len()].copy_from_slice(bytes);
        if !self.burst.offer(&self.place.segment, target, request, key) {
            self.close()?;
            return Some(false);
        }
        let goes = self.place.drive(&mut self.burst)?;
        assert_eq!(self.burst.is_open(), goes);
        if !goes {
            self.place.unlock(Object::Qp(QP))?;
        }
        Some(goes)
    }

    pub fn send(&mut self, number: u64, sender: u32) -> Option<()> {
        let request = Incoming { imm_or_key: sender, ..SEND };
        assert!(self.offer(&TARGET, &request, &payload(number))?, "message {number} does not go");
        Some(())
    }

    pub fn is_full(&self) -> bool {
        self.burst.is_full()
    }

    pub fn close(&mut self) -> Option<()> {
        self.burst.close();
        assert!(!self.place.drive(&mut self.burst)?);
        assert!(!self.burst.is_open());
        self.place.unlock(Object::Qp(QP))
    }
}

impl Place {
    /// A burst of so many messages, from the next request on.
    pub fn burst(&self, count: u64, sender: u32) -> Option<()> {
        let mut burst = Sender::open(self)?;
        if let Next::Request(next) = next_in_ring(&self.segment, QP) {
            (next.wr_id..next.wr_id + count).try_for_each(|number| burst.send(number, sender))?;
        }
        burst.close()
    }

    /// The same message by itself.
    pub fn single(&self, target: &TargetQp, request: &Incoming, bytes: &[u8]) -> Option<Outcome> {
        self.lock(Object::Qp(QP))?;
        let mut respond = Respond::new(*target, QUEUES, *request, None, None).with_payload(Some(bytes));
        loop {
            self.tick()?;
            match respond.step(&self.segment, key) {
                Want::Transport(Progress::Lock(object)) => self.lock(object)?,
                Want::Transport(Progress::Unlock(object)) => self.unlock(object)?,
                Want::Transport(Progress::Bell(_)) => self.bells.set(self.bells.get() + 1),
                Want::Transport(_) | Want::Invalidate(_) => {}
                Want::Move(_) => respond.moved(&self.segment, Ok(())),
                Want::Done(outcome) => {
                    self.unlock(Object::Qp(QP))?;
                    return Some(outcome);
                }
            }
        }
    }
}
