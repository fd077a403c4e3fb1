//! Buffers whose kind the device chooses.

use core::ffi::c_void;

use super::{PluginContext, call};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::verbs::Bufs;

impl Bufs for PluginContext {
    fn alloc_buf(&self, pd: Handle<ibv_pd>, size: usize, buf: &mut *mut ibv_buf) -> Result<*mut c_void> {
        let addr = call!(self.alloc_buf(pd.as_ptr(), size, buf));
        if addr.is_null() { Err(Errno::last()) } else { Ok(addr) }
    }

    fn free_buf(&self, buf: Handle<ibv_buf>) {
        call!(self.free_buf(buf.as_ptr()));
    }
}
