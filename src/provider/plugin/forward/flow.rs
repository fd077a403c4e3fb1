//! Flow rules and their actions.

use core::ptr::NonNull;

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Flows;

impl Flows for PluginContext {
    fn create_flow(&self, qp: Handle<ibv_qp>, attr: NonNull<ibv_flow_attr>) -> Result<Handle<ibv_flow>> {
        made(call!(self.create_flow(qp.as_ptr(), attr.as_ptr())))
    }

    fn destroy_flow(&self, flow: Handle<ibv_flow>) -> Result<()> {
        done(call!(self.destroy_flow(flow.as_ptr())))
    }

    fn create_flow_action_esp(&self, attr: &mut ibv_flow_action_esp_attr) -> Result<Handle<ibv_flow_action>> {
        made(call!(self.create_flow_action_esp(self.context, attr)))
    }

    fn modify_flow_action_esp(
        &self,
        action: Handle<ibv_flow_action>,
        attr: &mut ibv_flow_action_esp_attr,
    ) -> Result<()> {
        done(call!(self.modify_flow_action_esp(action.as_ptr(), attr)))
    }

    fn destroy_flow_action(&self, action: Handle<ibv_flow_action>) -> Result<()> {
        done(call!(self.destroy_flow_action(action.as_ptr())))
    }
}
