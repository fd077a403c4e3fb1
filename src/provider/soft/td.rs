//! Thread domains, and the parent domains that name them.

use super::SoftContext;
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::domain;
use crate::provider::object::Handle;
use crate::provider::verbs::Tds;

impl Tds for SoftContext {
    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        domain::alloc_td(attr)
    }

    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        domain::dealloc_td(td)
    }

    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        domain::alloc_parent(attr)
    }
}
