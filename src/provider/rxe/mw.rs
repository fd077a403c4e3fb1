//! Memory windows.

use core::ffi::c_uint;

use super::{RxeContext, send};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Mws;
use crate::provider::{bind, kernel};

impl Mws for RxeContext {
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        kernel::mw::alloc(&self.file, pd, mw_type)
    }

    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        kernel::mw::dealloc(&self.file, mw)
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, asked: &ibv_mw_bind) -> Result<()> {
        // SAFETY: the provider's own.
        unsafe { bind::post(send::post_send, qp, mw, asked) }
    }
}
