//! Completions taken from the shared queue, the own one and rings, in their order.

use super::reader::Reader;
use super::{After, CompletionQueue, TURN, is_next};
use crate::carrier::near::direct::{Before, RingReaders};
use crate::device::Device;
use crate::rules::completion::Completion;
use crate::rules::verbs::WcOpcode;

impl CompletionQueue {
    #[inline(always)]
    pub(super) fn take(&self, max: u32, waits: bool, take: &mut impl FnMut(&Completion)) -> (u32, After) {
        let mut reader = self.reader();
        if reader.direct.has_datagrams() {
            self.take_beside_datagrams(&mut reader, max, waits, take)
        } else {
            self.take_all::<false>(&mut reader, max, waits, take)
        }
    }

    #[inline(never)]
    fn take_beside_datagrams(
        &self,
        reader: &mut Reader,
        max: u32,
        waits: bool,
        take: &mut impl FnMut(&Completion),
    ) -> (u32, After) {
        self.take_all::<true>(reader, max, waits, take)
    }

    /// As [`CompletionQueue::take`], where `DATAGRAMS` may come by rings or not.
    #[inline(always)]
    fn take_all<const DATAGRAMS: bool>(
        &self,
        reader: &mut Reader,
        max: u32,
        waits: bool,
        take: &mut impl FnMut(&Completion),
    ) -> (u32, After) {
        if reader.direct.is_rung() && self.device.is_mine() {
            reader.direct.answer();
        }
        let (mut taken, mut head, mut after) = (0, reader.head, After::NOTHING);
        let mut first = reader.entries.first(head);
        let mut has_message = !is_next(first, head) && reader.direct.may_have_message::<DATAGRAMS>();
        if !has_message && !is_next(first, head) {
            let taken = self.take_own(&mut reader.own, max, take);
            if taken == 0 {
                return (0, reader.found_nothing(waits, &self.device.finders));
            }
            reader.found(&self.device.finders);
            return (taken, After::NOTHING);
        }
        // Once around at most: whoever fills a queue with what cannot be true all the time keeps nobody here.
        let mut rounds = reader.capacity;
        loop {
            let Reader { direct, own, own_first, capacity, .. } = reader;
            // What stands in the queue does not keep messages waiting for ever.
            has_message |= head.is_multiple_of(TURN) && direct.may_have_message::<DATAGRAMS>();
            let (endpoint, entries) = (&self.device.endpoint, &reader.entries);
            let count = if !has_message {
                0
            } else if DATAGRAMS {
                direct.take_beside_datagrams(endpoint, entries, (head, max - taken), own, take)
            } else {
                direct.take_message(endpoint, entries, head, own, take).into()
            };
            if count > 0 {
                taken += count;
            } else if is_next(first, head)
                && self.device.is_mine()
                && (own.lets_pass(own_first) || self.comes_before(own, &reader.entries, head, *capacity))
            {
                let Some(words) = reader.entries.at(head) else { break };
                let may_be_late =
                    (DATAGRAMS || !direct.is_empty()) && (first >> 40) as u8 >= WcOpcode::Recv as u8;
                let before = if may_be_late {
                    direct.take_before(&self.device.endpoint, words, own, take)
                } else {
                    Before::Nothing
                };
                match before {
                    Before::Taken => taken += 1,
                    Before::Waits => taken += self.take_own(own, 1, take),
                    Before::Nothing => {
                        // The next is seen for the first time.
                        (head, *own_first) = (head.wrapping_add(1), None);
                        // Words that cannot be true were written by somebody else than a peer's engine.
                        if let Some((completion, mut leaves)) = self.read(first, words) {
                            if may_be_late {
                                let Device { endpoint, pools, rings, .. } = &*self.device;
                                direct.passed(&completion, endpoint, (pools, rings));
                                leaves = leaves.max(left_over::<DATAGRAMS>(direct));
                            }
                            take(&completion);
                            (taken, after) = (taken + 1, leaves);
                        }
                    }
                }
                if after != After::NOTHING {
                    // Whoever sees to a queue pair that broke may need the queue.
                    break;
                }
            } else {
                let before = own.taken();
                let count = self.take_own(own, 1, take);
                // Where all that went were of queue pairs that ended, it is the turn of what waited for them.
                if count == 0 && own.taken() == before {
                    after = left_over::<DATAGRAMS>(direct);
                    break;
                }
                taken += count;
            }
            rounds = rounds.saturating_sub(1);
            if taken == max || rounds == 0 {
                break;
            }
            first = reader.entries.first(head);
            has_message = !is_next(first, head) && reader.direct.may_have_message::<DATAGRAMS>();
        }
        if head != reader.head {
            reader.move_head(head);
        } else if taken == 0 && (!DATAGRAMS || after == After::NOTHING) {
            return (0, reader.found_nothing(waits, &self.device.finders));
        }
        reader.found(&self.device.finders);
        (taken, after)
    }
}

/// A queue pair with datagrams that wait for the general way.
#[inline(always)]
fn left_over<const DATAGRAMS: bool>(direct: &mut RingReaders) -> After {
    if DATAGRAMS { direct.left_over().map_or(After::NOTHING, After::broken) } else { After::NOTHING }
}
