//! Memory on the device.

use core::ffi::{c_int, c_uint};

use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Memory on the device, also that of somebody else.
#[allow(unused_variables)]
pub trait Dms: CommandFile {
    /// Memory on the device.
    fn alloc_dm(&self, attr: &mut ibv_alloc_dm_attr) -> Result<Handle<ibv_dm>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees device memory; EBUSY while a region lies in it.
    fn free_dm(&self, dm: Handle<ibv_dm>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Registers `length` bytes from `dm_offset` of device memory.
    fn reg_dm_mr(
        &self,
        pd: Handle<ibv_pd>,
        dm: Handle<ibv_dm>,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A new descriptor of a dma-buf over device memory.
    fn dm_export_dmabuf_fd(&self, dm: Handle<ibv_dm>) -> Result<c_int> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The device memory of another process that has this number in the kernel, as one of `context`, which is
    /// this one.
    fn import_dm(&self, context: Handle<ibv_context>, dm_handle: u32) -> Result<Handle<ibv_dm>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Forgets imported device memory.
    fn unimport_dm(&self, dm: Handle<ibv_dm>) {}
}
