//! Address handles.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Address handles.
#[allow(unused_variables)]
pub trait Ahs: CommandFile {
    /// An address handle: the way to a peer for datagrams.
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees an address handle.
    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
