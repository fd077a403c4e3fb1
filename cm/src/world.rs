//! What the machine asks of the world ([`World`]), and what it wants done there ([`Action`]). The world says
//! what is the matter; which error number a program gets for that, `errno` says.

use std::time::Duration;

use crate::address::{Address, Family, Gid, PortSpace};
use crate::file::File;
use crate::ports::{Binding, NoPort};
use crate::wire::MAD_SIZE;

/// A port of a device with one GID of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Device {
    /// GUID of the device, as on the wire; not zero.
    pub node_guid: [u8; 8],
    /// The device's index, as `ibv_get_device_index` answers it.
    pub index: u32,
    /// Port, from 1.
    pub port: u8,
    /// Index of the GID in the port's table.
    pub sgid_index: u8,
    /// The GID there.
    pub gid: Gid,
    /// MTU of the path (`enum ibv_mtu`, 1 to 5): the interface's MTU less 80, rounded down.
    pub mtu: u8,
}

/// How a destination is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The own address that the routing table says (or the given one), with scope where link-local; port
    /// ignored.
    pub source: Address,
    /// The device that has that address; `None`: none has it, and ADDR_ERROR says so.
    pub device: Option<Device>,
    /// GID of the destination: [`Address::gid`] of it, for loopback that of `device`.
    pub dgid: Gid,
    /// Scope of a link-local destination given without one; else 0.
    pub scope: u32,
    /// Hop limit of the route; 64 usually, 1 on one link.
    pub hop_limit: u8,
}

/// Why an address has no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDevice {
    /// It is no address of the host, as an IPv4 address in IPv6 never is.
    NotLocal,
    /// It is one, but of no device.
    NoneHasIt,
}

/// Why a destination is not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// The routing table says so, by this errno: the command fails.
    Table(i32),
    /// No host has this GID: ADDR_ERROR.
    NoHost,
    /// No neighbour has this address: ADDR_ERROR when the command's time is over.
    NoNeighbour,
}

/// The other end of a connection: where a listener is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Address with port.
    pub address: Address,
    /// Port space.
    pub space: PortSpace,
    /// The same as a service id, as it stands in the request.
    pub service: u64,
}

/// A connection between two ids. Numbers are never used twice in one [`Manager`](crate::Manager).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u64);

/// A message between two sides: a whole MAD.
pub type Message = Box<[u8; MAD_SIZE]>;

/// What is to be done outside. Actions are executed in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to who listens at `to`, and send `message` there. The link belongs to `file`: its descriptor
    /// becomes readable when something arrives. Nobody listens: [`Manager::refused`](crate::Manager::refused).
    Connect {
        /// The link's number from now on.
        link: Link,
        /// The channel that it wakes.
        file: File,
        /// Own address, for the choice between listeners.
        from: Address,
        /// Where to.
        to: Destination,
        /// The first message.
        message: Message,
    },
    /// Send on a link.
    Send {
        /// The link.
        link: Link,
        /// What.
        message: Message,
    },
    /// Close a link when what was sent is out. It is not read any more and wakes nobody.
    Close {
        /// The link.
        link: Link,
    },
    /// The link belongs to another channel now.
    Move {
        /// The link.
        link: Link,
        /// The channel that it wakes from now on.
        file: File,
    },
    /// The listener belongs to another channel now.
    MoveListener {
        /// The listener's id.
        id: u32,
        /// The channel that it wakes from now on.
        file: File,
    },
    /// A listener's queue of unread requests has room again (or not): while it has none, nothing should be
    /// accepted for it, and its socket should not wake the channel. What is accepted nevertheless waits inside
    /// the machine.
    Accepting {
        /// The listener's id.
        id: u32,
        /// Whether there is room.
        room: bool,
    },
    /// Call [`Manager::expired`](crate::Manager::expired) for this file when this time has come; it replaces
    /// what was asked for this file before, and `None` asks for nothing. The descriptor becomes readable then.
    Timer {
        /// The channel.
        file: File,
        /// When, on the clock of [`World::now`].
        at: Option<Duration>,
    },
    /// Change an id's reservation: the destination became known, or `reuse` or `family_only` were set.
    Update {
        /// The id.
        id: u32,
        /// What it has from now on, with the port that it has.
        binding: Binding,
    },
    /// Give an id's port back, and end listening. Links that nobody accepted are closed by it.
    Release {
        /// The id.
        id: u32,
    },
}

/// What the machine asks of the world. Every call answers at once.
pub trait World {
    /// The device that has this local address (not "any", see [`Address::is_any`]) as a GID of type RoCE v2. Of
    /// a native address its GID says which.
    ///
    /// # Errors
    ///
    /// See [`NoDevice`].
    fn device_of(&mut self, address: &Address) -> Result<Device, NoDevice>;

    /// The device that has this GID: the requests' destination.
    fn device_of_gid(&mut self, gid: &Gid) -> Option<Device>;

    /// The way to `destination`, from `source` where that is known (not "any"). `destination` may be "any" or a
    /// loopback address, which is the host itself: the source is then 127.0.0.1 or ::1, the device the first
    /// one with an active port, and `dgid` that device's own GID. It may be a multicast group.
    ///
    /// # Errors
    ///
    /// See [`NoRoute`].
    fn route(&mut self, source: Option<&Address>, destination: &Address) -> Result<Route, NoRoute>;

    /// Reserves a port for an id: [`ports::choose`](crate::ports::choose) among all ids of all processes of the
    /// network namespace. The id has none yet.
    ///
    /// # Errors
    ///
    /// Those of `choose`; [`NoPort::System`].
    fn reserve(&mut self, id: u32, wanted: &Binding) -> Result<u16, NoPort>;

    /// Begins to listen at the id's reservation, for the channel `file`: checks
    /// [`may_listen`](crate::ports::may_listen), stores `reuse` as false, and makes the place where links
    /// arrive.
    ///
    /// # Errors
    ///
    /// Those of `may_listen`; [`NoPort::System`] where the place cannot be made.
    fn listen(&mut self, id: u32, file: File, binding: &Binding) -> Result<(), NoPort>;

    /// Time since some moment, always the same one.
    fn now(&mut self) -> Duration;

    /// A number that others cannot guess.
    fn random(&mut self) -> u32;

    /// /proc/sys/net/ipv6/bindv6only.
    fn family_only(&mut self, family: Family) -> bool;

    /// /proc/sys/net/rdma_ucm/max_backlog: 1024 where there is none.
    fn max_backlog(&mut self) -> i32 {
        1024
    }
}
