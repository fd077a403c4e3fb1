//! Thread domains, and the parent domains that name them.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Thread domains, and the parent domains that name them.
#[allow(unused_variables)]
pub trait Tds: CommandFile {
    /// A thread domain: objects made under it are used by one thread at a time.
    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees a thread domain; EBUSY while a parent domain names it.
    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A protection domain that stands for `attr.pd` and adds a thread domain or allocators to it. `dealloc_pd`
    /// frees it.
    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        Err(Errno::EOPNOTSUPP)
    }
}
