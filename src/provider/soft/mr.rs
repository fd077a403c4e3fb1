//! Memory regions. No memory is pinned, so pages on demand cost nothing: such a region is one whose memory need
//! not be there when it is registered.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};

use ironverbs_os::growth::small_box;
use softrdma::device::{DmaBuf, Region};
use softrdma::rules::verbs::Access;

use super::convert::refused;
use super::{SoftContext, dm};
use crate::abi::driver::{mr_type, verbs_mr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Mrs;

/// Rights that the engine enforces.
const ENFORCED: u32 = IBV_ACCESS_LOCAL_WRITE as u32
    | IBV_ACCESS_REMOTE_WRITE as u32
    | IBV_ACCESS_REMOTE_READ as u32
    | IBV_ACCESS_REMOTE_ATOMIC as u32
    | IBV_ACCESS_MW_BIND as u32
    | IBV_ACCESS_ZERO_BASED as u32;
/// Pages on demand.
const ON_DEMAND: u32 = IBV_ACCESS_ON_DEMAND as u32;
/// Rights that a region of a dma-buf can have, as on kernel devices.
const OF_DMABUF: u32 = IBV_ACCESS_LOCAL_WRITE as u32
    | IBV_ACCESS_REMOTE_WRITE as u32
    | IBV_ACCESS_REMOTE_READ as u32
    | IBV_ACCESS_REMOTE_ATOMIC as u32
    | IBV_ACCESS_RELAXED_ORDERING as u32;
/// Wishes that mean nothing here: pages of any kind do, and writes are not reordered.
const WITHOUT_MEANING: u32 = IBV_ACCESS_HUGETLB as u32 | IBV_ACCESS_OPTIONAL_RANGE;
/// `madvise`: bring pages in for reading, or for writing.
const MADV_POPULATE_READ: c_int = 22;
const MADV_POPULATE_WRITE: c_int = 23;
/// Bits of an address that say where in its page it lies.
const IN_PAGE: u64 = 4095;

/// A memory region.
#[repr(C)]
struct Mr {
    public: UnsafeCell<verbs_mr>,
    /// What else the region lies in than memory of the program.
    memory: Option<Memory>,
}

/// Memory that is there as long as a region needs it.
pub(super) enum Memory {
    /// Of the device.
    Device(dm::Hold),
    /// Of a dma-buf.
    DmaBuf(DmaBuf),
}

// SAFETY: repr(C), and the first field is the struct that the handle names.
unsafe impl Object for Mr {
    type Public = verbs_mr;
}

/// The rights that a program asks for; EINVAL for what nobody knows.
pub fn access(asked: u32) -> Result<Access> {
    if asked & !(ENFORCED | ON_DEMAND | WITHOUT_MEANING) != 0 {
        return Err(Errno::EINVAL.also_set());
    }
    Ok(Access(asked & ENFORCED))
}

impl Mrs for SoftContext {
    /// Payload goes to addresses of the process, whichever pages are there.
    fn pins(&self) -> bool {
        false
    }

    /// Registers `length` bytes at `addr`, known to peers by addresses from `iova`, which lies as far into its
    /// page as `addr`. As on a kernel device, EINVAL for a region that touches no page. With pages on demand,
    /// all `usize::MAX` bytes from address 0 are the whole address space, known by its own addresses.
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        asked: c_int,
    ) -> Result<Handle<verbs_mr>> {
        let on_demand = asked as u32 & ON_DEMAND != 0;
        let whole = on_demand && addr == 0 && length == usize::MAX;
        let length = if whole { self.engine.limits().max_mr_size } else { length as u64 };
        let touches_none = length == 0 && addr as u64 & IN_PAGE == 0;
        if touches_none || (addr as u64 ^ iova) & IN_PAGE != 0 {
            return Err(Errno::EINVAL.also_set());
        }
        let rights = access(asked as u32)?;
        // SAFETY: a live handle.
        let pd = unsafe { (*pd.as_ptr()).handle };
        let region = if on_demand {
            self.engine.register_on_demand(pd, addr as u64, length, iova, rights)
        } else {
            self.engine.register(pd, addr as u64, length, iova, rights)
        }
        .map_err(refused)?;
        Ok(publish(region, asked as u32, mr_type::MR, None))
    }

    /// Registers `length` bytes from `offset` of the dma-buf `fd`, known by addresses from `iova`, which lies
    /// as far into its page as `offset`. The program need not map the buffer nor keep the descriptor. The
    /// errors are those of a kernel device (EBADF for no file, EINVAL for no dma-buf, a part that is not in the
    /// buffer, and rights that such a region cannot have) and those of `mmap`, EACCES for one exported for
    /// reading alone.
    fn reg_dmabuf_mr(
        &self,
        pd: Handle<ibv_pd>,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        asked: c_int,
    ) -> Result<Handle<verbs_mr>> {
        let asked = asked as u32;
        if (offset ^ iova) & IN_PAGE != 0 || asked & !OF_DMABUF != 0 {
            return Err(Errno::EINVAL.also_set());
        }
        let rights = access(asked)?;
        let (writes, peers_write) =
            (rights.has(Access::LOCAL_WRITE), rights.any(Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC)));
        if peers_write && !writes {
            return Err(Errno::EINVAL.also_set());
        }
        let memory = DmaBuf::map(fd, offset, length as u64, writes).map_err(refused)?;
        // SAFETY: a live handle.
        let pd = unsafe { (*pd.as_ptr()).handle };
        let region = self.engine.register_dma_buf(pd, &memory, iova, rights).map_err(refused)?;
        Ok(publish(region, asked, mr_type::DMABUF_MR, Some(Memory::DmaBuf(memory))))
    }

    /// Changes translation, protection domain or rights, as `flags` (IBV_REREG_MR_*) say; EINVAL if they say
    /// nothing, EOPNOTSUPP for pages on demand.
    fn rereg_mr(
        &self,
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
        // SAFETY: a live handle.
        if (unsafe { (*mr.as_ptr()).access } | asked as u32) & ON_DEMAND != 0 {
            return Err(Errno::EOPNOTSUPP.also_set());
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
        let region = self.engine.reregister(public.ibv_mr.lkey, pd, translation, rights).map_err(refused)?;
        set_keys(public, region);
        if rights.is_some() {
            public.access = asked as u32;
        }
        Ok(())
    }

    /// Ends a registration.
    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        // SAFETY: a live handle.
        self.engine.deregister(unsafe { (*mr.as_ptr()).ibv_mr.lkey }).map_err(refused)?;
        // SAFETY: the program gives up the handle, which was published as an Mr.
        let region = unsafe { mr.reclaim::<Mr>() };
        match region.memory {
            Some(Memory::Device(hold)) => drop(hold),
            // Nobody uses it any more.
            Some(Memory::DmaBuf(memory)) => drop(memory),
            None => {}
        }
        Ok(())
    }

    /// Brings memory of regions with pages on demand in, or has the kernel read ahead. EINVAL for a range
    /// outside of such a region of the domain, EFAULT for memory that is not there, EOPNOTSUPP for other
    /// advice.
    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        let how = match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH => MADV_POPULATE_READ,
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => MADV_POPULATE_WRITE,
            IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => libc::MADV_WILLNEED,
            _ => return Err(Errno::EOPNOTSUPP.also_set()),
        };
        if ranges.is_empty() || flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 {
            return Err(Errno::EINVAL.also_set());
        }
        // SAFETY: a live handle.
        let pd = unsafe { (*pd.as_ptr()).handle };
        let inside = |range: &ibv_sge| {
            let region = self.engine.query_region(range.lkey).filter(|region| region.pd == pd)?;
            let offset = range.addr.checked_sub(region.iova)?;
            let end = offset.checked_add(range.length.into())?;
            (end <= region.length).then_some(region.addr + offset)
        };
        if ranges.iter().any(|range| inside(range).is_none()) {
            return Err(Errno::EINVAL.also_set());
        }
        for (place, range) in ranges.iter().filter_map(|range| Some((inside(range)?, range))) {
            let first = place & !IN_PAGE;
            let bytes = place + u64::from(range.length) - first;
            // SAFETY: advice changes no content.
            let done = unsafe {
                libc::madvise(core::ptr::without_provenance_mut(first as usize), bytes as usize, how)
            };
            // EINVAL is a kernel without this advice (before 5.14), for which the first access does the same.
            if done != 0 && Errno::last() != Errno::EINVAL && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
            {
                return Err(Errno::EFAULT.also_set());
            }
        }
        Ok(())
    }

    /// The region of this number that another context of the process registered: its keys and length. ENOENT if
    /// there is none.
    fn import_mr(&self, pd: Handle<ibv_pd>, number: u32) -> Result<Handle<ibv_mr>> {
        let found = self.engine.query_region(number).ok_or_else(|| Errno::ENOENT.also_set())?;
        let mr = publish(Region { lkey: number, rkey: number }, 0, mr_type::IMPORTED_MR, None);
        // SAFETY: just made, and nobody else knows it yet; a live domain names its context.
        unsafe {
            let public = &raw mut (*mr.as_ptr()).ibv_mr;
            (*public).context = (*pd.as_ptr()).context;
            (*public).pd = pd.as_ptr();
            (*public).length = found.length as usize;
            Handle::from_c(public)
        }
    }

    /// Forgets an imported region, which stays registered. What was not imported stays as it is.
    fn unimport_mr(&self, mr: Handle<ibv_mr>) {
        // SAFETY: a live region, which is always a verbs_mr, of this provider.
        unsafe {
            let Ok(mr) = Handle::from_c(mr.as_ptr().cast::<verbs_mr>()) else { return };
            if (*mr.as_ptr()).mr_type == mr_type::IMPORTED_MR {
                drop(mr.reclaim::<Mr>());
            }
        }
    }
}

/// A region for the program.
pub(super) fn publish(region: Region, access: u32, kind: u32, memory: Option<Memory>) -> Handle<verbs_mr> {
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut public: verbs_mr = unsafe { core::mem::zeroed() };
    set_keys(&mut public, region);
    public.mr_type = kind;
    public.access = access;
    Handle::publish(small_box(Mr { public: UnsafeCell::new(public), memory }))
}

fn set_keys(public: &mut verbs_mr, region: Region) {
    public.ibv_mr.handle = region.lkey;
    public.ibv_mr.lkey = region.lkey;
    public.ibv_mr.rkey = region.rkey;
}
