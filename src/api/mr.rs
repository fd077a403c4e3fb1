//! Memory regions (`man ibv_reg_mr`, `man ibv_rereg_mr`).

use core::ffi::{c_int, c_uint, c_void};

use super::{entry, fork};
use crate::abi::driver::{mr_init_mask, mr_type, verbs_mr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::observe::shown::{Address, Hex};
use crate::observe::{Call, attributes, call, names};
use crate::provider::object::Handle;
use crate::provider::{buffer, context};

/// The kernel ignores access flags of the optional range that it does not know (`IB_UVERBS_CORE_SUPPORT_*`).
const CORE_SUPPORT_OPTIONAL_MR_ACCESS: u64 = 1 << 0;
const REREG_FLAGS: c_int = IBV_REREG_MR_CHANGE_TRANSLATION as c_int
    | IBV_REREG_MR_CHANGE_PD as c_int
    | IBV_REREG_MR_CHANGE_ACCESS as c_int;

/// Registers memory for local use and, as `access` says, for remote peers.
unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Result<Handle<ibv_mr>> {
    // SAFETY: the caller passes a live protection domain, which names its context.
    let (pd, context) = unsafe {
        let pd = Handle::from_c(pd)?;
        (pd, Handle::from_c((*pd.as_ptr()).context)?)
    };
    let private = context::private(context);
    let mut access = access;
    if private.device().core_support() & CORE_SUPPORT_OPTIONAL_MR_ACCESS == 0 {
        access &= !(IBV_ACCESS_OPTIONAL_RANGE as c_uint);
    }
    // Pages on demand are never pinned, so a fork cannot move them away from under the device.
    let pinned = private.context().pins() && access & IBV_ACCESS_ON_DEMAND as c_uint == 0;
    if pinned {
        fork::dont_fork(addr as usize, length)?;
    }
    let mr =
        private.context().reg_mr(pd, addr as usize, length, iova, access as c_int).inspect_err(|errno| {
            if pinned {
                let _ = fork::do_fork(addr as usize, length);
            }
            errno.set();
        })?;
    Ok(finish(mr, pd, context, addr, length))
}

/// The public struct, which a region begins with.
pub(super) fn public(mr: Handle<verbs_mr>) -> Handle<ibv_mr> {
    // SAFETY: a live region; ibv_mr is the first field of verbs_mr.
    unsafe { Handle::from_c(mr.as_ptr().cast()) }.expect("a handle is not null")
}

/// `ibv_alloc_null_mr`: a region that reads as zeros and drops writes; NULL and `errno` on failure.
pub(super) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    entry::region(call!("ibv_alloc_null_mr", pd), || {
        // SAFETY: the caller passes a live protection domain.
        let (pd, provider) = unsafe { context::of(pd) }?;
        provider.alloc_null_mr(pd).map(public)
    })
}

/// `ibv_advise_mr`: 0 or an errno value.
pub(super) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: ibv_advise_mr_advice_t,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sges: u32,
) -> c_int {
    entry::value(call!("ibv_advise_mr", pd, advice, flags, sg_list = Address(sg_list), num_sges), || {
        // SAFETY: the caller passes a live protection domain, and a list of as many elements as it says.
        let ((pd, provider), ranges) =
            unsafe { (context::of(pd)?, entry::array(sg_list, num_sges as usize)) };
        provider.advise_mr(pd, advice, flags, ranges)
    })
}

/// Fills in what the library knows of a new region.
fn finish(
    mr: Handle<verbs_mr>,
    pd: Handle<ibv_pd>,
    context: Handle<ibv_context>,
    addr: *mut c_void,
    length: usize,
) -> Handle<ibv_mr> {
    let mr = public(mr);
    // SAFETY: the region was just made and nobody else knows it.
    unsafe {
        let mr = mr.as_ptr();
        (*mr).context = context.as_ptr();
        (*mr).pd = pd.as_ptr();
        (*mr).addr = addr;
        (*mr).length = length;
    }
    mr
}

/// What a registration asks for, with the fields alone that its mask names, and a buffer as what it stands for:
/// an address, or a part of a dma-buf. EINVAL for a range that is not in the buffer, and for what cannot stand
/// beside one.
fn resolved(pd: Handle<ibv_pd>, asked: &ibv_mr_init_attr) -> Result<ibv_mr_init_attr> {
    let has = |bit: u64| asked.comp_mask & bit != 0;
    // SAFETY: plain C data; all zeros is its empty value.
    let empty: ibv_mr_init_attr = unsafe { core::mem::zeroed() };
    let mut attr = ibv_mr_init_attr {
        length: asked.length,
        access: asked.access,
        comp_mask: asked.comp_mask,
        iova: if has(mr_init_mask::IOVA) { asked.iova } else { 0 },
        addr: if has(mr_init_mask::ADDR) { asked.addr } else { empty.addr },
        fd: if has(mr_init_mask::FD) { asked.fd } else { 0 },
        fd_offset: if has(mr_init_mask::FD_OFFSET) { asked.fd_offset } else { 0 },
        dmah: if has(mr_init_mask::DMAH) { asked.dmah } else { empty.dmah },
        ..empty
    };
    if !has(mr_init_mask::BUF) {
        return Ok(attr);
    }
    // SAFETY: the caller passes a live buffer.
    let buf = buffer::of(unsafe { Handle::from_c(asked.buf) }?);
    let offset = (asked.addr as usize).checked_sub(buf.addr as usize);
    let inside =
        offset.filter(|offset| buf.size.checked_sub(*offset).is_some_and(|rest| asked.length <= rest));
    let other = has(mr_init_mask::FD) || has(mr_init_mask::FD_OFFSET);
    let (Some(offset), true) = (inside, buf.pd == pd.as_ptr() && has(mr_init_mask::ADDR) && !other) else {
        return Err(Errno::EINVAL);
    };
    attr.comp_mask &= !mr_init_mask::BUF;
    if buf.dmabuf_fd != -1 {
        if has(mr_init_mask::IOVA) {
            return Err(Errno::EINVAL);
        }
        attr.comp_mask &= !mr_init_mask::ADDR;
        attr.comp_mask |= mr_init_mask::FD | mr_init_mask::FD_OFFSET | mr_init_mask::IOVA;
        (attr.fd, attr.fd_offset, attr.iova) = (buf.dmabuf_fd, offset as u64, asked.addr as u64);
    }
    Ok(attr)
}

/// Registers what `mr_init_attr` describes: memory of the process, a buffer, or a part of a dma-buf, perhaps
/// with hints for direct memory access. NULL and `errno` on failure, EOPNOTSUPP for an option that the device
/// lacks.
///
/// # Safety
/// `pd` is null or a live protection domain, `mr_init_attr` null or valid with live objects in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: handed on to the caller.
    unsafe { register_described(call!("ibv_reg_mr_ex", pd, mr_init_attr), pd, mr_init_attr) }
}

/// As [`ibv_reg_mr_ex`], for a verb that may have another name.
///
/// # Safety
/// As for that.
pub(super) unsafe fn register_described(
    call: Call<'_>,
    pd: *mut ibv_pd,
    mr_init_attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    entry::region(call, || {
        // SAFETY: handed on to the caller; a live protection domain names its context.
        let (pd, context, asked) = unsafe {
            let pd = Handle::from_c(pd)?;
            let asked = mr_init_attr.as_ref().ok_or(Errno::EINVAL)?;
            (pd, Handle::from_c((*pd.as_ptr()).context)?, asked)
        };
        let mut attr = resolved(pd, asked)?;
        let private = context::private(context);
        let pinned = private.context().pins()
            && attr.access & IBV_ACCESS_ON_DEMAND as c_int == 0
            && attr.comp_mask & mr_init_mask::FD == 0;
        if pinned {
            fork::dont_fork(attr.addr as usize, attr.length)?;
        }
        if private.device().core_support() & CORE_SUPPORT_OPTIONAL_MR_ACCESS == 0 {
            attr.access &= !(IBV_ACCESS_OPTIONAL_RANGE as c_int);
        }
        let mr = private.context().reg_mr_ex(pd, &mut attr).inspect_err(|errno| {
            if pinned {
                let _ = fork::do_fork(attr.addr as usize, attr.length);
            }
            errno.set();
        })?;
        let by_address = attr.comp_mask & mr_init_mask::ADDR != 0;
        let addr = if by_address { attr.addr } else { attr.fd_offset as *mut c_void };
        Ok(finish(mr, pd, context, addr, attr.length))
    })
}

/// Registers `length` bytes at `addr` with the rights `access` (IBV_ACCESS_*); NULL and `errno` on failure.
///
/// # Safety
/// `pd` is null or a live protection domain.
#[cfg_attr(not(test), unsafe(export_name = "ibv_reg_mr@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: handed on to the caller.
    entry::region(call!("ibv_reg_mr", pd, addr, length, access = attributes::access(access)), || unsafe {
        register(pd, addr, length, addr as u64, access as c_uint)
    })
}

/// As [`ibv_reg_mr`]; remote peers and work requests address the region from `iova` on.
///
/// # Safety
/// `pd` is null or a live protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: handed on to the caller.
    entry::region(
        call!("ibv_reg_mr_iova", pd, addr, length, iova = Hex(iova), access = attributes::access(access)),
        || unsafe { register(pd, addr, length, iova, access as c_uint) },
    )
}

/// As [`ibv_reg_mr_iova`]; rights of the optional range that the kernel lacks are dropped.
///
/// # Safety
/// `pd` is null or a live protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: handed on to the caller.
    entry::region(
        call!("ibv_reg_mr_iova2", pd, addr, length, iova = Hex(iova), access = attributes::access(access)),
        || unsafe { register(pd, addr, length, iova, access) },
    )
}

/// Registers `length` bytes from `offset` of the dma-buf `fd`; NULL and `errno` on failure, EOPNOTSUPP where
/// the device cannot.
///
/// # Safety
/// `pd` is null or a live protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    entry::region(
        call!(
            "ibv_reg_dmabuf_mr",
            pd,
            offset,
            length,
            iova = Hex(iova),
            fd,
            access = attributes::access(access)
        ),
        || {
            // SAFETY: the caller passes a live protection domain, which names its context.
            let (pd, context) = unsafe {
                let pd = Handle::from_c(pd)?;
                (pd, Handle::from_c((*pd.as_ptr()).context)?)
            };
            let provider = context::private(context).context();
            let mr = provider.reg_dmabuf_mr(pd, offset, length, iova, fd, access)?;
            Ok(finish(mr, pd, context, offset as *mut c_void, length))
        },
    )
}

/// Changes a region in place, as `flags` (IBV_REREG_MR_CHANGE_*) say; 0 or one of the negative
/// IBV_REREG_MR_ERR_* values, with `errno`.
///
/// # Safety
/// `mr` is null or a live region, `pd` null or a live protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let refused = |errno: Errno| {
        errno.set();
        IBV_REREG_MR_ERR_INPUT as c_int
    };
    entry::number(
        call!(
            "ibv_rereg_mr",
            mr,
            flags = attributes::bits(&names::REREG, flags),
            pd,
            addr,
            length,
            access = attributes::access(access)
        ),
        || {
            // SAFETY: the caller passes a live region, which is always a verbs_mr.
            let (mr, provider) = unsafe { context::of(mr.cast::<verbs_mr>()) }?;
            let translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION as c_int != 0;
            // SAFETY: a live region; programs do not change one while they re-register it.
            let (kind, old_addr, old_length) = unsafe {
                let mr = mr.as_ptr();
                ((*mr).mr_type, (*mr).ibv_mr.addr, (*mr).ibv_mr.length)
            };
            if kind != mr_type::MR
                || flags & !REREG_FLAGS != 0
                || (translation && (length == 0 || addr.is_null()))
                || (access != 0 && flags & IBV_REREG_MR_CHANGE_ACCESS as c_int == 0)
            {
                return Err(Errno::EINVAL);
            }
            let pinned = translation && provider.pins();
            if pinned && fork::dont_fork(addr as usize, length).is_err() {
                return Ok(IBV_REREG_MR_ERR_DONT_FORK_NEW as c_int);
            }
            // SAFETY: the caller passes null or a live protection domain.
            let new_pd = unsafe { Handle::optional(pd) };
            if let Err(errno) = provider.rereg_mr(mr, flags, new_pd, addr as usize, length, access) {
                if pinned && fork::do_fork(addr as usize, length).is_err() {
                    return Ok(IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW as c_int);
                }
                errno.set();
                return Ok(IBV_REREG_MR_ERR_CMD as c_int);
            }
            // SAFETY: as above.
            unsafe {
                let mr = &raw mut (*mr.as_ptr()).ibv_mr;
                if flags & IBV_REREG_MR_CHANGE_PD as c_int != 0 {
                    (*mr).pd = pd;
                }
                if translation {
                    (*mr).addr = addr;
                    (*mr).length = length;
                }
            }
            if pinned && fork::do_fork(old_addr as usize, old_length).is_err() {
                return Ok(IBV_REREG_MR_ERR_DO_FORK_OLD as c_int);
            }
            Ok(0)
        },
        refused,
    )
}

/// Ends a registration; 0 or an errno value, EBUSY while a memory window is bound to it.
///
/// # Safety
/// `mr` is null or a live region.
#[cfg_attr(not(test), unsafe(export_name = "ibv_dereg_mr@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    entry::value(call!("ibv_dereg_mr", mr), || {
        // SAFETY: the caller passes a live region, which is always a verbs_mr.
        let (mr, provider) = unsafe { context::of(mr.cast::<verbs_mr>()) }?;
        // SAFETY: a live region; what is needed afterwards is read before it goes.
        let (addr, length, kind, access) = unsafe {
            let mr = mr.as_ptr();
            ((*mr).ibv_mr.addr, (*mr).ibv_mr.length, (*mr).mr_type, (*mr).access)
        };
        provider.dereg_mr(mr)?;
        if provider.pins() && kind == mr_type::MR && access & IBV_ACCESS_ON_DEMAND as c_uint == 0 {
            let _ = fork::do_fork(addr as usize, length);
        }
        Ok(())
    })
}
