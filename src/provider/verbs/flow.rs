//! Flow rules and their actions.

use core::ptr::NonNull;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Flow rules and their actions.
#[allow(unused_variables)]
pub trait Flows: CommandFile {
    /// Leads the packets that the rule describes to a queue pair. The rule's specifications follow it in
    /// memory.
    fn create_flow(&self, qp: Handle<ibv_qp>, attr: NonNull<ibv_flow_attr>) -> Result<Handle<ibv_flow>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Ends a rule.
    fn destroy_flow(&self, flow: Handle<ibv_flow>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// IPsec (ESP) as an action of rules.
    fn create_flow_action_esp(&self, attr: &mut ibv_flow_action_esp_attr) -> Result<Handle<ibv_flow_action>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes such an action.
    fn modify_flow_action_esp(
        &self,
        action: Handle<ibv_flow_action>,
        attr: &mut ibv_flow_action_esp_attr,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees an action; EBUSY while a rule uses it.
    fn destroy_flow_action(&self, action: Handle<ibv_flow_action>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
