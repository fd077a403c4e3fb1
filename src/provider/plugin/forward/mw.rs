//! Memory windows.

use core::ffi::c_uint;

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::bind;
use crate::provider::mlx5::qp::{Qp, post_send};
use crate::provider::object::Handle;
use crate::provider::verbs::Mws;

impl Mws for PluginContext {
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        made(call!(self.alloc_mw(pd.as_ptr(), mw_type)))
    }

    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        done(call!(self.dealloc_mw(mw.as_ptr())))
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, info: &ibv_mw_bind) -> Result<()> {
        // SAFETY: the program's live queue pair.
        if self.mlx5().is_some() && unsafe { Qp::of(qp.as_ptr()) }.is_some_and(|object| object.send.is_some())
        {
            // SAFETY: a queue pair of ours.
            return unsafe { bind::post(post_send, qp, mw, info) };
        }
        done(call!(self.bind_mw(qp.as_ptr(), mw.as_ptr(), core::ptr::from_ref(info).cast_mut())))
    }
}
