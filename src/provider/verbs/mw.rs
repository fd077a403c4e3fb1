//! Memory windows.

use core::ffi::c_uint;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Memory windows.
#[allow(unused_variables)]
pub trait Mws: CommandFile {
    /// A memory window of type 1 or 2.
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees a memory window.
    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Posts the binding of a type 1 window.
    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, bind: &ibv_mw_bind) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
