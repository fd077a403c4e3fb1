//! Memory windows.

use core::cell::UnsafeCell;
use core::ffi::c_uint;

use ironverbs_os::growth::small_box;
use softrdma::device::WindowType;

use super::convert::refused;
use super::{SoftContext, send};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::bind;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Mws;

#[repr(C)]
struct Mw {
    public: UnsafeCell<ibv_mw>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Mw {
    type Public = ibv_mw;
}

impl Mws for SoftContext {
    /// Allocates a window of type 1 or 2.
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        const ONE: u32 = IBV_MW_TYPE_1 as u32;
        const TWO: u32 = IBV_MW_TYPE_2 as u32;
        let kind = match mw_type {
            ONE => WindowType::One,
            TWO => WindowType::Two,
            _ => return Err(Errno::EINVAL.also_set()),
        };
        // SAFETY: a live handle.
        let (context, number) = unsafe { ((*pd.as_ptr()).context, (*pd.as_ptr()).handle) };
        let rkey = self.engine.alloc_window(number, kind).map_err(refused)?;
        let public = ibv_mw { context, pd: pd.as_ptr(), rkey, handle: rkey >> 8, type_: mw_type };
        Ok(Handle::publish(small_box(Mw { public: UnsafeCell::new(public) })))
    }

    /// Frees a window.
    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        // SAFETY: a live handle.
        self.engine.free_window(unsafe { (*mw.as_ptr()).rkey }).map_err(refused)?;
        // SAFETY: the program gives up the handle, which was published as an Mw.
        drop(unsafe { mw.reclaim::<Mw>() });
        Ok(())
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, asked: &ibv_mw_bind) -> Result<()> {
        // SAFETY: the provider's own.
        unsafe { bind::post(send::post_send, qp, mw, asked) }
    }
}
