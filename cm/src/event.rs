//! Events, as GET_EVENT answers them.

use crate::address::Gid;
use crate::command::{ConnParam, Ece};

/// Kinds of events (`enum rdma_cm_event_type`); the value is the number in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs)] // The names are the header's.
pub enum EventKind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    AddrChange = 14,
    TimewaitExit = 15,
    AddrinfoResolved = 16,
    AddrinfoError = 17,
    User = 18,
    Internal = 19,
}

/// Attributes of an address handle (`ib_uverbs_ah_attr`), in host order. What is not here is 0 on RoCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AhAttr {
    /// The other side's GID, or the group's.
    pub dgid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Index of the own GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Static rate.
    pub static_rate: u8,
    /// Whether there is a global route header: always 1 on RoCE.
    pub is_global: u8,
    /// Port of the device.
    pub port: u8,
}

/// Parameters of an event of an id for datagrams (`rdma_ucm_ud_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdParam {
    /// The other side's queue pair; 0xffffff of a group.
    pub qp_num: u32,
    /// Queue key.
    pub qkey: u32,
    /// How to reach it.
    pub ah: AhAttr,
    /// Private data.
    pub private_data: [u8; 256],
    /// The field's size, not what was sent.
    pub private_data_len: u8,
}

impl Default for UdParam {
    fn default() -> Self {
        UdParam { qp_num: 0, qkey: 0, ah: AhAttr::default(), private_data: [0; 256], private_data_len: 0 }
    }
}

/// Parameters of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// All zero.
    None,
    /// Of ids for connections.
    Conn(Box<ConnParam>),
    /// Of ids for datagrams.
    Ud(Box<UdParam>),
    /// `arg32[2]`: of events that a program wrote itself.
    Argument([u32; 2]),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The id's (of a request the listener's, of a multicast event the join's).
    pub uid: u64,
    /// Number of the id, of a request that of the new id, of a multicast event that of the join.
    pub id: u32,
    /// Kind.
    pub kind: EventKind,
    /// 0, a negative error number, or a reason or status of the other side.
    pub status: i32,
    /// Parameters.
    pub param: Param,
    /// What the other side offered or answered.
    pub ece: Ece,
}
