//! Memory regions.

use core::ffi::{c_int, c_uint};

use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::{CommandFile, kernel};

/// Memory regions, also those of somebody else. The default of `dereg_mr` takes what
/// [`kernel::mr::register`] made.
#[allow(unused_variables)]
pub trait Mrs: CommandFile {
    /// Whether the pages of a region must stay those that it was registered with, so that a fork may not leave
    /// them to the child.
    fn pins(&self) -> bool {
        true
    }

    /// Registers `length` bytes at `addr`, known to remote peers by addresses from `iova`.
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Registers what `attr` describes, whose mask never names a buffer. Without hints for direct memory access
    /// that is one of [`Mrs::reg_mr`] and [`Mrs::reg_dmabuf_mr`].
    fn reg_mr_ex(&self, pd: Handle<ibv_pd>, attr: &mut ibv_mr_init_attr) -> Result<Handle<verbs_mr>> {
        kernel::mr::register_described(
            pd,
            attr,
            |pd, addr, length, iova, access| self.reg_mr(pd, addr, length, iova, access),
            |pd, offset, length, iova, fd, access| self.reg_dmabuf_mr(pd, offset, length, iova, fd, access),
        )
    }

    /// Registers part of a dma-buf.
    fn reg_dmabuf_mr(
        &self,
        pd: Handle<ibv_pd>,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes translation, protection domain or rights of a region, as `flags` (IBV_REREG_MR_*) say.
    fn rereg_mr(
        &self,
        mr: Handle<verbs_mr>,
        flags: c_int,
        pd: Option<Handle<ibv_pd>>,
        addr: usize,
        length: usize,
        access: c_int,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Ends a registration.
    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        kernel::mr::deregister(self.kernel()?, mr)
    }

    /// A region that reads as zeros and drops writes.
    fn alloc_null_mr(&self, pd: Handle<ibv_pd>) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Advice (`IBV_ADVISE_MR_ADVICE_*`) about ranges of regions.
    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The region of another process that has this number in the kernel.
    fn import_mr(&self, pd: Handle<ibv_pd>, mr_handle: u32) -> Result<Handle<ibv_mr>> {
        kernel::mr::import(self.kernel()?, pd, mr_handle)
    }

    /// Forgets an imported region.
    fn unimport_mr(&self, mr: Handle<ibv_mr>) {
        kernel::mr::unimport(mr)
    }
}
