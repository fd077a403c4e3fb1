//! The quick way of small messages: into the completion queue of their target, many of them behind one pair of locks.
//!
//! What goes this way does exactly what [`attempt`](super::attempt::attempt) does with it; what does not is left to that.

use crate::core::burst::{Burst, MAX_BYTES};
use crate::core::responder::Target;
use crate::core::shared::{Memory as _, Object, QpWord, Word};
use crate::core::transport::{LockError, Machine as _, Progress, Transport as _, acquire};
use crate::core::verbs::{Opcode, QpState, QpType};
use crate::host::objects::View;

use super::attributes::{QP_WORDS, load};
use super::payload::{self, Gathered};
use super::route::{Initiator, Route};
use super::site::Site;
use super::wr::{Datagram, Wr};

/// A burst of a queue pair's, and whom it is for.
#[derive(Debug, Default)]
pub(super) struct Volley {
    burst: Burst,
    /// Where the way there is kept.
    place: usize,
    target: Option<Target>,
    dgid: [u8; 16],
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quick {
    /// It is delivered, with so many bytes. Its target is held for more, until [`Initiator::rest`].
    Delivered(u32),
    /// It does not go the quick way, and nothing happened. Nothing is held.
    No,
    /// Its target cannot be had. Nothing is held.
    NoAnswer,
}

impl Initiator {
    /// Delivers a message the quick way.
    #[inline]
    pub(super) fn quick(&mut self, site: &Site, wr: &Wr<'_>) -> Quick {
        let quick = self.try_quick(site, wr);
        if !matches!(quick, Quick::Delivered(_)) {
            self.rest();
        }
        quick
    }

    #[inline]
    fn try_quick(&mut self, site: &Site, wr: &Wr<'_>) -> Quick {
        let length = wr.data.length();
        let longest = if self.qp_type == QpType::Ud { u64::from(self.mtu) } else { MAX_BYTES as u64 };
        if !matches!(wr.opcode, Opcode::Send | Opcode::SendWithImm)
            || !matches!(self.qp_type, QpType::Rc | QpType::Uc | QpType::Ud)
            || length > longest
        {
            return Quick::No;
        }
        // Datagrams go to anybody.
        if self.volley.burst.is_full() || wr.datagram.is_some_and(|to| !self.volley.is_for(&to)) {
            self.rest();
        }
        if !self.volley.burst.is_open() {
            let (qp_num, dgid) = self.destination(wr);
            self.volley.place = self.place_of(qp_num);
            let route = self.routes[self.volley.place].as_deref();
            let route = route.filter(|route| route.leads_to(site, qp_num, &dgid) && route.remote.lives());
            let opened = route.ok_or(Quick::No).and_then(|route| self.volley.open(route, dgid));
            if let Err(quick) = opened {
                return quick;
            }
        }
        let incoming = self.incoming(wr, length);
        let (volley, pd) = (&mut self.volley, self.pd);
        let Some(route) = self.routes[volley.place].as_deref() else { return Quick::No };
        let view = route.remote.host.with(&route.held);
        let bytes = Gathered::new(volley.burst.bytes()).fill(site, wr, length, Some(pd));
        if bytes.is_none() {
            // Too many, or something is wrong with them, which the other way finds out.
            return Quick::No;
        }
        let Some(target) = &volley.target else { return Quick::No };
        let lookup = |key| payload::lookup(site, &route.remote, key).ok().map(|entry| entry.key);
        if volley.burst.offer(&view, target, &incoming, lookup) && volley.go_on(&view, route) {
            Quick::Delivered(length as u32)
        } else {
            Quick::No
        }
    }

    /// Whether a target is held for more messages.
    pub(super) fn is_holding(&self) -> bool {
        self.volley.burst.is_open()
    }

    /// Gives back whom it holds for more messages.
    #[inline]
    pub(super) fn rest(&mut self) {
        if self.volley.burst.is_open()
            && let Some(route) = self.routes[self.volley.place].as_deref()
        {
            self.volley.end(route);
        }
    }
}

impl Volley {
    /// Whether it is for the destination of this datagram.
    #[inline]
    fn is_for(&self, to: &Datagram<'_>) -> bool {
        self.target.is_some_and(|target| target.qp_num == to.qp_num) && self.dgid == to.dgid
    }

    /// Takes the target's lock and begins a burst there.
    #[inline]
    fn open(&mut self, route: &Route, dgid: [u8; 16]) -> Result<(), Quick> {
        let (Some(attributes), Some(queues), None) = (&route.attributes, &route.queues, route.xrc) else {
            return Err(Quick::No);
        };
        if queues.srq.is_some() {
            return Err(Quick::No);
        }
        let view = &route.remote.host.with(&route.held);
        let qp = Object::Qp(route.qp);
        acquire(view, qp).map_err(|why| match why {
            LockError::Busy => Quick::NoAnswer,
            LockError::Gone => Quick::No,
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
        self.burst.open(view, queues);
        Ok(())
    }

    /// Goes on until a message is delivered (`true`) or nothing is held any more.
    #[inline]
    fn go_on(&mut self, view: &View<'_>, route: &Route) -> bool {
        let qp = Object::Qp(route.qp);
        loop {
            match self.burst.step(view) {
                Progress::Done(true) => return true,
                Progress::Done(false) => {
                    view.unlock(qp);
                    return false;
                }
                Progress::Lock(object) => {
                    if acquire(view, object).is_err() {
                        // Whoever locks the queue pair next repairs it: the other way, at once.
                        self.burst = Burst::default();
                        view.abandon(qp);
                        return false;
                    }
                }
                Progress::Unlock(object) => view.unlock(object),
                Progress::Continue | Progress::Bell(_) | Progress::Alert(_) => {}
            }
        }
    }

    fn end(&mut self, route: &Route) {
        let view = route.remote.host.with(&route.held);
        loop {
            self.burst.close();
            if !self.go_on(&view, route) {
                return;
            }
        }
    }
}
