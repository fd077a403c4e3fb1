//! A completion queue's private ring, where completions of the process's own successful sends wait.
//!
//! It is used as long as all requests whose completions may be in the queue at a time have room there: what
//! waits in a ring does not overrun a queue.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use ironverbs_os::growth::TryPush;

use crate::carrier::near::entries::Entries;
use crate::carrier::near::number::place_of;
use crate::carrier::near::own_ring::OwnReader;
use crate::device::{CompletionQueue, Result};
use crate::rules::completion::Completion;

impl CompletionQueue {
    /// Takes up to `max` completions of the private ring, oldest first, and tells how many. In a forked child
    /// they are its parent's.
    #[inline(always)]
    pub(super) fn take_own(&self, own: &mut OwnReader, max: u32, take: &mut impl FnMut(&Completion)) -> u32 {
        if !own.waits() || !self.device.is_mine() {
            return 0;
        }
        let mut taken = 0;
        while taken < max
            && let Some(completion) = own.take()
        {
            self.device.polled(completion.qp_num, completion.places);
            take(&completion);
            taken += 1;
        }
        taken
    }

    /// Whether the next completion of the shared queue, of which so many were taken, is that of a message which
    /// this process sent itself and was there before the oldest own completion: where both are of one request,
    /// the message comes first, as on soft-RoCE. What others sent may answer that request.
    #[cold]
    pub(super) fn comes_before(&self, own: &OwnReader, entries: &Entries, head: u32, capacity: u32) -> bool {
        let words = entries.at(head);
        let src_qp =
            words.and_then(|words| words.get(4)).map_or(0, |word| word.load(Ordering::Relaxed) as u32);
        let own_slot = self.device.endpoint.segment.owner().slot();
        place_of(src_qp).is_some_and(|(slot, _)| slot == own_slot) && !own.is_first(head, capacity)
    }

    /// One more queue completes here, with so many requests at a time.
    pub(in crate::device) fn hold(&self, requests: u32) {
        self.users.fetch_add(1, Ordering::AcqRel);
        self.promised.fetch_add(u64::from(requests), Ordering::AcqRel);
        self.open_own();
    }

    /// Takes back one [`CompletionQueue::hold`].
    pub(in crate::device) fn release(&self, requests: u32) {
        self.users.fetch_sub(1, Ordering::AcqRel);
        self.promised.fetch_sub(u64::from(requests), Ordering::AcqRel);
        self.open_own();
    }

    /// As [`CompletionQueue::hold`], for a queue pair that receives by the requests of this shared receive
    /// queue, which are promised once however many have it.
    pub(in crate::device) fn hold_shared(&self, srq: u32, requests: u32) {
        let mut srqs = self.srqs.lock().unwrap_or_else(PoisonError::into_inner);
        match srqs.iter_mut().find(|(index, _)| *index == srq) {
            Some((_, users)) => *users += 1,
            None => {
                // Without memory for it, it stays promised.
                let _ = srqs.try_push((srq, 1));
                self.promised.fetch_add(u64::from(requests), Ordering::AcqRel);
            }
        }
        drop(srqs);
        self.hold(0);
    }

    /// Takes back one [`CompletionQueue::hold_shared`].
    pub(in crate::device) fn release_shared(&self, srq: u32, requests: u32) {
        let mut srqs = self.srqs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = srqs.iter().position(|(index, _)| *index == srq) {
            srqs[place].1 -= 1;
            if srqs[place].1 == 0 {
                srqs.swap_remove(place);
                self.promised.fetch_sub(u64::from(requests), Ordering::AcqRel);
            }
        }
        drop(srqs);
        self.release(0);
    }

    /// Whether the private ring is used from now on.
    pub(super) fn open_own(&self) {
        self.own.open_if(|| self.has_room_for_all());
    }

    /// There may be so many more own completions at a time; to be taken back also where that fails.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::device::Error::NoMemory).
    pub(in crate::device) fn hold_sends(&self, requests: u32) -> Result<()> {
        let requests = u64::from(requests);
        let all = (self.sends.fetch_add(requests, Ordering::AcqRel) + requests).min(self.cqe().into());
        self.reader().own.make_room(all as u32)
    }

    /// Takes back one [`CompletionQueue::hold_sends`].
    pub(in crate::device) fn release_sends(&self, requests: u32) {
        self.sends.fetch_sub(u64::from(requests), Ordering::AcqRel);
    }

    /// Own completions ring from now on, where there is a channel to sleep on.
    pub(super) fn arm_own(&self) {
        if self.channel.is_some() && self.device.is_mine() {
            self.own.arm();
        }
    }
}
