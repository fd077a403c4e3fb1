//! What a device says of itself.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::{CommandFile, kernel};

/// What a device says of itself.
#[allow(unused_variables)]
pub trait Devices: CommandFile {
    /// Attributes of the device; `attr_size` bytes of the result are what the program has room for.
    fn query_device(
        &self,
        input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        attr_size: usize,
    ) -> Result<()> {
        kernel::device::query(self.kernel()?, input, attr, attr_size)
    }

    /// Real-time values such as the raw hardware clock; the method sets `comp_mask` to what it gave.
    fn query_rt_values(&self, values: &mut ibv_values_ex) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
