//! Receive requests in a ring: written by the owner, read by whoever delivers into them.

use super::shared::{Claim, Memory, Object, QpWord, Word, held, slot};
use crate::rules::receive::{MAX_SGE, Next, ReceiveRequest, Sge};

/// Words of the largest receive request: number, count of elements, two words per element.
pub const RECEIVE_WORDS: u32 = 2 + 2 * MAX_SGE as u32;

/// Entries of a ring in which so many receive requests can be posted at any time; `None` when there is no such
/// number.
///
/// One more than that: a completion is seen before its request is taken from the ring, by one at most.
#[must_use]
pub fn ring_capacity(max_wr: u32) -> Option<u32> {
    max_wr.checked_add(1)?.checked_next_power_of_two()
}

/// The request at the head of a queue pair's own ring, not taken yet. Behind the queue pair's lock.
///
/// The words are copied once and then checked: the owner may change them at any time.
#[must_use]
pub fn next_in_ring(memory: &impl Memory, qp: u32) -> Next {
    let queue = Object::Qp(qp);
    let capacity = memory.capacity(queue);
    let head = memory.load(Word::Qp(qp, QpWord::Head));
    match waiting(memory, head, Word::Qp(qp, QpWord::Seen), Word::Qp(qp, QpWord::Tail), capacity) {
        Some(0) => Next::Empty,
        Some(_) => {
            let slot = slot(head as u32, capacity);
            decode(memory.receive_words(queue), |word| memory.load(Word::Receive { queue, slot, word }))
        }
        None => Next::Broken,
    }
}

/// The request with this count of a queue pair's own ring, which a message has that its owner did not take yet.
#[must_use]
pub fn nth_in_ring(memory: &impl Memory, qp: u32, count: u32) -> Next {
    let queue = Object::Qp(qp);
    let slot = slot(count, memory.capacity(queue));
    decode(memory.receive_words(queue), |word| memory.load(Word::Receive { queue, slot, word }))
}

/// The number and the first piece of memory of the request at the head of a queue pair's own ring, when there
/// is one and it starts with memory, or has none. Behind the queue pair's lock.
#[inline(always)]
pub(super) fn first_in_ring(memory: &impl Memory, qp: u32, head: u32) -> Option<(u64, Sge)> {
    let queue = Object::Qp(qp);
    let capacity = memory.capacity(queue);
    let (seen, tail) = (Word::Qp(qp, QpWord::Seen), Word::Qp(qp, QpWord::Tail));
    waiting(memory, u64::from(head), seen, tail, capacity).filter(|waiting| *waiting > 0)?;
    let words = memory.receive_words(queue);
    let mut request = [0; 4];
    let some = request.len().min(words as usize);
    memory.load_all(Word::Receive { queue, slot: slot(head, capacity), word: 0 }, &mut request[..some]);
    first(request, words)
}

/// The same of the request that a queue pair holds from this shared receive queue.
#[inline(always)]
pub(super) fn first_in_claim(memory: &impl Memory, qp: u32, srq: u32) -> Option<(u64, Sge)> {
    claim_of(memory, qp).filter(|claim| claim.srq == srq)?;
    let mut request = [0; 4];
    memory.load_all(Word::Claimed { qp, word: 0 }, &mut request);
    first(request, RECEIVE_WORDS)
}

/// The number and the first piece of a request that starts so and has so many words.
#[inline(always)]
fn first([wr_id, elements, addr, length_key]: [u64; 4], words: u32) -> Option<(u64, Sge)> {
    if elements == 0 {
        return Some((wr_id, Sge::default()));
    }
    // An impossible number of elements is found where all of them are read.
    let possible = elements <= MAX_SGE as u64 && 2 + 2 * elements <= u64::from(words);
    possible.then_some((wr_id, Sge { addr, length: length_key as u32, lkey: (length_key >> 32) as u32 }))
}

/// How many requests a ring holds at least, and none only when there are none. The owner's count is read, and
/// kept as seen, when what was seen is used up.
#[inline(always)]
pub(super) fn waiting(memory: &impl Memory, head: u64, seen: Word, tail: Word, capacity: u32) -> Option<u32> {
    match held(head, memory.load(seen), capacity) {
        Some(known) if known > 0 => Some(known),
        _ => {
            let now = memory.load(tail);
            let known = held(head, now, capacity)?;
            if known > 0 {
                memory.store(seen, u64::from(now as u32));
            }
            Some(known)
        }
    }
}

/// Whether a queue pair holds a request from a shared receive queue, and which. Behind the queue pair's lock.
#[must_use]
pub fn claim_of(memory: &impl Memory, qp: u32) -> Option<Claim> {
    Claim::unpack(memory.load(Word::Qp(qp, QpWord::Claim)))
}

/// The request that a queue pair holds from a shared receive queue, and where it is from. Behind the queue
/// pair's lock.
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
    #[expect(clippy::disallowed_methods, reason = "as above")]
    let sges = (0..elements as u32)
        .map(|element| {
            let addr = load(2 + 2 * element);
            let length_key = load(3 + 2 * element);
            Sge { addr, length: length_key as u32, lkey: (length_key >> 32) as u32 }
        })
        .collect();
    Next::Request(ReceiveRequest { wr_id, sges })
}
