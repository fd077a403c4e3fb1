//! Protection domains.

use core::cell::UnsafeCell;

use crate::abi::verbs::ibv_pd;
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::{self, Udata};

#[repr(C)]
struct Pd {
    public: UnsafeCell<ibv_pd>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Pd {
    type Public = ibv_pd;
}

/// Allocates a protection domain.
pub fn alloc(file: &DeviceFile) -> Result<Handle<ibv_pd>> {
    let handle = uverbs::pd::alloc(file, Udata::none())?;
    let public = UnsafeCell::new(ibv_pd { context: core::ptr::null_mut(), handle });
    Ok(Handle::publish(Box::new(Pd { public })))
}

/// Frees a protection domain; EBUSY while something uses it.
pub fn dealloc(file: &DeviceFile, pd: Handle<ibv_pd>) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::pd::dealloc(file, unsafe { (*pd.as_ptr()).handle })?;
    // SAFETY: the program gives up the handle, which was published as a Pd.
    drop(unsafe { pd.reclaim::<Pd>() });
    Ok(())
}
