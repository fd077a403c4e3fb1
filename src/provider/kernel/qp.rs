//! Queue pairs.

use core::ffi::c_int;

use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::provider::{context, public_fields, wait};
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::qp::CreateQp;
use crate::uverbs::{self, Udata};

/// Names the objects that a queue pair of this type is made of; pointers that do not count for the type are not
/// followed.
///
/// # Safety
/// The objects that count are live or null.
pub unsafe fn request(
    qp_type: u32,
    pd: Option<u32>,
    send_cq: *const ibv_cq,
    recv_cq: *const ibv_cq,
    srq: *const ibv_srq,
    sq_sig_all: c_int,
) -> CreateQp {
    const XRC_SEND: u32 = IBV_QPT_XRC_SEND as u32;
    let sends = [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER]
        .iter()
        .any(|&known| known as u32 == qp_type);
    let mut request = CreateQp { qp_type, pd, sq_sig_all: sq_sig_all != 0, ..CreateQp::default() };
    if sends {
        // SAFETY: by the contract.
        unsafe {
            request.send_cq = send_cq.as_ref().map(|cq| cq.handle);
            request.srq = srq.as_ref().map(|srq| srq.handle);
            if qp_type != XRC_SEND {
                request.recv_cq = recv_cq.as_ref().map(|cq| cq.handle);
            }
        }
    }
    request
}

/// Tells the driver to look at the send queue; the error that the system call left in `errno`. `imported` says
/// that another process may have opened the device file.
///
/// # Safety
/// `qp` is a live queue pair of a context that the library made.
#[inline(always)]
pub unsafe fn ring_doorbell(qp: *mut ibv_qp, imported: bool) -> Result<()> {
    // SAFETY: a live queue pair names its open context; neither number changes while they live.
    let (context, handle) = unsafe { ((*qp).context, (*qp).handle) };
    if imported {
        // SAFETY: an open context.
        let provider = unsafe { context::provider(context) }?;
        return uverbs::qp::post_send_doorbell_imported(provider.kernel()?, handle);
    }
    // SAFETY: an open context.
    uverbs::qp::post_send_doorbell(unsafe { (*context).cmd_fd }, handle)
}

/// Moves the queue pair through its states and sets attributes.
pub fn modify(file: &DeviceFile, qp: Handle<ibv_qp>, attr: &ibv_qp_attr, attr_mask: c_int) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*qp.as_ptr()).handle };
    uverbs::qp::modify(file, handle, attr, attr_mask, Udata::none())
}

/// Attributes, and what the queue pair was made with.
pub fn query(
    file: &DeviceFile,
    qp: Handle<ibv_qp>,
    attr: &mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: &mut ibv_qp_init_attr,
) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*qp.as_ptr()).handle };
    let queried = uverbs::qp::query(file, handle, attr, attr_mask, Udata::none())?;
    public_fields::answer_qp_parts(qp, init_attr);
    init_attr.cap = queried.cap;
    init_attr.sq_sig_all = queried.sq_sig_all;
    Ok(())
}

/// Destroys a queue pair, then waits until the program has acknowledged every event that it got of it.
///
/// # Safety
/// The handle was published as an `O`.
pub unsafe fn destroy<O: Object<Public = ibv_qp>>(file: &DeviceFile, qp: Handle<ibv_qp>) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*qp.as_ptr()).handle };
    if let Destroyed::Reported(report) = uverbs::qp::destroy(file, handle)? {
        wait::for_qp_events(qp, report.events_reported);
    }
    // SAFETY: the program gives up the handle; its type by the contract.
    drop(unsafe { qp.reclaim::<O>() });
    Ok(())
}
