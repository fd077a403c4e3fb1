//! Memory windows.

use core::cell::UnsafeCell;

use softrdma::device::{Device, WindowType};

use super::convert::refused;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};

#[repr(C)]
struct Mw {
    public: UnsafeCell<ibv_mw>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Mw {
    type Public = ibv_mw;
}

/// Allocates a window of type 1 or 2.
pub fn alloc(engine: &Device, pd: Handle<ibv_pd>, mw_type: u32) -> Result<Handle<ibv_mw>> {
    const ONE: u32 = IBV_MW_TYPE_1 as u32;
    const TWO: u32 = IBV_MW_TYPE_2 as u32;
    let kind = match mw_type {
        ONE => WindowType::One,
        TWO => WindowType::Two,
        _ => return Err(Errno::EINVAL.also_set()),
    };
    // SAFETY: a live handle.
    let (context, number) = unsafe { ((*pd.as_ptr()).context, (*pd.as_ptr()).handle) };
    let rkey = engine.alloc_window(number, kind).map_err(refused)?;
    let public = ibv_mw { context, pd: pd.as_ptr(), rkey, handle: rkey >> 8, type_: mw_type };
    Ok(Handle::publish(Box::new(Mw { public: UnsafeCell::new(public) })))
}

/// Frees a window.
pub fn dealloc(engine: &Device, mw: Handle<ibv_mw>) -> Result<()> {
    // SAFETY: a live handle.
    engine.free_window(unsafe { (*mw.as_ptr()).rkey }).map_err(refused)?;
    // SAFETY: the program gives up the handle, which was published as an Mw.
    drop(unsafe { mw.reclaim::<Mw>() });
    Ok(())
}
