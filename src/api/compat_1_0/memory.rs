//! Protection domains, memory regions and address handles.

use core::ffi::{c_int, c_void};

use super::super::{ah, entry, mr, pd};
use super::layout::*;
use super::{made, publish, release};
use crate::abi::verbs::*;
use crate::errno::Errno;

#[cfg_attr(not(test), unsafe(export_name = "ibv_alloc_pd@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context_1_0) -> *mut ibv_pd_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes an open context; what is made is live.
        let real_pd = unsafe {
            let context = context.as_ref().ok_or(Errno::EINVAL)?;
            made(pd::ibv_alloc_pd(context.real_context))?.as_ptr()
        };
        publish(ibv_pd_1_0 { context, handle: 0, real_pd })
    })
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_dealloc_pd@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd_1_0) -> c_int {
    // SAFETY: the caller gives up a live domain.
    unsafe { release(pd, |pd| pd::ibv_dealloc_pd(pd.real_pd)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_reg_mr@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd_1_0,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes a live domain; what is made is live.
        unsafe {
            let domain = pd.as_ref().ok_or(Errno::EINVAL)?;
            let real_mr = made(mr::ibv_reg_mr(domain.real_pd, addr, length, access))?.as_ptr();
            let (lkey, rkey) = ((*real_mr).lkey, (*real_mr).rkey);
            publish(ibv_mr_1_0 { context: domain.context, pd, handle: 0, lkey, rkey, real_mr })
        }
    })
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_dereg_mr@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr_1_0) -> c_int {
    // SAFETY: the caller gives up a live region.
    unsafe { release(mr, |mr| mr::ibv_dereg_mr(mr.real_mr)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_create_ah@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd_1_0, attr: *mut ibv_ah_attr) -> *mut ibv_ah_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes a live domain and attributes of its own; what is made is live.
        unsafe {
            let domain = pd.as_ref().ok_or(Errno::EINVAL)?;
            let real_ah = made(ah::ibv_create_ah(domain.real_pd, attr))?.as_ptr();
            publish(ibv_ah_1_0 { context: domain.context, pd, handle: 0, real_ah })
        }
    })
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_ah@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah_1_0) -> c_int {
    // SAFETY: the caller gives up a live handle.
    unsafe { release(ah, |ah| ah::ibv_destroy_ah(ah.real_ah)) }
}
