//! Memory on the device.

use core::ffi::{c_int, c_uint};

use super::{PluginContext, call, done, made, region};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::verbs::Dms;

impl Dms for PluginContext {
    fn alloc_dm(&self, attr: &mut ibv_alloc_dm_attr) -> Result<Handle<ibv_dm>> {
        made(call!(self.alloc_dm(self.context, attr)))
    }

    fn free_dm(&self, dm: Handle<ibv_dm>) -> Result<()> {
        done(call!(self.free_dm(dm.as_ptr())))
    }

    fn reg_dm_mr(
        &self,
        pd: Handle<ibv_pd>,
        dm: Handle<ibv_dm>,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_dm_mr(pd.as_ptr(), dm.as_ptr(), dm_offset, length, access)))
    }

    fn dm_export_dmabuf_fd(&self, dm: Handle<ibv_dm>) -> Result<c_int> {
        let fd = call!(self.dm_export_dmabuf_fd(dm.as_ptr()));
        if fd < 0 { Err(Errno::last()) } else { Ok(fd) }
    }

    fn import_dm(&self, _context: Handle<ibv_context>, dm_handle: u32) -> Result<Handle<ibv_dm>> {
        made(call!(self.import_dm(self.context, dm_handle)))
    }

    fn unimport_dm(&self, dm: Handle<ibv_dm>) {
        call!(self.unimport_dm(dm.as_ptr()));
    }
}
