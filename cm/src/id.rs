//! Ids: what the kernel keeps for each, with its connection.

use std::collections::VecDeque;
use std::time::Duration;

use crate::address::{Address, Gid, PortSpace};
use crate::answer::Path;
use crate::file::File;
use crate::ports::Binding;
use crate::world::{Device, Link, Message};

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

/// States of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Cm {
    /// Not begun: there is nothing that could be rejected or disconnected.
    #[default]
    None,
    /// Over, or not to be had.
    Idle,
    /// Of a listener with a device.
    Listen,
    ReqSent,
    ReqRcvd,
    RepSent,
    RepRcvd,
    Established,
    DreqSent,
    DreqRcvd,
    Timewait,
    SidrReqSent,
    SidrReqRcvd,
}

/// A connection's state.
#[derive(Default)]
pub(crate) struct Connection {
    pub cm: Cm,
    pub link: Option<Link>,
    pub transaction: u64,
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    /// The service id that was asked for.
    pub service: u64,
    pub qpn: u32,
    pub srq: bool,
    pub remote_qpn: u32,
    /// The first packet sequence number that the other side expects.
    pub sq_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry: u8,
    pub rnr_retry: u8,
    pub path_mtu: u8,
    /// Timer code of the acknowledgement timeout.
    pub timeout: u8,
    /// DREQ was sent.
    pub asked_end: bool,
    /// DREQ came before the program said RTU.
    pub early_dreq: bool,
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
