//! What a device says of itself.

use core::ptr::null;

use super::{PluginContext, call, done};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::verbs::Devices;

impl Devices for PluginContext {
    fn query_device(
        &self,
        input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        attr_size: usize,
    ) -> Result<()> {
        done(call!(self.query_device_ex(
            self.context,
            input.map_or(null(), core::ptr::from_ref),
            attr,
            attr_size
        )))
    }

    fn query_rt_values(&self, values: &mut ibv_values_ex) -> Result<()> {
        done(call!(self.query_rt_values(self.context, values)))
    }
}
