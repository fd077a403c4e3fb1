//! Shared receive queues.

use core::ffi::c_int;

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Srqs;

impl Srqs for PluginContext {
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        made(call!(self.create_srq(pd.as_ptr(), attr)))
    }

    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        made(call!(self.create_srq_ex(self.context, attr)))
    }

    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        done(call!(self.modify_srq(srq.as_ptr(), attr, attr_mask)))
    }

    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        done(call!(self.query_srq(srq.as_ptr(), attr)))
    }

    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        let mut number = 0;
        done(call!(self.get_srq_num(srq.as_ptr(), &mut number)))?;
        Ok(number)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        done(call!(self.destroy_srq(srq.as_ptr())))
    }
}
