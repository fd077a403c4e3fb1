//! Writes and reads that go as one before them went: what that one looked up and judged is kept, and all that
//! it rests on is looked at again.
//!
//! The order is that of [`execute`](super::execute::execute): the lock of the target's queue pair, its state
//! and attributes, the image of its memory, the pin of the remote key and the look at it, the copy, and all of
//! it given back. What is left out are the looks at tables and the rules, whose answer for this queue pair and
//! this key is known. Whatever is not as it was, or is not had at once, is left to the general way, before
//! anything has happened but a part of the copy, with which that begins again.

use std::sync::Arc;

use crate::queues::shared::{Events, Memory as _, Object, QpWord, Word};
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::responder::{Incoming, Plan, Verdict, judge};
use crate::rules::verbs::{Event, Opcode, QpState, QpType, SendFlags};
use crate::shm::copy::{Direction, Span, transfer_whole};
use crate::shm::lock::Lock;
use crate::shm::objects::Held;

use super::attributes::QP_WORDS;
use super::bytes::{self, KnownKey};
use super::direct::{RingWriter, enter, has_older, is_settled, left};
use super::endpoint::Endpoint;
use super::key_cache::KeyCache;
use super::mapped::{Locked, Mapped, Watched};
use super::peers::Remote;
use super::target::Target;
use crate::carrier::initiator::Initiator;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::wr::OneSided;

/// Remote keys that are known at a time.
const KEYS: usize = 4;

/// What the writes and reads of a queue pair go by. See the module.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    prepared: Option<Prepared>,
    /// Own memory that was written from, and that was read to.
    own_keys: [KeyCache; 2],
}

/// The target's queue pair as it was judged, and keys that it opens.
#[derive(Debug)]
struct Prepared {
    lock: Mapped<Lock>,
    /// Where it is, its state and its attributes.
    watched: [Watched; 2 + QP_WORDS],
    /// By the low bits of their indices.
    keys: [Option<Opened>; KEYS],
    remote: Arc<Remote>,
    qp: u32,
    /// Keeps what the words above are in.
    _held: Held,
}

/// A remote key, and what may be done by it.
#[derive(Debug, Clone, Copy)]
struct Opened {
    key: KnownKey,
    /// Whether it is open to writes, and to reads.
    is_open: [bool; 2],
}

/// Where a key is kept: keys that were registered one after the other do not displace each other.
#[inline(always)]
fn place_of(rkey: u32) -> usize {
    (rkey >> 8) as usize % KEYS
}

impl Accesses {
    /// Whether [`Accesses::carry_out`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// There is another target, or none.
    pub(crate) fn forget(&mut self) {
        self.prepared = None;
    }

    /// The target may have been looked up anew.
    #[inline]
    pub(crate) fn follow(&mut self, target: Option<&Target>) {
        let is_of = |prepared: &Prepared| target.is_some_and(|target| prepared.is_of(target));
        if !self.prepared.as_ref().is_none_or(is_of) {
            self.prepared = None;
        }
    }

    /// Keeps what a request went by that was carried out, after [`Accesses::follow`].
    #[cold]
    pub(crate) fn prepare(&mut self, target: &Target, out: &Outgoing<'_, '_>, access: &OneSided) {
        let Outgoing { endpoint, .. } = *out;
        let is_connected =
            target.attributes.is_some_and(|known| matches!(known.qp_type, QpType::Rc | QpType::Uc));
        // Members of a group ask their permissions, and are not reached by the kernel.
        if !is_connected || endpoint.permissions.is_some() || target.remote.direct().is_none() {
            return;
        }
        if !self.prepared.as_ref().is_some_and(Prepared::holds) {
            self.prepared = Prepared::new(target);
        }
        let Some(prepared) = &mut self.prepared else { return };
        let state = prepared.watched[1].then();
        let place = &mut prepared.keys[place_of(access.rkey)];
        if !place.as_ref().is_some_and(|opened| opened.key.holds(endpoint, access.rkey)) {
            // SAFETY: `prepared.remote` keeps it.
            *place = unsafe { Opened::look(target, state, out, access.rkey) };
        }
    }

    /// Carries out a request if all that one before it went by is as it was; `None`: it is to go the general
    /// way, which begins again. This process is no forked child.
    #[inline(always)]
    pub(crate) fn carry_out(
        &mut self,
        target: &Target,
        writer: &mut Option<RingWriter>,
        endpoint: &Endpoint,
        from: &Initiator,
        access: &OneSided,
    ) -> Option<Outcome> {
        let prepared = self.prepared.as_ref()?;
        let opened = prepared.keys[place_of(access.rkey)].as_ref().filter(|opened| opened.opens(access))?;
        if access.is_read && from.max_rd_atomic == 0 || !prepared.remote.lives() {
            return None;
        }
        let (sge, length) = (&access.sge, access.sge.length);
        let cache = &mut self.own_keys[usize::from(access.is_read)];
        let inline = access.flags.has(SendFlags::INLINE);
        let (here, _in_use) = bytes::source(endpoint, cache, from.pd, sge, inline, access.is_read)?;
        let here = Span { addr: here, len: length.into() };
        if has_older(writer) {
            return None;
        }
        let locked = Locked::take(prepared.lock.get(), endpoint.segment.owner())?;
        if !prepared.holds() {
            locked.give_back();
            return None;
        }
        let settled = from.qp_type != QpType::Rc || is_settled(writer, target, false);
        if !settled {
            prepared.enter(writer, endpoint, target, from.qp_num);
        }
        let is_done = prepared.move_bytes(opened, endpoint, access, &here);
        let is_kept = locked.give_back();
        if !settled && is_kept {
            left(writer);
        }
        match (is_done, is_kept) {
            (true, true) => Some(Outcome::Done(length)),
            // The queue pair may be another one's by now, or have been reset, before it happened.
            (true, false) => Some(Outcome::Refused(Syndrome::Operational)),
            (false, _) => None,
        }
    }
}

impl Prepared {
    /// The target as it is now, where a request changes nothing of its queue pair.
    fn new(target: &Target) -> Option<Self> {
        let (remote, held, qp) = (target.remote.clone(), target.held.clone(), target.qp);
        let view = remote.host.with(&held);
        let state = view.load(Word::Qp(qp, QpWord::State));
        // In RTR the first message raises an event.
        let was_raised = || Events(view.load(Word::Qp(qp, QpWord::Events))).was_raised(Event::CommEst);
        if state == QpState::Rtr as u64 && !was_raised() {
            return None;
        }
        let object = Object::Qp(qp);
        let place = view.generation_of(object)?;
        let mut words = [place; 2 + QP_WORDS];
        words[1] = (view.word_at(Word::Qp(qp, QpWord::State))?, state);
        for ((to, value), word) in words[2..].iter_mut().zip(target.words).zip(0..) {
            *to = (view.word_at(Word::Attribute { object, word })?, value);
        }
        // SAFETY: all of it is in the mapping that `held` keeps beside it.
        let (watched, lock) = unsafe {
            (words.map(|(word, value)| Watched::new(word, value)), Mapped::new(view.lock_word(object)?))
        };
        Some(Self { lock, watched, keys: [None; KEYS], remote, qp, _held: held })
    }

    /// Whether it is this target, as it was looked up last.
    fn is_of(&self, target: &Target) -> bool {
        let words = self.watched[2..].iter().map(Watched::then);
        Arc::ptr_eq(&self.remote, &target.remote)
            && self.qp == target.qp
            && target.held.generation(Object::Qp(self.qp)) == Some(self.watched[0].then())
            && words.eq(target.words)
    }

    /// Whether all is as it was.
    #[inline(always)]
    fn holds(&self) -> bool {
        self.watched.iter().all(Watched::is_unchanged)
    }

    #[cold]
    fn enter(&self, writer: &mut Option<RingWriter>, endpoint: &Endpoint, target: &Target, qp_num: u32) {
        enter(writer, endpoint, target, qp_num, &target.remote.host.with(&target.held));
    }

    /// Moves the bytes, behind the target's lock; `false` where the general way finds out why not.
    #[inline(always)]
    fn move_bytes(&self, opened: &Opened, endpoint: &Endpoint, access: &OneSided, here: &Span) -> bool {
        // First the image, then the key, as in `pin`.
        let Some(image) = self.remote.direct() else { return false };
        let Some(_kept) = opened.key.pin(endpoint) else { return false };
        let there = Span { addr: opened.key.translate(access.addr), len: here.len };
        let direction = if access.is_read { Direction::Read } else { Direction::Write };
        // SAFETY: what is overwritten was given to the device for it: the key with the right and the range is
        // in use, the target's in `_kept`, the own one by the caller.
        unsafe { transfer_whole(&image, direction, here, &there) }
    }
}

impl Opened {
    /// What the rules say of this key at the target in this state.
    ///
    /// # Safety
    /// The target's process is kept as long as the answer is used.
    unsafe fn look(target: &Target, state: u64, out: &Outgoing<'_, '_>, rkey: u32) -> Option<Self> {
        let Outgoing { endpoint, from, wr, .. } = *out;
        let attributes = target.attributes?;
        // SAFETY: the caller's promise.
        let key = unsafe { KnownKey::look(endpoint, &target.remote, rkey, from.qp_num ^ from.qp_num >> 14)? };
        // Its event was raised: nothing more follows from a message in this state.
        let state = QpState::from_number(state as u32)?;
        let state = if state == QpState::Rtr { QpState::Rts } else { state };
        let responder = attributes.target(target.qp_num, state);
        // Each request has its own range, which is looked at then.
        let (addr, length) = (key.key().start, key.key().length.min(1));
        let opens = |opcode| {
            let incoming = Incoming { opcode, addr, ..from.incoming(wr, length) };
            let verdict = judge(&responder, &incoming, Some(key.key()), None);
            length > 0
                && matches!(
                    verdict,
                    Verdict::Accept(Plan { receive: false, invalidate: None, established: false, .. })
                )
        };
        Some(Self { key, is_open: [Opcode::RdmaWrite, Opcode::RdmaRead].map(opens) })
    }

    /// Whether the request is one that was judged, within the memory of the key. One that is too long for a
    /// message is so for [`transfer_whole`].
    #[inline(always)]
    fn opens(&self, access: &OneSided) -> bool {
        let (length, key) = (u64::from(access.sge.length), &self.key);
        key.is(access.rkey)
            && self.is_open[usize::from(access.is_read)]
            && length > 0
            && key.key().covers(access.addr, length)
    }
}
