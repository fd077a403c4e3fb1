//! Asynchronous events of a device.

use super::completion::ibv_cq;
use super::queue::{ibv_qp, ibv_srq, ibv_wq};
use super::scalars::ibv_event_type_t;
use libc::c_int;

/// What happened.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_event_type {
    /// A completion queue overran or failed.
    IBV_EVENT_CQ_ERR = 0,
    /// A queue pair failed.
    IBV_EVENT_QP_FATAL = 1,
    /// A queue pair received an invalid request.
    IBV_EVENT_QP_REQ_ERR = 2,
    /// A queue pair received a request without the access right.
    IBV_EVENT_QP_ACCESS_ERR = 3,
    /// The first packet arrived before the connection reached RTS.
    IBV_EVENT_COMM_EST = 4,
    /// A send queue in SQD finished its outstanding requests.
    IBV_EVENT_SQ_DRAINED = 5,
    /// The connection moved to its alternate path.
    IBV_EVENT_PATH_MIG = 6,
    /// Moving to the alternate path failed.
    IBV_EVENT_PATH_MIG_ERR = 7,
    /// The device failed or was removed.
    IBV_EVENT_DEVICE_FATAL = 8,
    /// A port became active.
    IBV_EVENT_PORT_ACTIVE = 9,
    /// A port lost its link.
    IBV_EVENT_PORT_ERR = 10,
    /// A port got another local identifier.
    IBV_EVENT_LID_CHANGE = 11,
    /// A port's partition table changed.
    IBV_EVENT_PKEY_CHANGE = 12,
    /// Another subnet manager took over.
    IBV_EVENT_SM_CHANGE = 13,
    /// A shared receive queue failed.
    IBV_EVENT_SRQ_ERR = 14,
    /// A shared receive queue fell below its limit.
    IBV_EVENT_SRQ_LIMIT_REACHED = 15,
    /// A queue pair in error took its last request from the shared receive queue.
    IBV_EVENT_QP_LAST_WQE_REACHED = 16,
    /// The subnet manager asks clients to register again.
    IBV_EVENT_CLIENT_REREGISTER = 17,
    /// A port's GID table changed.
    IBV_EVENT_GID_CHANGE = 18,
    /// A work queue failed.
    IBV_EVENT_WQ_FATAL = 19,
    /// The speed of the device's link has changed.
    IBV_EVENT_DEVICE_SPEED_CHANGE = 20,
}
pub use ibv_event_type::*;

/// Object of an event; `event_type` says which member holds.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_async_event_element {
    /// Completion queue.
    pub cq: *mut ibv_cq,
    /// Queue pair.
    pub qp: *mut ibv_qp,
    /// Shared receive queue.
    pub srq: *mut ibv_srq,
    /// Work queue.
    pub wq: *mut ibv_wq,
    /// Port, counted from 1.
    pub port_num: c_int,
}

/// An asynchronous event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_async_event {
    /// Its object.
    pub element: ibv_async_event_element,
    /// What happened.
    pub event_type: ibv_event_type_t,
}
