//! Bursts: small messages to one target, written into its completion queue behind one pair of locks.
//!
//! A message of a burst does exactly what [`execute`](super::execute::execute) does with it; what a burst does
//! not take is left to that.

use crate::error::Result;
use crate::queues::burst::{Burst, MAX_BURST};
use crate::queues::completion::MAX_STAGED;
use crate::queues::shared::{Memory as _, Object, QpWord, Word};
use crate::queues::transaction::LockError;
use crate::queues::transaction::{Machine as _, Progress};
use crate::queues::transport::{Transport as _, acquire};
use crate::rules::requester::Posted;
use crate::rules::responder::{GRH_BYTES, TargetQp};
use crate::rules::verbs::{Opcode, QpState, QpType};
use crate::shm::objects::Lane;
use ironverbs_os::growth::{TryPush, try_room};

use super::attributes::{QP_WORDS, load};
use super::bytes::{self, Gathered};
use super::direct::{RingWriter, enter, left};
use super::target::{Target, Targets};
use crate::carrier::outgoing::Outgoing;
use crate::carrier::wr::{Datagram, Wr};

/// The burst of a queue pair that is under way, and whom it is for.
#[derive(Debug)]
pub(crate) struct OpenBurst {
    machine: Burst,
    /// Where its target is kept.
    place: usize,
    target_qp: Option<TargetQp>,
    dgid: [u8; 16],
    /// Its requests that were delivered, oldest first, until they are told.
    requests: Vec<Posted>,
    /// The first so many of them are there, all at first.
    kept: u32,
    /// The target's lock was given back in order.
    is_unlocked: bool,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BurstOutcome {
    /// It is delivered. Its target is held for more, until [`OpenBurst::end`].
    Delivered,
    /// A burst does not take it, and nothing happened. Nothing is held.
    NotTaken,
    /// Its target cannot be had. Nothing is held.
    NoAnswer,
    /// Another process keeps a queue of its target. Nothing is held.
    Held,
}

impl OpenBurst {
    /// None yet, for a send queue of so many requests.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn new(max_send_wr: u32) -> Result<Self> {
        Ok(Self {
            machine: Burst::default(),
            place: 0,
            target_qp: None,
            dgid: [0; 16],
            requests: try_room(max_send_wr.min(MAX_BURST) as usize)?,
            kept: u32::MAX,
            is_unlocked: false,
        })
    }

    /// Delivers a message. A burst that does not take it [ends](OpenBurst::must_end_before) before.
    #[inline(always)]
    pub(crate) fn deliver(
        &mut self,
        out: &Outgoing<'_, '_>,
        targets: &Targets,
        writer: &mut Option<RingWriter>,
    ) -> BurstOutcome {
        debug_assert!(!self.must_end_before(out.wr));
        let outcome = self.try_deliver(out, targets, writer);
        if outcome == BurstOutcome::Delivered {
            self.requests.push_reserved(*out.request);
        } else {
            self.note_unlocked(writer);
            if self.is_open() {
                self.end(targets, writer);
            }
        }
        outcome
    }

    #[inline(always)]
    fn try_deliver(
        &mut self,
        out: &Outgoing<'_, '_>,
        targets: &Targets,
        writer: &mut Option<RingWriter>,
    ) -> BurstOutcome {
        let Outgoing { endpoint, from, wr, request, .. } = *out;
        let length = request.length;
        let (header, longest) = match from.qp_type {
            QpType::Rc | QpType::Uc => (0, MAX_STAGED as u64),
            QpType::Ud => (GRH_BYTES, u64::from(from.mtu).min(MAX_STAGED as u64 - GRH_BYTES)),
            QpType::XrcSend | QpType::XrcRecv => return BurstOutcome::NotTaken,
        };
        if !matches!(wr.opcode, Opcode::Send | Opcode::SendWithImm) || length > longest {
            return BurstOutcome::NotTaken;
        }
        let is_open = self.is_open();
        let (qp_num, dgid) = from.destination(wr);
        if !is_open {
            self.place = targets.place_of(qp_num);
            let queues = targets.get(self.place).and_then(|target| target.queues.as_ref());
            if queues.is_none_or(|queues| queues.srq.is_some()) {
                return BurstOutcome::NotTaken;
            }
        }
        let incoming = from.incoming(wr, length);
        // The program's memory is read before a target is held for it, if none is held yet.
        let bytes = Gathered::new(self.machine.bytes()).fill(endpoint, wr, length, Some(from.pd));
        if bytes.is_none() {
            // Something is wrong with them, which the other way finds out.
            return BurstOutcome::NotTaken;
        }
        let Some(target) = targets.get(self.place) else { return BurstOutcome::NotTaken };
        let view = target.remote.host.with(&target.held);
        let lane = target.queues.as_ref().and_then(|queues| Lane::new(&view, queues.qp, queues.cq));
        let Some(lane) = &lane else { return BurstOutcome::NotTaken };
        if !is_open {
            if !target.is(qp_num, &dgid) || !target.remote.lives() {
                return BurstOutcome::NotTaken;
            }
            let used = (header + length) as usize;
            if let Err(outcome) = self.open(lane, target, dgid, used, incoming.solicited) {
                return outcome;
            }
            if from.qp_type == QpType::Rc {
                enter(writer, endpoint, target, from.qp_num, lane);
            }
            if let Some(queues) = &target.queues {
                self.machine.open(lane, queues);
            }
        }
        let Some(target_qp) = &self.target_qp else { return BurstOutcome::NotTaken };
        let lookup =
            |key| bytes::look_again(endpoint, &target.remote, key, &mut target.seen.borrow_mut()).ok();
        if !self.machine.offer(lane, target_qp, &incoming, lookup) {
            return BurstOutcome::NotTaken;
        }
        match self.go_on(lane, target.qp) {
            Ok(true) => BurstOutcome::Delivered,
            Ok(false) | Err(LockError::Gone) => BurstOutcome::NotTaken,
            Err(LockError::Busy) => BurstOutcome::NoAnswer,
            Err(LockError::Held) => BurstOutcome::Held,
            // The end of the burst says which of those before are there.
            Err(LockError::Unclear) => BurstOutcome::NotTaken,
        }
    }

    /// Whether a target is held that does not take this message: [`OpenBurst::end`] comes first.
    #[inline]
    pub(crate) fn must_end_before(&self, wr: &Wr<'_>) -> bool {
        // Datagrams go to anybody.
        let is_other = || wr.datagram.is_some_and(|to| !self.is_for(&to));
        self.is_open() && (self.machine.is_full() || is_other())
    }

    /// Whether a target is held for more messages.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.machine.is_open()
    }

    /// Gives back the target that is held for more messages. Where this process was stopped within the burst,
    /// and its target did not wait for it, not all of them are [there](OpenBurst::kept).
    #[inline]
    pub(crate) fn end(&mut self, targets: &Targets, writer: &mut Option<RingWriter>) {
        if let Some(target) = targets.get(self.place) {
            self.close(target);
            self.note_unlocked(writer);
        }
    }

    /// What was taken behind the lock stands at the head of the target, if that was given back.
    #[inline]
    fn note_unlocked(&mut self, writer: &mut Option<RingWriter>) {
        if std::mem::take(&mut self.is_unlocked) {
            left(writer);
        }
    }

    /// The requests of the burst, oldest first, until they are [told](OpenBurst::forget).
    #[inline(always)]
    pub(crate) fn requests(&self) -> &[Posted] {
        &self.requests
    }

    /// The first so many of them, or all, are there, once the burst has ended.
    #[inline(always)]
    pub(crate) fn kept(&self) -> u32 {
        self.kept
    }

    /// Whoever sent them knows what became of them.
    pub(crate) fn forget(&mut self) {
        self.requests.clear();
        self.kept = u32::MAX;
    }

    /// Where the bytes of a message go, while it is not held for any.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut [u8; MAX_STAGED] {
        debug_assert!(!self.is_open());
        self.machine.bytes()
    }

    /// Whether it is for the destination of this datagram.
    #[inline]
    fn is_for(&self, to: &Datagram<'_>) -> bool {
        self.target_qp.is_some_and(|target| target.qp_num == to.qp_num) && self.dgid == to.dgid
    }

    /// Takes the target's lock and begins a burst there.
    #[inline(always)]
    fn open(
        &mut self,
        view: &Lane<'_>,
        target: &Target,
        dgid: [u8; 16],
        used: usize,
        solicited: bool,
    ) -> std::result::Result<(), BurstOutcome> {
        let (Some(attributes), Some(queues), None) = (&target.attributes, &target.queues, target.xrc) else {
            return Err(BurstOutcome::NotTaken);
        };
        if !Burst::is_likely(view, queues, used, solicited) {
            return Err(BurstOutcome::NotTaken);
        }
        let qp = Object::Qp(target.qp);
        let is_datagram = attributes.qp_type == QpType::Ud;
        target.lock(is_datagram, || acquire(view, qp)).map_err(|why| match why {
            LockError::Busy => BurstOutcome::NoAnswer,
            LockError::Held => BurstOutcome::Held,
            LockError::Gone | LockError::Unclear => BurstOutcome::NotTaken,
        })?;
        // What changed since it was looked up is looked up anew where it is executed.
        let words: [u64; QP_WORDS] = load(view, qp);
        if words != target.words || !view.is_current(Object::Cq(queues.cq)) {
            view.unlock(qp);
            return Err(BurstOutcome::NotTaken);
        }
        let state = QpState::from_number(view.load(Word::Qp(target.qp, QpWord::State)) as u32);
        self.target_qp = Some(attributes.target(target.qp_num, state.unwrap_or(QpState::Err)));
        debug_assert!(self.requests.is_empty(), "a burst that nobody was told of");
        self.dgid = dgid;
        (self.is_unlocked, self.kept) = (false, u32::MAX);
        Ok(())
    }

    /// Goes on until a message is delivered (`true`) or nothing is held any more.
    ///
    /// # Errors
    /// The completion queue could not be had, or, for messages that were delivered before, had not been
    /// ([`LockError::Unclear`]). Nothing is held then, either.
    #[inline]
    fn go_on(&mut self, view: &Lane<'_>, index: u32) -> std::result::Result<bool, LockError> {
        let qp = Object::Qp(index);
        loop {
            match self.machine.step(view) {
                Progress::Done(true) => return Ok(true),
                Progress::Done(false) => {
                    self.is_unlocked = view.unlock(qp);
                    if !self.is_unlocked && self.machine.count() > 0 {
                        // It was taken away: whether the messages came before that is not known.
                        self.kept = 0;
                        return Err(LockError::Unclear);
                    }
                    return Ok(false);
                }
                Progress::Lock(object) => acquire(view, object).inspect_err(|_| {
                    // Whoever locks the queue pair next repairs it.
                    self.machine = Burst::default();
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
    fn fenced(&mut self, view: &Lane<'_>, index: u32, object: Object) -> std::result::Result<(), LockError> {
        let kept = self.machine.kept(view.resolve(index, object));
        if kept == Some(self.machine.count()) {
            return Ok(());
        }
        // Where it is not known, whoever sent them is told of none.
        self.kept = kept.unwrap_or(0);
        self.machine = Burst::default();
        view.abandon(Object::Qp(index));
        Err(LockError::Unclear)
    }

    fn close(&mut self, target: &Target) {
        let view = target.remote.host.with(&target.held);
        let lane = target.queues.as_ref().and_then(|queues| Lane::new(&view, queues.qp, queues.cq));
        let Some(lane) = &lane else {
            // A forked child, in the middle of its parent's burst.
            self.kept = 0;
            self.machine = Burst::default();
            return;
        };
        loop {
            self.machine.close();
            if self.go_on(lane, target.qp) != Ok(true) {
                return;
            }
        }
    }
}
