//! Completion queues. Polling and arming are the data path's.

use core::ffi::c_int;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Completion queues.
#[allow(unused_variables)]
pub trait Cqs: CommandFile {
    /// A completion queue of at least `cqe` entries.
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A completion queue with the extended polling functions that `wc_flags` ask for.
    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes the capacity; completions already there are kept.
    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes the moderation of completion events.
    fn modify_cq(&self, cq: Handle<ibv_cq>, attr: &mut ibv_modify_cq_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys the queue after every event got from it has been acknowledged; EBUSY while a QP uses it.
    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Told of each event that `ibv_get_cq_event` takes from a channel.
    fn cq_event(&self, cq: Handle<ibv_cq>) {}
}
