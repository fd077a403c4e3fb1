//! Multicast groups of UD queue pairs (`man ibv_attach_mcast`).

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::{ibv_gid, ibv_qp};
use crate::errno::Errno;
use crate::observe::call;
use crate::provider::context;

/// Joins `qp` to the group `gid` (with multicast LID `lid` on InfiniBand); 0 or an errno value.
///
/// # Safety
/// `qp` is null or a live queue pair, `gid` null or valid.
#[cfg_attr(not(test), unsafe(export_name = "ibv_attach_mcast@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    entry::value(call!("ibv_attach_mcast", qp, gid, lid), || {
        // SAFETY: the caller passes a live queue pair and a valid GID.
        let ((qp, provider), gid) = unsafe { (context::of(qp)?, gid.as_ref().ok_or(Errno::EINVAL)?) };
        provider.attach_mcast(qp, gid, lid)
    })
}

/// Takes `qp` out of the group; 0 or an errno value, EINVAL where it is no member.
///
/// # Safety
/// As for [`ibv_attach_mcast`].
#[cfg_attr(not(test), unsafe(export_name = "ibv_detach_mcast@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    entry::value(call!("ibv_detach_mcast", qp, gid, lid), || {
        // SAFETY: the caller passes a live queue pair and a valid GID.
        let ((qp, provider), gid) = unsafe { (context::of(qp)?, gid.as_ref().ok_or(Errno::EINVAL)?) };
        provider.detach_mcast(qp, gid, lid)
    })
}
