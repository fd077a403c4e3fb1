//! The send queue of a queue pair: what is carried out at once, what waits in a ring.
//!
//! A request that finds the queue empty is carried out where it stands, in the program's memory. Only one that
//! has to wait, or comes after one that does, is copied into the ring, whose memory was taken when the queue
//! pair was made.
//!
//! A request has its place in the queue until its completion is polled or, where it asked for none, that of a
//! later one: as with devices, whose library learns from nothing else how far the queue has come.

use std::sync::atomic::Ordering;

use queue_lock::QueueGuard;

use crate::queues::deliver::Delivered;
use crate::queues::shared::Object;
use crate::queues::transaction::LockError;
use crate::rules::completion::Completion;
use crate::rules::request::{Limits, Operands, Posting, Rejected};
use crate::rules::requester::{Action, Outcome, Posted, Requester, Syndrome, Work};
use crate::rules::verbs::{Event, QpState, SendFlags};

use super::QueuePair;
use super::alone::Alone;
use super::comp_counter::Counters;
use super::qp_attributes::Attributes;
use super::stuck::BRIEFLY;
use super::waiting::Ring;
use crate::carrier::Carrier;
use crate::carrier::far;
use crate::carrier::initiator::Initiator;
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::started::Started;
use crate::carrier::wr::{Data, OneSided, PlainSend, Wr};
use crate::wire::psn::Psn;

/// The sending side of a queue pair, behind its mutex.
#[derive(Debug)]
pub(super) struct SendSide {
    pub(super) requester: Requester,
    pub(super) initiator: Initiator,
    pub(super) carrier: Carrier,
    pub(super) ring: Ring,
    pub(super) attributes: Attributes,
    /// Requests that are done, after the last that was completed: the next completion gives their places back.
    pub(super) silent: u32,
    /// Requests that may go as the last one went, as far as hangs on this side: nobody has had it for anything
    /// else since.
    pub(super) at_once: u32,
    /// SQ_DRAINED is to be raised once the queue has drained.
    pub(super) tells_drained: bool,
    /// The last reset could not remove all completions of before: they are still to be polled.
    pub(super) has_stale: bool,
    /// In the list of those that wait.
    pub(super) listed: bool,
    /// It broke, and what is posted could not be flushed then.
    pub(super) unflushed: bool,
    /// What counts its requests.
    pub(super) counters: Counters,
    /// Connected to another host: what the queue keeps for it.
    pub(super) far: Option<Box<far::sender::Sender>>,
    /// Datagrams: the number of the next that leaves by the network.
    pub(super) datagram_psn: Psn,
    /// What is carried out by itself because it is looked at.
    pub(super) alone: Alone,
}

impl SendSide {
    pub(super) fn new(
        requester: Requester,
        initiator: Initiator,
        carrier: Carrier,
        limits: &Limits,
        attributes: Attributes,
    ) -> super::Result<Self> {
        let ring = Ring::new(limits)?;
        let (silent, at_once) = (0, 0);
        let (tells_drained, has_stale, listed, unflushed) = (false, false, false, false);
        let mut counters = Counters::default();
        counters.sends = Alone::is_wanted();
        Ok(Self {
            requester,
            initiator,
            carrier,
            ring,
            attributes,
            silent,
            at_once,
            tells_drained,
            has_stale,
            listed,
            unflushed,
            counters,
            far: None,
            datagram_psn: Psn::new(0),
            alone: Alone::default(),
        })
    }

    /// Whether nothing is left of what was started.
    pub(super) fn is_drained(&self) -> bool {
        self.requester.is_drained() && self.far.as_ref().is_none_or(|far| far.requester.is_drained())
    }

    /// Whether a request that is posted in RTS starts at once, and nothing follows from it but its completion.
    pub(super) fn starts_at_once(&self) -> bool {
        self.ring.is_empty()
            && self.requester.state() == QpState::Rts
            && self.carrier.unsettled() == 0
            && !(self.counters.sends | self.counters.own | self.tells_drained)
    }
}

/// The send queue of a queue pair, held while requests are posted that belong together.
///
/// Between two of them the queue pair that they are for may be held, too, and its completion queue, which may
/// be this process's own: until this is dropped, whoever has it does nothing else with the device.
#[derive(Debug)]
pub struct Sending<'a> {
    pub(super) qp: &'a QueuePair,
    pub(super) side: QueueGuard<'a, SendSide>,
    /// Requests that were accepted and are not posted yet.
    pub(super) accepted: u32,
    /// Requests for another host were posted, which leave together: bytes of the last.
    posted_far: Option<u64>,
    /// [`QueuePair::post_word`] was not tried before.
    pub(super) tries_word: bool,
}

impl Sending<'_> {
    /// Accepts a request: it has its place in the queue. Once all that belong together are accepted, each is to
    /// be given to [`Sending::post`].
    ///
    /// # Errors
    /// The first rule that the request breaks.
    pub fn accept(&mut self, wr: &Wr<'_>) -> Result<(), Rejected> {
        let qp = self.qp;
        let (sges, inline) = match wr.data {
            Data::Sges(sges) => (sges.len(), wr.flags.has(SendFlags::INLINE).then_some(0)),
            data => (0, Some(data.length())),
        };
        let posting = Posting { opcode: wr.opcode, datagram: wr.datagram.is_some(), sges, inline };
        let queued = qp.queued(&self.side) + self.accepted;
        posting.accept(qp.qp_type(), qp.state(), qp.limits(), queued)?;
        // A forked child's requests are not its parent's.
        if !qp.device().is_mine() {
            return Err(Rejected::State);
        }
        self.accepted += 1;
        Ok(())
    }

    /// Accepts a request and posts it.
    ///
    /// # Errors
    /// The first rule that the request breaks; nothing was queued then.
    #[inline(always)]
    pub fn post_one(&mut self, wr: &Wr<'_>) -> Result<(), Rejected> {
        if self.post_short(wr) { Ok(()) } else { self.post_any(wr) }
    }

    /// Posts a request by the short way that one like it went before, if that is possible; `false`: nothing
    /// happened.
    #[inline(always)]
    fn post_short(&mut self, wr: &Wr<'_>) -> bool {
        (self.takes_plain() && PlainSend::of(wr).is_some_and(|send| self.post_plain(&send)))
            || (self.takes_plain_datagram()
                && PlainSend::of_datagram(wr).is_some_and(|(send, to)| self.post_plain_datagram(&send, to)))
            || (self.takes_one_sided() && OneSided::of(wr).is_some_and(|access| self.post_one_sided(&access)))
    }

    /// As [`Sending::post`], by a short way where one is open.
    pub fn post_accepted(&mut self, wr: &Wr<'_>) {
        // There is room for all that were accepted.
        let accepted = std::mem::take(&mut self.accepted);
        let is_posted = self.post_short(wr);
        self.accepted = accepted;
        if is_posted {
            self.accepted = accepted.saturating_sub(1);
        } else {
            self.post(wr);
        }
    }

    /// As [`Sending::post_one`], whatever it is.
    #[inline(always)]
    fn post_any(&mut self, wr: &Wr<'_>) -> Result<(), Rejected> {
        self.accept(wr)?;
        self.post(wr);
        Ok(())
    }

    /// Posts a request that was accepted. Nothing of `wr` is needed afterwards, except registered memory.
    pub fn post(&mut self, wr: &Wr<'_>) {
        debug_assert!(self.accepted > 0, "a request that was not accepted");
        self.accepted = self.accepted.saturating_sub(1);
        let (qp, side) = (self.qp, &mut *self.side);
        side.at_once = 0;
        if side.far.is_some() || wr.leaves() {
            // Those before it that have gone another way.
            qp.settle(side);
            side.ring.push(wr);
            self.posted_far = Some(wr.data.length());
            return;
        }
        let (request, order) = (wr.posted(), qp.completion_order(wr));
        let mut started = qp.may_start(side).then(|| {
            let (endpoint, from) = (&qp.device().endpoint, &side.initiator);
            let out = Outgoing { endpoint, from, wr, request: &request, order: &order };
            // What is counted is done for good, which is not known yet of what settles with others.
            if side.counters.sends {
                Started::Ended(side.alone.carry_out(&mut side.carrier, &side.attributes, &out, false))
            } else {
                side.carrier.start(&out)
            }
        });
        while started == Some(Started::SettleFirst) {
            started = qp.start_again(side, wr, &request, &order);
        }
        match started {
            Some(Started::Ended(outcome)) => {
                // Those before it, where its target could not be had.
                qp.settle(side);
                qp.note_bound(wr, outcome);
                let now = if matches!(outcome, Outcome::Done(_)) { 0 } else { qp.device().now() };
                let action = side.requester.outcome(&request, outcome, now);
                if action == Action::Later {
                    side.ring.push(wr);
                    qp.schedule(side);
                } else {
                    qp.follow_outcome(side, &request, action, &order);
                    if side.alone.holds_back() {
                        qp.schedule(side);
                    }
                }
            }
            Some(Started::Settles | Started::SettleFirst) => {}
            None => {
                qp.settle(side);
                side.ring.push(wr);
                qp.work(side, true);
            }
        }
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(length) = self.posted_far {
            self.qp.send_posted(&mut self.side, length);
        }
        self.qp.settle(&mut self.side);
    }
}

impl QueuePair {
    /// Holds the send queue, for several requests of which all are to be posted or none.
    #[inline(always)]
    pub fn sending(&self) -> Sending<'_> {
        self.sending_after(false)
    }

    /// The same for a request that [`QueuePair::post_word`] was tried with, if that is so.
    #[inline(always)]
    pub fn sending_after(&self, tried_word: bool) -> Sending<'_> {
        let side = self.send_side_for_posting();
        Sending { qp: self, side, accepted: 0, posted_far: None, tries_word: !tried_word }
    }

    /// Posts a send request. Nothing of `wr` is needed afterwards, except registered memory.
    ///
    /// # Errors
    /// The first rule that the request breaks; nothing was queued then.
    pub fn post_send(&self, wr: &Wr<'_>) -> Result<(), Rejected> {
        if PlainSend::of(wr).is_some_and(|send| self.post_word(&send)) { Ok(()) } else { self.post_other(wr) }
    }

    /// The same of one that does not go by the shortest way.
    #[inline(never)]
    fn post_other(&self, wr: &Wr<'_>) -> Result<(), Rejected> {
        self.sending_after(true).post_one(wr)
    }

    /// Send requests that there is room for now.
    #[must_use]
    pub fn send_room(&self) -> u32 {
        self.limits().max_send_wr.saturating_sub(self.queued(&self.send_side_for_posting()))
    }

    /// Places that are taken by requests that wait, or whose completion nobody polled, or that wait for one to
    /// follow.
    #[inline]
    pub(super) fn queued(&self, side: &SendSide) -> u32 {
        side.ring.len() + side.silent + side.carrier.unsettled() + self.unpolled().load(Ordering::Relaxed)
    }

    /// How many places polling a completion gives back that is appended next.
    #[inline(always)]
    pub(super) fn add_places(&self, side: &mut SendSide) -> u32 {
        let places = std::mem::take(&mut side.silent) + 1;
        self.unpolled().fetch_add(places, Ordering::Relaxed);
        places
    }

    /// Whether a request that is posted now is started at once: none waits before it.
    #[inline(always)]
    fn may_start(&self, side: &SendSide) -> bool {
        self.state() == QpState::Rts && side.ring.is_empty() && side.requester.state() == QpState::Rts
    }

    /// Starts a request for which others are to be settled first; `None` when it has to wait then.
    #[inline(never)]
    fn start_again(
        &self,
        side: &mut SendSide,
        wr: &Wr<'_>,
        request: &Posted,
        order: &CompletionOrder<'_>,
    ) -> Option<Started> {
        self.settle(side);
        self.may_start(side).then(|| {
            let (endpoint, from) = (&self.device().endpoint, &side.initiator);
            side.carrier.start_again(&Outgoing { endpoint, from, wr, request, order })
        })
    }

    /// Ends the requests that settle together, and tells of them.
    #[inline(always)]
    fn settle(&self, side: &mut SendSide) {
        if side.carrier.unsettled() > 0 {
            self.settle_now(side);
        }
    }

    #[inline(never)]
    fn settle_now(&self, side: &mut SendSide) {
        let there = side.carrier.settle();
        let mut nth = 0;
        while let Some(request) = side.carrier.settled(nth) {
            // Who sends datagrams or unreliably never learns what is lost.
            if nth < there || !self.qp_type().is_reliable() {
                match side.requester.done(&request, request.length as u32) {
                    Some(completion) => self.complete(side, completion, &CompletionOrder::new(None)),
                    None => side.silent += 1,
                }
            } else {
                self.fail_settled(side, &request, nth == there);
            }
            nth += 1;
        }
        side.carrier.forget_settled();
        self.tell_drained(side);
    }

    /// Ends a request that failed when those before it had settled: with the `first` the connection breaks,
    /// and each of the others has a completion that says so, also where it asked for none.
    #[cold]
    fn fail_settled(&self, side: &mut SendSide, request: &Posted, first: bool) {
        let order = CompletionOrder::new(None);
        if first {
            let outcome = Outcome::Refused(Syndrome::Operational);
            let action = side.requester.outcome(request, outcome, self.device().now());
            self.follow_outcome(side, request, action, &order);
        } else {
            let flushed = Completion::flushed(request.wr_id, request.opcode.into(), self.qp_num());
            self.complete(side, flushed, &order);
        }
    }

    /// What puts a request's own completion in order.
    #[inline]
    pub(super) fn completion_order(&self, wr: &Wr<'_>) -> CompletionOrder<'_> {
        let tells = wr.flags.has(SendFlags::SIGNALED);
        CompletionOrder::new(self.send_cq().filter(|_| tells).map(|cq| &cq.own))
    }

    /// A window that was bound has another key from here on.
    #[inline(always)]
    pub(super) fn note_bound(&self, wr: &Wr<'_>, outcome: Outcome) {
        if let (Operands::Bind(bind), Outcome::Done(_)) = (&wr.operands, outcome) {
            self.device().bound(bind);
        }
    }

    /// Works the queue as far as it goes now; what it waits for then. `early`: the request at the head is tried
    /// though its time has not come.
    pub(super) fn work(&self, side: &mut SendSide, early: bool) -> Work {
        self.go_on(side, early);
        self.schedule(side)
    }

    fn go_on(&self, side: &mut SendSide, mut early: bool) {
        if side.alone.holds_back() {
            let SendSide { alone, carrier, attributes, initiator, .. } = side;
            alone.release(carrier, attributes, &self.device().endpoint, initiator);
        }
        loop {
            if self.state() == QpState::Err && side.requester.state() != QpState::Err {
                side.requester.set_state(QpState::Err);
                // Whoever broke it may have died before everything was flushed.
                side.unflushed = !self.flush_if_broken();
            } else if side.unflushed && !early {
                side.unflushed = !self.flush_within(BRIEFLY);
            }
            self.flush_sends(side);
            if side.far.is_some() {
                return self.go_on_far(side);
            }
            let now = self.device().now();
            let work = side.requester.work(side.ring.is_empty(), now);
            match work {
                Work::Nothing => break,
                // Early, whoever is in the way would be waited for with each request that is posted.
                Work::Wait(_) if !early || side.requester.is_held(now) => break,
                Work::Wait(_) | Work::Execute => {}
            }
            early = false;
            let is_early = matches!(work, Work::Wait(_));
            let Some(wr) = side.ring.front() else { break };
            if wr.leaves() {
                if self.send_datagrams(side) {
                    continue;
                }
                break;
            }
            let (request, order) = (wr.posted(), self.completion_order(&wr));
            let (endpoint, from) = (&self.device().endpoint, &side.initiator);
            let out = Outgoing { endpoint, from, wr: &wr, request: &request, order: &order };
            let outcome = if side.counters.sends {
                side.alone.carry_out(&mut side.carrier, &side.attributes, &out, is_early)
            } else {
                side.carrier.execute(&out)
            };
            self.note_bound(&wr, outcome);
            let action = side.requester.outcome(&request, outcome, self.device().now());
            if action != Action::Later {
                side.ring.pop();
                self.follow_outcome(side, &request, action, &order);
            }
        }
    }

    /// Sees to it that what waits goes on, and that nothing is looked after that does not wait.
    pub(super) fn schedule(&self, side: &mut SendSide) -> Work {
        let work = self.enlist(side);
        match work {
            Work::Wait(until) => self.device().retries.wake_at(self.device(), until),
            Work::Execute => self.device().retries.wake_at(self.device(), Some(0)),
            Work::Nothing => {}
        }
        work
    }

    /// Stands in the list of those that wait, or not; what it waits for.
    fn enlist(&self, side: &mut SendSide) -> Work {
        if side.far.is_some() {
            return self.enlist_far(side);
        }
        let waits = !side.ring.is_empty() || side.unflushed || side.alone.holds_back();
        if waits != side.listed {
            side.listed = waits;
            if waits {
                self.list();
            } else if self.device().is_mine() {
                // In a forked child nobody gives the list's lock back.
                self.device().retries.remove(self);
            }
        }
        match side.requester.work(side.ring.is_empty(), self.device().now()) {
            Work::Nothing if side.unflushed || side.alone.holds_back() => Work::Wait(None),
            work => work,
        }
    }

    /// What follows from the end of a request.
    pub(super) fn follow_outcome(
        &self,
        side: &mut SendSide,
        request: &Posted,
        action: Action,
        order: &CompletionOrder<'_>,
    ) {
        let is_counted = side.counters.own && side.counters.count(request, &action);
        match action {
            Action::Later => {}
            // The program learns from the counter that it is done: its place is given back.
            Action::Complete(None) if is_counted => {}
            Action::Complete(None) => side.silent += 1,
            Action::Complete(Some(completion)) => self.complete(side, completion, order),
            Action::Fail(completion, next) => {
                // First the state: whoever sees the completion finds it.
                self.fail(next);
                self.complete(side, completion, &CompletionOrder::new(None));
                if !self.flush_if_broken() && next == QpState::Err {
                    side.unflushed = true;
                    self.schedule(side);
                }
                self.flush_sends(side);
            }
        }
        self.tell_drained(side);
    }

    /// Raises SQ_DRAINED when it was asked for and nothing that was started is left.
    pub(super) fn tell_drained(&self, side: &mut SendSide) {
        // What is connected to another host tells it once all that has ended is out of the queue.
        let is_at_work = self.is_far() && side.far.is_none();
        if side.tells_drained && !is_at_work && side.is_drained() {
            side.tells_drained = false;
            self.device().subscribers.raise(Object::Qp(self.index()), Event::SqDrained);
        }
    }

    /// Completes everything that waits in ERR and SQE.
    pub(super) fn flush_sends(&self, side: &mut SendSide) {
        // rule: flush-order
        while side.requester.flushes() {
            let Some(posted) = side.ring.front().map(|wr| wr.posted()) else { break };
            side.ring.pop();
            if side.counters.own {
                side.counters.flushed(&posted);
            }
            let completion = side.requester.flushed(&posted);
            self.complete(side, completion, &CompletionOrder::new(None));
        }
    }

    pub(super) fn complete(&self, side: &mut SendSide, completion: Completion, order: &CompletionOrder<'_>) {
        self.complete_here(side, completion, order);
    }

    /// As [`QueuePair::complete`], where a call costs more than what it does.
    #[inline(always)]
    pub(super) fn complete_here(
        &self,
        side: &mut SendSide,
        mut completion: Completion,
        order: &CompletionOrder<'_>,
    ) {
        completion.places = self.add_places(side);
        self.append(side, completion, order);
    }

    /// Appends a completion whose [places](QueuePair::add_places) are noted.
    #[inline(always)]
    pub(super) fn append(&self, side: &mut SendSide, completion: Completion, order: &CompletionOrder<'_>) {
        let Some(cq) = self.send_cq() else { return };
        let delivered = cq.own.append(&completion, order);
        if delivered != Ok(Delivered::Published) {
            self.not_published(side, completion.places, delivered);
        }
    }

    #[cold]
    fn not_published(&self, side: &mut SendSide, places: u32, delivered: Result<Delivered, LockError>) {
        // Nobody polls it: its places come back with the next one.
        let less = |count: u32| Some(count.saturating_sub(places));
        let _ = self.unpolled().fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        side.silent += places;
        // Lost, and with it the program's knowledge of the queue (IBA §10.2.4.3).
        if delivered != Ok(Delivered::Dropped) && side.requester.state() != QpState::Err {
            side.requester.set_state(QpState::Err);
            self.fail(QpState::Err);
            self.flush_if_broken();
            self.device().subscribers.raise(Object::Qp(self.index()), Event::QpFatal);
        }
    }

    /// Tries what waits before its time: the program is polling.
    pub(super) fn try_early(&self) {
        if let Some(mut side) = self.try_send_side()
            && !side.requester.is_held(self.device().now())
            && !side.ring.front().is_some_and(|wr| side.carrier.is_hopeless(&wr))
        {
            self.work(&mut side, true);
        }
    }

    /// Tries what waits for an answer of another host, where its time has come.
    pub(super) fn try_due(&self, now: u64) {
        if let Some(mut side) = self.try_send_side()
            && self.far_deadline(&side).is_some_and(|deadline| deadline <= now)
        {
            self.work(&mut side, false);
        }
    }

    /// Tries what waits when its time has come, and what waits without end; what it waits for then, which the
    /// caller sees to.
    pub(super) fn try_in_time(&self) -> Work {
        if self.is_far() {
            self.look_for_overdue();
        }
        // Others wait, too.
        let Some(mut side) = self.send_side_soon() else { return Work::Wait(None) };
        let work = side.requester.work(side.ring.is_empty(), self.device().now());
        self.go_on(&mut side, work == Work::Wait(None));
        self.enlist(&mut side)
    }
}
