//! Work queues, and the tables that spread packets over them.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Wqs;

impl Wqs for PluginContext {
    fn create_wq(&self, attr: &mut ibv_wq_init_attr) -> Result<Handle<ibv_wq>> {
        made(call!(self.create_wq(self.context, attr)))
    }

    fn modify_wq(&self, wq: Handle<ibv_wq>, attr: &mut ibv_wq_attr) -> Result<()> {
        done(call!(self.modify_wq(wq.as_ptr(), attr)))
    }

    fn destroy_wq(&self, wq: Handle<ibv_wq>) -> Result<()> {
        done(call!(self.destroy_wq(wq.as_ptr())))
    }

    fn create_rwq_ind_table(
        &self,
        attr: &mut ibv_rwq_ind_table_init_attr,
    ) -> Result<Handle<ibv_rwq_ind_table>> {
        made(call!(self.create_rwq_ind_table(self.context, attr)))
    }

    fn destroy_rwq_ind_table(&self, table: Handle<ibv_rwq_ind_table>) -> Result<()> {
        done(call!(self.destroy_rwq_ind_table(table.as_ptr())))
    }
}
