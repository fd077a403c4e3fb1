//! LISTEN, and how many requests may wait.

use crate::address::{Address, Family};
use crate::errno::Errno;
use crate::file::File;
use crate::id::{Cm, State};
use crate::manager::Manager;
use crate::world::{Action, World};

impl Manager {
    pub(crate) fn listen(
        &mut self,
        file: File,
        number: u32,
        backlog: i32,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        self.id(file, number)?;
        let most = world.max_backlog();
        if self.id(file, number)?.state == State::Idle {
            self.bind_id(number, Address::zero(Family::V4), Address::Unspecified, world)?;
        }
        let id = self.id(file, number)?;
        let Some(space) = id.reserved.filter(|_| id.state == State::AddrBound) else {
            return Err(Errno::EINVAL);
        };
        let binding = id.binding(space);
        world.listen(number, file, &binding)?;
        id.reuse = false;
        id.backlog = if backlog <= 0 || backlog > most { most } else { backlog }.max(0) as u32;
        id.accepting = true;
        id.state = State::Listen;
        if id.device.is_some() {
            id.connection.cm = Cm::Listen;
        }
        Ok(())
    }

    /// Says whether a listener has room, where that changed.
    pub(crate) fn note_room(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        let room = id.backlog > 0 && id.waiting.is_empty();
        if id.state == State::Listen && id.accepting != room {
            id.accepting = room;
            self.act(Action::Accepting { id: number, room });
        }
    }

    /// A listener has room for one more: the request that waited longest is taken.
    pub(crate) fn admit_waiting(&mut self, number: u32, world: &mut dyn World) {
        while let Some(id) = self.ids.get_mut(&number)
            && id.backlog > 0
            && let Some((link, message)) = id.waiting.pop_front()
        {
            self.take_request(number, link, &message[..], world);
        }
        self.note_room(number);
    }
}
