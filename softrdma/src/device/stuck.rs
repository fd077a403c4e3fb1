//! Peers that have the lock of a queue here and do not go on: stopped by a signal or a debugger, frozen with
//! their container.
//!
//! Others complete and receive through the same queue, so it is moved away from them
//! ([`crate::queues::fence`]), by whoever of this process waits for the lock, or from a poll when a waiting
//! peer has asked for it. A process that does neither needs nothing that is completed; its peers wait.
//!
//! A queue pair is not moved. Only the peer that it is connected with works behind its lock; others that have
//! an old number see so and let go. So whatever the word says, and whoever may have written it, this process
//! knows who may have the lock ([`QueuePair::may_be_held_by`]). It takes it back from everybody else, and from
//! that peer when the kernel says that it runs, it uses no memory here, and it still does not let go: after the
//! queues that it has as well, since the queue pair says what it was doing there. From one that is stopped it
//! is not taken: what that does later would come after a change of the queue pair.
//!
//! A lock that was waited for in vain as long as anybody waits is not waited for like that again while the same
//! process is said to have it: the calls that need it fail soon.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ironverbs_os::growth::{TryInsert, small_box};
use ironverbs_os::sys;

use crate::queues::shared::Object;
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport, acquire};
use crate::shm::lock::Owner;
use crate::shm::objects::{Host, LOCK_LIMIT, STUCK};

use super::Device;
#[cfg(doc)]
use super::QueuePair;
use super::frozen::may_be_frozen;

/// How long the lock of a queue is waited for, which its holders have for microseconds, until it is taken for
/// certain that one does not go on, though the kernel does not say that it is stopped: one thread of it may be,
/// or its container.
const CERTAIN: Duration = Duration::from_secs(2);

/// How long who has something else to do waits for a lock.
pub(super) const SOON: Duration = Duration::from_millis(300);

/// How long a lock is waited for by who keeps the queue from being moved meanwhile, or looks again and again.
pub(super) const BRIEFLY: Duration = Duration::from_millis(1);

/// How long the lock of a queue pair is waited for that somebody has who has no business with it, and sees so
/// in microseconds. Longer than [`SOON`]: what is destroyed is not used again before it is certain that nobody
/// writes there.
const UNFOUNDED: Duration = Duration::from_millis(500);

/// After that long a lock that is kept is another case.
const FORGOTTEN: Duration = Duration::from_secs(1);

/// Locks that were waited for in vain: by whom they were had, since when, and when that was seen last.
#[derive(Debug, Default)]
pub(super) struct Watched {
    all: Mutex<HashMap<Object, (Owner, Instant, Instant)>>,
    /// Those that were waited for as long as anybody waits.
    overdue: Mutex<HashMap<Object, Owner>>,
}

impl Watched {
    /// How long this process has been seen with the lock.
    fn seen(&self, object: Object, holder: Owner) -> Duration {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.retain(|_, (_, _, last)| now - *last < FORGOTTEN);
        // Without memory for it, it is seen for the first time.
        let Ok(place) = all.try_entry(object) else { return Duration::ZERO };
        let seen = place.or_insert((holder, now, now));
        if seen.0 != holder {
            *seen = (holder, now, now);
        }
        seen.2 = now;
        now - seen.1
    }

    /// Whether this process has kept the lock for longer than anybody waits, now or before.
    fn is_overdue(&self, object: Object, holder: Owner, waited: Duration) -> bool {
        let mut overdue = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        if waited >= LOCK_LIMIT {
            let _ = overdue.try_set(object, holder);
            return true;
        }
        overdue.get(&object) == Some(&holder)
    }

    /// The lock was had: whoever kept it is waited for as anybody is.
    pub(super) fn had(&self, object: Object) {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner).remove(&object);
    }
}

/// Takes the lock of an own queue, and with it the owner's side of the queue, without which it cannot be moved:
/// so that is not held while a peer is waited for.
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
        self.endpoint.own.on_stuck(small_box(move |object, holder, waited| {
            device.upgrade().is_none_or(|device| {
                device.free_from(object, holder, waited) || !device.watched.is_overdue(object, holder, waited)
            })
        }));
    }

    /// Moves a queue whose lock a peer has had for so long, if that is stopped, or takes back that of a queue
    /// pair.
    fn free_from(&self, object: Object, holder: Owner, waited: Duration) -> bool {
        // A thread of this process, as far as this process knows.
        if holder == self.endpoint.segment.owner() {
            return false;
        }
        if let Object::Qp(index) = object {
            return self.take_back(index, holder, waited);
        }
        let waited = waited.max(self.watched.seen(object, holder));
        if waited < CERTAIN && !self.is_stopped(holder) {
            return false;
        }
        self.move_away(object, holder)
    }

    fn move_away(&self, object: Object, holder: Owner) -> bool {
        match object {
            Object::Cq(index) => self.completion_queue(index).is_some_and(|cq| cq.relocate(holder)),
            Object::Srq(index) => self.shared_queue(index).is_some_and(|srq| srq.relocate(holder)),
            Object::Qp(_) => false,
        }
    }

    /// Takes the lock of a queue pair back from a process that cannot have it.
    fn take_back(&self, index: u32, holder: Owner, waited: Duration) -> bool {
        let Some(qp) = self.queue_pair(index) else { return false };
        if qp.may_be_held_by(holder) {
            if waited < CERTAIN || self.may_be_at_work(holder) {
                return false;
            }
            // One that is polled just now is moved the next time; one whose journal lies never is.
            if !self.has_no_queue(holder) && waited < 2 * CERTAIN {
                return false;
            }
            // Whoever it is: what it has not begun to copy the kernel refuses from here on.
            self.endpoint.segment.revoke_images();
        } else if waited < UNFOUNDED {
            return false;
        }
        self.endpoint.own.revoke(Object::Qp(index), holder)
    }

    /// Moves the queues whose locks a process has, as long as its queue pairs say what it was doing there;
    /// whether it has none any more.
    fn has_no_queue(&self, holder: Owner) -> bool {
        let has = |object: &Object| self.endpoint.own.holder(*object) == Some(holder);
        let Ok(queues) = self.queues() else { return false };
        queues.into_iter().filter(has).filter(|object| !self.move_away(*object, holder)).count() == 0
    }

    /// Whether a process may have a lock here for long: it is kept from running, it copies, or nothing is known
    /// of it.
    fn may_be_at_work(&self, holder: Owner) -> bool {
        if self.endpoint.keys.is_user(holder) {
            return true;
        }
        let pid = self.pid_of(holder);
        if pid.is_some_and(|pid| sys::uncancelled(|| may_be_frozen(pid))) {
            return true;
        }
        // Stopped, or in the kernel, where those of a container seem to be that was frozen by cgroup v1.
        let kept = |state: &Option<u8>| matches!(state, Some(b'T' | b't' | b'D'));
        let (mut is_kept, mut is_seen) = (false, false);
        sys::uncancelled(|| {
            let threads = pid.and_then(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok());
            for thread in threads.into_iter().flatten().flatten() {
                let state = state(&thread.path().join("stat"));
                is_kept |= kept(&state);
                is_seen |= state.is_some();
            }
        });
        is_kept || !is_seen
    }

    /// Whether the kernel says that a process is stopped; `false` where that cannot be seen.
    fn is_stopped(&self, holder: Owner) -> bool {
        let read = |pid| sys::uncancelled(|| state(format!("/proc/{pid}/stat").as_ref()));
        matches!(self.pid_of(holder).and_then(read), Some(b'T' | b't'))
    }

    /// The process id of a claim; `None` where it cannot be seen.
    fn pid_of(&self, holder: Owner) -> Option<libc::pid_t> {
        let remote = self.endpoint.peers.get(holder.slot())?;
        remote.peer().filter(|peer| peer.owner() == holder).and_then(|peer| peer.pid().ok().flatten())
    }

    /// Looks after locks that peers wait for: one load when none does.
    #[inline]
    pub(super) fn free_if_stuck(&self) {
        if self.endpoint.segment.is_stuck() {
            self.free_stuck();
        }
    }

    #[cold]
    fn free_stuck(&self) {
        let own = self.endpoint.own.within(STUCK);
        let me = self.endpoint.segment.owner();
        // Without memory for the list, peers ask again.
        for object in self.queues().unwrap_or_default() {
            if own.holder(object).is_some_and(|holder| holder != me) && acquire(&own, object).is_ok() {
                own.unlock(object);
            }
        }
    }
}

/// The state that a file of `/proc` says a process or thread is in, one letter.
fn state(stat: &Path) -> Option<u8> {
    // It follows the name, which may hold anything, in brackets.
    let stat = std::fs::read(stat).ok()?;
    let end = stat.windows(2).rposition(|two| two == b") ")?;
    stat.get(end + 2).copied()
}
