//! Protection domains.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Pds;

impl Pds for PluginContext {
    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        made(call!(self.alloc_pd(self.context)))
    }

    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        done(call!(self.dealloc_pd(pd.as_ptr())))
    }

    fn import_pd(&self, context: Handle<ibv_context>, pd_handle: u32) -> Result<Handle<ibv_pd>> {
        made(call!(self.import_pd(context.as_ptr(), pd_handle)))
    }

    fn unimport_pd(&self, pd: Handle<ibv_pd>) {
        call!(self.unimport_pd(pd.as_ptr()));
    }
}
