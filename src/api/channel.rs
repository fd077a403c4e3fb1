//! Completion channels and the completion events they carry (`man ibv_create_comp_channel`, `man
//! ibv_get_cq_event`).

use core::ffi::{c_int, c_uint, c_void};

use super::entry;
use crate::abi::verbs::{ibv_comp_channel, ibv_context, ibv_cq};
use crate::errno::{Errno, Result};
use crate::observe::call;
use crate::provider::context;
use crate::provider::object::Handle;

/// Counts a CQ that the channel serves: the channel cannot be destroyed before the CQ.
pub(super) fn hold(channel: Handle<ibv_comp_channel>) {
    change_references(channel, 1);
}

/// Ends what [`hold`] began.
pub(super) fn release(channel: Handle<ibv_comp_channel>) {
    change_references(channel, -1);
}

fn change_references(channel: Handle<ibv_comp_channel>, by: c_int) {
    let channel = channel.as_ptr();
    // SAFETY: a live channel names its open context, whose mutex guards the count.
    unsafe {
        if let Ok(context) = Handle::from_c((*channel).context) {
            context::with_mutex(context, || (*channel).refcnt += by);
        }
    }
}

/// A new completion channel; its `fd` becomes readable with each event. NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or an open context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    entry::pointer(call!("ibv_create_comp_channel", context), || {
        // SAFETY: the caller passes an open context.
        let provider = unsafe { context::provider(context) }?;
        let channel = provider.create_comp_channel()?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe {
            (*channel.as_ptr()).context = context;
            (*channel.as_ptr()).refcnt = 0;
        }
        Ok(channel)
    })
}

/// Closes the channel; 0 or an errno value, EBUSY while a CQ uses it.
///
/// # Safety
/// `channel` is null or a live channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    entry::value(call!("ibv_destroy_comp_channel", channel), || {
        // SAFETY: the caller passes a live channel, which names its open context.
        let (channel, context) = unsafe {
            let channel = Handle::from_c(channel)?;
            (channel, Handle::from_c((*channel.as_ptr()).context)?)
        };
        context::with_mutex(context, || -> Result<()> {
            // SAFETY: alive, and the count is read under the mutex that guards it.
            if unsafe { (*channel.as_ptr()).refcnt } != 0 {
                return Err(Errno::EBUSY);
            }
            context::private(context).context().destroy_comp_channel(channel)
        })
    })
}

/// Waits for the next completion event of the channel and says which CQ it is for; 0, or -1 with `errno`
/// (EAGAIN on a non-blocking channel without events). Each event must be acknowledged before its CQ can be
/// destroyed. A cancellation point.
///
/// # Safety
/// `channel` is null or a live channel; `cq` and `cq_context` are null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_cq_event@@IBVERBS_1.1"))]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let source = || {
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller passes a live channel, which names its open context.
        let (channel, provider) = unsafe { context::of(channel) }?;
        Ok(provider.cq_event_source(channel))
    };
    let take = |record: &[u8], _: bool| {
        // SAFETY: as above.
        let (channel, provider) = unsafe { context::of(channel) }?;
        let Some(found) = provider.next_cq_event(channel, record)? else { return Ok(false) };
        // SAFETY: the caller passes places to write, which are not null; the queue of an event that is not
        // acknowledged yet is alive, and names its open context.
        unsafe {
            *cq = found.as_ptr();
            *cq_context = (*found.as_ptr()).cq_context;
            context::provider((*found.as_ptr()).context)?.cq_event(found);
        }
        Ok(true)
    };
    entry::next_event(call!("ibv_get_cq_event", channel, out cq, out cq_context), source, take)
}

/// Acknowledges `nevents` completion events of a CQ.
///
/// # Safety
/// `cq` is null or a live CQ.
#[cfg_attr(not(test), unsafe(export_name = "ibv_ack_cq_events@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    entry::nothing(call!("ibv_ack_cq_events", cq, nevents), || {
        // SAFETY: the caller passes a live CQ; the counter is guarded by its mutex, which this thread unlocks
        // again.
        unsafe {
            let cq = Handle::from_c(cq)?.as_ptr();
            libc::pthread_mutex_lock(&raw mut (*cq).mutex);
            (*cq).comp_events_completed = (*cq).comp_events_completed.wrapping_add(nevents);
            libc::pthread_cond_signal(&raw mut (*cq).cond);
            libc::pthread_mutex_unlock(&raw mut (*cq).mutex);
        }
        Ok(())
    });
}
