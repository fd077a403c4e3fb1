//! Thread domains, and the parent domains that name them.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Tds;

impl Tds for PluginContext {
    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        made(call!(self.alloc_td(self.context, attr)))
    }

    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        done(call!(self.dealloc_td(td.as_ptr())))
    }

    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        made(call!(self.alloc_parent_domain(self.context, attr)))
    }
}
