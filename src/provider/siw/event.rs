//! Asynchronous events: what the trace says of those that are errors.

use core::fmt;

use super::SiwContext;
use super::cq::Cq;
use crate::abi::verbs::*;
use crate::log::{self, Level, trace};
use crate::provider::object::Object;
use crate::provider::verbs::Events;

/// An error that the driver reports.
struct Failure {
    object: &'static str,
    /// The driver's number of it.
    number: u32,
    what: &'static str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.object, self.number, self.what)
    }
}

/// The error that an event means; none for the others.
///
/// # Safety
/// The event has not been acknowledged: the object that it names is live, and of this provider.
unsafe fn failure(event: &ibv_async_event) -> Option<Failure> {
    let is = |kind: ibv_event_type| event.event_type == kind as ibv_event_type_t;
    if is(IBV_EVENT_CQ_ERR) {
        // SAFETY: by the contract; an event of this type names a completion queue.
        let number = unsafe { Cq::from_c(event.element.cq)? }.id();
        return Some(Failure { object: "completion queue", number, what: "error" });
    }
    let what = if is(IBV_EVENT_QP_FATAL) {
        "fatal error"
    } else if is(IBV_EVENT_QP_REQ_ERR) {
        "request error"
    } else if is(IBV_EVENT_QP_ACCESS_ERR) {
        "access error"
    } else {
        return None;
    };
    // SAFETY: by the contract; events of these types name a queue pair.
    let number = unsafe { event.element.qp.as_ref() }?.qp_num;
    Some(Failure { object: "queue pair", number, what })
}

impl Events for SiwContext {
    fn async_event(&self, event: &mut ibv_async_event) {
        if log::enabled(Level::Error) {
            // SAFETY: just read from the kernel for this context, and not acknowledged yet.
            if let Some(failure) = unsafe { failure(event) } {
                trace!(Error, "siw: asynchronous event: {failure}");
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::cq::tests::queue;
    use super::super::memory::Memory;
    use super::*;

    fn said(event_type: ibv_event_type, element: ibv_async_event_element) -> Option<String> {
        let event = ibv_async_event { element, event_type: event_type as ibv_event_type_t };
        // SAFETY: the callers pass live objects of the type.
        unsafe { failure(&event) }.map(|failure| failure.to_string())
    }

    #[test]
    fn errors_name_their_object_by_the_drivers_number() {
        let memory = Memory::new(4 * 32 + 8);
        let cq = queue(&memory, 4).as_ptr();
        // SAFETY: plain C data.
        let mut qp: ibv_qp = unsafe { core::mem::zeroed() };
        qp.qp_num = 0x17;
        let qp = &raw mut qp;
        let of_qp = |kind| said(kind, ibv_async_event_element { qp });
        let of_cq = |kind| said(kind, ibv_async_event_element { cq });
        assert_eq!(of_cq(IBV_EVENT_CQ_ERR).unwrap(), "completion queue 5: error");
        assert_eq!(of_qp(IBV_EVENT_QP_FATAL).unwrap(), "queue pair 23: fatal error");
        assert_eq!(of_qp(IBV_EVENT_QP_REQ_ERR).unwrap(), "queue pair 23: request error");
        assert_eq!(of_qp(IBV_EVENT_QP_ACCESS_ERR).unwrap(), "queue pair 23: access error");
        assert!(of_qp(IBV_EVENT_COMM_EST).is_none() && of_qp(IBV_EVENT_SQ_DRAINED).is_none());
        assert!(said(IBV_EVENT_PORT_ACTIVE, ibv_async_event_element { port_num: 1 }).is_none());
    }
}
