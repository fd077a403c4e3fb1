//! GID tables (`man ibv_query_gid`, `man ibv_query_gid_ex`, `man ibv_query_gid_table`).

use core::ffi::{c_int, c_uint};
use libc::ssize_t;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::context;
use crate::uverbs;
use crate::uverbs::gid::Want;

/// The types of `enum ibv_gid_type_sysfs`, which sysfs and old programs know: RoCE v1 and InfiniBand are one.
const SYSFS_IB_ROCE_V1: c_uint = 0;
const SYSFS_ROCE_V2: c_uint = 1;

/// One entry of a port's table; ENODATA for an empty one.
///
/// # Safety
/// `context` is null or open.
unsafe fn entry_at(
    context: *mut ibv_context,
    port_num: u32,
    index: u32,
    flags: u32,
    want: Want,
) -> Result<ibv_gid_entry> {
    // SAFETY: by the contract.
    let context = unsafe { crate::provider::object::Handle::from_c(context) }?;
    let private = context::private(context);
    let _ = want;
    uverbs::gid::query_entry(private.context().file(), private.device().info(), port_num, index, flags, want)
}
