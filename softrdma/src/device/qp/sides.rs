//! The sending side of a queue pair, as those take it that do something with it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use queue_lock::QueueGuard;

use super::QueuePair;
use crate::device::send::SendSide;

/// Looks at a lock that somebody has before it counts as kept: each of the first lets others run, behind each
/// of the others is a pause.
const YIELDS: u32 = 64;
const SLEEPS: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(100);

/// For about how long they go on.
pub(in crate::device) const LOOKS: Duration = PAUSE.saturating_mul(SLEEPS);

impl QueuePair {
    pub(in crate::device) fn send_side(&self) -> QueueGuard<'_, SendSide> {
        let mut side = self.send.lock();
        side.at_once = 0;
        side
    }

    pub(in crate::device) fn try_send_side(&self) -> Option<QueueGuard<'_, SendSide>> {
        let mut side = self.send.try_lock()?;
        side.at_once = 0;
        Some(side)
    }

    /// The same, unless somebody keeps it for longer than a thread has it that the kernel lets wait: one that
    /// posts a long list, or gets no processor. Others need not wait for it, and wait so long once.
    pub(in crate::device) fn send_side_soon(&self) -> Option<QueueGuard<'_, SendSide>> {
        let is_kept = self.is_kept.load(Ordering::Relaxed);
        for nth in 0..if is_kept { YIELDS } else { YIELDS + SLEEPS } {
            if let Some(side) = self.try_send_side() {
                if is_kept {
                    self.is_kept.store(false, Ordering::Relaxed);
                }
                return Some(side);
            }
            if nth < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        self.is_kept.store(true, Ordering::Relaxed);
        None
    }

    /// As [`QueuePair::send_side`], for who posts.
    #[inline(always)]
    pub(in crate::device) fn send_side_for_posting(&self) -> QueueGuard<'_, SendSide> {
        self.send.lock()
    }

    /// The same, where that takes no locked instruction.
    #[inline(always)]
    pub(in crate::device) fn send_side_alone(&self) -> Option<QueueGuard<'_, SendSide>> {
        self.send.try_lock_alone()
    }
}
