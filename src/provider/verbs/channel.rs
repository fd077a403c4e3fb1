//! Completion channels.

use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::EventSource;
use crate::provider::{CommandFile, kernel};
use crate::uverbs;

/// Completion channels.
#[allow(unused_variables)]
pub trait Channels: CommandFile {
    /// A completion channel, without the context that it belongs to; its `fd` becomes readable with each event.
    fn create_comp_channel(&self) -> Result<Handle<ibv_comp_channel>> {
        kernel::channel::create(self.kernel()?)
    }

    /// Closes a channel that no queue uses.
    fn destroy_comp_channel(&self, channel: Handle<ibv_comp_channel>) -> Result<()> {
        kernel::channel::destroy(channel)
    }

    /// What an event of a channel is read from.
    fn cq_event_source(&self, channel: Handle<ibv_comp_channel>) -> EventSource {
        // SAFETY: a live channel.
        EventSource { fd: unsafe { (*channel.as_ptr()).fd }, record: uverbs::event::COMPLETION_RECORD }
    }

    /// The queue that a record read from there is about; None if there is no event behind it, and another
    /// record is to be read.
    fn next_cq_event(
        &self,
        channel: Handle<ibv_comp_channel>,
        record: &[u8],
    ) -> Result<Option<Handle<ibv_cq>>> {
        kernel::channel::event(record).map(Some)
    }
}
