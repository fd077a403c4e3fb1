//! Posting receive requests to a ring by its words alone, as its owner does.

use softrdma::queues::shared::{Memory, Object, QpWord, SrqWord, Word, held, slot};
use softrdma::queues::transport::{Transport, acquire};
use softrdma::rules::receive::{MAX_SGE, ReceiveRequest, Sge};

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

/// Posts a receive request as [`post`] does. When the ring is full, takes and gives back the queue's lock once
/// and tries again: a sender that died may have left a request in it that was completed. The caller does not
/// hold that lock.
///
/// # Errors
/// As those of [`post`].
pub fn post_or_repair(
    transport: &impl Transport,
    queue: Object,
    request: &ReceiveRequest,
) -> Result<(), PostError> {
    Poster::new(transport, queue).post_or_repair(transport, request.wr_id, &request.sges)
}

/// Posts a receive request to the ring of a queue pair or shared receive queue. The owner's side: one thread at
/// a time.
///
/// # Errors
/// When it does not fit; nothing was changed then.
pub fn post(memory: &impl Memory, queue: Object, request: &ReceiveRequest) -> Result<(), PostError> {
    Poster::new(memory, queue).post(memory, request.wr_id, &request.sges)
}

/// The owner's side of a ring of receive requests: its own count, and what it last saw of the other side's, so
/// that a post need not look at what others write.
#[derive(Clone, Copy, Debug)]
pub struct Poster {
    queue: Object,
    tail: u32,
    head: u32,
}

impl Poster {
    /// That of a ring as it stands. Made anew after a reset. A completion queue takes nothing.
    #[must_use]
    pub fn new(memory: &impl Memory, queue: Object) -> Self {
        let (head, tail) =
            counts(queue).map_or((0, 0), |(head, tail)| (memory.load(head), memory.load(tail)));
        Self { queue, tail: tail as u32, head: head as u32 }
    }

    /// Posts a receive request: [`post`].
    ///
    /// # Errors
    /// When it does not fit; nothing was changed then.
    pub fn post(&mut self, memory: &impl Memory, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        let queue = self.queue;
        let (head, tail) = counts(queue).ok_or(PostError::Full)?;
        let words = memory.receive_words(queue) as usize;
        if sges.len() > MAX_SGE || 2 + 2 * sges.len() > words {
            return Err(PostError::TooManySges);
        }
        let capacity = memory.capacity(queue);
        let room = |head: u32| {
            held(u64::from(head), u64::from(self.tail), capacity).is_some_and(|held| held < capacity)
        };
        if !room(self.head) {
            let now = memory.load(head) as u32;
            if !room(now) {
                return Err(PostError::Full);
            }
            self.head = now;
        }
        let slot = slot(self.tail, capacity);
        memory.store(Word::Receive { queue, slot, word: 0 }, wr_id);
        memory.store(Word::Receive { queue, slot, word: 1 }, sges.len() as u64);
        for (word, sge) in (2..).step_by(2).zip(sges) {
            memory.store(Word::Receive { queue, slot, word }, sge.addr);
            let length_key = u64::from(sge.length) | u64::from(sge.lkey) << 32;
            memory.store(Word::Receive { queue, slot, word: word + 1 }, length_key);
        }
        self.tail = self.tail.wrapping_add(1);
        memory.store(tail, u64::from(self.tail));
        Ok(())
    }

    /// As [`post_or_repair`].
    ///
    /// # Errors
    /// As those of [`Poster::post`].
    pub fn post_or_repair(
        &mut self,
        transport: &impl Transport,
        wr_id: u64,
        sges: &[Sge],
    ) -> Result<(), PostError> {
        match self.post(transport, wr_id, sges) {
            Err(PostError::Full) if acquire(transport, self.queue).is_ok() => {
                transport.unlock(self.queue);
                self.post(transport, wr_id, sges)
            }
            posted => posted,
        }
    }
}
