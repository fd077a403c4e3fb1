//! What providers of drivers in Linux' own style have in common: objects that are a number in the kernel and nothing more,
//! queries, and destruction that waits for events.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::ops::RangeInclusive;

use super::object::{Handle, Object};
use super::wait;
use crate::abi::driver::{mr_type, verbs_mr};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::mr::RegMr;
use crate::uverbs::qp::CreateQp;
use crate::uverbs::{self, Udata};

/// Whether the driver's interface is one of `versions`; a device whose is not is named on standard error, as rdma-core does.
pub fn speaks(name: &str, versions: &RangeInclusive<u32>, device: &DeviceInfo) -> bool {
    let known = versions.contains(&device.abi_ver);
    if !known {
        crate::log::warn(format_args!(
            "Driver {name} does not support the kernel ABI of {} (supports {} to {}) for device {}",
            device.abi_ver,
            versions.start(),
            versions.end(),
            device.ibdev_path
        ));
    }
    known
}

/// Writes the driver's version as three numbers of 16 bits, for example `1.2.3`, and zeros behind.
pub fn put_version(target: &mut [c_char; 64], version: u64) {
    let part = |shift: u32| (version >> shift) as u16;
    let text = format!("{}.{}.{}", part(32), part(16), part(0));
    // At most 17 characters.
    target.fill(0);
    for (to, from) in target.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

#[repr(C)]
struct Mr {
    public: UnsafeCell<verbs_mr>,
}

// SAFETY: repr(C), and the first field is the struct that the handle names.
unsafe impl Object for Mr {
    type Public = verbs_mr;
}

/// Registers `length` bytes at `addr`, known to peers by addresses from `iova`; `udata` is what driver and provider tell
/// each other.
pub fn register_mr(
    file: &DeviceFile,
    pd: Handle<ibv_pd>,
    addr: usize,
    length: usize,
    iova: u64,
    access: c_int,
    udata: Udata<'_>,
) -> Result<Handle<verbs_mr>> {
    // SAFETY: a live handle.
    let pd = unsafe { (*pd.as_ptr()).handle };
    let region = uverbs::mr::reg(file, &RegMr { pd, start: addr, length, iova, access }, udata)?;
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut public: verbs_mr = unsafe { core::mem::zeroed() };
    public.ibv_mr.handle = region.handle;
    public.ibv_mr.lkey = region.lkey;
    public.ibv_mr.rkey = region.rkey;
    public.mr_type = mr_type::MR;
    public.access = access as u32;
    Ok(Handle::publish(Box::new(Mr { public: UnsafeCell::new(public) })))
}

/// Ends a registration that [`register_mr`] made; EBUSY while a memory window is bound to the region.
pub fn deregister_mr(file: &DeviceFile, mr: Handle<verbs_mr>) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::mr::dereg(file, unsafe { (*mr.as_ptr()).ibv_mr.handle })?;
    // SAFETY: the program gives up the handle, which was published as an Mr.
    drop(unsafe { mr.reclaim::<Mr>() });
    Ok(())
}

/// Names the objects that a queue pair of this type is made of; pointers that do not count for the type are not followed.
///
/// # Safety
/// The objects that count are live or null.
pub unsafe fn qp_request(
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

/// Attributes of a queue pair, and what it was made with.
pub fn query_qp(
    file: &DeviceFile,
    qp: Handle<ibv_qp>,
    attr: &mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: &mut ibv_qp_init_attr,
) -> Result<()> {
    // SAFETY: a live handle.
    let public = unsafe { &*qp.as_ptr() };
    let queried = uverbs::qp::query(file, public.handle, attr, attr_mask, Udata::none())?;
    init_attr.qp_context = public.qp_context;
    init_attr.send_cq = public.send_cq;
    init_attr.recv_cq = public.recv_cq;
    init_attr.srq = public.srq;
    init_attr.qp_type = public.qp_type;
    init_attr.cap = queried.cap;
    init_attr.sq_sig_all = queried.sq_sig_all;
    Ok(())
}

/// Destroys a queue pair, then waits until the program has acknowledged every event that it got of it.
///
/// # Safety
/// The handle was published as an `O`.
pub unsafe fn destroy_qp<O: Object<Public = ibv_qp>>(file: &DeviceFile, qp: Handle<ibv_qp>) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*qp.as_ptr()).handle };
    if let Destroyed::Reported(report) = uverbs::qp::destroy(file, handle)? {
        wait::for_qp_events(qp, report.events_reported);
    }
    // SAFETY: the program gives up the handle; its type by the contract.
    drop(unsafe { qp.reclaim::<O>() });
    Ok(())
}

/// Destroys a completion queue, as [`destroy_qp`]; EBUSY while a queue pair uses it.
///
/// # Safety
/// The handle was published as an `O`.
pub unsafe fn destroy_cq<O: Object<Public = ibv_cq>>(file: &DeviceFile, cq: Handle<ibv_cq>) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*cq.as_ptr()).handle };
    if let Destroyed::Reported(report) = uverbs::cq::destroy(file, handle)? {
        wait::for_cq_events(cq, report.comp_events_reported, report.async_events_reported);
    }
    // SAFETY: the program gives up the handle; its type by the contract.
    drop(unsafe { cq.reclaim::<O>() });
    Ok(())
}

/// Destroys a shared receive queue, as [`destroy_qp`]; EBUSY while a queue pair uses it.
///
/// # Safety
/// The handle was published as an `O`.
pub unsafe fn destroy_srq<O: Object<Public = ibv_srq>>(
    file: &DeviceFile,
    srq: Handle<ibv_srq>,
) -> Result<()> {
    // SAFETY: a live handle.
    let handle = unsafe { (*srq.as_ptr()).handle };
    if let Destroyed::Reported(report) = uverbs::srq::destroy(file, handle)? {
        wait::for_srq_events(srq, report.events_reported);
    }
    // SAFETY: the program gives up the handle; its type by the contract.
    drop(unsafe { srq.reclaim::<O>() });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        let mut text = [-1 as c_char; 64];
        put_version(&mut text, 0x0001_ffff_0003);
        let bytes: Vec<u8> = text.iter().map(|c| *c as u8).collect();
        assert_eq!(bytes[..10], *b"1.65535.3\0");
        assert!(bytes[10..].iter().all(|byte| *byte == 0));
    }
}
