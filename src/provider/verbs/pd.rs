//! Protection domains.

use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::{CommandFile, domain, kernel};

/// Protection domains, also those of somebody else.
///
/// The defaults of `alloc_pd` and `dealloc_pd` belong together: whoever overrides one overrides the other.
#[allow(unused_variables)]
pub trait Pds: CommandFile {
    /// A protection domain with its kernel handle filled in.
    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        kernel::pd::alloc(self.kernel()?)
    }

    /// Frees a protection domain; EBUSY while something uses it.
    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        kernel::pd::dealloc(self.kernel()?, pd)
    }

    /// The protection domain of another process that has this number in the kernel, as one of `context`, which
    /// is this one.
    fn import_pd(&self, context: Handle<ibv_context>, pd_handle: u32) -> Result<Handle<ibv_pd>> {
        kernel::pd::import(self.kernel()?, context, pd_handle)
    }

    /// Forgets an imported protection domain.
    fn unimport_pd(&self, pd: Handle<ibv_pd>) {
        domain::unimport(pd)
    }
}
