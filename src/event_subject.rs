//! Which member of `ibv_async_event.element` an event names (`man ibv_get_async_event`).

use crate::abi::verbs::*;

/// What an event is about.
pub enum Subject {
    Cq,
    Qp,
    Srq,
    Wq,
    /// A port or the whole device.
    Port,
}

/// Which kind of object an event of this type names.
pub fn subject(event_type: ibv_event_type_t) -> Subject {
    const CQ: [ibv_event_type; 1] = [IBV_EVENT_CQ_ERR];
    const SRQ: [ibv_event_type; 2] = [IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED];
    const WQ: [ibv_event_type; 1] = [IBV_EVENT_WQ_FATAL];
    const QP: [ibv_event_type; 8] = [
        IBV_EVENT_QP_FATAL,
        IBV_EVENT_QP_REQ_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
        IBV_EVENT_COMM_EST,
        IBV_EVENT_SQ_DRAINED,
        IBV_EVENT_PATH_MIG,
        IBV_EVENT_PATH_MIG_ERR,
        IBV_EVENT_QP_LAST_WQE_REACHED,
    ];
    let among =
        |events: &[ibv_event_type]| events.iter().any(|&event| event as ibv_event_type_t == event_type);
    if among(&CQ) {
        Subject::Cq
    } else if among(&QP) {
        Subject::Qp
    } else if among(&SRQ) {
        Subject::Srq
    } else if among(&WQ) {
        Subject::Wq
    } else {
        Subject::Port
    }
}
