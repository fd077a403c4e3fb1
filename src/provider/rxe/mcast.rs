//! Multicast groups of datagram queue pairs.

use super::RxeContext;
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::kernel;
use crate::provider::object::Handle;
use crate::provider::verbs::Mcasts;

impl Mcasts for RxeContext {
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        kernel::mcast::attach(&self.file, qp, gid, lid)
    }

    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        kernel::mcast::detach(&self.file, qp, gid, lid)
    }
}
