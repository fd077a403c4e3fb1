//! What links and time bring. (Bodies follow.)

use std::time::Duration;

use crate::manager::{File, Manager};
use crate::world::{Link, Message, World};

impl Manager {
    pub(crate) fn take_request(&mut self, _: u32, link: Link, _: &[u8], _: Duration, _: &mut dyn World) {
        self.links.insert(link, u32::MAX);
        self.close_link(link);
    }
    pub(crate) fn take_message(&mut self, _: Link, _: &[u8], _: Duration, _: &mut dyn World) {}
    pub(crate) fn link_refused(&mut self, _: Link, _: bool, _: Duration) {}
    pub(crate) fn link_unreachable(&mut self, _: Link, _: Duration) {}
    pub(crate) fn link_ended(&mut self, _: Link, _: Duration) {}
    pub(crate) fn expire(&mut self, _: File, _: Duration, _: &mut dyn World) {}
    pub(crate) fn set_timers(&mut self) {}
    pub(crate) fn end_connection(&mut self, _: u32, _: Duration) {}
    pub(crate) fn refuse_request(&mut self, _: Link, _: &Message) {}
    pub(crate) fn admit_waiting(&mut self, _: u32, _: Duration, _: &mut dyn World) {}
}
