//! Extended connection (XRC) domains.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Extended connection (XRC) domains.
#[allow(unused_variables)]
pub trait Xrcds: CommandFile {
    /// Opens or makes an extended connection domain.
    fn open_xrcd(&self, attr: &mut ibv_xrcd_init_attr) -> Result<Handle<ibv_xrcd>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Closes an extended connection domain; EBUSY while something uses it.
    fn close_xrcd(&self, xrcd: Handle<ibv_xrcd>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
