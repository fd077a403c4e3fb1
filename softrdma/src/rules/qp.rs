//! States of a queue pair: which changes are legal, which attributes each needs and takes, and what each does
//! to the queues.

use super::verbs::{Attr, QpState, QpType};

/// What a change of state does to the queues (IBA §10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing beyond the attributes.
    None,
    /// Both queues are emptied without completions (RESET).
    Clear,
    /// Everything in both queues completes with [`Status::WrFlushErr`](super::verbs::Status::WrFlushErr) (ERR).
    Flush,
    /// The send queue finishes what was started and starts nothing more (SQD).
    Drain,
    /// The send queue starts working, or works again (RTS).
    Send,
}

/// Why a change was refused (`EINVAL` of `ibv_modify_qp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No such change of state.
    Transition,
    /// These attributes are needed and missing.
    Missing(Attr),
    /// These attributes cannot be given with this change.
    NotAllowed(Attr),
    /// `IBV_QP_CUR_STATE` is named in a state that it does not go with.
    CurState,
}

/// Checks a change of state. `mask` is what the caller named; `IBV_QP_STATE` may always be there.
///
/// The rules are those of IBA §10.3.1 and §11.2.5.2 as every Linux device applies them
/// (`ib_modify_qp_is_ok`).
///
/// # Errors
/// [`Refused`] says which rule.
///
/// # Examples
/// ```
/// use softrdma::rules::qp::{Effect, Refused, modify};
/// use softrdma::rules::verbs::{Attr, QpState, QpType};
///
/// let ready = modify(QpType::Ud, QpState::Rtr, QpState::Rts, Attr::SQ_PSN);
/// assert_eq!(ready, Ok(Effect::Send));
/// let without = modify(QpType::Ud, QpState::Rtr, QpState::Rts, Attr::NONE);
/// assert_eq!(without, Err(Refused::Missing(Attr::SQ_PSN)));
/// ```
// rule: qp-refused-as-it-was
pub fn modify(qp_type: QpType, current: QpState, next: QpState, mask: Attr) -> Result<Effect, Refused> {
    use QpState::{Err, Reset, Rtr, Rts, Sqd, Sqe};
    // rule: qp-current-state
    if mask.has(Attr::CUR_STATE) && !matches!(current, Rtr | Rts | Sqd | Sqe) {
        return Result::Err(Refused::CurState);
    }
    let (required, optional) = attributes(qp_type, current, next).ok_or(Refused::Transition)?;
    // rule: qp-required
    let missing = Attr(required.0 & !mask.0);
    if missing != Attr::NONE {
        return Result::Err(Refused::Missing(missing));
    }
    // rule: qp-unasked
    let extra = Attr(mask.0 & !required.union(optional).union(Attr::STATE).0);
    if extra != Attr::NONE {
        return Result::Err(Refused::NotAllowed(extra));
    }
    Ok(match (current, next) {
        // rule: qp-reset-forgets
        (_, Reset) => Effect::Clear,
        // rule: flush-all
        (_, Err) => Effect::Flush,
        (Rts, Sqd) => Effect::Drain,
        (Rtr | Sqd | Sqe, Rts) => Effect::Send,
        _ => Effect::None,
    })
}

/// Required and optional attributes of a change, or `None` when the change is not legal.
#[must_use]
pub fn attributes(qp_type: QpType, current: QpState, next: QpState) -> Option<(Attr, Attr)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let none = Attr::NONE;
    // rule: qp-changes
    Some(match (current, next) {
        (Reset, Reset) => (none, none),
        (Reset, Err) => return None,
        (_, Reset | Err) => (none, none),
        (Reset, Init) => (port_and_rights(qp_type), none),
        (Init, Init) => (none, port_and_rights(qp_type)),
        (Init, Rtr) => to_ready_to_receive(qp_type),
        (Rtr, Rts) => to_ready_to_send(qp_type),
        (Rts, Rts) | (Sqd, Rts) => (none, while_sending(qp_type)),
        (Rts, Sqd) => (none, Attr::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Sqd) => (none, while_drained(qp_type)),
        (Sqe, Rts) => (none, after_send_error(qp_type)),
        _ => return None,
    })
}

fn port_and_rights(qp_type: QpType) -> Attr {
    let common = Attr::PKEY_INDEX.union(Attr::PORT);
    match qp_type {
        QpType::Ud => common.union(Attr::QKEY),
        QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => common.union(Attr::ACCESS_FLAGS),
    }
}

fn to_ready_to_receive(qp_type: QpType) -> (Attr, Attr) {
    let path = Attr::AV.union(Attr::PATH_MTU).union(Attr::DEST_QPN).union(Attr::RQ_PSN);
    let responder = Attr::MAX_DEST_RD_ATOMIC.union(Attr::MIN_RNR_TIMER);
    let optional = Attr::ALT_PATH.union(Attr::ACCESS_FLAGS).union(Attr::PKEY_INDEX);
    match qp_type {
        QpType::Ud => (Attr::NONE, Attr::PKEY_INDEX.union(Attr::QKEY)),
        QpType::Uc | QpType::XrcSend => (path, optional),
        QpType::Rc | QpType::XrcRecv => (path.union(responder), optional),
    }
}

fn to_ready_to_send(qp_type: QpType) -> (Attr, Attr) {
    let retries = Attr::TIMEOUT
        .union(Attr::RETRY_CNT)
        .union(Attr::RNR_RETRY)
        .union(Attr::SQ_PSN)
        .union(Attr::MAX_QP_RD_ATOMIC);
    let required = match qp_type {
        QpType::Ud | QpType::Uc => Attr::SQ_PSN,
        QpType::Rc | QpType::XrcSend => retries,
        QpType::XrcRecv => Attr::TIMEOUT.union(Attr::SQ_PSN),
    };
    (required, while_sending(qp_type))
}

fn while_sending(qp_type: QpType) -> Attr {
    let connected =
        Attr::CUR_STATE.union(Attr::ALT_PATH).union(Attr::ACCESS_FLAGS).union(Attr::PATH_MIG_STATE);
    match qp_type {
        QpType::Ud => Attr::CUR_STATE.union(Attr::QKEY),
        QpType::Uc | QpType::XrcSend => connected,
        QpType::Rc | QpType::XrcRecv => connected.union(Attr::MIN_RNR_TIMER),
    }
}

fn while_drained(qp_type: QpType) -> Attr {
    let connected = Attr::AV
        .union(Attr::ALT_PATH)
        .union(Attr::ACCESS_FLAGS)
        .union(Attr::PKEY_INDEX)
        .union(Attr::PATH_MIG_STATE);
    let reliable = connected.union(Attr::PORT).union(Attr::TIMEOUT);
    let requester = Attr::RETRY_CNT.union(Attr::RNR_RETRY).union(Attr::MAX_QP_RD_ATOMIC);
    let responder = Attr::MAX_DEST_RD_ATOMIC.union(Attr::MIN_RNR_TIMER);
    match qp_type {
        QpType::Ud => Attr::PKEY_INDEX.union(Attr::QKEY),
        QpType::Uc => connected,
        QpType::Rc => reliable.union(requester).union(responder),
        QpType::XrcSend => reliable.union(requester),
        QpType::XrcRecv => reliable.union(responder),
    }
}

fn after_send_error(qp_type: QpType) -> Attr {
    match qp_type {
        QpType::Ud => Attr::CUR_STATE.union(Attr::QKEY),
        QpType::Uc => Attr::CUR_STATE.union(Attr::ACCESS_FLAGS),
        // Reliable queue pairs go to ERR and never to SQE.
        QpType::Rc | QpType::XrcSend | QpType::XrcRecv => Attr::NONE,
    }
}

/// Whether receive requests may be posted (IBA §10.8.3.2: not in RESET; in ERR they are flushed).
#[must_use]
pub fn may_post_receive(state: QpState) -> bool {
    // rule: post-receive-states
    state != QpState::Reset
}

/// Whether send requests may be posted (IBA §10.8.3.1: from RTS on; in SQE and ERR they are flushed).
#[must_use]
pub fn may_post_send(state: QpState) -> bool {
    // rule: post-send-states
    matches!(state, QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err)
}

/// Whether incoming messages are processed (IBA §10.3.1: RTR, RTS, SQD, SQE).
#[must_use]
pub fn receives(state: QpState) -> bool {
    // rule: qp-receives-in
    matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};

    #[test]
    // rule: qp-changes
    fn legal_changes_are_these_for_every_type() {
        let legal = [
            (Reset, vec![Reset, Init]),
            (Init, vec![Reset, Init, Rtr, Err]),
            (Rtr, vec![Reset, Rts, Err]),
            (Rts, vec![Reset, Rts, Sqd, Err]),
            (Sqd, vec![Reset, Rts, Sqd, Err]),
            (Sqe, vec![Reset, Rts, Err]),
            (Err, vec![Reset, Err]),
        ];
        for &qp_type in QpType::ALL {
            for (from, to) in &legal {
                let found: Vec<_> = QpState::ALL
                    .iter()
                    .copied()
                    .filter(|next| attributes(qp_type, *from, *next).is_some())
                    .collect();
                assert_eq!(&found, to, "{qp_type:?} from {from:?}");
            }
        }
    }

    #[test]
    // rule: qp-required, qp-unasked, qp-current-state, flush-all
    fn attributes_are_demanded_and_refused() {
        let init = Attr::STATE.union(Attr::PKEY_INDEX).union(Attr::PORT);
        assert_eq!(modify(QpType::Rc, Reset, Init, init), Result::Err(Refused::Missing(Attr::ACCESS_FLAGS)));
        assert_eq!(modify(QpType::Rc, Reset, Init, init.union(Attr::ACCESS_FLAGS)), Ok(Effect::None));
        assert_eq!(
            modify(QpType::Ud, Reset, Init, init.union(Attr::QKEY).union(Attr::ACCESS_FLAGS)),
            Result::Err(Refused::NotAllowed(Attr::ACCESS_FLAGS))
        );
        assert_eq!(
            modify(QpType::Ud, Init, Rtr, Attr::STATE.union(Attr::CUR_STATE)),
            Result::Err(Refused::CurState)
        );
        assert_eq!(modify(QpType::Uc, Sqe, Rts, Attr::STATE.union(Attr::CUR_STATE)), Ok(Effect::Send));
        assert_eq!(modify(QpType::Rc, Rts, Err, Attr::STATE), Ok(Effect::Flush));
        assert_eq!(
            modify(QpType::Rc, Rts, Err, Attr::STATE.union(Attr::QKEY)),
            Result::Err(Refused::NotAllowed(Attr::QKEY))
        );
    }

    /// The masks of every legal change, folded to one line each, as the kernel's table has them.
    #[test]
    // rule: qp-required
    fn masks_by_number() {
        let rows = [
            (QpType::Rc, Init, Rtr, 0x12_9180, 0x4018),
            (QpType::Uc, Init, Rtr, 0x10_1180, 0x4018),
            (QpType::XrcSend, Init, Rtr, 0x10_1180, 0x4018),
            (QpType::XrcRecv, Init, Rtr, 0x12_9180, 0x4018),
            (QpType::Ud, Init, Rtr, 0, 0x50),
            (QpType::Rc, Rtr, Rts, 0x1_2e00, 0x4_c00a),
            (QpType::XrcRecv, Rtr, Rts, 0x1_0200, 0x4_c00a),
            (QpType::XrcSend, Rtr, Rts, 0x1_2e00, 0x4_400a),
            (QpType::Ud, Rtr, Rts, 0x1_0000, 0x42),
            (QpType::Rc, Sqd, Sqd, 0, 0x6_eeb8),
            (QpType::Uc, Sqd, Sqd, 0, 0x4_4098),
        ];
        for (qp_type, from, to, required, optional) in rows {
            let found = attributes(qp_type, from, to).unwrap();
            assert_eq!((found.0.0, found.1.0), (required, optional), "{qp_type:?} {from:?} {to:?}");
        }
    }
}
