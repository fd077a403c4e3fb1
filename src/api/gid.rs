//! GID tables (`man ibv_query_gid`, `man ibv_query_gid_ex`, `man ibv_query_gid_table`).

use core::ffi::{c_int, c_uint};
use libc::ssize_t;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::observe::call;
use crate::observe::shown::Address;
use crate::provider::context::{self, Private};
use crate::provider::object::Handle;
use crate::uverbs::gid::{self, Want};

/// The types of `enum ibv_gid_type_sysfs`, which old programs know: InfiniBand and RoCE v1 are one.
pub(super) const SYSFS_IB_ROCE_V1: c_uint = 0;
/// RoCE v2.
pub(super) const SYSFS_ROCE_V2: c_uint = 1;

/// # Safety
/// `context` is null or open.
unsafe fn private<'a>(context: *mut ibv_context) -> Result<&'a Private> {
    // SAFETY: by the contract.
    Ok(context::private(unsafe { Handle::from_c(context) }?))
}

/// What is wanted of the entry at `index`; ENODATA for an empty place.
fn entry_of(private: &Private, port_num: u8, index: u32, want: Want) -> Result<ibv_gid_entry> {
    let (context, info) = (private.context(), private.device().info()?);
    gid::whole_entry(|entry| context.query_gid_entry(info, u32::from(port_num), index, entry, 0, want))
}

/// The GID at `index`, all zeros for an empty place.
///
/// # Safety
/// `context` is null or open.
pub(super) unsafe fn query(context: *mut ibv_context, port_num: u8, index: u32) -> Result<ibv_gid> {
    // SAFETY: handed on to the caller.
    let private = unsafe { private(context) }?;
    match entry_of(private, port_num, index, Want::GID) {
        Ok(entry) => Ok(entry.gid),
        Err(Errno::ENODATA) => Ok(ibv_gid { raw: [0; 16] }),
        // What the failed system call left says more than the value, which sysfs makes EINVAL.
        Err(_) => Err(Errno::last()),
    }
}

/// The type of the GID at `index`, one of [`SYSFS_IB_ROCE_V1`] (also of an empty place) and [`SYSFS_ROCE_V2`].
///
/// # Safety
/// `context` is null or open.
unsafe fn query_type(context: *mut ibv_context, port_num: u8, index: u32) -> Result<c_uint> {
    // SAFETY: handed on to the caller.
    let private = unsafe { private(context) }?;
    match entry_of(private, port_num, index, Want::TYPE) {
        Ok(entry) if entry.gid_type == IBV_GID_TYPE_ROCE_V2 as u32 => Ok(SYSFS_ROCE_V2),
        Ok(_) | Err(Errno::ENODATA) => Ok(SYSFS_IB_ROCE_V1),
        Err(_) => Err(Errno::last()),
    }
}

/// The place of a GID of one type in the port's table; the error of the first place that cannot be read if it
/// is in none.
///
/// # Safety
/// `context` is null or open.
pub(super) unsafe fn find_index(
    context: *mut ibv_context,
    port_num: u8,
    wanted: &[u8; 16],
    gid_type: c_uint,
) -> Result<u32> {
    let mut index = 0;
    loop {
        // SAFETY: handed on to the caller; every view of the GID union is 16 plain bytes.
        let (gid, found_type) =
            unsafe { (query(context, port_num, index)?.raw, query_type(context, port_num, index)?) };
        if gid == *wanted && found_type == gid_type {
            return Ok(index);
        }
        index += 1;
    }
}

/// The GID at `index` of a port's table, all zeros for an empty place; 0, or -1 with `errno`.
///
/// # Safety
/// `context` is null or open; `gid` is null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_gid@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    entry::minus_one(call!("ibv_query_gid", context, port_num, index, out gid), || {
        // SAFETY: the caller passes an open context and a place to write.
        let gid = unsafe { gid.as_mut() }.ok_or(Errno::EINVAL)?;
        // SAFETY: as above.
        *gid = unsafe { query(context, port_num, index as u32) }?;
        Ok(())
    })
}

/// The type of the GID at `index`, as `enum ibv_gid_type_sysfs`; 0, or -1 with `errno`. Private: ibv_devinfo
/// and pyverbs call it.
///
/// # Safety
/// `context` is null or open; `gid_type` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: c_uint,
    gid_type: *mut c_uint,
) -> c_int {
    entry::minus_one(call!("ibv_query_gid_type", context, port_num, index, out gid_type), || {
        // SAFETY: the caller passes an open context and a place to write.
        let gid_type = unsafe { gid_type.as_mut() }.ok_or(Errno::EINVAL)?;
        // SAFETY: as above.
        *gid_type = unsafe { query_type(context, port_num, index) }?;
        Ok(())
    })
}

/// What `ibv_query_gid_ex` of `verbs.h` calls: one entry of a port's table, of which the program knows the
/// first `entry_size` bytes; 0 or an errno value, ENODATA for an empty place.
///
/// # Safety
/// `context` is null or open; `entry` is null or can be written for `entry_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    entry::value(
        call!("ibv_query_gid_ex", context, port_num, gid_index, out entry, flags, entry_size),
        || {
            // SAFETY: handed on to the caller.
            let private = unsafe { private(context) }?;
            // SAFETY: by the contract.
            let entry = unsafe { bytes(entry, entry_size) }?;
            let info = private.device().info()?;
            private.context().query_gid_entry(info, port_num, gid_index, entry, flags, Want::ALL)
        },
    )
}

/// What `ibv_query_gid_table` of `verbs.h` calls: the entries of all ports that are not empty; their number, or
/// a negative errno value.
///
/// # Safety
/// `context` is null or open; `entries` is null or can be written for `max_entries` times `entry_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> ssize_t {
    entry::number(
        call!("ibv_query_gid_table", context, entries = Address(entries), max_entries, flags, entry_size),
        || {
            // SAFETY: handed on to the caller.
            let private = unsafe { private(context) }?;
            let size = max_entries.checked_mul(entry_size).ok_or_else(|| Errno::EINVAL.also_set())?;
            // SAFETY: by the contract.
            let entries = unsafe { bytes(entries, size) }?;
            let info = private.device().info()?;
            let count = private.context().query_gid_table(info, entries, entry_size, flags)?;
            Ok(count as ssize_t)
        },
        |errno| -(errno.0 as ssize_t),
    )
}

/// A place of the program's to write, as bytes.
///
/// # Safety
/// `start` is null or can be written for `size` bytes.
unsafe fn bytes<'a>(start: *mut ibv_gid_entry, size: usize) -> Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    if size > isize::MAX as usize {
        return Err(Errno::EINVAL.also_set());
    }
    if start.is_null() {
        // What the kernel says when it cannot write the answer.
        return Err(Errno::EFAULT.also_set());
    }
    // SAFETY: by the contract; the program's memory is initialised as far as Rust can know, and u8 has no
    // alignment.
    Ok(unsafe { core::slice::from_raw_parts_mut(start.cast(), size) })
}
