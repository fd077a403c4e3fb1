//! Work queues, and the tables that spread packets over them.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Work queues, and the tables that spread packets over them.
#[allow(unused_variables)]
pub trait Wqs: CommandFile {
    /// A work queue, with its kernel handle and number filled in.
    fn create_wq(&self, attr: &mut ibv_wq_init_attr) -> Result<Handle<ibv_wq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Moves a work queue through its states and sets attributes.
    fn modify_wq(&self, wq: Handle<ibv_wq>, attr: &mut ibv_wq_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys a work queue after its events have been acknowledged; EBUSY while a table names it.
    fn destroy_wq(&self, wq: Handle<ibv_wq>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A table that spreads received packets over work queues.
    fn create_rwq_ind_table(
        &self,
        attr: &mut ibv_rwq_ind_table_init_attr,
    ) -> Result<Handle<ibv_rwq_ind_table>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys such a table; EBUSY while a queue pair uses it.
    fn destroy_rwq_ind_table(&self, table: Handle<ibv_rwq_ind_table>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
