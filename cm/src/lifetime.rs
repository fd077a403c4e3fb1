//! CREATE_ID and DESTROY_ID: how ids begin and end.

use crate::address::{Address, PortSpace};
use crate::errno::Errno;
use crate::file::File;
use crate::id::{Connection, Id, QPT_RC, QPT_UD, State};
use crate::manager::Manager;
use crate::world::{Action, World};

impl Manager {
    pub(crate) fn create_id(
        &mut self,
        file: File,
        uid: u64,
        space: u16,
        qp_type: u8,
        world: &mut dyn World,
    ) -> Result<u32, Errno> {
        let space = PortSpace::from_number(space).ok_or(Errno::EINVAL)?;
        let qp_type = match space {
            PortSpace::Tcp => QPT_RC,
            PortSpace::Udp | PortSpace::Ipoib => QPT_UD,
            PortSpace::Ib => qp_type,
        };
        Ok(self.new_id(file, uid, space, qp_type, world))
    }

    pub(crate) fn new_id(
        &mut self,
        file: File,
        uid: u64,
        space: PortSpace,
        qp_type: u8,
        world: &mut dyn World,
    ) -> u32 {
        let number = self.id_numbers.take();
        let joined_file = self.next_coming();
        let id = Id {
            number,
            file,
            joined_file,
            uid,
            space,
            qp_type,
            state: State::Idle,
            source: Address::Unspecified,
            destination: Address::Unspecified,
            device: None,
            dgid: [0; 16],
            hop_limit: 0,
            path: None,
            reserved: None,
            reuse: false,
            family_only: false,
            family_only_set: false,
            tos: None,
            ack_timeout: None,
            qkey: 0,
            psn: world.random() & 0xff_ffff,
            events_reported: 0,
            backlog: 0,
            waiting: Default::default(),
            accepting: false,
            connection: Connection::default(),
            alarm: None,
            joins: Vec::new(),
        };
        self.ids.insert(number, id);
        number
    }

    pub(crate) fn destroy_id(&mut self, file: File, number: u32) -> Result<u32, Errno> {
        self.id(file, number)?;
        Ok(self.destroy(number))
    }

    /// Destroys an id with all that hangs on it; the answer is how many of its events were delivered.
    pub(crate) fn destroy(&mut self, number: u32) -> u32 {
        self.end_connection(number);
        let Some(mut id) = self.ids.remove(&number) else { return 0 };
        for join in std::mem::take(&mut id.joins) {
            self.joins.remove(&join);
            self.join_numbers.give_back(join);
        }
        for (link, message) in std::mem::take(&mut id.waiting) {
            self.refuse_request(link, &message);
        }
        if id.reserved.is_some() {
            // Before anybody hears of the end: whoever then comes again finds nobody.
            self.actions.push_front(Action::Release { id: number });
        }
        for request in self.forget_events(id.file, number) {
            self.destroy(request);
        }
        self.id_numbers.give_back(number);
        id.events_reported
    }
}
