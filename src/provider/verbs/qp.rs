//! Queue pairs. Posting is the data path's.

use core::ffi::{c_int, c_uint};

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::{CommandFile, kernel};

/// Queue pairs.
#[allow(unused_variables)]
pub trait Qps: CommandFile {
    /// A queue pair; `attr.cap` gets the capacities really given.
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A queue pair with the extended attributes, perhaps with `ibv_wr_*` builders.
    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Opens a queue pair of an extended connection domain that another process made.
    fn open_qp(&self, attr: &mut ibv_qp_open_attr) -> Result<Handle<ibv_qp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The builder side of a queue pair, if it was created with one.
    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        None
    }

    /// Moves a queue pair through its states and sets attributes; an illegal mask or step changes nothing.
    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        kernel::qp::modify(self.kernel()?, qp, attr, attr_mask)
    }

    /// Limits the rate at which a queue pair sends.
    fn modify_qp_rate_limit(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_rate_limit_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// State, attributes and creation attributes.
    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        kernel::qp::query(self.kernel()?, qp, attr, attr_mask, init_attr)
    }

    /// Bits of `ibv_query_qp_data_in_order_caps`: what of the operation's data lands in memory in order.
    fn query_qp_data_in_order(&self, qp: Handle<ibv_qp>, op: c_uint, flags: u32) -> c_int {
        0
    }

    /// The enhanced connection establishment values of the local side.
    fn query_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets the enhanced connection establishment values agreed with the peer.
    fn set_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys the queue pair after its events have been acknowledged.
    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
