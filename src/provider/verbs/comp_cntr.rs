//! Completion counters.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Completion counters.
#[allow(unused_variables)]
pub trait CompCntrs: CommandFile {
    /// What completion counters can do, into the bytes of the caller's `ibv_comp_cntr_caps`, which are zero.
    fn query_comp_cntr_caps(&self, caps: &mut [u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A counter of completed and of failed operations.
    fn create_comp_cntr(&self, attr: &mut ibv_comp_cntr_init_attr) -> Result<Handle<ibv_comp_cntr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees such a counter.
    fn destroy_comp_cntr(&self, counter: Handle<ibv_comp_cntr>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets the number of completions.
    fn set_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets the number of failures.
    fn set_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Adds to the number of completions.
    fn inc_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Adds to the number of failures.
    fn inc_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Writes the number of completions.
    fn read_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Writes the number of failures.
    fn read_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Has a counter count the operations of a queue pair that `attr` names.
    fn qp_attach_comp_cntr(
        &self,
        qp: Handle<ibv_qp>,
        counter: Handle<ibv_comp_cntr>,
        attr: &mut ibv_qp_attach_comp_cntr_attr,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
