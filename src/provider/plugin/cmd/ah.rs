//! Address handles and multicast groups.

use core::ffi::c_int;

use super::{answer, file, heard, live, value};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::uverbs::{self, Udata};

/// Makes an address handle; fills in its kernel handle and context.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_ah(
    pd: *mut ibv_pd,
    ah: *mut ibv_ah,
    attr: *mut ibv_ah_attr,
    resp: *mut ib_uverbs_create_ah_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, attr) = (live(pd)?, live(attr)?);
        let ah = live(ah)?;
        let context = (*pd).context;
        let user_handle = ah.expose_provenance() as u64;
        let udata = Udata::answer(heard(resp, resp_size));
        let handle = uverbs::ah::create(file(context)?, (*pd).handle, user_handle, &*attr, udata)?;
        answer(resp, ib_uverbs_create_ah_resp { ah_handle: handle });
        (*ah).handle = handle;
        (*ah).context = context;
        Ok(())
    })
}

/// Frees an address handle in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let ah = live(ah)?;
        uverbs::ah::destroy(file((*ah).context)?, (*ah).handle)
    })
}

/// Joins a queue pair to a multicast group.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, gid) = (live(qp)?, live(gid.cast_mut())?);
        uverbs::mcast::attach(file((*qp).context)?, (*qp).handle, &*gid, lid)
    })
}

/// Takes a queue pair out of a multicast group.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, gid) = (live(qp)?, live(gid.cast_mut())?);
        uverbs::mcast::detach(file((*qp).context)?, (*qp).handle, &*gid, lid)
    })
}
