//! Ports.

use super::{PluginContext, call, done};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::plugin::cmd::LongPortAttr;
use crate::provider::verbs::Ports;

/// Room for the answer of a plugin whose release knows a longer `ibv_port_attr` than this library.
#[repr(C)]
struct PortRoom {
    attr: ibv_port_attr,
    beyond: [u32; 8],
}

impl Ports for PluginContext {
    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        let mut room = PortRoom { attr: *attr, beyond: [0; 8] };
        let place = (&raw mut room).cast::<ibv_port_attr>();
        let _long = LongPortAttr::at(place);
        let value = call!(self.query_port(self.context, port_num, place));
        *attr = room.attr;
        done(value)
    }

    fn query_port_speed(&self, port_num: u32, speed: &mut u64) -> Result<()> {
        done(call!(self.query_port_speed(self.context, port_num, speed)))
    }
}
