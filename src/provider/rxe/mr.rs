//! Memory regions.

use core::ffi::{c_int, c_uint};

use ironverbs_os::fork::ProcessMutex;

use super::{RxeContext, explain};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::{IBV_ACCESS_ON_DEMAND, ibv_pd, ibv_sge};
use crate::errno::{Errno, Result};
use crate::provider::kernel;
use crate::provider::object::Handle;
use crate::provider::verbs::Mrs;
use crate::uverbs::Udata;

/// The `lkey`s of a context's regions on demand. Advice may name no other: the driver takes whatever region it
/// is given for one of these, without a look, and the kernel faults (up to Linux 7.2 at least).
pub struct OnDemand(ProcessMutex<Vec<u32>>);

impl OnDemand {
    /// None yet.
    pub(super) const fn new() -> Self {
        OnDemand(ProcessMutex::new(Vec::new()))
    }

    /// A region that is not remembered only gets no advice, so that no memory is no error.
    fn insert(&self, lkey: u32) {
        if let Ok(mut lkeys) = self.0.lock()
            && lkeys.try_reserve(1).is_ok()
        {
            lkeys.push(lkey);
        }
    }

    /// Whether it was there.
    fn remove(&self, lkey: u32) -> bool {
        let Ok(mut lkeys) = self.0.lock() else { return false };
        let at = lkeys.iter().position(|known| *known == lkey);
        at.map(|at| lkeys.swap_remove(at)).is_some()
    }

    fn contains_all(&self, ranges: &[ibv_sge]) -> bool {
        self.0.lock().is_ok_and(|lkeys| ranges.iter().all(|range| lkeys.contains(&range.lkey)))
    }
}

impl Mrs for RxeContext {
    /// Registers `length` bytes at `addr`, known to peers by addresses from `iova`.
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        let mr = kernel::mr::register(&self.file, pd, addr, length, iova, access, Udata::none())
            .inspect_err(|errno| explain::reg_mr(&self.file, *errno, addr, length, access))?;
        if access as u32 & IBV_ACCESS_ON_DEMAND as u32 != 0 {
            // SAFETY: a live handle.
            self.on_demand.insert(unsafe { (*mr.as_ptr()).ibv_mr.lkey });
        }
        Ok(mr)
    }

    /// Ends a registration.
    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        // SAFETY: a live handle.
        let (access, lkey) = unsafe { ((*mr.as_ptr()).access, (*mr.as_ptr()).ibv_mr.lkey) };
        // Before the region ends, since its lkey may come again.
        let known = access & IBV_ACCESS_ON_DEMAND as u32 != 0 && self.on_demand.remove(lkey);
        kernel::mr::deregister(&self.file, mr).inspect_err(|_| {
            if known {
                self.on_demand.insert(lkey);
            }
        })
    }

    /// Advice (`IBV_ADVISE_MR_ADVICE_*`) about ranges of regions on demand. EOPNOTSUPP for an empty list, for
    /// one that names another region, and where the driver takes none: that of Linux 6.1 does not, that of 7.2
    /// does.
    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        if !self.on_demand.contains_all(ranges) {
            return Err(Errno::EOPNOTSUPP);
        }
        kernel::mr::advise(&self.file, pd, advice, flags, ranges)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::abi::verbs::IBV_ADVISE_MR_ADVICE_PREFETCH;
    use crate::uverbs::device_file::DeviceFile;
    use crate::uverbs::played::{Answer, answer_with};

    /// What the played kernel calls every region.
    const LKEY: u32 = 0x0007_0007;

    /// What comes of advice about `ranges` ranges of a region with these rights, and `errno` after it: while
    /// the region is there, and when it has ended. The driver that takes advice answers EIO.
    fn advise(access: u32, ranges: usize, takes_advice: bool) -> [(Result<()>, Errno); 2] {
        let file = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let context = RxeContext::new(DeviceFile::from_fd(file.into()));
        let mut pd = ibv_pd { context: core::ptr::null_mut(), handle: 3 };
        // SAFETY: lives until the end of the call.
        let pd = unsafe { Handle::from_c(&raw mut pd) }.unwrap();
        let ask = || {
            let _kernel = takes_advice.then(|| answer_with(&[]));
            let mut list = vec![ibv_sge { addr: 0, length: 8, lkey: LKEY }; ranges];
            Errno::EBUSY.set();
            (context.advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &mut list), Errno::last())
        };
        let done = [Answer::filled_with(7)];
        let kernel = answer_with(&done);
        let mr = context.reg_mr(pd, 0, 8, 0, access as c_int).unwrap();
        drop(kernel);
        // SAFETY: a live handle.
        assert_eq!(unsafe { (*mr.as_ptr()).ibv_mr.lkey }, LKEY);
        let first = ask();
        let kernel = answer_with(&done);
        context.dereg_mr(mr).unwrap();
        drop(kernel);
        [first, ask()]
    }

    const ASKED: (Result<()>, Errno) = (Err(Errno::EIO), Errno::EIO);
    const REFUSED: (Result<()>, Errno) = (Err(Errno::EOPNOTSUPP), Errno::EBUSY);

    #[test]
    fn the_driver_is_asked_for_advice_about_regions_on_demand() {
        assert_eq!(advise(IBV_ACCESS_ON_DEMAND as u32, 1, true), [ASKED, REFUSED]);
    }

    #[test]
    fn the_driver_gets_no_advice_about_other_regions() {
        assert_eq!(advise(0, 1, true), [REFUSED; 2]);
    }

    #[test]
    fn a_driver_that_takes_no_advice_and_an_empty_list_leave_errno() {
        assert_eq!(advise(IBV_ACCESS_ON_DEMAND as u32, 1, false), [REFUSED; 2]);
        assert_eq!(advise(IBV_ACCESS_ON_DEMAND as u32, 0, true), [REFUSED; 2]);
    }
}
