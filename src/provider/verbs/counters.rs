//! Counters of what flow rules see.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Counters of what flow rules see.
#[allow(unused_variables)]
pub trait Counters: CommandFile {
    /// A set of counters.
    fn create_counters(&self, attr: &mut ibv_counters_init_attr) -> Result<Handle<ibv_counters>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees counters; EBUSY while a rule uses them.
    fn destroy_counters(&self, counters: Handle<ibv_counters>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Lets a counter of the set count what a rule sees; without a rule the set is prepared for one.
    fn attach_counters_point_flow(
        &self,
        counters: Handle<ibv_counters>,
        attr: &mut ibv_counter_attach_attr,
        flow: Option<Handle<ibv_flow>>,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The values of the first counters of a set.
    fn read_counters(&self, counters: Handle<ibv_counters>, values: &mut [u64], flags: u32) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
