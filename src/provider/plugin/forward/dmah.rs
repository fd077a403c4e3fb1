//! Hints for direct memory access.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Dmahs;

impl Dmahs for PluginContext {
    fn alloc_dmah(&self, attr: &mut ibv_dmah_init_attr) -> Result<Handle<ibv_dmah>> {
        made(call!(self.alloc_dmah(self.context, attr)))
    }

    fn dealloc_dmah(&self, dmah: Handle<ibv_dmah>) -> Result<()> {
        done(call!(self.dealloc_dmah(dmah.as_ptr())))
    }
}
