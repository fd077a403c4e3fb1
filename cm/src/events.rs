//! Lists of unread events.

use crate::errno::Errno;
use crate::event::{Event, EventKind, Param};
use crate::file::File;
use crate::id::Id;
use crate::manager::{Manager, Unread};
use crate::world::World;

impl Id {
    /// An event of this id without parameters.
    pub fn event(&self, kind: EventKind, status: i32) -> Event {
        Event { uid: self.uid, id: self.number, kind, status, param: Param::None, ece: Default::default() }
    }
}

impl Manager {
    /// Queues an event of an id, unless the id is new and nobody accepted it yet.
    pub(crate) fn queue(&mut self, event: Event) {
        let Some(id) = self.ids.get(&event.id) else { return };
        if id.uid == 0 {
            return;
        }
        let (owner, file) = (id.number, id.file);
        self.push(file, Unread { owner, join: None, request: None, event });
    }

    pub(crate) fn push(&mut self, file: File, unread: Unread) {
        if let Some(channel) = self.files.get_mut(&file) {
            channel.arrivals += 1;
            channel.unread.push_back(unread);
        }
    }

    /// Queues an event without parameters.
    pub(crate) fn queue_plain(&mut self, number: u32, kind: EventKind, status: i32) {
        if let Some(event) = self.ids.get(&number).map(|id| id.event(kind, status)) {
            self.queue(event);
        }
    }

    pub(crate) fn get_event(&mut self, file: File, world: &mut dyn World) -> Result<Box<Event>, Errno> {
        let channel = self.files.get_mut(&file).ok_or(Errno::EINVAL)?;
        let unread = channel.unread.pop_front().ok_or(Errno::EAGAIN)?;
        if let Some(id) = self.ids.get_mut(&unread.owner) {
            id.events_reported = id.events_reported.wrapping_add(1);
            if unread.request.is_some() {
                id.backlog += 1;
                self.admit_waiting(unread.owner, world);
            }
        }
        if let Some(join) = unread.join.and_then(|join| self.joins.get_mut(&join)) {
            join.events_reported = join.events_reported.wrapping_add(1);
        }
        Ok(Box::new(unread.event))
    }

    /// Takes the unread events of an id away; the answer is the new ids of requests among them.
    pub(crate) fn forget_events(&mut self, file: File, owner: u32) -> Vec<u32> {
        let Some(channel) = self.files.get_mut(&file) else { return Vec::new() };
        let requests = channel.unread.iter().filter(|u| u.owner == owner).filter_map(|u| u.request).collect();
        channel.unread.retain(|u| u.owner != owner);
        requests
    }
}
