//! Asynchronous events and completion events.

use core::ffi::{c_int, c_uint, c_void};

use super::super::{channel, entry, event};
use super::layout::*;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::event_subject::{Subject, subject};
use crate::observe::UNNAMED;

/// The object in the event is the program's struct of 1.0, which today's object carries as its context.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_async_event@IBVERBS_1.0"))]
unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context_1_0,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the caller passes an open context or null. Nothing stands above the call that stops unwinding.
    let Some(context) = (unsafe { context.as_ref() }) else { return Errno::EINVAL.0 };
    // SAFETY: the caller passes a place to write.
    let answer = unsafe { event::ibv_get_async_event(context.real_context, event) };
    if answer == 0 {
        // SAFETY: just written; the type says which pointer it holds, and the object lives until it is
        // acknowledged.
        unsafe {
            let element = &mut (*event).element;
            match subject((*event).event_type) {
                Subject::Cq => element.cq = (*element.cq).cq_context.cast(),
                Subject::Qp => element.qp = (*element.qp).qp_context.cast(),
                Subject::Srq => element.srq = (*element.srq).srq_context.cast(),
                Subject::Wq | Subject::Port => {}
            }
        }
    }
    answer
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_ack_async_event@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    entry::nothing(UNNAMED, || {
        // SAFETY: the caller passes an event as it got it: the type says which struct of 1.0 it holds, which
        // lives until the event is acknowledged.
        unsafe {
            let mut real = *event.as_ref().ok_or(Errno::EINVAL)?;
            match subject(real.event_type) {
                Subject::Cq => real.element.cq = (*real.element.cq.cast::<ibv_cq_1_0>()).real_cq,
                Subject::Qp => real.element.qp = (*real.element.qp.cast::<ibv_qp_1_0>()).real_qp,
                Subject::Srq => real.element.srq = (*real.element.srq.cast::<ibv_srq_1_0>()).real_srq,
                Subject::Wq | Subject::Port => {}
            }
            event::ibv_ack_async_event(&raw mut real);
        }
        Ok(())
    });
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_get_cq_event@IBVERBS_1.0"))]
unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq_1_0,
    cq_context: *mut *mut c_void,
) -> c_int {
    let mut real_cq = core::ptr::null_mut();
    let mut found = core::ptr::null_mut();
    // SAFETY: the caller passes a live channel; today's queue carries the struct of 1.0 as its context.
    unsafe {
        let answer = channel::ibv_get_cq_event(channel, &raw mut real_cq, &raw mut found);
        if answer == 0 {
            let found = found.cast::<ibv_cq_1_0>();
            *cq = found;
            *cq_context = (*found).cq_context;
        }
        answer
    }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_ack_cq_events@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq_1_0, nevents: c_uint) {
    entry::nothing(UNNAMED, || {
        // SAFETY: the caller passes a live queue.
        unsafe { channel::ibv_ack_cq_events(cq.as_ref().ok_or(Errno::EINVAL)?.real_cq, nevents) };
        Ok(())
    });
}
