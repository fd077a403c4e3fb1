//! Shared receive queues.

use core::ffi::c_int;

use crate::abi::verbs::{ibv_srq, ibv_srq_attr};
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::provider::wait;
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::{self, Udata};

/// Arms the limit event, or asks for another size, where the driver needs to be told no more than that.
pub fn modify(file: &DeviceFile, srq: Handle<ibv_srq>, attr: &ibv_srq_attr, attr_mask: c_int) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*srq.as_ptr()).handle };
    uverbs::srq::modify(file, handle, attr, attr_mask as u32, Udata::none())
}

/// Sizes and limit.
pub fn query(file: &DeviceFile, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*srq.as_ptr()).handle };
    *attr = uverbs::srq::query(file, handle, Udata::none())?;
    Ok(())
}

/// Destroys a queue, then waits until the program has acknowledged every event that it got of it; EBUSY while a
/// queue pair uses it.
///
/// # Safety
/// The handle was published as an `O`.
pub unsafe fn destroy<O: Object<Public = ibv_srq>>(file: &DeviceFile, srq: Handle<ibv_srq>) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*srq.as_ptr()).handle };
    if let Destroyed::Reported(report) = uverbs::srq::destroy(file, handle)? {
        wait::for_srq_events(srq, report.events_reported);
    }
    // SAFETY: the program gives up the handle; its type by the contract.
    drop(unsafe { srq.reclaim::<O>() });
    Ok(())
}
