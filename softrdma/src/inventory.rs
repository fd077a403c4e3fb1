//! What the processes of a folder have, for who looks at it from outside: a reader that is no process of the
//! folder, takes no lock and writes nothing.
//!
//! Each word is copied once, and what it says is checked or only shown: a process may write into its peers'
//! segments whatever it likes. Words of one object may be of two moments. What a process keeps to itself (its
//! send queues, and completions of its own sends) is not seen: of a message one sees what it changed at the
//! receiver.

// A command that shows things may end where there is no memory for them; no program has this in its process.
#![allow(clippy::disallowed_methods)]

use std::sync::atomic::Ordering;

use crate::carrier::near::attributes::{
    FAR, Place, QP_WORDS, QpAttributes, QpShown, SHOWN_WORDS, SRQ_WORDS, SrqAttributes,
};
use crate::carrier::near::number::{number, place_of};
use crate::queues::direct::{self, shared::Head};
use crate::queues::shared::{CqWord, Events, Object, QpWord, SrqWord, Word, held};
use crate::rules::verbs::{Event, QpState, QpType};
use crate::shm::folder::Folder;
use crate::shm::keys::{Entry, Table};
use crate::shm::objects::{DirectRing, Surveyed, survey};
use crate::shm::segment::Peer;
use crate::shm::{Error, Result, slot};

/// Objects of each kind that are told of a process; it has more only where somebody writes nonsense, or of
/// memory keys.
pub const MOST: usize = 1 << 16;
/// Places of keys that are looked at: who may write to the table must not take up the reader's time.
const LOOKS: u32 = 1 << 21;

/// A process with an open device.
#[derive(Debug)]
pub struct Process {
    /// Its slot in the folder: the upper ten bits of its queue pairs' numbers.
    pub slot: u16,
    /// Its process id; `None` where that cannot be seen from here.
    pub pid: Option<i32>,
    /// Addresses (GIDs) that it has, or had.
    pub addresses: Vec<[u8; 16]>,
    /// By number.
    pub queue_pairs: Vec<QueuePair>,
    /// By index.
    pub completion_queues: Vec<CompletionQueue>,
    /// By number.
    pub shared_receive_queues: Vec<SharedReceiveQueue>,
    /// Memory regions and windows, by key.
    pub keys: Vec<(u32, Entry)>,
    /// Something was left out: there is more than [`MOST`] of a kind.
    pub is_cut: bool,
}

/// A queue pair.
#[derive(Debug, Clone)]
pub struct QueuePair {
    /// Its number.
    pub number: u32,
    /// Transport service; `None` where its owner's word cannot be true.
    pub kind: Option<QpType>,
    /// State; `None` likewise.
    pub state: Option<QpState>,
    /// Protection domain.
    pub pd: u32,
    /// The peer's number, of a connected one.
    pub peer: Option<u32>,
    /// The peer's address, where it was named by one.
    pub peer_address: Option<[u8; 16]>,
    /// The peer is on another host.
    pub is_far: bool,
    /// Index of the completion queue of its sends.
    pub send_cq: Option<u32>,
    /// Index of the completion queue of its receive requests.
    pub receive_cq: Option<u32>,
    /// Number of the shared receive queue that it takes requests from.
    pub srq: Option<u32>,
    /// Messages with a receive request that came, modulo 2³²: since it was last in RESET.
    pub received: u32,
    /// Receive requests of its own that wait, and how many it has room for.
    pub receives: Option<(u32, u32)>,
    /// Asynchronous events that the program has not fetched.
    pub events: Vec<Event>,
}

/// A completion queue.
#[derive(Debug, Clone)]
pub struct CompletionQueue {
    /// Its index, which is its process's alone.
    pub index: u32,
    /// Completions that it has room for.
    pub capacity: u32,
    /// Completions that others wrote, modulo 2³².
    pub completed: u32,
    /// Of these, those that wait for a poll.
    pub waiting: Option<u32>,
    /// A notification was asked for: 1 for a solicited completion, 2 for any.
    pub armed: u64,
    /// It has overrun.
    pub has_overrun: bool,
}

/// A shared receive queue.
#[derive(Debug, Clone)]
pub struct SharedReceiveQueue {
    /// Its number.
    pub number: u32,
    /// Protection domain.
    pub pd: u32,
    /// It is one of XRC.
    pub is_xrc: bool,
    /// Requests that it has room for.
    pub capacity: u32,
    /// Requests taken, modulo 2³².
    pub taken: u32,
    /// Requests that wait.
    pub waiting: Option<u32>,
    /// The limit that is armed; 0 for none.
    pub limit: u32,
}

/// The processes of a folder that live, by slot, and why one cannot be looked at.
///
/// # Errors
/// Those of reading the folder.
pub fn processes(folder: &Folder) -> Result<Vec<(u16, Result<Process>)>> {
    let slots = slot::claimed(folder)?;
    let look = |slot| match Peer::open(folder, slot).and_then(|peer| Process::of(slot, &peer)) {
        // What died lately is nobody's.
        Err(Error::Gone) => None,
        found => Some((slot, found)),
    };
    Ok(slots.into_iter().filter_map(look).collect())
}

/// The slot of the process that has the queue pair of this number, if it is one of the folder.
#[must_use]
pub fn slot_of(queue_pair: u32) -> Option<u16> {
    place_of(queue_pair).map(|(slot, _)| slot)
}

impl Process {
    fn of(slot: u16, peer: &Peer) -> Result<Self> {
        let mut process = Process {
            slot,
            pid: peer.pid()?,
            addresses: peer.addresses()?.all(),
            queue_pairs: Vec::new(),
            completion_queues: Vec::new(),
            shared_receive_queues: Vec::new(),
            keys: Vec::new(),
            is_cut: false,
        };
        survey(peer, Object::Qp(0), |found| {
            process.queue_pairs.extend(QueuePair::of(slot, peer, &found));
            true
        });
        survey(peer, Object::Cq(0), |found| {
            process.completion_queues.extend(CompletionQueue::of(&found));
            true
        });
        survey(peer, Object::Srq(0), |found| {
            process.shared_receive_queues.extend(SharedReceiveQueue::of(slot, &found));
            true
        });
        let (keys, is_cut) = (&mut process.keys, &mut process.is_cut);
        Table::of(peer).each(LOOKS, |key, entry| {
            *is_cut = keys.len() == MOST;
            if !*is_cut {
                keys.push((key, entry));
            }
            !*is_cut
        });
        process.keys.sort_unstable_by_key(|(key, _)| *key);
        Ok(process)
    }
}

fn attributes<const N: usize>(found: &Surveyed, first: usize) -> [u64; N] {
    std::array::from_fn(|at| found.word(Word::Attribute { object: found.object, word: (first + at) as u32 }))
}

/// The events of which the bits are set.
fn waiting(events: u64) -> Vec<Event> {
    let (bits, _) = Events(events).collect();
    Event::ALL.iter().copied().filter(|event| bits >> *event as u32 & 1 == 1).collect()
}

impl QueuePair {
    fn of(slot: u16, peer: &Peer, found: &Surveyed) -> Option<Self> {
        let Object::Qp(index) = found.object else { return None };
        let word = |word| found.word(Word::Qp(index, word));
        let set = QpAttributes::unpack(&attributes::<QP_WORDS>(found, 0));
        let shown = QpShown::unpack(&attributes::<SHOWN_WORDS>(found, QP_WORDS));
        let kind = set.map(|set| set.qp_type);
        let connects = kind.is_some_and(|kind| kind != QpType::Ud) && shown.peer != 0;
        let taken = word(QpWord::Head) as u32;
        // Messages in a ring count before they have a request.
        let ring = set.and_then(|set| set.direct).filter(|place| place.slots != Place::TABLE);
        let written = ring.and_then(|place| {
            let ring = DirectRing::at(peer.memory(), place.at, place.slots)?;
            let word = |at| ring.words(at, 1).first().map_or(0, |word| word.load(Ordering::Acquire));
            direct::written(place.slots, word)
        });
        let received = written.filter(|n| n.wrapping_sub(taken) as i32 > 0).unwrap_or(taken);
        let room = found.shape.capacity;
        let waits = held(received.into(), word(QpWord::Tail), room);
        Some(QueuePair {
            number: number(slot, index & INDEX),
            kind,
            state: QpState::from_number(word(QpWord::State) as u32),
            pd: set.map_or(0, |set| set.pd),
            peer: connects.then_some(shown.peer & 0xff_ffff),
            peer_address: Some(shown.address).filter(|address| connects && *address != [0; 16]),
            is_far: set.is_some_and(|set| set.dest_qp_num == FAR),
            send_cq: shown.send_cq,
            receive_cq: set.and_then(|set| set.cq),
            srq: set.and_then(|set| set.srq).map(|srq| number(slot, srq & INDEX)),
            received,
            receives: waits.filter(|_| room > 0).map(|waits| (waits, room)),
            events: waiting(word(QpWord::Events)),
        })
    }
}

/// Bits of an index that a number has.
const INDEX: u32 = (1 << 14) - 1;

impl CompletionQueue {
    fn of(found: &Surveyed) -> Option<Self> {
        let Object::Cq(index) = found.object else { return None };
        let word = |word| found.word(Word::Cq(index, word));
        let (head, tail) = (word(CqWord::Head), word(CqWord::Tail));
        Some(CompletionQueue {
            index,
            capacity: found.shape.capacity,
            completed: tail as u32,
            waiting: held(head, tail, found.shape.capacity),
            armed: word(CqWord::Armed),
            has_overrun: Events(word(CqWord::Events)).was_raised(Event::CqErr),
        })
    }
}

impl SharedReceiveQueue {
    fn of(slot: u16, found: &Surveyed) -> Option<Self> {
        let Object::Srq(index) = found.object else { return None };
        let word = |word| found.word(Word::Srq(index, word));
        let set = SrqAttributes::unpack(&attributes::<SRQ_WORDS>(found, 0));
        let taken = Head(word(SrqWord::Head)).count();
        Some(SharedReceiveQueue {
            number: number(slot, index & INDEX),
            pd: set.pd,
            is_xrc: set.xrc.is_some(),
            capacity: found.shape.capacity,
            taken,
            waiting: held(taken.into(), word(SrqWord::Tail), found.shape.capacity),
            limit: word(SrqWord::Limit) as u32,
        })
    }
}
