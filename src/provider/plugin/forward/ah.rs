//! Address handles.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Ahs;

impl Ahs for PluginContext {
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        made(call!(self.create_ah(pd.as_ptr(), attr)))
    }

    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        done(call!(self.destroy_ah(ah.as_ptr())))
    }
}
