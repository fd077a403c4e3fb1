//! Memory windows.

use core::ffi::c_uint;

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Mws;

impl Mws for PluginContext {
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        made(call!(self.alloc_mw(pd.as_ptr(), mw_type)))
    }

    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        done(call!(self.dealloc_mw(mw.as_ptr())))
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, bind: &ibv_mw_bind) -> Result<()> {
        done(call!(self.bind_mw(qp.as_ptr(), mw.as_ptr(), core::ptr::from_ref(bind).cast_mut())))
    }
}
