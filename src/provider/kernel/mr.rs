//! Memory regions.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use crate::abi::driver::{mr_type, verbs_mr};
use crate::abi::verbs::ibv_pd;
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::mr::RegMr;
use crate::uverbs::{self, Udata};

#[repr(C)]
struct Mr {
    public: UnsafeCell<verbs_mr>,
}

// SAFETY: repr(C), and the first field is the struct that the handle names.
unsafe impl Object for Mr {
    type Public = verbs_mr;
}

/// Registers `length` bytes at `addr`, known to peers by addresses from `iova`; `udata` is what driver and provider tell
/// each other.
pub fn register(
    file: &DeviceFile,
    pd: Handle<ibv_pd>,
    addr: usize,
    length: usize,
    iova: u64,
    access: c_int,
    udata: Udata<'_>,
) -> Result<Handle<verbs_mr>> {
    // SAFETY: a live handle.
    let pd = unsafe { (*pd.as_ptr()).handle };
    let region = uverbs::mr::reg(file, &RegMr { pd, start: addr, length, iova, access }, udata)?;
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut public: verbs_mr = unsafe { core::mem::zeroed() };
    public.ibv_mr.handle = region.handle;
    public.ibv_mr.lkey = region.lkey;
    public.ibv_mr.rkey = region.rkey;
    public.mr_type = mr_type::MR;
    public.access = access as u32;
    Ok(Handle::publish(Box::new(Mr { public: UnsafeCell::new(public) })))
}

/// Ends a registration that [`register`] made; EBUSY while a memory window is bound to the region.
pub fn deregister(file: &DeviceFile, mr: Handle<verbs_mr>) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::mr::dereg(file, unsafe { (*mr.as_ptr()).ibv_mr.handle })?;
    // SAFETY: the program gives up the handle, which was published as an Mr.
    drop(unsafe { mr.reclaim::<Mr>() });
    Ok(())
}
