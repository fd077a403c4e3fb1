//! The structs of umad.h.

use super::umad_gid::umad_gid;
use super::{__be16, __be32, __be64};
use libc::{c_char, c_int, c_uint};

/// Bytes of a CA's name with its NUL.
pub const UMAD_CA_NAME_LEN: usize = 20;
/// Places for ports in `umad_ca`: 0 is a switch's own.
pub const UMAD_CA_MAX_PORTS: usize = 10;
/// Device files that are looked for.
pub const UMAD_MAX_PORTS: usize = 192;
/// CAs that are looked at for pairs.
pub const UMAD_MAX_DEVICES: usize = 128;

/// Where a datagram goes to or came from.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_mad_addr {
    /// Queue pair's number.
    pub qpn: __be32,
    /// Q_Key.
    pub qkey: __be32,
    /// Local identifier.
    pub lid: __be16,
    /// Service level.
    pub sl: u8,
    /// Lower bits of the local identifier.
    pub path_bits: u8,
    /// Nonzero: the fields behind it count.
    pub grh_present: u8,
    /// Index into the port's GID table.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// The GID.
    pub anon0: ib_mad_addr_anon0,
    /// Flow label.
    pub flow_label: __be32,
    /// Index into the port's partition key table; not there before the kernel is asked for it.
    pub pkey_index: u16,
    /// Zero.
    pub reserved: [u8; 6],
}

/// A GID under two names.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_mad_addr_anon0 {
    /// Its bytes in network order.
    pub gid: [u8; 16],
    /// The same.
    pub ib_gid: umad_gid,
}

/// A datagram with what the kernel says or wants to know of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_user_mad {
    /// Agent that sent it or gets it.
    pub agent_id: u32,
    /// 0, or an errno value such as ETIMEDOUT of a request without an answer.
    pub status: u32,
    /// How long the kernel waits for an answer (ms).
    pub timeout_ms: u32,
    /// How often the kernel repeats the request.
    pub retries: u32,
    /// Bytes of header and datagram, where it is read.
    pub length: u32,
    /// The other side.
    pub addr: ib_mad_addr,
    /// The datagram.
    pub data: [u8; 0],
}

/// A port as sysfs has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_port {
    /// Name of the CA.
    pub ca_name: [c_char; UMAD_CA_NAME_LEN],
    /// Number of the port.
    pub portnum: c_int,
    /// Local identifier.
    pub base_lid: c_uint,
    /// How many lower bits of the local identifier are free.
    pub lmc: c_uint,
    /// Local identifier of the subnet manager.
    pub sm_lid: c_uint,
    /// Service level to the subnet manager.
    pub sm_sl: c_uint,
    /// 1 down, 2 initialized, 3 armed, 4 active.
    pub state: c_uint,
    /// 2 polling, 3 disabled, 5 link up.
    pub phys_state: c_uint,
    /// In Gbit/s, without what is behind the point.
    pub rate: c_uint,
    /// Capability mask.
    pub capmask: __be32,
    /// Subnet prefix of the first GID.
    pub gid_prefix: __be64,
    /// Port's GUID, from the first GID.
    pub port_guid: __be64,
    /// How many partition keys there are.
    pub pkeys_size: c_uint,
    /// The partition keys, in host byte order.
    pub pkeys: *mut u16,
    /// `InfiniBand` or `Ethernet`; `IB` where the kernel does not say.
    pub link_layer: [c_char; UMAD_CA_NAME_LEN],
}

/// A channel adapter, switch or router as sysfs has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_ca {
    /// Its name.
    pub ca_name: [c_char; UMAD_CA_NAME_LEN],
    /// 1 channel adapter, 2 switch, 3 router.
    pub node_type: c_uint,
    /// The highest port number.
    pub numports: c_int,
    /// Firmware version.
    pub fw_ver: [c_char; 20],
    /// Type, such as `MT4123`.
    pub ca_type: [c_char; 40],
    /// Hardware version.
    pub hw_ver: [c_char; 20],
    /// Node GUID.
    pub node_guid: __be64,
    /// System image GUID.
    pub system_guid: __be64,
    /// Ports by number; null where there is none.
    pub ports: [*mut umad_port; UMAD_CA_MAX_PORTS],
}

/// The CA for subnet management and the CA for general services of one port.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_ca_pair {
    /// CA for subnet management datagrams; empty where there is none.
    pub smi_name: [c_char; UMAD_CA_NAME_LEN],
    /// Port of it to use.
    pub smi_preferred_port: u32,
    /// CA for general services; empty where there is none.
    pub gsi_name: [c_char; UMAD_CA_NAME_LEN],
    /// Port of it to use.
    pub gsi_preferred_port: u32,
}

/// An element of the list of CAs.
#[repr(C)]
pub struct umad_device_node {
    /// The next one, or null.
    pub next: *mut umad_device_node,
    /// Name of the CA.
    pub ca_name: *const c_char,
}

/// What an agent wants to get.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_reg_attr {
    /// Management class.
    pub mgmt_class: u8,
    /// Version of the management class.
    pub mgmt_class_version: u8,
    /// `UMAD_USER_RMPP` or 0; after a refusal those that the kernel knows.
    pub flags: u32,
    /// A bit for each method of which unsolicited datagrams are wanted.
    pub method_mask: [u64; 2],
    /// Vendor's identifier, for the classes 0x30 to 0x4f.
    pub oui: u32,
    /// 1: the kernel cuts and joins datagrams of several packets.
    pub rmpp_version: u8,
}
