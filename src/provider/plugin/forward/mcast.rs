//! Multicast groups of datagram queue pairs.

use super::{PluginContext, call, done};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Mcasts;

impl Mcasts for PluginContext {
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        done(call!(self.attach_mcast(qp.as_ptr(), gid, lid)))
    }

    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        done(call!(self.detach_mcast(qp.as_ptr(), gid, lid)))
    }
}
