//! Counters of what flow rules see.

use super::{PluginContext, call, done, made, pointer};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Counters;

impl Counters for PluginContext {
    fn create_counters(&self, attr: &mut ibv_counters_init_attr) -> Result<Handle<ibv_counters>> {
        made(call!(self.create_counters(self.context, attr)))
    }

    fn destroy_counters(&self, counters: Handle<ibv_counters>) -> Result<()> {
        done(call!(self.destroy_counters(counters.as_ptr())))
    }

    fn attach_counters_point_flow(
        &self,
        counters: Handle<ibv_counters>,
        attr: &mut ibv_counter_attach_attr,
        flow: Option<Handle<ibv_flow>>,
    ) -> Result<()> {
        done(call!(self.attach_counters_point_flow(counters.as_ptr(), attr, pointer(flow))))
    }

    fn read_counters(&self, counters: Handle<ibv_counters>, values: &mut [u64], flags: u32) -> Result<()> {
        let count = values.len() as u32;
        done(call!(self.read_counters(counters.as_ptr(), values.as_mut_ptr(), count, flags)))
    }
}
