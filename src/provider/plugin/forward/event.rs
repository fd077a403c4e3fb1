//! Asynchronous events, and what events of either kind are read from.

use super::{PluginContext, call};
use crate::abi::verbs::*;
use crate::provider::verbs::Events;

impl Events for PluginContext {
    fn async_event(&self, event: &mut ibv_async_event) {
        call!(self.async_event(self.context, event));
    }
}
