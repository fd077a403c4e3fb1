//! Asynchronous events of a context.

use std::os::fd::{BorrowedFd, OwnedFd};

use softrdma::core::verbs::Event;
use softrdma::device::EventQueue;

use super::convert::interrupted;
use super::cq::Cq;
use super::qp::Qp;
use super::srq::Srq;
use crate::abi::verbs::{ibv_cq, ibv_event_type_t, ibv_qp, ibv_srq};
use crate::errno::{Errno, Result};
use crate::provider::AsyncEvent;
use crate::provider::object::Handle;

/// A descriptor of the program's for the events: the queue's own stays with the queue.
pub fn open(events: &EventQueue) -> Result<OwnedFd> {
    // SAFETY: the queue lives, and its descriptor with it.
    let fd = unsafe { BorrowedFd::borrow_raw(events.fd()) };
    fd.try_clone_to_owned().map_err(|_| Errno::last())
}

/// Takes the event that a byte of the file was read for; None if there is none any more.
pub fn next(events: &EventQueue) -> Result<Option<AsyncEvent>> {
    let found = events.rung(count).map_err(interrupted)?;
    Ok(found
        .map(|(event, cookie)| AsyncEvent { event_type: event as ibv_event_type_t, element: cookie as u64 }))
}

/// Counts an event that the program gets now; its object waits for as many acknowledgements when it is
/// destroyed.
fn count(event: Event, cookie: usize) {
    use Event::*;
    // SAFETY: the cookie is the address that the object was made with, and an object with events that nobody
    // took is alive: it drops them when it is destroyed.
    unsafe {
        match event {
            CqErr => {
                if let Ok(cq) = Handle::from_c(cookie as *mut ibv_cq) {
                    cq.object::<Cq>().events.count_asynchronous();
                }
            }
            SrqErr | SrqLimitReached => {
                if let Ok(srq) = Handle::from_c(cookie as *mut ibv_srq) {
                    srq.object::<Srq>().events.count_asynchronous();
                }
            }
            QpFatal | QpReqErr | QpAccessErr | CommEst | SqDrained | QpLastWqeReached => {
                if let Ok(qp) = Handle::from_c(cookie as *mut ibv_qp) {
                    qp.object::<Qp>().events.count_asynchronous();
                }
            }
        }
    }
}
