//! Asynchronous events of devices, ports, queue pairs, CQs and shared receive queues (`man
//! ibv_get_async_event`).

use core::ffi::c_int;
use libc::{pthread_cond_t, pthread_mutex_t};

use super::entry;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::event_subject::{Subject, subject};
use crate::observe::call;
use crate::provider::context;
use crate::provider::object::Handle;

/// Waits for the next event of the device; 0, or -1 with `errno` (EAGAIN on a non-blocking `async_fd` without
/// events). Each event must be acknowledged before its object can be destroyed. A cancellation point.
///
/// # Safety
/// `context` is null or open, `event` null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_async_event@@IBVERBS_1.1"))]
pub unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the caller passes an open context or null.
    let opened = || unsafe { Handle::from_c(context) };
    let source = || {
        if event.is_null() {
            return Err(Errno::EINVAL);
        }
        let context = opened()?;
        // SAFETY: an open context.
        let async_fd = unsafe { (*context.as_ptr()).async_fd };
        Ok(context::private(context).context().async_event_source(async_fd))
    };
    let take = |record: &[u8], at_once: bool| {
        let provider = context::private(opened()?).context();
        let Some(next) = provider.next_async_event(record, at_once)? else { return Ok(false) };
        // SAFETY: the caller passes a place to write, which is not null.
        let event = unsafe { &mut *event };
        event.event_type = next.event_type;
        let address = next.element as usize;
        match subject(event.event_type) {
            Subject::Cq => event.element.cq = address as *mut ibv_cq,
            Subject::Qp => event.element.qp = address as *mut ibv_qp,
            Subject::Srq => event.element.srq = address as *mut ibv_srq,
            Subject::Wq => event.element.wq = address as *mut ibv_wq,
            Subject::Port => event.element.port_num = next.element as c_int,
        }
        provider.async_event(event);
        Ok(true)
    };
    entry::next_event(call!("ibv_get_async_event", context, out event), source, take)
}

/// Counts one acknowledged event and wakes whoever waits to destroy the object.
///
/// # Safety
/// The pointers are to the initialised mutex and condition of a live object, and to the counter that the mutex
/// guards.
unsafe fn acknowledge(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t, counter: *mut u32) {
    // SAFETY: by the contract; the mutex is unlocked by the thread that locked it.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        *counter = (*counter).wrapping_add(1);
        libc::pthread_cond_signal(cond);
        libc::pthread_mutex_unlock(mutex);
    }
}

/// Acknowledges an event that [`ibv_get_async_event`] gave.
///
/// # Safety
/// `event` is null or such an event, not acknowledged yet.
#[cfg_attr(not(test), unsafe(export_name = "ibv_ack_async_event@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    entry::nothing(call!("ibv_ack_async_event", event), || -> Result<()> {
        // SAFETY: the caller passes an event as it got it: its type says which pointer it holds, and the object
        // lives because it cannot be destroyed before this acknowledgement.
        unsafe {
            let event = event.as_ref().ok_or(Errno::EINVAL)?;
            macro_rules! acknowledge {
                ($object:expr, $counter:ident) => {{
                    let object = Handle::from_c($object)?.as_ptr();
                    acknowledge(
                        &raw mut (*object).mutex,
                        &raw mut (*object).cond,
                        &raw mut (*object).$counter,
                    );
                }};
            }
            match subject(event.event_type) {
                Subject::Cq => acknowledge!(event.element.cq, async_events_completed),
                Subject::Qp => acknowledge!(event.element.qp, events_completed),
                Subject::Srq => acknowledge!(event.element.srq, events_completed),
                Subject::Wq => acknowledge!(event.element.wq, events_completed),
                Subject::Port => {}
            }
        }
        Ok(())
    });
}
