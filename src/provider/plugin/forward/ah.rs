//! Address handles.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Ahs;

impl Ahs for PluginContext {
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        let ah = made(call!(self.create_ah(pd.as_ptr(), attr)))?;
        if let Some(mlx5) = self.mlx5() {
            mlx5.learn_address(ah);
        }
        Ok(ah)
    }

    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        done(call!(self.destroy_ah(ah.as_ptr())))
    }
}
