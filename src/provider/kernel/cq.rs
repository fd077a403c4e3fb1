//! Completion queues.

use crate::abi::verbs::ibv_cq;
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::provider::wait;
use crate::uverbs;
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::device_file::DeviceFile;

/// Destroys a queue, then waits until the program has acknowledged every event that it got of it; EBUSY while a
/// queue pair uses it.
///
/// # Safety
/// The handle was published as an `O`.
pub unsafe fn destroy<O: Object<Public = ibv_cq>>(file: &DeviceFile, cq: Handle<ibv_cq>) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*cq.as_ptr()).handle };
    if let Destroyed::Reported(report) = uverbs::cq::destroy(file, handle)? {
        wait::for_cq_events(cq, report.comp_events_reported, report.async_events_reported);
    }
    // SAFETY: the program gives up the handle; its type by the contract.
    drop(unsafe { cq.reclaim::<O>() });
    Ok(())
}
