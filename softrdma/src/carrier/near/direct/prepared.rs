//! What a message of a direct ring goes by, found once: while all of it is as it was, the next message needs no
//! look at the tables of its target.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::carrier::near::mapped::Watched;
use crate::carrier::near::peers::Remote;
use crate::carrier::near::target::Target;
use crate::queues::completion::Armed;
use crate::queues::shared::{CqWord, Object, QpWord, Word};
use crate::rules::verbs::Status;
use crate::shm::objects::View;

/// See the module: a target in a state in which it receives, whose completion queue is where it was, and a key
/// of its that messages may go to.
#[derive(Debug)]
pub(super) struct Prepared {
    /// State of the queue pair, generation of the completion queue, and the two words of the key.
    watched: [Watched; 4],
    armed: Watched,
    key: u32,
    remote: Arc<Remote>,
}

impl Prepared {
    /// What stands there now, for a message to another process that was just found to go to this key, while the
    /// target was in this state; `None` where that is not so any more.
    #[cold]
    pub(super) fn new(target: &Target, view: &View<'_>, cq: u32, key: u32, state: u64) -> Option<Self> {
        let remote = target.remote.clone();
        let seen = target.seen.borrow();
        let [first, ended] = remote.keys().watched(seen.as_ref()?, key)?;
        let state = (view.word_at(Word::Qp(target.qp, QpWord::State))?, state);
        let (generation, then) = view.generation_of(Object::Cq(cq))?;
        let armed = view.word_at(Word::Cq(cq, CqWord::Armed))?;
        // SAFETY: the words are in mappings that `remote`, which is kept beside them, keeps.
        let watch = |(word, value): (&AtomicU64, u64)| unsafe { Watched::new(word, value) };
        let watched = [state, (generation, then), first, ended].map(watch);
        let armed = watch((armed, 0));
        drop(seen);
        let prepared = Self { watched, armed, key, remote };
        prepared.holds(key).then_some(prepared)
    }

    /// Whether all is as it was, and the target lives, for a message to this key.
    #[inline(always)]
    pub(super) fn holds(&self, key: u32) -> bool {
        self.is_unchanged(key) && self.lives()
    }

    #[inline(always)]
    pub(super) fn is_unchanged(&self, key: u32) -> bool {
        key == self.key && self.watched.iter().all(Watched::is_unchanged)
    }

    #[inline(always)]
    pub(super) fn lives(&self) -> bool {
        self.remote.lives()
    }

    /// Whether the target that [holds](Prepared::holds) may sleep, and is to be woken.
    #[inline(always)]
    pub(super) fn sleeps(&self, solicited: bool) -> bool {
        let armed = self.armed.load();
        armed != 0 && Armed::rings(armed, Status::Success, solicited)
    }

    /// The same a moment later.
    #[inline(always)]
    pub(super) fn is_armed(&self, solicited: bool) -> bool {
        !self.watched[1].is_unchanged() || self.sleeps(solicited)
    }
}
