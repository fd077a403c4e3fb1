//! Answers of commands.

use crate::address::{Address, Gid};
use crate::event::{AhAttr, Event};

/// What a command answers. Commands without a word of their own answer [`Answer::Done`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing to store.
    Done,
    /// Number of the new id or join.
    Created(u32),
    /// Events of the id or join that GET_EVENT delivered.
    Reported(u32),
    /// Of QUERY 0 and 2.
    Addresses(Addresses),
    /// Of QUERY 1: as many as the room holds are stored, `num_paths` is the number of all.
    Paths(Vec<Path>),
    /// Of QUERY 3: records are never found on RoCE, so the number is 0.
    IbServices,
    /// Of QUERY_ROUTE.
    Route(Box<Route>),
    /// Of INIT_QP_ATTR.
    QpAttr(Box<QpAttr>),
    /// Of GET_EVENT.
    Event(Box<Event>),
}

/// Answer of QUERY 0 and 2 (`rdma_ucm_query_addr_resp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Addresses {
    /// GUID of the device, as on the wire; zero while the id has none.
    pub node_guid: [u8; 8],
    /// The device's index (`ibv_get_device_index`); 0 while the id has none.
    pub index: u32,
    /// The device's port; 0 while the id has none.
    pub port: u8,
    /// Partition key; 0 while the id has no device.
    pub pkey: u16,
    /// Own address; [`Address::Unspecified`]: size 0.
    pub source: Address,
    /// The other side's; [`Address::Unspecified`]: size 0.
    pub destination: Address,
}

/// Answer of QUERY_ROUTE (`rdma_ucm_query_route_resp`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Route {
    /// Device and addresses, as of QUERY 0. `pkey` is not stored here.
    pub addresses: Addresses,
    /// How many of the paths count.
    pub num_paths: u32,
    /// The first entry of `ib_route`; with `num_paths` 0 and a device it has GIDs and the partition key alone.
    pub path: Path,
}

/// A path record, in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Path {
    /// Service id.
    pub service: u64,
    /// The other side's GID.
    pub dgid: Gid,
    /// The own GID.
    pub sgid: Gid,
    /// LIDs; 0 on RoCE.
    pub dlid: u16,
    /// LIDs; 0 on RoCE.
    pub slid: u16,
    /// Whether this is raw traffic.
    pub raw_traffic: bool,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Whether the path is reversible.
    pub reversible: bool,
    /// Number of paths, 7 bits.
    pub numb_path: u8,
    /// Partition key.
    pub pkey: u16,
    /// Quality of service class, 12 bits.
    pub qos_class: u16,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Selector of `mtu`, 2 bits.
    pub mtu_selector: u8,
    /// MTU (`enum ibv_mtu`), 6 bits.
    pub mtu: u8,
    /// Selector of `rate`, 2 bits.
    pub rate_selector: u8,
    /// Rate (`enum ibv_rate`), 6 bits.
    pub rate: u8,
    /// Selector of `packet_life_time`, 2 bits.
    pub packet_life_time_selector: u8,
    /// 4.096 us << this, 6 bits.
    pub packet_life_time: u8,
    /// Preference.
    pub preference: u8,
}

impl Path {
    /// The 64 bytes of the subnet administrator's wire format, as QUERY 1 stores them behind the flags.
    pub fn pack(&self) -> [u8; 64] {
        let mut out = [0; 64];
        out[0..8].copy_from_slice(&self.service.to_be_bytes());
        out[8..24].copy_from_slice(&self.dgid);
        out[24..40].copy_from_slice(&self.sgid);
        out[40..42].copy_from_slice(&self.dlid.to_be_bytes());
        out[42..44].copy_from_slice(&self.slid.to_be_bytes());
        let flow =
            u32::from(self.raw_traffic) << 31 | (self.flow_label & 0xf_ffff) << 8 | u32::from(self.hop_limit);
        out[44..48].copy_from_slice(&flow.to_be_bytes());
        out[48] = self.traffic_class;
        out[49] = u8::from(self.reversible) << 7 | self.numb_path & 0x7f;
        out[50..52].copy_from_slice(&self.pkey.to_be_bytes());
        let class = (self.qos_class & 0xfff) << 4 | u16::from(self.sl & 15);
        out[52..54].copy_from_slice(&class.to_be_bytes());
        out[54] = self.mtu_selector << 6 | self.mtu & 63;
        out[55] = self.rate_selector << 6 | self.rate & 63;
        out[56] = self.packet_life_time_selector << 6 | self.packet_life_time & 63;
        out[57] = self.preference;
        out
    }

    /// The reverse of [`Path::pack`].
    pub fn unpack(bytes: &[u8; 64]) -> Path {
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let gid = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        let flow = u32::from_be_bytes([bytes[44], bytes[45], bytes[46], bytes[47]]);
        Path {
            service: u64::from_be_bytes(std::array::from_fn(|i| bytes[i])),
            dgid: gid(8),
            sgid: gid(24),
            dlid: word(40),
            slid: word(42),
            raw_traffic: flow >> 31 != 0,
            flow_label: flow >> 8 & 0xf_ffff,
            hop_limit: flow as u8,
            traffic_class: bytes[48],
            reversible: bytes[49] >> 7 != 0,
            numb_path: bytes[49] & 0x7f,
            pkey: word(50),
            qos_class: word(52) >> 4,
            sl: bytes[53] & 15,
            mtu_selector: bytes[54] >> 6,
            mtu: bytes[54] & 63,
            rate_selector: bytes[55] >> 6,
            rate: bytes[55] & 63,
            packet_life_time_selector: bytes[56] >> 6,
            packet_life_time: bytes[56] & 63,
            preference: bytes[57],
        }
    }
}

/// Bits of [`QpAttr::mask`] (`enum ibv_qp_attr_mask`).
pub(crate) mod mask {
    #![allow(missing_docs)] // The names are the header's.
    pub const STATE: u32 = 1;
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const AV: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY_CNT: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const DEST_QPN: u32 = 1 << 20;
}

/// Answer of INIT_QP_ATTR (`ib_uverbs_qp_attr`). What is not here is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QpAttr {
    /// Which fields count.
    pub mask: u32,
    /// The state that was asked for.
    pub state: u32,
    /// `enum ibv_mtu`.
    pub path_mtu: u32,
    /// Queue key.
    pub qkey: u32,
    /// First packet sequence number to receive.
    pub rq_psn: u32,
    /// First packet sequence number to send.
    pub sq_psn: u32,
    /// The other side's queue pair.
    pub dest_qp_num: u32,
    /// `enum ibv_access_flags`.
    pub access: u32,
    /// The path.
    pub ah: AhAttr,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// RDMA reads and atomics asked at once.
    pub max_rd_atomic: u8,
    /// RDMA reads and atomics answered at once.
    pub max_dest_rd_atomic: u8,
    /// Timer code.
    pub min_rnr_timer: u8,
    /// Port of the device.
    pub port: u8,
    /// Timer code.
    pub timeout: u8,
    /// Retries.
    pub retry: u8,
    /// Retries after "receiver not ready".
    pub rnr_retry: u8,
}
