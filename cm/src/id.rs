//! Ids: what the kernel keeps for each.

use std::collections::VecDeque;
use std::time::Duration;

use crate::address::{Address, Gid, PortSpace};
use crate::answer::Path;
use crate::connection::Connection;
use crate::errno::Errno;
use crate::file::File;
use crate::manager::Manager;
use crate::ports::Binding;
use crate::world::{Device, Link, Message, World};

/// Types of queue pairs (`enum ibv_qp_type`) that matter here.
pub(crate) const QPT_RC: u8 = 2;
pub(crate) const QPT_UC: u8 = 3;
pub(crate) const QPT_UD: u8 = 4;
pub(crate) const QPT_XRC_INI: u8 = 9;
pub(crate) const QPT_XRC_TGT: u8 = 10;

/// States of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    AddrBound,
    AddrQuery,
    AddrResolved,
    RouteResolved,
    Connect,
    Disconnect,
    Listen,
}

/// What an id's time is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For the neighbour of the destination, which did not answer.
    Neighbour,
    /// For the other side's answer to REQ, REP, SIDR_REQ or DREQ.
    Answer,
    /// For the end of time-wait.
    Timewait,
}

/// An id.
pub(crate) struct Id {
    pub number: u32,
    pub file: File,
    /// When it came to its file, in the order of all such comings.
    pub joined_file: u64,
    pub uid: u64,
    pub space: PortSpace,
    pub qp_type: u8,
    pub state: State,
    pub source: Address,
    pub destination: Address,
    pub device: Option<Device>,
    /// GID of the destination, once it is resolved.
    pub dgid: Gid,
    pub hop_limit: u8,
    pub path: Option<Path>,
    /// The port space of the reservation, where there is one.
    pub reserved: Option<PortSpace>,
    pub reuse: bool,
    pub family_only: bool,
    /// Whether the program set `family_only`.
    pub family_only_set: bool,
    pub tos: Option<u8>,
    pub ack_timeout: Option<u8>,
    /// 0: not set yet.
    pub qkey: u32,
    /// The first packet sequence number that this side expects.
    pub psn: u32,
    /// Numbers of the events that GET_EVENT delivered.
    pub events_reported: u32,
    /// How many more requests may be unread, of a listener.
    pub backlog: u32,
    /// Requests that came while there was no room.
    pub waiting: VecDeque<(Link, Message)>,
    /// What the last [`crate::Action::Accepting`] said.
    pub accepting: bool,
    pub connection: Connection,
    pub alarm: Option<(Duration, Wait)>,
    pub joins: Vec<u32>,
}

impl Id {
    pub fn is_ud(&self) -> bool {
        self.qp_type == QPT_UD
    }

    /// The reservation that this id has, or wants.
    pub fn binding(&self, space: PortSpace) -> Binding {
        Binding {
            space,
            source: self.source,
            destination: self.destination,
            reuse: self.reuse,
            family_only: self.family_only,
        }
    }

    /// The service id of an address of this id's port space.
    pub fn service(&self, address: &Address) -> u64 {
        match address {
            Address::Ib(a) => a.service,
            _ => u64::from(self.space as u16) << 16 | u64::from(address.port()),
        }
    }
}

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
            waiting: VecDeque::new(),
            accepting: false,
            connection: Connection::default(),
            alarm: None,
            joins: Vec::new(),
        };
        self.ids.insert(number, id);
        number
    }

    /// Whether a command written to `file` may name this id: where there is something to check behind it.
    ///
    /// # Errors
    ///
    /// ENOENT where there is none, EINVAL where it is another file's.
    pub fn knows(&self, file: File, number: u32) -> Result<(), Errno> {
        let id = self.ids.get(&number).ok_or(Errno::ENOENT)?;
        if id.file == file { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The id of this number, for a command written to `file`.
    pub(crate) fn id(&mut self, file: File, number: u32) -> Result<&mut Id, Errno> {
        let id = self.ids.get_mut(&number).ok_or(Errno::ENOENT)?;
        if id.file != file {
            return Err(Errno::EINVAL);
        }
        Ok(id)
    }

    /// The same for commands that need a device.
    pub(crate) fn id_with_device(&mut self, file: File, number: u32) -> Result<(&mut Id, Device), Errno> {
        let id = self.id(file, number)?;
        let device = id.device.ok_or(Errno::EINVAL)?;
        Ok((id, device))
    }

    pub(crate) fn destroy_id(
        &mut self,
        file: File,
        number: u32,
        world: &mut dyn World,
    ) -> Result<u32, Errno> {
        self.id(file, number)?;
        Ok(self.destroy(number, world))
    }

    /// Destroys an id with all that hangs on it; the answer is how many of its events were delivered.
    pub(crate) fn destroy(&mut self, number: u32, world: &mut dyn World) -> u32 {
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
            world.release(number);
        }
        for request in self.forget_events(id.file, number) {
            self.destroy(request, world);
        }
        self.id_numbers.give_back(number);
        id.events_reported
    }
}
