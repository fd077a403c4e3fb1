//! A process's end of a connection, made by hand: what a provider's objects do, in as few words as a test
//! needs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::poll::{Staged, poll};
use crate::post::Poster;
use softrdma::device::{Data, Datagram, Wr};
use softrdma::queues::receive::RECEIVE_WORDS;
use softrdma::queues::shared::{Memory, Object, QpWord, Word};
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Operands;
use softrdma::rules::requester::Outcome;
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, SendFlags, Status, WcOpcode};
use softrdma::shm::bounce::Copying;
use softrdma::shm::folder::Config;
use softrdma::shm::keys::Entry;
use softrdma::shm::objects::{Held, Shape};
use softrdma::testing::Endpoint;
use softrdma::testing::Initiator;
use softrdma::testing::Near;
use softrdma::testing::complete;
use softrdma::testing::place;
use softrdma::testing::{CompletionOrder, Outgoing};
use softrdma::testing::{QpAttributes, SrqAttributes};

pub const GID: [u8; 16] = [7; 16];
pub const PD: u32 = 1;
pub const QKEY: u32 = 0x1111;

/// A folder of its own, removed at the end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/ironverbs-{name}-{}", std::process::id()));
        Dir(path)
    }

    pub fn endpoint(&self) -> Arc<Endpoint> {
        let config = Config { path: self.0.clone(), group: None };
        let endpoint = Endpoint::open(&config, Copying::Auto).expect("a place in the folder");
        endpoint.set_gids(&[GID]);
        Arc::new(endpoint)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A queue pair with a completion queue, and some registered memory.
pub struct RawQp {
    pub endpoint: Arc<Endpoint>,
    pub qp: u32,
    pub cq: u32,
    pub srq: Option<u32>,
    pub held: Held,
    pub attributes: QpAttributes,
    pub initiator: Initiator,
    pub near: Near,
    pub poster: Poster,
    pub memory: Box<[u8]>,
    pub key: u32,
    pub access: Access,
}

impl RawQp {
    pub fn new(endpoint: &Arc<Endpoint>, qp_type: QpType) -> Self {
        Self::with_srq(endpoint, qp_type, None)
    }

    pub fn with_srq(endpoint: &Arc<Endpoint>, qp_type: QpType, srq: Option<u32>) -> Self {
        let none = Shape { capacity: 256, receive_words: 0, bell: None, alert: None };
        let receive = Shape { receive_words: 10, ..none };
        let Object::Cq(cq) = endpoint.objects.create(Object::Cq(0), none).unwrap() else { panic!() };
        let Object::Qp(qp) = endpoint.objects.create(Object::Qp(0), receive).unwrap() else { panic!() };
        let held = endpoint.own.find([Some(Object::Qp(qp)), srq.map(Object::Srq), Some(Object::Cq(cq))]);
        let attributes = QpAttributes {
            qp_type,
            pd: PD,
            receive_pd: PD,
            access: Access(0x10e),
            dest_qp_num: 0,
            qkey: QKEY,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            cq: Some(cq),
            srq,
            xrcd: 0,
            direct: None,
        };
        let memory = vec![0u8; 1 << 16].into_boxed_slice();
        let access = Access(0x31f);
        let key = register(endpoint, &memory, access);
        let initiator = Initiator::new(endpoint.number(qp), qp_type, PD);
        let near = Near::new(qp_type, 256).unwrap();
        let poster = Poster::new(&endpoint.own, srq.map_or(Object::Qp(qp), Object::Srq));
        let endpoint = Self {
            endpoint: endpoint.clone(),
            qp,
            cq,
            srq,
            held,
            attributes,
            initiator,
            near,
            poster,
            memory,
            key,
            access,
        };
        endpoint.settle(QpState::Rts);
        endpoint
    }

    /// Makes the attributes known, and the state.
    pub fn settle(&self, state: QpState) {
        self.attributes.store(&self.endpoint.own, self.qp);
        self.endpoint.own.store(Word::Qp(self.qp, QpWord::State), state as u64);
    }

    pub fn state(&self) -> QpState {
        QpState::from_number(self.endpoint.own.load(Word::Qp(self.qp, QpWord::State)) as u32).unwrap()
    }

    pub fn number(&self) -> u32 {
        self.endpoint.number(self.qp)
    }

    /// Towards another.
    pub fn connect(&mut self, to: u32) {
        self.attributes.dest_qp_num = to;
        (self.initiator.dest_qp_num, self.initiator.dgid) = (to, GID);
        (self.initiator.max_rd_atomic, self.initiator.qkey) = (1, QKEY);
        self.near.reconnect();
        self.settle(QpState::Rts);
    }

    pub fn at(&self, offset: usize) -> u64 {
        self.memory.as_ptr() as u64 + offset as u64
    }

    pub fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge { addr: self.at(offset), length, lkey: self.key }
    }

    /// What is in the memory, as peers may have changed it.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.memory.len());
        // SAFETY: within the box; read as the program would, byte by byte, without a reference that others'
        // writes could upset.
        (0..length).map(|i| unsafe { self.memory.as_ptr().add(offset + i).read_volatile() }).collect()
    }

    pub fn receive(&mut self, wr_id: u64, sges: &[Sge]) {
        self.poster.post(&self.endpoint.own.with(&self.held), wr_id, sges).expect("room");
    }

    /// The next completion, its payload placed.
    pub fn poll(&self) -> Option<Completion> {
        let mut staged = Staged::default();
        let completion =
            poll(&self.endpoint.own.with(&self.held), self.cq, &mut staged).expect("a whole queue")?;
        if !staged.is_empty() {
            let words: Vec<_> = staged.words().iter().copied().map(AtomicU64::new).collect();
            let placed = place(&self.endpoint, PD, staged.addr, staged.lkey, &words, staged.len());
            assert_eq!(placed, Some(()), "a payload for no buffer");
        }
        Some(completion)
    }

    pub fn wr<'a>(opcode: Opcode, sges: &'a [Sge], operands: Operands) -> Wr<'a> {
        Wr {
            wr_id: 1,
            opcode,
            flags: SendFlags::SIGNALED,
            data: Data::Sges(sges),
            operands,
            imm_or_key: 0,
            srq_num: 0,
            datagram: None,
        }
    }

    pub fn execute(&mut self, wr: &Wr<'_>) -> Outcome {
        let (endpoint, from, order) = (&self.endpoint, &self.initiator, CompletionOrder::new(None));
        self.near.execute(&Outgoing { endpoint, from, wr, request: &wr.posted(), order: &order })
    }

    /// A send, and its own completion.
    pub fn send(&mut self, sges: &[Sge]) -> Outcome {
        let outcome = self.execute(&Self::wr(Opcode::Send, sges, Operands::None));
        if matches!(outcome, Outcome::Done(_)) {
            let flushed = Completion::flushed(1, WcOpcode::Send, self.number());
            let completion = Completion { status: Status::Success, ..flushed };
            complete(&self.endpoint.own, &self.held, self.cq, &completion).expect("a completion");
        }
        outcome
    }

    pub fn datagram<'a>(to: u32, grh: &'a [u8; 40], sges: &'a [Sge]) -> Wr<'a> {
        Wr {
            datagram: Some(Datagram { qp_num: to, qkey: QKEY, grh, dgid: GID, route: None }),
            ..Self::wr(Opcode::Send, sges, Operands::None)
        }
    }
}

/// Registers memory.
pub fn register(endpoint: &Endpoint, memory: &[u8], access: Access) -> u32 {
    let base = memory.as_ptr() as u64;
    let length = memory.len() as u64;
    let key = Key { kind: Kind::Region, valid: true, pd: PD, start: base, length, access };
    endpoint.keys.add(&Entry { key, base }).expect("a key")
}

/// A shared receive queue.
pub fn shared(endpoint: &Endpoint, xrc: Option<(u32, u32)>) -> u32 {
    let shape = Shape { capacity: 64, receive_words: RECEIVE_WORDS, bell: None, alert: None };
    let Object::Srq(srq) = endpoint.objects.create(Object::Srq(0), shape).unwrap() else { panic!() };
    SrqAttributes { pd: PD, xrc }.store(&endpoint.own, srq);
    srq
}

/// Two ends, connected.
pub fn pair(one: &Arc<Endpoint>, other: &Arc<Endpoint>, qp_type: QpType) -> (RawQp, RawQp) {
    let (mut one, mut other) = (RawQp::new(one, qp_type), RawQp::new(other, qp_type));
    one.connect(other.number());
    other.connect(one.number());
    (one, other)
}
