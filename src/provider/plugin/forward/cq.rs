//! Completion queues.

use core::ffi::c_int;

use super::{PluginContext, call, done, made, pointer};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Cqs;

impl Cqs for PluginContext {
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        made(call!(self.create_cq(self.context, cqe, pointer(channel), comp_vector)))
    }

    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        made(call!(self.create_cq_ex(self.context, core::ptr::from_ref(attr).cast_mut())))
    }

    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        done(call!(self.resize_cq(cq.as_ptr(), cqe)))
    }

    fn modify_cq(&self, cq: Handle<ibv_cq>, attr: &mut ibv_modify_cq_attr) -> Result<()> {
        done(call!(self.modify_cq(cq.as_ptr(), attr)))
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        done(call!(self.destroy_cq(cq.as_ptr())))
    }

    fn cq_event(&self, cq: Handle<ibv_cq>) {
        call!(self.cq_event(cq.as_ptr()));
    }
}
