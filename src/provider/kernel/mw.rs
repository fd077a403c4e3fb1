//! Memory windows.

use core::cell::UnsafeCell;

use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::{self, Udata};

#[repr(C)]
struct Mw {
    public: UnsafeCell<ibv_mw>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Mw {
    type Public = ibv_mw;
}

/// Allocates a window of type 1 or 2.
pub fn alloc(file: &DeviceFile, pd: Handle<ibv_pd>, mw_type: u32) -> Result<Handle<ibv_mw>> {
    // SAFETY: a live handle.
    let (pd_handle, context) = unsafe { ((*pd.as_ptr()).handle, (*pd.as_ptr()).context) };
    // The command has one byte for the type.
    let window = uverbs::mw::alloc(file, pd_handle, mw_type as u8, Udata::none())?;
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut public: ibv_mw = unsafe { core::mem::zeroed() };
    public.context = context;
    public.pd = pd.as_ptr();
    public.handle = window.handle;
    public.rkey = window.rkey;
    public.type_ = mw_type;
    Ok(Handle::publish(Box::new(Mw { public: UnsafeCell::new(public) })))
}

/// Frees a window.
pub fn dealloc(file: &DeviceFile, mw: Handle<ibv_mw>) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::mw::dealloc(file, unsafe { (*mw.as_ptr()).handle })?;
    // SAFETY: the program gives up the handle, which was published as an Mw.
    drop(unsafe { mw.reclaim::<Mw>() });
    Ok(())
}
