//! Memory regions.

use core::ffi::{c_int, c_uint, c_void};

use super::{PluginContext, call, done, made, pointer, region};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::verbs::Mrs;

impl Mrs for PluginContext {
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_mr(pd.as_ptr(), addr as *mut c_void, length, iova, access)))
    }

    fn reg_mr_ex(&self, pd: Handle<ibv_pd>, attr: &mut ibv_mr_init_attr) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_mr_ex(pd.as_ptr(), attr)))
    }

    fn reg_dmabuf_mr(
        &self,
        pd: Handle<ibv_pd>,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_dmabuf_mr(pd.as_ptr(), offset, length, iova, fd, access)))
    }

    fn rereg_mr(
        &self,
        mr: Handle<verbs_mr>,
        flags: c_int,
        pd: Option<Handle<ibv_pd>>,
        addr: usize,
        length: usize,
        access: c_int,
    ) -> Result<()> {
        let value =
            call!(self.rereg_mr(mr.as_ptr(), flags, pointer(pd), addr as *mut c_void, length, access));
        // Whatever the value, the verb says that the command failed, and `errno` why.
        if value == 0 { Ok(()) } else { Err(Errno::last()) }
    }

    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        done(call!(self.dereg_mr(mr.as_ptr())))
    }

    fn alloc_null_mr(&self, pd: Handle<ibv_pd>) -> Result<Handle<verbs_mr>> {
        let mr = region(call!(self.alloc_null_mr(pd.as_ptr())))?;
        if let Some(mlx5) = self.mlx5() {
            // SAFETY: just made.
            mlx5.set_null_key(unsafe { (*mr.as_ptr().cast::<ibv_mr>()).lkey });
        }
        Ok(mr)
    }

    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        let count = ranges.len() as u32;
        done(call!(self.advise_mr(pd.as_ptr(), advice, flags, ranges.as_mut_ptr(), count)))
    }

    fn import_mr(&self, pd: Handle<ibv_pd>, mr_handle: u32) -> Result<Handle<ibv_mr>> {
        made(call!(self.import_mr(pd.as_ptr(), mr_handle)))
    }

    fn unimport_mr(&self, mr: Handle<ibv_mr>) {
        call!(self.unimport_mr(mr.as_ptr()));
    }
}
