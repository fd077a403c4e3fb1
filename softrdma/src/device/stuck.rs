//! Peers that have the lock of a queue here and do not go on: stopped by a signal or a debugger, frozen with
//! their container.
//!
//! Others complete and receive through the same queue, so it is moved away from them ([`crate::core::fence`]),
//! by whoever of this process waits for the lock, or from a poll when a waiting peer has asked for it. A
//! process that does neither needs nothing that is completed; its peers wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::core::shared::Object;
use crate::core::transport::{LockError, Transport, acquire};
use crate::host::lock::Owner;
use crate::host::objects::{Host, LOCK_LIMIT, STUCK};
use crate::host::sys;

use super::Device;

/// How long the lock of a queue is waited for, which its holders have for microseconds, until it is taken for
/// certain that one does not go on, though the kernel does not say that it is stopped: one thread of it may be,
/// or its container.
const CERTAIN: Duration = Duration::from_secs(2);

/// How long who has something else to do waits for a lock.
pub(super) const SOON: Duration = Duration::from_millis(300);

/// How long a lock is waited for by who keeps the queue from being moved meanwhile.
const BRIEFLY: Duration = Duration::from_millis(1);

/// After that long a lock that is kept is another case.
const FORGOTTEN: Duration = Duration::from_secs(1);

/// Locks that were waited for in vain: by whom they were had, since when, and when that was seen last.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<HashMap<Object, (Owner, Instant, Instant)>>);

impl Watched {
    /// How long this process has been seen with the lock.
    fn seen(&self, object: Object, holder: Owner) -> Duration {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.retain(|_, (_, _, last)| now - *last < FORGOTTEN);
        let seen = all.entry(object).or_insert((holder, now, now));
        if seen.0 != holder {
            *seen = (holder, now, now);
        }
        seen.2 = now;
        now - seen.1
    }
}

/// Takes the lock of an own queue, and with it the owner's side of the queue, without which it cannot be moved: so that is
/// not held while a peer is waited for.
///
/// # Errors
/// As those of [`acquire`]. Nothing is held then.
pub(super) fn acquire_with<T>(
    own: &Host,
    object: Object,
    side: impl Fn() -> T,
) -> std::result::Result<T, LockError> {
    let begun = Instant::now();
    loop {
        acquire(own, object)?;
        own.unlock(object);
        let side = side();
        match acquire(&own.within(BRIEFLY), object) {
            Ok(()) => return Ok(side),
            Err(LockError::Busy | LockError::Held) if begun.elapsed() < LOCK_LIMIT => {}
            Err(why) => return Err(why),
        }
    }
}

impl Device {
    /// Sees to it that queues are moved from holders that do not go on.
    pub(super) fn watch(self: &Arc<Self>) {
        let device = Arc::downgrade(self);
        self.site.own.on_stuck(Box::new(move |object, holder, waited| {
            device.upgrade().is_some_and(|device| device.move_from(object, holder, waited))
        }));
    }

    /// Moves a queue whose lock a peer has had for so long, if that is stopped.
    fn move_from(&self, object: Object, holder: Owner, waited: Duration) -> bool {
        if holder == self.site.segment.owner() {
            return false;
        }
        let waited = waited.max(self.watched.seen(object, holder));
        if waited < CERTAIN && !self.is_stopped(holder) {
            return false;
        }
        match object {
            Object::Cq(index) => self.completion_queue(index).is_some_and(|cq| cq.relocate(holder)),
            Object::Srq(index) => self.shared_queue(index).is_some_and(|srq| srq.relocate(holder)),
            Object::Qp(_) => false,
        }
    }

    /// Whether the kernel says that a process is stopped; `false` where that cannot be seen.
    fn is_stopped(&self, holder: Owner) -> bool {
        let Some(remote) = self.site.peers.get(holder.slot()) else { return false };
        let pid =
            remote.peer().filter(|peer| peer.owner() == holder).and_then(|peer| peer.pid().ok().flatten());
        // The state follows the name, which may hold anything, in brackets.
        let read = |pid| sys::uncancelled(|| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        pid.and_then(read)
            .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with(['T', 't'])))
            .unwrap_or(false)
    }

    /// Looks after locks that peers wait for: one load when none does.
    #[inline]
    pub(super) fn free_if_stuck(&self) {
        if self.site.segment.is_stuck() {
            self.free_stuck();
        }
    }

    #[cold]
    fn free_stuck(&self) {
        let own = self.site.own.within(STUCK);
        let me = self.site.segment.owner();
        for object in self.queues() {
            if own.holder(object).is_some_and(|holder| holder != me) && acquire(&own, object).is_ok() {
                own.unlock(object);
            }
        }
    }
}
