//! Shared receive queues. Posting is the data path's.

use core::ffi::c_int;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::{CommandFile, kernel};

/// Shared receive queues.
#[allow(unused_variables)]
pub trait Srqs: CommandFile {
    /// A shared receive queue; `attr` gets the capacities really given.
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A shared receive queue of any type.
    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Resizes, or arms the limit event.
    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        kernel::srq::modify(self.kernel()?, srq, attr, attr_mask)
    }

    /// Capacities and limit.
    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The number of an XRC shared receive queue.
    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys the queue after its events have been acknowledged; EBUSY while a QP uses it.
    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
