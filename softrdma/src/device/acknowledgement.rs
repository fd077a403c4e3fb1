//! When a message of another host is acknowledged, where the program learns of it by polling: with what it
//! sends in answer, or when it polls again in vain.
//!
//! An acknowledgement on its own is a packet more for each message, before the program even has that. So it
//! waits for the program, as long as this polls all the time; the thread sends it where it does not come back.
//! It leaves with the answer, by the same call, so that a send has ended when the answer to it is there: before
//! it, or behind it where both leave in one train, of which an ironverbs host takes the acknowledgement first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use queue_lock::{QueueGuard, QueueLock};

use super::QueuePair;
use super::send::SendSide;
use crate::carrier::far::pause::Left;
use crate::carrier::far::receiver::Receiver;
use crate::wire::opcode::Transport;

/// Queue pairs whose acknowledgements wait at a time.
const MOST: usize = 16;
/// Bytes of the longest request that one leaves with: what takes longer to copy and seal than a packet
/// takes to leave does not keep it.
const SMALL: u64 = 32 << 10;

/// So long a process that ends waits for what the thread has in its hands, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(50);

/// Queue pairs whose acknowledgements wait.
#[derive(Debug)]
pub(super) struct Later {
    /// How often the thread has begun and ended to take packets and to send what waits: odd while it does.
    turns: AtomicU64,
    /// The thread comes back in a moment, and looks after them.
    is_looked_after: AtomicBool,
    /// Some wait, or did.
    is_used: AtomicBool,
    /// How often all that waited were sent.
    sent: AtomicU64,
    waiting: QueueLock<Waiting>,
}

impl Default for Later {
    fn default() -> Self {
        Self {
            turns: 0.into(),
            is_looked_after: false.into(),
            is_used: false.into(),
            sent: 0.into(),
            waiting: QueueLock::new(Waiting::default()),
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    all: [Option<Arc<QueuePair>>; MOST],
    count: usize,
}

impl Later {
    /// Whether the thread comes back in a moment. Where it does not, nothing is added from now on, and what was
    /// is sent.
    pub(super) fn look_after(&self, is_looked_after: bool) {
        self.is_looked_after.store(is_looked_after, Ordering::Relaxed);
        if !is_looked_after {
            self.send_all();
        }
    }

    /// How often all that waited were sent, where some wait.
    pub(super) fn sent(&self) -> Option<u64> {
        self.is_used.load(Ordering::Relaxed).then(|| self.sent.load(Ordering::Relaxed))
    }

    /// The thread begins to take packets and to send what waits, or has ended that.
    pub(super) fn turn(&self, begins: bool) {
        let turns = self.turns.load(Ordering::Relaxed);
        debug_assert_eq!(turns.is_multiple_of(2), begins);
        self.turns.store(turns + 1, Ordering::Release);
    }

    /// Waits until the thread has sent what it has in its hands now: what it took from here, and the
    /// acknowledgements of messages that the program has already. Not for ever: a signal handler may end the
    /// process, which interrupted what has a lock that the thread waits for.
    fn await_turn(&self) {
        let turns = self.turns.load(Ordering::Acquire);
        let mut left = if turns.is_multiple_of(2) { Duration::ZERO } else { PATIENCE };
        while !left.is_zero() && self.turns.load(Ordering::Acquire) == turns {
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
    }

    /// The acknowledgement of this queue pair waits, if it may.
    fn add(&self, qp: &Arc<QueuePair>) -> bool {
        let mut waiting = self.lock();
        // Looked at with the lock: the thread says first that it is at work, and takes all then.
        if !self.is_looked_after.load(Ordering::Relaxed) {
            return false;
        }
        let count = waiting.count;
        if waiting.all[..count].iter().flatten().any(|other| Arc::ptr_eq(other, qp)) {
            return true;
        }
        if count == MOST {
            return false;
        }
        self.is_used.store(true, Ordering::Relaxed);
        waiting.all[count] = Some(qp.clone());
        waiting.count += 1;
        true
    }

    /// Sends all that wait. Where another thread adds one just now, a later call does.
    #[inline]
    pub(super) fn send(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            self.send_all();
        }
    }

    fn send_all(&self) {
        // Not those that are added meanwhile.
        let mut left = MOST;
        while left > 0
            && let Some(qp) = self.take(&mut left)
        {
            qp.answer_or_keep();
        }
    }

    /// The one that was added last, and how many are `left` of these. The queue pairs' locks come before this
    /// one.
    fn take(&self, left: &mut usize) -> Option<Arc<QueuePair>> {
        let mut waiting = self.lock();
        waiting.count = waiting.count.saturating_sub(1);
        let count = waiting.count;
        *left = count.min(*left - 1);
        if count == 0 {
            self.is_used.store(false, Ordering::Relaxed);
            self.sent.store(self.sent.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        waiting.all[count].take()
    }

    /// The same where nobody has the locks of it: a signal handler ends the process. What the thread has in its
    /// hands has left, too.
    pub(super) fn send_now(&self) {
        self.await_turn();
        let Some(mut waiting) = self.waiting.try_lock() else { return };
        let count = std::mem::take(&mut waiting.count);
        for qp in waiting.all[..count].iter_mut().filter_map(Option::take) {
            qp.answer_now();
            // What ends it takes locks.
            std::mem::forget(qp);
        }
    }

    fn lock(&self) -> QueueGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl QueuePair {
    /// Whether what has come is acknowledged later.
    pub(super) fn answers_later(self: &Arc<Self>, receiver: &mut Receiver, later: Option<&Later>) -> bool {
        receiver.take_is_one_message()
            && receiver.responder.has_lone_acknowledgement()
            && later.is_some_and(|later| later.add(self))
    }

    /// Sends the answers that are due, those for which there is no room with the next look at the network.
    pub(super) fn answer_or_keep(&self) {
        let left = self.answer();
        if left != Left::Nothing {
            self.device().keep_answers(self, left);
        }
    }

    /// Sends what was posted, the last request of so many bytes, after what is to be answered or with it.
    #[inline(never)]
    pub(super) fn send_posted(&self, side: &mut SendSide, length: u64) {
        let SendSide { far: Some(far), ring, .. } = side else {
            self.work(side, true);
            return;
        };
        let began = self.device().now();
        let is_unreliable = far.peer.transport == Transport::Uc;
        far.is_answered = !is_unreliable && ring.len() == 1 && length <= SMALL;
        if !far.is_answered {
            self.answer_or_keep();
        }
        // With UC what has left has ended, and is completed before another thread takes the answer to it.
        let held = is_unreliable.then(|| self.arrivals.lock());
        self.work(side, true);
        drop(held);
        if side.far.as_mut().is_some_and(|far| std::mem::take(&mut far.is_answered)) {
            // What was posted has not left, or there is more to be answered.
            self.answer_or_keep();
        }
        self.device().has_sent(began);
    }

    /// Acknowledges what has come, where nobody has the locks of it.
    fn answer_now(&self) {
        let (Some(mut arrivals), Some(network)) = (self.arrivals.try_lock(), self.device().network_way())
        else {
            return;
        };
        let Some(receiver) = arrivals.as_mut() else { return };
        if !receiver.responder.has_lone_acknowledgement() {
            return;
        }
        if let Some(mut burst) = network.try_burst(&receiver.peer.flow())
            && let Some(response) = receiver.responder.next_response(self.device().now())
        {
            let Ok(()) = burst.push::<std::convert::Infallible>(&response.head, 0, |_| Ok(()));
        }
    }
}
