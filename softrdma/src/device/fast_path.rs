//! The quick way of small messages: into the completion queue of their target, many of them behind one pair of
//! locks.
//!
//! What goes this way does exactly what [`execute`](super::execute::execute) does with it; what does not is
//! left to that.

use crate::protocol::burst::{Burst, MAX_BURST, MAX_BYTES};
use crate::protocol::responder::{GRH_BYTES, TargetQp};
use crate::protocol::shared::{Memory as _, Object, QpWord, Word};
use crate::protocol::transport::{LockError, Machine as _, Progress, Transport as _, acquire};
use crate::protocol::verbs::{Opcode, QpState, QpType};
use crate::shm::objects::Lane;

use super::attributes::{QP_WORDS, load};
use super::bytes::{self, Gathered};
use super::direct::{enter, left};
use super::endpoint::Endpoint;
use super::route::{Initiator, Route};
use super::wr::{Datagram, Wr};

/// A burst of a queue pair's, and whom it is for.
#[derive(Debug, Default)]
pub(super) struct FastPath {
    burst: Burst,
    /// Where the way there is kept.
    place: usize,
    target: Option<TargetQp>,
    dgid: [u8; 16],
    /// The numbers of its requests.
    numbers: Numbers,
    /// Messages of it, and those that are there, when not all of them are.
    sent: u32,
    kept: u32,
    /// The target was given back in order.
    is_left: bool,
}

#[derive(Debug)]
struct Numbers([u64; MAX_BURST as usize]);

impl Default for Numbers {
    fn default() -> Self {
        Self([0; MAX_BURST as usize])
    }
}

/// Not all messages of a burst are there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quick {
    /// It is delivered, with so many bytes. Its target is held for more, until [`Initiator::rest`].
    Delivered(u32),
    /// It does not go the quick way, and nothing happened. Nothing is held.
    No,
    /// Its target cannot be had. Nothing is held.
    NoAnswer,
    /// Another process keeps a queue of its target. Nothing is held.
    Held,
    /// Nothing happened with it, but of those delivered before some were not after all ([`Initiator::rest`]).
    /// Nothing is held.
    Lost,
}

impl Initiator {
    /// Delivers a message the quick way. A burst that does not take it is [over](Initiator::is_over) before.
    #[inline]
    pub(super) fn quick(&mut self, endpoint: &Endpoint, wr: &Wr<'_>) -> Quick {
        debug_assert!(!self.is_over(wr));
        let quick = self.try_quick(endpoint, wr);
        if !matches!(quick, Quick::Delivered(_)) {
            self.note_left();
            if self.is_holding() && self.rest().is_err() {
                return Quick::Lost;
            }
        }
        quick
    }

    #[inline(always)]
    fn try_quick(&mut self, endpoint: &Endpoint, wr: &Wr<'_>) -> Quick {
        let length = wr.data.length();
        let (header, longest) = match self.qp_type {
            QpType::Rc | QpType::Uc => (0, MAX_BYTES as u64),
            QpType::Ud => (GRH_BYTES, u64::from(self.mtu).min(MAX_BYTES as u64 - GRH_BYTES)),
            QpType::XrcSend | QpType::XrcRecv => return Quick::No,
        };
        if !matches!(wr.opcode, Opcode::Send | Opcode::SendWithImm) || length > longest {
            return Quick::No;
        }
        let is_open = self.fast_path.burst.is_open();
        let (qp_num, dgid) = self.destination(wr);
        if !is_open {
            self.fast_path.place = self.place_of(qp_num);
            let queues = self.routes[self.fast_path.place].as_deref().and_then(|route| route.queues.as_ref());
            if queues.is_none_or(|queues| queues.srq.is_some()) {
                return Quick::No;
            }
        }
        let incoming = self.incoming(wr, length);
        // The program's memory is read before a target is held for it, if none is held yet.
        let bytes = Gathered::new(self.fast_path.burst.bytes()).fill(endpoint, wr, length, Some(self.pd));
        if bytes.is_none() {
            // Something is wrong with them, which the other way finds out.
            return Quick::No;
        }
        let fast_path = &mut self.fast_path;
        let Some(route) = self.routes[fast_path.place].as_deref() else { return Quick::No };
        let view = route.remote.host.with(&route.held);
        let lane = route.queues.as_ref().and_then(|queues| Lane::new(&view, queues.qp, queues.cq));
        let Some(lane) = &lane else { return Quick::No };
        if !is_open {
            if !route.leads_to(qp_num, &dgid) || !route.remote.lives() {
                return Quick::No;
            }
            let used = (header + length) as usize;
            if let Err(quick) = fast_path.open(lane, route, dgid, used, incoming.solicited) {
                return quick;
            }
            if self.qp_type == QpType::Rc {
                enter(&mut self.ring_writer, endpoint, route, self.qp_num, lane);
            }
            if let Some(queues) = &route.queues {
                fast_path.burst.open(lane, queues);
            }
        }
        let Some(target) = &fast_path.target else { return Quick::No };
        let lookup = |key| bytes::look_again(endpoint, &route.remote, key, &mut route.seen.borrow_mut()).ok();
        if !fast_path.burst.offer(lane, target, &incoming, lookup) {
            return Quick::No;
        }
        match fast_path.go_on(lane, route.qp) {
            Ok(true) => {
                if let Some(number) = fast_path.numbers.0.get_mut(fast_path.burst.count() as usize - 1) {
                    *number = wr.wr_id;
                }
                Quick::Delivered(length as u32)
            }
            Ok(false) | Err(LockError::Gone) => Quick::No,
            Err(LockError::Busy) => Quick::NoAnswer,
            Err(LockError::Held) => Quick::Held,
            Err(LockError::Unclear) => Quick::Lost,
        }
    }

    /// Whether a target is held that does not take this message: [`Initiator::rest`] comes first.
    #[inline]
    pub(super) fn is_over(&self, wr: &Wr<'_>) -> bool {
        // Datagrams go to anybody.
        let is_other = || wr.datagram.is_some_and(|to| !self.fast_path.is_for(&to));
        self.is_holding() && (self.fast_path.burst.is_full() || is_other())
    }

    /// Whether a target is held for more messages.
    #[inline(always)]
    pub(super) fn is_holding(&self) -> bool {
        self.fast_path.burst.is_open()
    }

    /// Gives back whom it holds for more messages.
    ///
    /// # Errors
    /// This process was stopped within the burst, its target did not wait for it, and [not
    /// all](Initiator::kept) of the messages are there.
    #[inline]
    pub(super) fn rest(&mut self) -> Result<(), Lost> {
        if self.fast_path.burst.is_open()
            && let Some(route) = self.routes[self.fast_path.place].as_deref()
        {
            let ended = self.fast_path.end(route);
            self.note_left();
            return ended;
        }
        Ok(())
    }

    /// What was taken the quick way stands at the head of the target, if that was given back.
    #[inline]
    fn note_left(&mut self) {
        if std::mem::take(&mut self.fast_path.is_left) {
            left(&mut self.ring_writer);
        }
    }

    /// How many messages of the burst that was lost are there.
    pub(super) fn kept(&self) -> u32 {
        self.fast_path.kept
    }

    /// The number of the request of that message, counted from 0, when the burst has so many.
    pub(super) fn lost(&self, message: u32) -> Option<u64> {
        let number = self.fast_path.numbers.0.get(message as usize).copied();
        number.filter(|_| message < self.fast_path.sent)
    }

    /// Messages of the burst so far.
    #[inline]
    pub(super) fn delivered(&self) -> u32 {
        self.fast_path.burst.count()
    }
}

impl FastPath {
    /// Where the bytes of a message go, while it is not held for any.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut [u8; MAX_BYTES] {
        debug_assert!(!self.burst.is_open());
        self.burst.bytes()
    }

    /// Whether it is for the destination of this datagram.
    #[inline]
    fn is_for(&self, to: &Datagram<'_>) -> bool {
        self.target.is_some_and(|target| target.qp_num == to.qp_num) && self.dgid == to.dgid
    }

    /// Takes the target's lock and begins a burst there.
    #[inline(always)]
    fn open(
        &mut self,
        view: &Lane<'_>,
        route: &Route,
        dgid: [u8; 16],
        used: usize,
        solicited: bool,
    ) -> Result<(), Quick> {
        let (Some(attributes), Some(queues), None) = (&route.attributes, &route.queues, route.xrc) else {
            return Err(Quick::No);
        };
        if !Burst::is_likely(view, queues, used, solicited) {
            return Err(Quick::No);
        }
        let qp = Object::Qp(route.qp);
        let is_datagram = attributes.qp_type == QpType::Ud;
        route.lock(is_datagram, || acquire(view, qp)).map_err(|why| match why {
            LockError::Busy => Quick::NoAnswer,
            LockError::Held => Quick::Held,
            LockError::Gone | LockError::Unclear => Quick::No,
        })?;
        // What changed since it was looked up is looked up anew on the other way.
        let words: [u64; QP_WORDS] = load(view, qp);
        if words != route.words || !view.is_current(Object::Cq(queues.cq)) {
            view.unlock(qp);
            return Err(Quick::No);
        }
        let state = QpState::from_number(view.load(Word::Qp(route.qp, QpWord::State)) as u32);
        self.target = Some(attributes.target(route.qp_num, state.unwrap_or(QpState::Err)));
        self.dgid = dgid;
        self.is_left = false;
        Ok(())
    }

    /// Goes on until a message is delivered (`true`) or nothing is held any more.
    ///
    /// # Errors
    /// The completion queue could not be had, or, for messages that were delivered before, had not been
    /// ([`LockError::Unclear`]). Nothing is held then, either.
    #[inline]
    fn go_on(&mut self, view: &Lane<'_>, index: u32) -> Result<bool, LockError> {
        let qp = Object::Qp(index);
        loop {
            match self.burst.step(view) {
                Progress::Done(true) => return Ok(true),
                Progress::Done(false) => {
                    self.is_left = view.unlock(qp);
                    if !self.is_left && self.burst.count() > 0 {
                        // It was taken away: whether the messages came before that is not known.
                        (self.sent, self.kept) = (self.burst.count(), 0);
                        return Err(LockError::Unclear);
                    }
                    return Ok(false);
                }
                Progress::Lock(object) => acquire(view, object).inspect_err(|_| {
                    // Whoever locks the queue pair next repairs it.
                    self.burst = Burst::default();
                    view.abandon(qp);
                })?,
                Progress::Unlock(object) => {
                    if !view.unlock(object) {
                        self.fenced(view, index, object)?;
                    }
                }
                Progress::Continue | Progress::Bell(_) | Progress::Alert(_) => {}
            }
        }
    }

    /// The completion queue was taken away meanwhile: `Ok` when all messages are there nevertheless.
    #[cold]
    fn fenced(&mut self, view: &Lane<'_>, index: u32, object: Object) -> Result<(), LockError> {
        let kept = self.burst.kept(view.resolve(index, object));
        if kept == Some(self.burst.count()) {
            return Ok(());
        }
        // Where it is not known, whoever sent them is told of none.
        (self.sent, self.kept) = (self.burst.count(), kept.unwrap_or(0));
        self.burst = Burst::default();
        view.abandon(Object::Qp(index));
        Err(LockError::Unclear)
    }

    fn end(&mut self, route: &Route) -> Result<(), Lost> {
        let view = route.remote.host.with(&route.held);
        let lane = route.queues.as_ref().and_then(|queues| Lane::new(&view, queues.qp, queues.cq));
        let Some(lane) = &lane else {
            // A forked child, in the middle of its parent's burst.
            (self.sent, self.kept) = (self.burst.count(), 0);
            self.burst = Burst::default();
            return Err(Lost);
        };
        loop {
            self.burst.close();
            match self.go_on(lane, route.qp) {
                Ok(true) => {}
                Err(LockError::Unclear) => return Err(Lost),
                _ => return Ok(()),
            }
        }
    }
}
