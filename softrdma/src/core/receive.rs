//! Receive requests in a ring: written by the owner, read by whoever delivers into them.

use super::shared::{Claim, Memory, Object, QpWord, SrqWord, Word, held, slot};
use super::transport::{Transport, acquire};

/// Most scatter/gather elements of a request.
pub const MAX_SGE: usize = 32;

/// Words of the largest receive request: number, count of elements, two words per element.
pub const RECEIVE_WORDS: u32 = 2 + 2 * MAX_SGE as u32;

/// A piece of local memory (`struct ibv_sge`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Address in the process that posted it.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Its key.
    pub lkey: u32,
}

/// A receive request (`struct ibv_recv_wr`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveRequest {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Where the message goes, at most [`MAX_SGE`] pieces.
    pub sges: Vec<Sge>,
}

impl ReceiveRequest {
    /// Bytes that fit.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.sges.iter().map(|sge| u64::from(sge.length)).sum()
    }
}

/// Why a receive request was not posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostError {
    /// The ring is full (`ENOMEM`).
    Full,
    /// More elements than the queue was made for (`EINVAL`).
    TooManySges,
}

fn counts(queue: Object) -> Option<(Word, Word)> {
    match queue {
        Object::Qp(qp) => Some((Word::Qp(qp, QpWord::Head), Word::Qp(qp, QpWord::Tail))),
        Object::Srq(srq) => Some((Word::Srq(srq, SrqWord::Head), Word::Srq(srq, SrqWord::Tail))),
        Object::Cq(_) => None,
    }
}

/// Entries of a ring in which so many receive requests can be posted at any time; `None` when there is no such number.
///
/// One more than that: a completion is seen before its request is taken from the ring, by one at most.
#[must_use]
pub fn ring_capacity(max_wr: u32) -> Option<u32> {
    max_wr.checked_add(1)?.checked_next_power_of_two()
}

/// Posts a receive request as [`post`] does. When the ring is full, takes and gives back the queue's lock once and tries
/// again: a sender that died may have left a request in it that was completed. The caller does not hold that lock.
///
/// # Errors
/// As those of [`post`].
pub fn post_or_repair(
    transport: &impl Transport,
    queue: Object,
    request: &ReceiveRequest,
) -> Result<(), PostError> {
    match post(transport, queue, request) {
        Err(PostError::Full) if acquire(transport, queue).is_ok() => {
            transport.unlock(queue);
            post(transport, queue, request)
        }
        posted => posted,
    }
}

/// Posts a receive request to the ring of a queue pair or shared receive queue. The owner's side: one thread at a time.
///
/// # Errors
/// When it does not fit; nothing was changed then.
pub fn post(memory: &impl Memory, queue: Object, request: &ReceiveRequest) -> Result<(), PostError> {
    let (head, tail) = counts(queue).ok_or(PostError::Full)?;
    let words = memory.receive_words(queue) as usize;
    if request.sges.len() > MAX_SGE || 2 + 2 * request.sges.len() > words {
        return Err(PostError::TooManySges);
    }
    let capacity = memory.capacity(queue);
    let count = memory.load(tail) as u32;
    match held(memory.load(head), u64::from(count), capacity) {
        Some(held) if held < capacity => {}
        _ => return Err(PostError::Full),
    }
    let slot = slot(count, capacity);
    memory.store(Word::Receive { queue, slot, word: 0 }, request.wr_id);
    memory.store(Word::Receive { queue, slot, word: 1 }, request.sges.len() as u64);
    for (word, sge) in (2..).step_by(2).zip(&request.sges) {
        memory.store(Word::Receive { queue, slot, word }, sge.addr);
        let length_key = u64::from(sge.length) | u64::from(sge.lkey) << 32;
        memory.store(Word::Receive { queue, slot, word: word + 1 }, length_key);
    }
    memory.store(tail, u64::from(count.wrapping_add(1)));
    Ok(())
}

/// What a queue pair would receive into next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// This request.
    Request(ReceiveRequest),
    /// None is posted: receiver not ready.
    Empty,
    /// The counts or the request cannot be true; its owner damaged them.
    Broken,
}

/// The request at the head of a queue pair's own ring, not taken yet. Behind the queue pair's lock.
///
/// The words are copied once and then checked: the owner may change them at any time.
#[must_use]
pub fn next_in_ring(memory: &impl Memory, qp: u32) -> Next {
    let queue = Object::Qp(qp);
    let capacity = memory.capacity(queue);
    let head = memory.load(Word::Qp(qp, QpWord::Head));
    match held(head, memory.load(Word::Qp(qp, QpWord::Tail)), capacity) {
        Some(0) => Next::Empty,
        Some(_) => {
            let slot = slot(head as u32, capacity);
            decode(memory.receive_words(queue), |word| memory.load(Word::Receive { queue, slot, word }))
        }
        None => Next::Broken,
    }
}

/// Whether a queue pair holds a request from a shared receive queue, and which. Behind the queue pair's lock.
#[must_use]
pub fn claim_of(memory: &impl Memory, qp: u32) -> Option<Claim> {
    Claim::unpack(memory.load(Word::Qp(qp, QpWord::Claim)))
}

/// The request that a queue pair holds from a shared receive queue, and where it is from. Behind the queue pair's lock.
#[must_use]
pub fn next_in_claim(memory: &impl Memory, qp: u32) -> Option<(Claim, Next)> {
    let claim = claim_of(memory, qp)?;
    Some((claim, decode(RECEIVE_WORDS, |word| memory.load(Word::Claimed { qp, word }))))
}

fn decode(words: u32, load: impl Fn(u32) -> u64) -> Next {
    let wr_id = load(0);
    let elements = load(1);
    if elements > MAX_SGE as u64 || 2 + 2 * elements > u64::from(words) {
        return Next::Broken;
    }
    let sges = (0..elements as u32)
        .map(|element| {
            let addr = load(2 + 2 * element);
            let length_key = load(3 + 2 * element);
            Sge { addr, length: length_key as u32, lkey: (length_key >> 32) as u32 }
        })
        .collect();
    Next::Request(ReceiveRequest { wr_id, sges })
}
