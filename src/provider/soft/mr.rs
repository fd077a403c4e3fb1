//! Memory regions.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::sync::Arc;

use softrdma::core::verbs::Access;
use softrdma::device::{Device, Region};

use super::convert::refused;
use super::dm;
use crate::abi::driver::{mr_type, verbs_mr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};

/// Rights that the engine knows.
const ENFORCED: u32 = IBV_ACCESS_LOCAL_WRITE as u32
    | IBV_ACCESS_REMOTE_WRITE as u32
    | IBV_ACCESS_REMOTE_READ as u32
    | IBV_ACCESS_REMOTE_ATOMIC as u32
    | IBV_ACCESS_MW_BIND as u32
    | IBV_ACCESS_ZERO_BASED as u32;
/// Wishes that mean nothing here: pages of any kind do, and writes are not reordered.
const WITHOUT_MEANING: u32 = IBV_ACCESS_HUGETLB as u32 | IBV_ACCESS_OPTIONAL_RANGE;
/// Bits of an address that say where in its page it lies.
const IN_PAGE: u64 = 4095;

/// A memory region.
#[repr(C)]
struct Mr {
    public: UnsafeCell<verbs_mr>,
    /// The device memory that the region lies in.
    memory: Option<Arc<dm::Memory>>,
}

// SAFETY: repr(C), and the first field is the struct that the handle names.
unsafe impl Object for Mr {
    type Public = verbs_mr;
}

/// The rights that a program asks for. EINVAL for what nobody knows, and for pages on demand: they are no feature of the
/// device, although it needs no pinned memory.
pub fn access(asked: u32) -> Result<Access> {
    if asked & !(ENFORCED | WITHOUT_MEANING) != 0 {
        return Err(Errno::EINVAL.also_set());
    }
    Ok(Access(asked & ENFORCED))
}

/// Registers `length` bytes at `addr`, known to peers by addresses from `iova`, which lies as far into its page as `addr`.
/// As on a kernel device, EINVAL for a region that touches no page.
pub fn register(
    engine: &Device,
    pd: Handle<ibv_pd>,
    addr: usize,
    length: usize,
    iova: u64,
    asked: c_int,
) -> Result<Handle<verbs_mr>> {
    let touches_none = length == 0 && addr as u64 & IN_PAGE == 0;
    if touches_none || (addr as u64 ^ iova) & IN_PAGE != 0 {
        return Err(Errno::EINVAL.also_set());
    }
    let rights = access(asked as u32)?;
    // SAFETY: a live handle.
    let pd = unsafe { (*pd.as_ptr()).handle };
    let region = engine.register(pd, addr as u64, length as u64, iova, rights).map_err(refused)?;
    Ok(publish(region, asked as u32, mr_type::MR, None))
}

/// A region for the program.
pub(super) fn publish(
    region: Region,
    access: u32,
    kind: u32,
    memory: Option<Arc<dm::Memory>>,
) -> Handle<verbs_mr> {
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut public: verbs_mr = unsafe { core::mem::zeroed() };
    set_keys(&mut public, region);
    public.mr_type = kind;
    public.access = access;
    Handle::publish(Box::new(Mr { public: UnsafeCell::new(public), memory }))
}

fn set_keys(public: &mut verbs_mr, region: Region) {
    public.ibv_mr.handle = region.lkey;
    public.ibv_mr.lkey = region.lkey;
    public.ibv_mr.rkey = region.rkey;
}

/// Changes translation, protection domain or rights, as `flags` (IBV_REREG_MR_*) say; EINVAL if they say nothing.
pub fn reregister(
    engine: &Device,
    mr: Handle<verbs_mr>,
    flags: c_int,
    pd: Option<Handle<ibv_pd>>,
    addr: usize,
    length: usize,
    asked: c_int,
) -> Result<()> {
    if flags == 0 {
        return Err(Errno::EINVAL.also_set());
    }
    let has = |flag: ibv_rereg_mr_flags| flags & flag as c_int != 0;
    let pd = match pd {
        _ if !has(IBV_REREG_MR_CHANGE_PD) => None,
        // SAFETY: a live handle.
        Some(pd) => Some(unsafe { (*pd.as_ptr()).handle }),
        None => return Err(Errno::EINVAL.also_set()),
    };
    let rights = if has(IBV_REREG_MR_CHANGE_ACCESS) { Some(access(asked as u32)?) } else { None };
    let translation =
        has(IBV_REREG_MR_CHANGE_TRANSLATION).then_some((addr as u64, length as u64, addr as u64));
    // SAFETY: a live handle, which programs do not use while they re-register it.
    let public = unsafe { &mut *mr.as_ptr() };
    let region = engine.reregister(public.ibv_mr.lkey, pd, translation, rights).map_err(refused)?;
    set_keys(public, region);
    if rights.is_some() {
        public.access = asked as u32;
    }
    Ok(())
}

/// Ends a registration.
pub fn deregister(engine: &Device, mr: Handle<verbs_mr>) -> Result<()> {
    // SAFETY: a live handle.
    engine.deregister(unsafe { (*mr.as_ptr()).ibv_mr.lkey }).map_err(refused)?;
    // SAFETY: the program gives up the handle, which was published as an Mr.
    let region = unsafe { mr.reclaim::<Mr>() };
    drop(region.memory);
    Ok(())
}
