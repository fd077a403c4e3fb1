//! Memory regions, also those of somebody else.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use crate::abi::driver::{mr_init_mask, mr_type, verbs_mr};
use crate::abi::uapi::ib_user_verbs::ib_uverbs_sge;
use crate::abi::verbs::{ibv_mr, ibv_mr_init_attr, ibv_pd, ibv_sge};
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::mr::{RegMr, Region};
use crate::uverbs::{self, Udata};

#[repr(C)]
struct Mr {
    public: UnsafeCell<verbs_mr>,
}

// SAFETY: repr(C), and the first field is the struct that the handle names.
unsafe impl Object for Mr {
    type Public = verbs_mr;
}

/// Registers `length` bytes at `addr`, known to peers by addresses from `iova`; `udata` is what driver and
/// provider tell each other.
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

/// Passes advice (`IBV_ADVISE_MR_ADVICE_*`, `IBV_ADVISE_MR_FLAG_*`) about ranges of regions on to the driver.
/// EOPNOTSUPP, with `errno` as it was, for an empty list, and where the kernel or the driver takes no advice.
pub fn advise(
    file: &DeviceFile,
    pd: Handle<ibv_pd>,
    advice: u32,
    flags: u32,
    ranges: &[ibv_sge],
) -> Result<()> {
    const _: () = assert!(size_of::<ibv_sge>() == size_of::<ib_uverbs_sge>());
    const _: () = assert!(align_of::<ibv_sge>() == align_of::<ib_uverbs_sge>());
    if ranges.is_empty() {
        return Err(Errno::EOPNOTSUPP);
    }
    // SAFETY: a live handle.
    let pd = unsafe { (*pd.as_ptr()).handle };
    // SAFETY: the two entries have one layout of integers without padding, as kernel and program share them.
    let entries =
        unsafe { core::slice::from_raw_parts(ranges.as_ptr().cast::<ib_uverbs_sge>(), ranges.len()) };
    let before = Errno::last();
    uverbs::mr::advise(file, pd, advice, flags, entries).map_err(|errno| match errno {
        Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::ENOTTY => {
            before.set();
            Errno::EOPNOTSUPP
        }
        refused => refused,
    })
}

/// The region of this number that somebody else registered through the same file: its keys and length. Where it
/// lies is only known there. ENOENT or EINVAL if there is none.
pub fn import(file: &DeviceFile, pd: Handle<ibv_pd>, handle: u32) -> Result<Handle<ibv_mr>> {
    let (region, length) = uverbs::mr::query(file, handle)?;
    Ok(publish_imported(pd, region, length))
}

fn publish_imported(pd: Handle<ibv_pd>, region: Region, length: u64) -> Handle<ibv_mr> {
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut public: verbs_mr = unsafe { core::mem::zeroed() };
    // SAFETY: a live handle.
    public.ibv_mr.context = unsafe { (*pd.as_ptr()).context };
    public.ibv_mr.pd = pd.as_ptr();
    public.ibv_mr.length = length as usize;
    public.ibv_mr.handle = region.handle;
    public.ibv_mr.lkey = region.lkey;
    public.ibv_mr.rkey = region.rkey;
    public.mr_type = mr_type::IMPORTED_MR;
    let mr = Handle::publish(Box::new(Mr { public: UnsafeCell::new(public) }));
    // SAFETY: a live region; ibv_mr is the first field of verbs_mr.
    unsafe { Handle::from_c(mr.as_ptr().cast()) }.expect("a handle is not null")
}

/// Forgets an imported region, which stays registered. What was not imported stays as it is.
pub fn unimport(mr: Handle<ibv_mr>) {
    // SAFETY: a live region, which is always a verbs_mr.
    let mr = unsafe { Handle::from_c(mr.as_ptr().cast::<verbs_mr>()) }.expect("a handle is not null");
    // SAFETY: a live handle.
    if unsafe { (*mr.as_ptr()).mr_type } == mr_type::IMPORTED_MR {
        // SAFETY: the program gives up the handle, which was published as an Mr.
        drop(unsafe { mr.reclaim::<Mr>() });
    }
}

/// Ends a registration that [`register`] made, or an imported one for everybody; EBUSY while a memory window is
/// bound to the region.
pub fn deregister(file: &DeviceFile, mr: Handle<verbs_mr>) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::mr::dereg(file, unsafe { (*mr.as_ptr()).ibv_mr.handle })?;
    // SAFETY: the program gives up the handle, which was published as an Mr.
    drop(unsafe { mr.reclaim::<Mr>() });
    Ok(())
}

/// Registers what `attr` describes by one of the two functions, for memory of the process and for part of a
/// dma-buf. EOPNOTSUPP for what neither can express, EINVAL for fields that do not go together.
pub fn register_described(
    pd: Handle<ibv_pd>,
    attr: &ibv_mr_init_attr,
    memory: impl FnOnce(Handle<ibv_pd>, usize, usize, u64, c_int) -> Result<Handle<verbs_mr>>,
    dmabuf: impl FnOnce(Handle<ibv_pd>, u64, usize, u64, c_int, c_int) -> Result<Handle<verbs_mr>>,
) -> Result<Handle<verbs_mr>> {
    use mr_init_mask::{ADDR, FD, FD_OFFSET, IOVA};
    let has = |bit: u64| attr.comp_mask & bit != 0;
    if attr.comp_mask & !(IOVA | ADDR | FD | FD_OFFSET) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    match (has(FD), has(ADDR), has(FD_OFFSET)) {
        (true, false, true) if has(IOVA) => {
            dmabuf(pd, attr.fd_offset, attr.length, attr.iova, attr.fd, attr.access)
        }
        (false, true, false) => {
            let start = attr.addr as usize;
            memory(pd, start, attr.length, if has(IOVA) { attr.iova } else { start as u64 }, attr.access)
        }
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null_mut;

    #[test]
    fn an_imported_region_has_keys_and_no_address() {
        let context = core::ptr::dangling_mut();
        let mut pd = ibv_pd { context, handle: 3 };
        // SAFETY: lives until the end of the test.
        let pd = unsafe { Handle::from_c(&raw mut pd) }.unwrap();
        let mr = publish_imported(pd, Region { handle: 5, lkey: 6, rkey: 7 }, 4096);
        // SAFETY: a live region.
        let (public, all) = unsafe { (*mr.as_ptr(), &*mr.as_ptr().cast::<verbs_mr>()) };
        assert_eq!((public.context, public.pd, public.addr), (context, pd.as_ptr(), null_mut()));
        assert_eq!((public.length, public.handle, public.lkey, public.rkey), (4096, 5, 6, 7));
        assert_eq!((all.mr_type, all.access), (mr_type::IMPORTED_MR, 0));
        unimport(mr);
    }

    #[test]
    fn a_region_of_our_own_is_not_forgotten() {
        // SAFETY: plain C data; all zeros is an ordinary region.
        let public = UnsafeCell::new(unsafe { core::mem::zeroed::<verbs_mr>() });
        let mr = Handle::publish(Box::new(Mr { public }));
        // SAFETY: a live region; ibv_mr is the first field of verbs_mr.
        unimport(unsafe { Handle::from_c(mr.as_ptr().cast()) }.unwrap());
        // SAFETY: published as an Mr, and still there.
        assert_eq!(unsafe { mr.reclaim::<Mr>() }.public.get_mut().mr_type, mr_type::MR);
    }
}
