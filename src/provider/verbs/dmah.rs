//! Hints for direct memory access.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Hints for direct memory access.
#[allow(unused_variables)]
pub trait Dmahs: CommandFile {
    /// Hints for direct memory access that registrations share.
    fn alloc_dmah(&self, attr: &mut ibv_dmah_init_attr) -> Result<Handle<ibv_dmah>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees such hints.
    fn dealloc_dmah(&self, dmah: Handle<ibv_dmah>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
