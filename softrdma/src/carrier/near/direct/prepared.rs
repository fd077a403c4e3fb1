//! What a message of a direct ring goes by, found once: while all of it is as it was, the next message needs no
//! look at the tables of its target.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::carrier::near::mapped::{Mapped, Watched};
use crate::carrier::near::peers::Remote;
use crate::carrier::near::target::Target;
use crate::carrier::started::Sent;
use crate::queues::completion::Armed;
use crate::queues::shared::{CqWord, Object, QpWord, Word};
use crate::rules::verbs::{SendFlags, Status};
use crate::shm::objects::View;
use crate::shm::segment::Peer;

/// See the module: a target in a state in which it receives, whose completion queue is where it was, and a key
/// of its that messages may go to.
#[derive(Debug)]
pub(super) struct Prepared {
    /// State of the queue pair, generation of the completion queue, and the first word of the key, which is a
    /// region's: its others are as they were while that is.
    watched: [Watched; 3],
    armed: Mapped<AtomicU64>,
    key: u32,
    peer: Arc<Peer>,
    /// Keeps the mappings.
    _remote: Arc<Remote>,
}

impl Prepared {
    /// What stands there now, for a message to another process that was just found to go to this key, while the
    /// target was in this state; `None` where that is not so any more.
    #[cold]
    pub(super) fn new(target: &Target, view: &View<'_>, cq: u32, key: u32, state: u64) -> Option<Self> {
        let remote = target.remote.clone();
        let seen = target.seen.borrow();
        let [first, _] = remote.keys().watched(seen.as_ref()?, key)?;
        let state = (view.word_at(Word::Qp(target.qp, QpWord::State))?, state);
        let (generation, then) = view.generation_of(Object::Cq(cq))?;
        let armed = view.word_at(Word::Cq(cq, CqWord::Armed))?;
        // SAFETY: the words are in mappings that `remote`, which is kept beside them, keeps.
        let watch = |(word, value): (&AtomicU64, u64)| unsafe { Watched::new(word, value) };
        let watched = [state, (generation, then), first].map(watch);
        // SAFETY: as above.
        let armed = unsafe { Mapped::new(armed) };
        let peer = remote.peer()?.clone();
        drop(seen);
        let prepared = Self { watched, armed, key, peer, _remote: remote };
        prepared.holds(key).then_some(prepared)
    }

    /// The key of the memory that messages go to.
    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Whether all is as it was, and the target lives, for a message to this key.
    #[inline(always)]
    pub(super) fn holds(&self, key: u32) -> bool {
        key == self.key && self.is_unchanged() && self.lives()
    }

    #[inline(always)]
    pub(super) fn is_unchanged(&self) -> bool {
        self.watched.iter().all(Watched::is_unchanged)
    }

    #[inline(always)]
    fn lives(&self) -> bool {
        self.peer.lived_lately()
    }

    /// What became of a message that was written. It is on its way while this is asked. For a target that died
    /// it is not there.
    #[inline(always)]
    pub(super) fn is_sent(&self, flags: SendFlags) -> Sent {
        if !self.lives() {
            return Sent::Unclear;
        }
        if self.is_armed(flags) { Sent::Done(true) } else { Sent::Done(false) }
    }

    /// Whether the target that [holds](Prepared::holds) may sleep, and is to be woken.
    #[inline(always)]
    pub(super) fn sleeps(&self, flags: SendFlags) -> bool {
        let armed = self.armed.get().load(Ordering::Acquire);
        armed != 0 && Armed::rings(armed, Status::Success, flags.has(SendFlags::SOLICITED))
    }

    /// The same a moment later.
    #[inline(always)]
    pub(super) fn is_armed(&self, flags: SendFlags) -> bool {
        !self.watched[1].is_unchanged() || self.sleeps(flags)
    }
}
