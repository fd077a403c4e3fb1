//! Protection domains.

use super::SoftContext;
use super::convert::refused;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::domain;
use crate::provider::object::Handle;
use crate::provider::verbs::Pds;

impl Pds for SoftContext {
    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        self.engine.alloc_pd().map(domain::publish).map_err(refused)
    }

    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        domain::dealloc(pd, |number| self.engine.free_pd(number).map_err(refused))
    }

    fn import_pd(&self, context: Handle<ibv_context>, pd_handle: u32) -> Result<Handle<ibv_pd>> {
        // Whether it is there.
        self.engine.hold_pd(pd_handle).map_err(|_| Errno::ENOENT.also_set())?;
        self.engine.release_pd(pd_handle);
        Ok(domain::publish_imported(context, pd_handle))
    }
}
