//! The responder's rules: what a target does with a request, decided by the process that carries it out.
//!
//! Two questions in order, asked by who carries a request out: [`judge`] looks at the queue pair,
//! the keys and the request; when a receive request is needed, [`fit`] looks at the one that was found. Both
//! only decide.
//!
//! Classes of failure are those of IBA §9.9.3 (table 58 for RC, 59 for UC, 60 for UD).

use super::completion::Completion;
use super::keys::{self, Key};
use super::qp::receives;
use super::receive::{Next, ReceiveRequest};
use super::request::MAX_MESSAGE;
use super::requester::{Outcome, Syndrome};
use super::verbs::{Access, Event, Opcode, QpState, QpType, Status, WcFlags, WcOpcode};

/// Bytes in front of a datagram in its buffer, kept for the global route header (IBA §11.4.1.2).
pub const GRH_BYTES: u64 = 40;

/// The target queue pair, copied from its owner's memory and checked once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetQp {
    /// Its number.
    pub qp_num: u32,
    /// Transport service.
    pub qp_type: QpType,
    /// State.
    pub state: QpState,
    /// Protection domain.
    pub pd: u32,
    /// Protection domain of its receive requests: that of the shared receive queue, where it has one (IBA
    /// §10.2.9.1).
    pub receive_pd: u32,
    /// `qp_access_flags`
    pub access: Access,
    /// Connected services: the peer's number.
    pub dest_qp_num: u32,
    /// Datagrams: the key.
    pub qkey: u32,
    /// `max_dest_rd_atomic`
    pub max_dest_rd_atomic: u8,
    /// `min_rnr_timer`
    pub min_rnr_timer: u8,
    /// Whether it receives from a shared receive queue.
    pub srq: bool,
}

/// A request as it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// Transport service of the sender.
    pub qp_type: QpType,
    /// Operation. Local ones never arrive.
    pub opcode: Opcode,
    /// The sender's queue pair.
    pub src_qp: u32,
    /// Whether the sender is on the path that the target is connected over (address handle); datagrams: true.
    pub path_matches: bool,
    /// Datagrams: the key sent.
    pub qkey: u32,
    /// Datagrams: whether the header in front is an IPv4 one.
    pub ipv4: bool,
    /// Bytes of payload, or read, or to flush.
    pub length: u64,
    /// Remote address.
    pub addr: u64,
    /// Immediate data, or the key to invalidate.
    pub imm_or_key: u32,
    /// Whether the sender asked for solicited completions.
    pub solicited: bool,
    /// The time, where the target's completions carry it.
    pub timestamp: u64,
}

impl Incoming {
    /// Whether a receive request is used up.
    #[must_use]
    pub fn needs_receive(&self) -> bool {
        matches!(
            self.opcode,
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv | Opcode::RdmaWriteWithImm
        )
    }

    /// The right that the remote memory must give, for operations that name some.
    #[must_use]
    pub fn needs_access(&self) -> Option<Access> {
        match self.opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::AtomicWrite => Some(Access::REMOTE_WRITE),
            Opcode::RdmaRead => Some(Access::REMOTE_READ),
            Opcode::CmpAndSwp | Opcode::FetchAndAdd => Some(Access::REMOTE_ATOMIC),
            Opcode::Flush => Some(Access::FLUSH_GLOBAL),
            _ => None,
        }
    }
}

/// What the target does to its own queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Breaks {
    /// The asynchronous event; none when a completion with an error tells the story.
    pub event: Option<Event>,
}

/// The first answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Go on.
    Accept(Plan),
    /// Nobody answers; an unreliable message is lost.
    Drop,
    /// Refused, and the target queue pair goes to ERR.
    Refuse(Syndrome, Breaks),
}

/// What to do for an accepted request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What happens to remote memory.
    pub remote: RemoteAccess,
    /// Whether a receive request is needed: ask [`fit`].
    pub receive: bool,
    /// The key to invalidate once the payload is there.
    pub invalidate: Option<u32>,
    /// Raise [`Event::CommEst`] once: a message arrived on a connection still in RTR (IBA §11.6.3.2).
    pub established: bool,
}

/// What happens to remote memory. Address and length were checked against the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteAccess {
    /// Nothing.
    None,
    /// The payload goes there.
    Write,
    /// The payload comes from there.
    Read,
    /// 8 bytes, read and changed at once.
    Atomic,
    /// 8 bytes, written at once.
    AtomicWrite,
    /// Made visible: earlier writes of this queue pair are done when the flush is.
    Flush,
}

/// Judges a request. `key` is the entry of the remote key, `inv_key` that of the key to invalidate.
#[must_use]
#[inline(always)]
pub fn judge(target: &TargetQp, request: &Incoming, key: Option<&Key>, inv_key: Option<&Key>) -> Verdict {
    // rule: qp-receives-in
    if !receives(target.state) || !addressed(target, request) {
        return Verdict::Drop;
    }
    let unreliable = !target.qp_type.is_reliable();
    let refuse = |syndrome, event| {
        // UC: silently dropped (class D), the queue pair stays.
        if unreliable { Verdict::Drop } else { Verdict::Refuse(syndrome, Breaks { event: Some(event) }) }
    };
    // rule: event-refused
    let invalid = || refuse(Syndrome::InvalidRequest, Event::QpReqErr);
    let denied = || refuse(Syndrome::Access, Event::QpAccessErr);

    let allowed = match target.qp_type {
        QpType::XrcRecv => super::request::allowed(QpType::XrcSend, request.opcode),
        other => super::request::allowed(other, request.opcode),
    };
    if !allowed || matches!(request.opcode, Opcode::LocalInv | Opcode::BindMw) || request.length > MAX_MESSAGE
    {
        return invalid();
    }
    let mut remote = RemoteAccess::None;
    if let Some(need) = request.needs_access() {
        remote = match request.opcode {
            Opcode::RdmaRead => RemoteAccess::Read,
            Opcode::CmpAndSwp | Opcode::FetchAndAdd => RemoteAccess::Atomic,
            Opcode::AtomicWrite => RemoteAccess::AtomicWrite,
            Opcode::Flush => RemoteAccess::Flush,
            _ => RemoteAccess::Write,
        };
        let eight = matches!(remote, RemoteAccess::Atomic | RemoteAccess::AtomicWrite);
        let responds =
            matches!(remote, RemoteAccess::Read | RemoteAccess::Atomic | RemoteAccess::AtomicWrite);
        // The queue pair is not set up for it, or an atomic is not aligned: class C, invalid request
        // (§9.7.4.1.5).
        // rule: rsp-qp-rights, rsp-resources, rsp-aligned
        if !target.access.has(need)
            || responds && target.max_dest_rd_atomic == 0
            || eight && (!request.addr.is_multiple_of(8) || request.length != 8)
        {
            return invalid();
        }
        // An access of no bytes names no memory (§9.7.4.1.5).
        // rule: rsp-no-bytes, rsp-key
        if request.length > 0
            && keys::check_remote(key, target.pd, target.qp_num, request.addr, request.length, need).is_err()
        {
            return denied();
        }
    }
    let mut invalidate = None;
    if request.opcode == Opcode::SendWithInv {
        if keys::check_invalidate(inv_key, target.pd, target.qp_num).is_err() {
            return denied();
        }
        invalidate = Some(request.imm_or_key);
    }
    Verdict::Accept(Plan {
        remote,
        receive: request.needs_receive(),
        invalidate,
        // rule: event-established
        established: target.state == QpState::Rtr && target.qp_type != QpType::Ud,
    })
}

/// Whether the request is for this queue pair; else it is dropped without an answer (IBA §9.6.1).
fn addressed(target: &TargetQp, request: &Incoming) -> bool {
    match (request.qp_type, target.qp_type) {
        // rule: rsp-qkey
        (QpType::Ud, QpType::Ud) => request.qkey == target.qkey,
        (QpType::Rc, QpType::Rc) | (QpType::Uc, QpType::Uc) | (QpType::XrcSend, QpType::XrcRecv) => {
            request.src_qp == target.dest_qp_num && request.path_matches
        }
        // rule: rsp-service
        _ => false,
    }
}

/// The second answer: what becomes of the receive request that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Move the payload into it, then deliver this completion. `false`: its memory may not be there, so that
    /// the payload is moved to it before, to see whether it is.
    Accept(ReceiveRequest, Completion, bool),
    /// The sender is told this and nothing happens here.
    Answer(Outcome),
    /// Nobody answers.
    Drop,
    /// Deliver this completion with an error; the queue pair goes to ERR; the sender is told the syndrome.
    Fail(Completion, Syndrome),
    /// The receive queue cannot be believed: the queue pair goes to ERR with [`Event::QpFatal`].
    Broken(Syndrome),
}

/// Looks at the receive request for an accepted message. `lookup` finds keys of the target.
#[must_use]
pub fn fit(target: &TargetQp, request: &Incoming, next: Next, lookup: impl Fn(u32) -> Option<Key>) -> Fit {
    let reliable = target.qp_type.is_reliable();
    let receive = match next {
        Next::Request(receive) => receive,
        // rule: rsp-not-ready
        Next::Empty if reliable => return Fit::Answer(Outcome::ReceiverNotReady(target.min_rnr_timer)),
        Next::Empty => return Fit::Drop,
        Next::Broken => return Fit::Broken(Syndrome::Operational),
    };
    let written = request.opcode == Opcode::RdmaWriteWithImm;
    let datagram = target.qp_type == QpType::Ud;
    // The payload of a write goes elsewhere: the buffers of the receive request are not looked at.
    let used = match (written, datagram) {
        (true, _) => 0,
        // rule: wc-header
        (false, true) => request.length + GRH_BYTES,
        (false, false) => request.length,
    };
    let success = success(target, request, receive.wr_id);
    // rule: rsp-too-long
    if used > receive.length() {
        // RC: class C; UC and UD: dropped, the request stays (class D).
        return if reliable {
            Fit::Fail(failed(success, Status::LocLenErr), Syndrome::InvalidRequest)
        } else {
            Fit::Drop
        };
    }
    let mut is_there = true;
    if !written {
        let mut left = used;
        for sge in receive.sges.iter().filter(|sge| sge.length > 0) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(u64::from(sge.length));
            let key = lookup(sge.lkey);
            if keys::check_local(key.as_ref(), target.receive_pd, sge.addr, sge.length, true).is_err() {
                // The receiver's own fault, class A: it learns it from its completion.
                return Fit::Fail(failed(success, Status::LocProtErr), Syndrome::Operational);
            }
            is_there &= key.is_some_and(|key| !key.access.has(Access::ON_DEMAND));
        }
    }
    Fit::Accept(receive, success, is_there)
}

/// The completion of a receive request with this number that took the message.
#[inline(always)]
pub(crate) fn success(target: &TargetQp, request: &Incoming, wr_id: u64) -> Completion {
    let written = request.opcode == Opcode::RdmaWriteWithImm;
    let datagram = target.qp_type == QpType::Ud;
    let flags = flags(request, datagram);
    Completion {
        wr_id,
        status: Status::Success,
        // rule: wc-receive-opcode
        opcode: if written { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv },
        vendor_err: 0,
        // rule: wc-write-length, wc-header
        byte_len: (request.length + if datagram && !written { GRH_BYTES } else { 0 }) as u32,
        imm_or_key: if flags.any(WcFlags::WITH_IMM.union(WcFlags::WITH_INV)) {
            request.imm_or_key
        } else {
            0
        },
        qp_num: target.qp_num,
        // rule: wc-source
        src_qp: request.src_qp,
        flags,
        timestamp: request.timestamp,
        places: 0,
    }
}

/// The completion of a receive request that failed.
pub(crate) fn failed(completion: Completion, status: Status) -> Completion {
    // rule: wc-error-fields
    Completion { status, byte_len: 0, imm_or_key: 0, flags: WcFlags::NONE, ..completion }
}

fn flags(request: &Incoming, datagram: bool) -> WcFlags {
    let imm = match request.opcode {
        // rule: wc-immediate
        Opcode::SendWithImm | Opcode::RdmaWriteWithImm => WcFlags::WITH_IMM,
        // rule: wc-invalidated
        Opcode::SendWithInv => WcFlags::WITH_INV,
        _ => WcFlags::NONE,
    };
    match (datagram, request.ipv4) {
        (true, true) => imm.union(WcFlags::GRH).union(WcFlags::IPV4),
        (true, false) => imm.union(WcFlags::GRH),
        (false, _) => imm,
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Kind;
    use super::super::receive::Sge;
    use super::*;

    const TARGET: TargetQp = TargetQp {
        qp_num: 7,
        qp_type: QpType::Rc,
        state: QpState::Rts,
        pd: 1,
        receive_pd: 1,
        access: Access(0x10e),
        dest_qp_num: 9,
        qkey: 0x11,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        srq: false,
    };

    const SEND: Incoming = Incoming {
        qp_type: QpType::Rc,
        opcode: Opcode::Send,
        src_qp: 9,
        path_matches: true,
        qkey: 0x11,
        ipv4: false,
        length: 16,
        addr: 0x1000,
        imm_or_key: 5,
        solicited: false,
        timestamp: 0,
    };

    const KEY: Key =
        Key { kind: Kind::Region, valid: true, pd: 1, start: 0x1000, length: 0x100, access: Access(0x30f) };

    fn op(opcode: Opcode) -> Incoming {
        Incoming { opcode, length: 8, ..SEND }
    }

    fn refused(verdict: Verdict) -> Option<(Syndrome, Option<Event>)> {
        match verdict {
            Verdict::Refuse(syndrome, breaks) => Some((syndrome, breaks.event)),
            _ => None,
        }
    }

    const INVALID: Option<(Syndrome, Option<Event>)> =
        Some((Syndrome::InvalidRequest, Some(Event::QpReqErr)));
    const ACCESS: Option<(Syndrome, Option<Event>)> = Some((Syndrome::Access, Some(Event::QpAccessErr)));

    #[test]
    // rule: qp-receives-in, rsp-service, rsp-qkey
    fn strangers_and_sleepers_get_no_answer() {
        for state in [QpState::Reset, QpState::Init, QpState::Err] {
            assert_eq!(judge(&TargetQp { state, ..TARGET }, &SEND, None, None), Verdict::Drop);
        }
        assert_eq!(judge(&TARGET, &Incoming { src_qp: 8, ..SEND }, None, None), Verdict::Drop);
        assert_eq!(judge(&TARGET, &Incoming { path_matches: false, ..SEND }, None, None), Verdict::Drop);
        assert_eq!(judge(&TARGET, &Incoming { qp_type: QpType::Uc, ..SEND }, None, None), Verdict::Drop);
        let ud = TargetQp { qp_type: QpType::Ud, ..TARGET };
        let datagram = Incoming { qp_type: QpType::Ud, src_qp: 1234, ..SEND };
        assert!(matches!(judge(&ud, &datagram, None, None), Verdict::Accept(_)));
        assert_eq!(judge(&ud, &Incoming { qkey: 0x12, ..datagram }, None, None), Verdict::Drop);
    }

    #[test]
    // rule: event-established
    fn the_first_message_in_rtr_establishes() {
        let ud = TargetQp { qp_type: QpType::Ud, state: QpState::Rtr, ..TARGET };
        let datagram = Incoming { qp_type: QpType::Ud, ..SEND };
        assert!(matches!(
            judge(&ud, &datagram, None, None),
            Verdict::Accept(Plan { established: false, .. })
        ));
        for (state, expected) in [(QpState::Rtr, true), (QpState::Rts, false)] {
            let Verdict::Accept(plan) = judge(&TargetQp { state, ..TARGET }, &SEND, None, None) else {
                panic!()
            };
            assert_eq!(plan.established, expected);
        }
    }

    #[test]
    // rule: rsp-qp-rights, rsp-resources, rsp-aligned, rsp-no-bytes, rsp-key, event-refused
    fn remote_memory_needs_rights_of_queue_pair_and_key() {
        for (opcode, remote) in [
            (Opcode::RdmaWrite, RemoteAccess::Write),
            (Opcode::RdmaWriteWithImm, RemoteAccess::Write),
            (Opcode::RdmaRead, RemoteAccess::Read),
            (Opcode::CmpAndSwp, RemoteAccess::Atomic),
            (Opcode::FetchAndAdd, RemoteAccess::Atomic),
            (Opcode::AtomicWrite, RemoteAccess::AtomicWrite),
            (Opcode::Flush, RemoteAccess::Flush),
        ] {
            let Verdict::Accept(plan) = judge(&TARGET, &op(opcode), Some(&KEY), None) else {
                panic!("{opcode:?}")
            };
            assert_eq!(plan.remote, remote);
            assert_eq!(plan.receive, opcode == Opcode::RdmaWriteWithImm);
            assert_eq!(refused(judge(&TARGET, &op(opcode), None, None)), ACCESS, "{opcode:?}");
            let weak = Key { access: Access::LOCAL_WRITE, ..KEY };
            assert_eq!(refused(judge(&TARGET, &op(opcode), Some(&weak), None)), ACCESS, "{opcode:?}");
            let shut = TargetQp { access: Access::NONE, ..TARGET };
            assert_eq!(refused(judge(&shut, &op(opcode), Some(&KEY), None)), INVALID, "{opcode:?}");
        }
        let none = Incoming { length: 0, ..op(Opcode::RdmaWrite) };
        assert!(matches!(judge(&TARGET, &none, None, None), Verdict::Accept(_)));
        let odd = Incoming { addr: 0x1004, ..op(Opcode::CmpAndSwp) };
        assert_eq!(refused(judge(&TARGET, &odd, Some(&KEY), None)), INVALID);
        let poor = TargetQp { max_dest_rd_atomic: 0, ..TARGET };
        assert_eq!(refused(judge(&poor, &op(Opcode::RdmaRead), Some(&KEY), None)), INVALID);
        let uc = TargetQp { qp_type: QpType::Uc, ..TARGET };
        let write = Incoming { qp_type: QpType::Uc, ..op(Opcode::RdmaWrite) };
        assert_eq!(judge(&uc, &write, None, None), Verdict::Drop);
    }

    #[test]
    fn invalidation_by_a_peer() {
        let window = Key { kind: Kind::Window2 { qp_num: 7 }, ..KEY };
        let Verdict::Accept(plan) = judge(&TARGET, &op(Opcode::SendWithInv), None, Some(&window)) else {
            panic!()
        };
        assert_eq!(plan.invalidate, Some(5));
        assert_eq!(refused(judge(&TARGET, &op(Opcode::SendWithInv), None, Some(&KEY))), ACCESS);
    }

    fn receive(length: u32) -> Next {
        Next::Request(ReceiveRequest { wr_id: 3, sges: [Sge { addr: 0x1000, length, lkey: 1 }].into() })
    }

    #[test]
    // rule: wc-receive-opcode, wc-write-length, wc-header, rsp-not-ready, rsp-too-long
    fn receive_requests() {
        let lookup = |_| Some(KEY);
        let Fit::Accept(_, completion, true) = fit(&TARGET, &SEND, receive(16), lookup) else { panic!() };
        assert_eq!((completion.wr_id, completion.byte_len, completion.flags), (3, 16, WcFlags::NONE));
        assert_eq!(fit(&TARGET, &SEND, Next::Empty, lookup), Fit::Answer(Outcome::ReceiverNotReady(12)));
        let Fit::Fail(completion, Syndrome::InvalidRequest) = fit(&TARGET, &SEND, receive(15), lookup) else {
            panic!()
        };
        assert_eq!(completion.status, Status::LocLenErr);
        let Fit::Fail(completion, Syndrome::Operational) = fit(&TARGET, &SEND, receive(16), |_| None) else {
            panic!()
        };
        assert_eq!(completion.status, Status::LocProtErr);
        let elsewhere = TargetQp { receive_pd: 2, ..TARGET };
        assert!(matches!(fit(&elsewhere, &SEND, receive(16), lookup), Fit::Fail(_, Syndrome::Operational)));
        assert_eq!(fit(&TARGET, &SEND, Next::Broken, lookup), Fit::Broken(Syndrome::Operational));

        let ud = TargetQp { qp_type: QpType::Ud, ..TARGET };
        assert_eq!(fit(&ud, &SEND, receive(55), lookup), Fit::Drop);
        assert_eq!(fit(&ud, &SEND, Next::Empty, lookup), Fit::Drop);
        let Fit::Accept(_, completion, true) = fit(&ud, &SEND, receive(56), lookup) else { panic!() };
        assert_eq!((completion.byte_len, completion.flags), (56, WcFlags::GRH));

        let write = Incoming { length: 1 << 20, ..op(Opcode::RdmaWriteWithImm) };
        let Fit::Accept(_, completion, true) = fit(&TARGET, &write, receive(0), |_| None) else { panic!() };
        assert_eq!((completion.opcode, completion.byte_len), (WcOpcode::RecvRdmaWithImm, 1 << 20));
        assert_eq!(completion.flags, WcFlags::WITH_IMM);
    }
}
