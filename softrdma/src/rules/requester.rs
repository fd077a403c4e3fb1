//! The send queue: one request after the other, tried again when the peer was not ready or gave no answer,
//! completed or given up.
//!
//! The caller carries a request out and reports what came of it, with the time; the queue says what happens
//! next. One request is under way at a time and the next starts when it is done, so that order and the fence of
//! the specification (IBA §10.8.3.3) hold by construction.

use super::completion::Completion;
use super::timers::{ack_timeout, rnr_timer};
use super::verbs::{Opcode, QpState, QpType, SendFlags, Status, WcFlags, WcOpcode};

/// Why a responder refused (the NAK codes of IBA §9.7.5.2.4, table 43).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syndrome {
    /// Invalid request.
    InvalidRequest,
    /// Remote access error.
    Access,
    /// Remote operational error.
    Operational,
}

/// What came of carrying out the request at the head of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done; bytes that were read for a read or an atomic, else of the message.
    Done(u32),
    /// The receiver had no receive request; its `min_rnr_timer` code.
    ReceiverNotReady(u8),
    /// The peer dropped it: not there, not yet ready to receive, connected to somebody else, or gone. Also
    /// where it could not be asked: its lock was kept, or memory ran out here.
    NoAnswer,
    /// A process that neither sent it nor is its target keeps a lock of the target: nothing is known of the
    /// target.
    Held,
    /// The peer refused.
    Refused(Syndrome),
    /// It failed on this side: the checks of [`start`](super::request::start), a bind, a local copy.
    Local(Status),
}

/// What the queue wants now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing: empty, or the state does not send.
    Nothing,
    /// Carry out the request at the head and report it.
    Execute,
    /// Not before this time; without a time, for as long as it takes. A caller that has the occasion may try
    /// before: that uses up no retry.
    Wait(Option<u64>),
}

/// What follows from an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The request is done: this completion, if it asked for one.
    Complete(Option<Completion>),
    /// Later: see [`Requester::work`].
    Later,
    /// The request failed with this completion, and the queue pair goes to this state. In ERR and SQE all that
    /// is left is flushed: [`Requester::flushed`].
    Fail(Completion, QpState),
}

/// Retry attributes (`struct ibv_qp_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retry {
    /// `timeout`: 4.096 µs · 2^timeout until an answer counts as missing, 0 for ever.
    pub timeout: u8,
    /// `retry_cnt`: how often a missing answer is tried again.
    pub retry_cnt: u8,
    /// `rnr_retry`: how often a receiver that was not ready is tried again; 7 for ever.
    pub rnr_retry: u8,
}

/// `rnr_retry` that never gives up (IBA §11.2.5.2).
pub const RNR_FOR_EVER: u8 = 7;

#[derive(Clone, Copy, Debug)]
enum Head {
    /// May be tried now.
    Ready,
    /// Told to wait until then; `lost` when the answer was missing, so that another try is a retry.
    Waiting { until: Option<u64>, lost: bool },
}

/// Nanoseconds until a request is tried again whose way another process is in.
const HELD: u64 = 20_000_000;

/// What a send queue must know of a request that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Operation.
    pub opcode: Opcode,
    /// Whether it asked for a completion.
    pub signaled: bool,
    /// Bytes of local memory.
    pub length: u64,
}

/// The state of one send queue, without the requests themselves: those stay where the caller keeps them, oldest
/// first.
#[derive(Clone, Debug)]
pub struct Requester {
    qp_num: u32,
    qp_type: QpType,
    sq_sig_all: bool,
    state: QpState,
    retry: Retry,
    head: Head,
    /// Not tried before that time: another process was in the way, which is nobody's fault here.
    held_until: u64,
    started: bool,
    retries: u8,
    rnr_retries: u8,
}

impl Requester {
    /// That of an empty queue in RESET.
    #[must_use]
    pub fn new(qp_num: u32, qp_type: QpType, sq_sig_all: bool) -> Self {
        Self {
            qp_num,
            qp_type,
            sq_sig_all,
            state: QpState::Reset,
            retry: Retry::default(),
            head: Head::Ready,
            held_until: 0,
            started: false,
            retries: 0,
            rnr_retries: 0,
        }
    }

    /// Sets the retry attributes. A wait that has begun ends as it was.
    pub fn set_retry(&mut self, retry: Retry) {
        self.retry = retry;
    }

    /// The state that it follows.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Follows the queue pair into a state. In RESET the caller forgets the requests; in ERR and SQE they are
    /// to be flushed.
    pub fn set_state(&mut self, state: QpState) {
        self.state = state;
        if state == QpState::Reset {
            self.fresh_head();
        }
    }

    /// Whether a queue in SQD has drained: nothing that was started is left (IBA §10.3.1.5).
    #[must_use]
    pub fn is_drained(&self) -> bool {
        !self.started
    }

    /// What to do now with the oldest of the requests; `empty` when there is none. A wait for an answer that
    /// ends here without retries left is reported by the caller as [`Outcome::NoAnswer`] again, through
    /// [`Work::Execute`]: one more look at the peer does no harm.
    #[must_use]
    pub fn work(&self, empty: bool, now: u64) -> Work {
        let sends = match self.state {
            QpState::Rts => true,
            // rule: qp-drains
            QpState::Sqd => self.started,
            _ => false,
        };
        match self.head {
            _ if empty || !sends => Work::Nothing,
            Head::Waiting { until, .. } if until.is_none_or(|until| now < until) => Work::Wait(until),
            _ if now < self.held_until => Work::Wait(Some(self.held_until)),
            _ => Work::Execute,
        }
    }

    /// Whether another process was in the way a moment ago, so that a try before its time takes long and is in
    /// vain.
    #[must_use]
    pub fn is_held(&self, now: u64) -> bool {
        now < self.held_until
    }

    /// Takes the outcome of an attempt of the oldest request. Unless the answer is [`Action::Later`], that
    /// request is done with: the caller takes it out of the queue.
    pub fn outcome(&mut self, request: &Posted, outcome: Outcome, now: u64) -> Action {
        self.started = true;
        self.held_until = 0;
        let reliable = self.qp_type.is_reliable();
        match outcome {
            Outcome::Done(bytes) => Action::Complete(self.done(request, bytes)),
            // rule: loss-unheard
            // Unreliable: on its way, and nobody will ever say that it was lost (IBA §9.8.3, §9.8.2).
            Outcome::NoAnswer | Outcome::Held | Outcome::ReceiverNotReady(_) | Outcome::Refused(_)
                if !reliable =>
            {
                let bytes = u32::try_from(request.length).unwrap_or(u32::MAX);
                Action::Complete(self.done(request, bytes))
            }
            Outcome::ReceiverNotReady(code) => {
                // An answer: the peer lives, so missing answers count from the start.
                self.retries = 0;
                // Tried before its time, by a caller that had the occasion: that counts as no retry.
                if let Head::Waiting { until: Some(until), lost: false } = self.head
                    && now < until
                {
                    return Action::Later;
                }
                // rule: rnr-retries, rnr-for-ever
                if self.retry.rnr_retry < RNR_FOR_EVER && self.rnr_retries >= self.retry.rnr_retry {
                    self.fail(request, Status::RnrRetryExcErr, vendor_err::RNR | u32::from(code & 31))
                } else {
                    self.rnr_retries = self.rnr_retries.saturating_add(1);
                    // rule: rnr-wait
                    let until = Some(now.saturating_add(rnr_timer(code)));
                    self.head = Head::Waiting { until, lost: false };
                    Action::Later
                }
            }
            Outcome::Held => {
                // A wait that has begun stays what it is.
                self.held_until = now.saturating_add(HELD);
                Action::Later
            }
            Outcome::NoAnswer => self.no_answer(request, now),
            Outcome::Refused(syndrome) => {
                // rule: status-of-nak
                let (status, vendor_err) = match syndrome {
                    Syndrome::InvalidRequest => (Status::RemInvReqErr, vendor_err::NAK_INVALID_REQUEST),
                    Syndrome::Access => (Status::RemAccessErr, vendor_err::NAK_ACCESS),
                    Syndrome::Operational => (Status::RemOpErr, vendor_err::NAK_OPERATIONAL),
                };
                self.fail(request, status, vendor_err)
            }
            Outcome::Local(status) => self.fail(request, status, vendor_err::NONE),
        }
    }

    /// Whether what is left is to be flushed (ERR, SQE): oldest first, signalled or not (IBA §10.8.3.4).
    #[must_use]
    pub fn flushes(&self) -> bool {
        matches!(self.state, QpState::Err | QpState::Sqe)
    }

    /// The completion of a request that is flushed and taken out of the queue.
    pub fn flushed(&mut self, request: &Posted) -> Completion {
        self.fresh_head();
        Completion::flushed(request.wr_id, request.opcode.into(), self.qp_num)
    }

    fn fresh_head(&mut self) {
        self.head = Head::Ready;
        self.held_until = 0;
        self.started = false;
        self.retries = 0;
        self.rnr_retries = 0;
    }

    /// The answer to this attempt is missing. The wait for it begins now; after it comes a retry, or the end
    /// when the retries are used up: in all `retry_cnt` + 1 timeouts (IBA §9.7.6.1.3, §9.9.2.4).
    fn no_answer(&mut self, request: &Posted, now: u64) -> Action {
        if let Head::Waiting { until, lost } = self.head {
            // Tried before its time: that counts as no retry, and the wait stays what it is.
            if until.is_none_or(|until| now < until) {
                return Action::Later;
            }
            // rule: ack-retries
            if lost && self.retries >= self.retry.retry_cnt {
                return self.fail(request, Status::RetryExcErr, vendor_err::NONE);
            }
            self.retries += u8::from(lost);
        }
        let until = ack_timeout(self.retry.timeout).map(|timeout| now.saturating_add(timeout));
        self.head = Head::Waiting { until, lost: true };
        Action::Later
    }

    /// As [`Requester::outcome`] of [`Outcome::Done`]: the completion, if the request asked for one.
    #[inline]
    pub fn done(&mut self, request: &Posted, bytes: u32) -> Option<Completion> {
        self.fresh_head();
        self.done_at_once(request, bytes)
    }

    /// No request is under way: those that come may be [done at once](Requester::done_at_once).
    pub fn rest(&mut self) {
        self.fresh_head();
    }

    /// Whether a request with these flags has a completion where it succeeds.
    #[inline(always)]
    #[must_use]
    pub fn tells(&self, flags: SendFlags) -> bool {
        // rule: wc-signaled
        self.sq_sig_all || flags.has(SendFlags::SIGNALED)
    }

    /// As [`Requester::done`], of a request that began and ended while the queue [rested](Requester::rest).
    #[inline(always)]
    #[must_use]
    pub fn done_at_once(&self, request: &Posted, bytes: u32) -> Option<Completion> {
        debug_assert!(matches!(self.head, Head::Ready) && !self.started, "another request is under way");
        if !self.sq_sig_all && !request.signaled {
            return None;
        }
        let completion = self.completion(request, Status::Success, vendor_err::NONE);
        Some(Completion { byte_len: bytes, ..completion })
    }

    /// The request has failed with this status, as its peer said or for want of an answer.
    pub fn failed(&mut self, request: &Posted, status: Status, vendor_err: u32) -> Action {
        self.fail(request, status, vendor_err)
    }

    fn fail(&mut self, request: &Posted, status: Status, vendor_err: u32) -> Action {
        self.fresh_head();
        // IBA §10.3.1.6, §10.8.3.4: an unreliable send queue stops alone, a reliable queue pair breaks whole.
        // A local bind or invalidate that fails breaks it as well.
        let local = matches!(request.opcode, Opcode::BindMw | Opcode::LocalInv);
        // rule: qp-send-error
        let state = if self.qp_type.is_reliable() || local { QpState::Err } else { QpState::Sqe };
        self.set_state(state);
        // rule: wc-error-always
        Action::Fail(self.completion(request, status, vendor_err), state)
    }

    fn completion(&self, request: &Posted, status: Status, vendor_err: u32) -> Completion {
        Completion {
            wr_id: request.wr_id,
            status,
            opcode: WcOpcode::from(request.opcode),
            vendor_err,
            byte_len: 0,
            imm_or_key: 0,
            qp_num: self.qp_num,
            src_qp: 0,
            flags: WcFlags::NONE,
            timestamp: 0,
            places: 1,
        }
    }
}

/// `vendor_err` of a failed completion: the answer's syndrome as it would stand in a packet (IBA §9.7.5.2,
/// AETH), or 0 when no answer was the cause.
pub(crate) mod vendor_err {
    /// No answer to blame.
    pub const NONE: u32 = 0;
    /// Receiver not ready, plus the timer code.
    pub const RNR: u32 = 0x20;
    /// NAK, invalid request.
    // rule: nak-codes
    pub const NAK_INVALID_REQUEST: u32 = 0x61;
    /// NAK, remote access error.
    pub const NAK_ACCESS: u32 = 0x62;
    /// NAK, remote operational error.
    pub const NAK_OPERATIONAL: u32 = 0x63;
}

#[cfg(test)]
mod tests;
