//! Memory regions.

use core::ffi::{c_int, c_uint};

use super::{RxeContext, explain};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::{ibv_pd, ibv_sge};
use crate::errno::Result;
use crate::provider::kernel;
use crate::provider::object::Handle;
use crate::provider::verbs::Mrs;
use crate::uverbs::Udata;

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
        kernel::mr::register(&self.file, pd, addr, length, iova, access, Udata::none())
            .inspect_err(|errno| explain::reg_mr(&self.file, *errno, addr, length, access))
    }

    /// Advice (`IBV_ADVISE_MR_ADVICE_*`) about ranges of regions. EOPNOTSUPP for an empty list, and where the
    /// driver takes none: that of Linux 6.1 does not, that of 7.2 does.
    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        kernel::mr::advise(&self.file, pd, advice, flags, ranges)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::abi::verbs::IBV_ADVISE_MR_ADVICE_PREFETCH;
    use crate::errno::Errno;
    use crate::uverbs::device_file::DeviceFile;
    use crate::uverbs::played::answer_with;

    fn advise(ranges: &mut [ibv_sge]) -> Result<()> {
        let file = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let context = RxeContext { file: DeviceFile::from_fd(file.into()) };
        let mut pd = ibv_pd { context: core::ptr::null_mut(), handle: 3 };
        // SAFETY: lives until the end of the call.
        let pd = unsafe { Handle::from_c(&raw mut pd) }.unwrap();
        Errno::EBUSY.set();
        context.advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, ranges)
    }

    #[test]
    fn the_driver_is_asked_for_advice() {
        let _kernel = answer_with(&[]);
        assert_eq!(advise(&mut [ibv_sge { addr: 0, length: 8, lkey: 1 }]), Err(Errno::EIO));
        assert_eq!(Errno::last(), Errno::EIO);
    }

    #[test]
    fn what_takes_no_advice_leaves_errno() {
        assert_eq!(advise(&mut [ibv_sge { addr: 0, length: 8, lkey: 1 }]), Err(Errno::EOPNOTSUPP));
        assert_eq!(Errno::last(), Errno::EBUSY);
        assert_eq!(advise(&mut []), Err(Errno::EOPNOTSUPP));
        assert_eq!(Errno::last(), Errno::EBUSY);
    }
}
