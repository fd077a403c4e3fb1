//! Own completions: those of a process's own send requests.
//!
//! Nobody else writes them, so they stand in a ring in the private memory of the process and not in the shared
//! ring of the completion queue. What the two rings have to do with each other is here: how many entries they
//! hold together, which of two entries is polled first, and the bell of a queue that is armed.

use super::completion::Armed;
use super::shared::{CqWord, Memory, Object, Word, held};
use super::transport::{Machine, Progress};
use super::verbs::Status;

/// Whether an own completion is polled before the entry of the shared ring that is next, by its count `head`.
/// `after` is the [tail](CqWord::Tail) of that ring from before the message was published to its target: what
/// was published there since may be the answer.
#[must_use]
#[inline(always)]
pub fn comes_first(after: u32, head: u32) -> bool {
    after.wrapping_sub(head) as i32 <= 0
}

/// Whether a completion queue of this capacity takes an own completion more, where so many wait. What stands in
/// the shared ring is believed behind the lock of the queue alone, and when it can be true.
#[must_use]
#[inline(always)]
pub fn has_room(own: u32, head: u64, tail: u64, capacity: u32) -> bool {
    held(head, tail, capacity).unwrap_or(0).saturating_add(own) < capacity
}

/// Rings for an own completion, which is in its ring already, when the queue is armed. Behind the lock of the
/// queue, which it takes: who rings for an entry of the shared ring disarms the queue behind it.
///
/// Who calls this has looked at [`CqWord::Armed`] after the completion was there, and who arms looks for
/// completions afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    cq: u32,
    any: bool,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock,
    Look,
    Disarm,
    Unlock,
    Done,
}

impl Wake {
    /// `any`: also who waits for completions that are solicited or an error.
    #[must_use]
    pub fn new(cq: u32, any: bool) -> Self {
        Self { cq, any, step: Step::Lock }
    }

    /// Whether the bell waits for it, by [`CqWord::Armed`].
    #[must_use]
    #[inline(always)]
    pub fn is_due(armed: u64, any: bool) -> bool {
        Armed::rings(armed, Status::Success, any)
    }
}

impl Machine for Wake {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        let armed = Word::Cq(self.cq, CqWord::Armed);
        match self.step {
            Step::Lock => {
                self.step = Step::Look;
                return Progress::Lock(Object::Cq(self.cq));
            }
            Step::Look if Self::is_due(memory.load(armed), self.any) => {
                self.step = Step::Disarm;
                return Progress::Bell(self.cq);
            }
            Step::Look => self.step = Step::Unlock,
            Step::Disarm => {
                self.step = Step::Unlock;
                memory.store(armed, Armed::No as u64);
            }
            Step::Unlock => {
                self.step = Step::Done;
                return Progress::Unlock(Object::Cq(self.cq));
            }
            Step::Done => return Progress::Done(()),
        }
        Progress::Continue
    }

    fn unheard(&mut self) {
        // The queue stays armed, so that the next completion rings.
        self.step = Step::Unlock;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_completion_stands_where_its_message_was_published() {
        // Behind what was there before, in front of what may be its answer.
        for head in [0, 7, u32::MAX - 1] {
            assert!(!comes_first(head.wrapping_add(2), head));
            assert!(!comes_first(head.wrapping_add(1), head));
            assert!(comes_first(head, head));
            assert!(comes_first(head.wrapping_sub(3), head));
        }
    }

    #[test]
    fn both_rings_together_hold_as_much_as_the_queue() {
        assert!(has_room(3, 0, 0, 4) && !has_room(4, 0, 0, 4));
        assert!(has_room(1, 9, 11, 4) && !has_room(2, 9, 11, 4) && !has_room(0, 9, 13, 4));
        // Counts that cannot be true say nothing.
        assert!(has_room(3, 9, 8, 4) && !has_room(4, 9, 8, 4));
    }
}
