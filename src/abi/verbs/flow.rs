//! Flow steering: rules, packet filters and IPsec actions.

use super::context::ibv_context;
use super::counters::ibv_counters;
use super::ioctl_verbs::{ib_uverbs_flow_action_esp, ib_uverbs_flow_action_esp_encap};
use super::scalars::{
    ib_uverbs_flow_action_esp_keymat_t, ib_uverbs_flow_action_esp_replay_t, ibv_flow_attr_type_t,
    ibv_flow_spec_type_t,
};
use libc::c_void;

/// Bits of `ibv_flow_attr::flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_flow_flags {
    /// Later rules still see the packet.
    IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
    /// The rule is for sent packets.
    IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2,
}
pub use ibv_flow_flags::*;

/// Kind of rule.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_flow_attr_type {
    /// By the filters that follow.
    IBV_FLOW_ATTR_NORMAL = 0,
    /// All packets that no other rule takes.
    IBV_FLOW_ATTR_ALL_DEFAULT = 1,
    /// Multicast packets that no other rule takes.
    IBV_FLOW_ATTR_MC_DEFAULT = 2,
    /// A copy of all traffic of the port.
    IBV_FLOW_ATTR_SNIFFER = 3,
}
pub use ibv_flow_attr_type::*;

/// Kind of filter or action.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_flow_spec_type {
    /// Ethernet header.
    IBV_FLOW_SPEC_ETH = 0x20,
    /// IPv4 addresses.
    IBV_FLOW_SPEC_IPV4 = 0x30,
    /// IPv6 header.
    IBV_FLOW_SPEC_IPV6 = 0x31,
    /// IPv4 header.
    IBV_FLOW_SPEC_IPV4_EXT = 0x32,
    /// IPsec ESP header.
    IBV_FLOW_SPEC_ESP = 0x34,
    /// TCP ports.
    IBV_FLOW_SPEC_TCP = 0x40,
    /// UDP ports.
    IBV_FLOW_SPEC_UDP = 0x41,
    /// VXLAN network identifier.
    IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
    /// GRE header.
    IBV_FLOW_SPEC_GRE = 0x51,
    /// MPLS label.
    IBV_FLOW_SPEC_MPLS = 0x60,
    /// Added to a filter: it is for the inner headers.
    IBV_FLOW_SPEC_INNER = 0x100,
    /// Tag the completion.
    IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
    /// Drop the packet.
    IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
    /// Run a flow action.
    IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
    /// Count.
    IBV_FLOW_SPEC_ACTION_COUNT = 0x1003,
}
pub use ibv_flow_spec_type::*;

/// Valid extra fields of `ibv_flow_action_esp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_flow_action_esp_mask {
    /// `esn`.
    IBV_FLOW_ACTION_ESP_MASK_ESN = 1 << 0,
}
pub use ibv_flow_action_esp_mask::*;

/// Ethernet filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_eth_filter {
    /// Destination address.
    pub dst_mac: [u8; 6],
    /// Source address.
    pub src_mac: [u8; 6],
    /// EtherType, network byte order.
    pub ether_type: u16,
    /// 802.1Q tag, network byte order.
    pub vlan_tag: u16,
}

/// Ethernet filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_eth {
    /// `IBV_FLOW_SPEC_ETH`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_eth_filter,
    /// Bits that count.
    pub mask: ibv_flow_eth_filter,
}

/// IPv4 address filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_ipv4_filter {
    /// Source, network byte order.
    pub src_ip: u32,
    /// Destination, network byte order.
    pub dst_ip: u32,
}

/// IPv4 address filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_ipv4 {
    /// `IBV_FLOW_SPEC_IPV4`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_ipv4_filter,
    /// Bits that count.
    pub mask: ibv_flow_ipv4_filter,
}

/// IPv4 header filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_ipv4_ext_filter {
    /// Source, network byte order.
    pub src_ip: u32,
    /// Destination, network byte order.
    pub dst_ip: u32,
    /// Protocol.
    pub proto: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Fragment flags.
    pub flags: u8,
}

/// IPv4 header filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_ipv4_ext {
    /// `IBV_FLOW_SPEC_IPV4_EXT`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_ipv4_ext_filter,
    /// Bits that count.
    pub mask: ibv_flow_ipv4_ext_filter,
}

/// IPv6 filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_ipv6_filter {
    /// Source.
    pub src_ip: [u8; 16],
    /// Destination.
    pub dst_ip: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Next header.
    pub next_hdr: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// IPv6 filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_ipv6 {
    /// `IBV_FLOW_SPEC_IPV6`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_ipv6_filter,
    /// Bits that count.
    pub mask: ibv_flow_ipv6_filter,
}

/// IPsec ESP filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_esp_filter {
    /// Security parameter index.
    pub spi: u32,
    /// Sequence number.
    pub seq: u32,
}

/// IPsec ESP filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_esp {
    /// `IBV_FLOW_SPEC_ESP`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_esp_filter,
    /// Bits that count.
    pub mask: ibv_flow_esp_filter,
}

/// Port filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_tcp_udp_filter {
    /// Destination port, network byte order.
    pub dst_port: u16,
    /// Source port, network byte order.
    pub src_port: u16,
}

/// Port filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_tcp_udp {
    /// `IBV_FLOW_SPEC_TCP` or `IBV_FLOW_SPEC_UDP`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_tcp_udp_filter,
    /// Bits that count.
    pub mask: ibv_flow_tcp_udp_filter,
}

/// GRE filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_gre_filter {
    /// First 16 bits of the GRE header: checksum, key and sequence flags, version.
    pub c_ks_res0_ver: u16,
    /// Protocol type.
    pub protocol: u16,
    /// Key.
    pub key: u32,
}

/// GRE filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_gre {
    /// `IBV_FLOW_SPEC_GRE`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_gre_filter,
    /// Bits that count.
    pub mask: ibv_flow_gre_filter,
}

/// MPLS filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_mpls_filter {
    /// The whole label word: label, traffic class, bottom of stack, time to live.
    pub label: u32,
}

/// MPLS filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_mpls {
    /// `IBV_FLOW_SPEC_MPLS`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_mpls_filter,
    /// Bits that count.
    pub mask: ibv_flow_mpls_filter,
}

/// Tunnel filter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_tunnel_filter {
    /// Tunnel identifier.
    pub tunnel_id: u32,
}

/// Tunnel filter specification.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_tunnel {
    /// `IBV_FLOW_SPEC_VXLAN_TUNNEL`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Values to match.
    pub val: ibv_flow_tunnel_filter,
    /// Bits that count.
    pub mask: ibv_flow_tunnel_filter,
}

/// Tagging action.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_action_tag {
    /// `IBV_FLOW_SPEC_ACTION_TAG`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// Tag reported with completions.
    pub tag_id: u32,
}

/// Dropping action.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_action_drop {
    /// `IBV_FLOW_SPEC_ACTION_DROP`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
}

/// Reference to a flow action.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_action_handle {
    /// `IBV_FLOW_SPEC_ACTION_HANDLE`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// The action.
    pub action: *const ibv_flow_action,
}

/// Counting action.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_counter_action {
    /// `IBV_FLOW_SPEC_ACTION_COUNT`.
    pub type_: ibv_flow_spec_type_t,
    /// Size of this struct in bytes.
    pub size: u16,
    /// The counters.
    pub counters: *mut ibv_counters,
}

/// What every specification starts with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_anon1_hdr {
    /// Kind.
    pub type_: ibv_flow_spec_type_t,
    /// Size in bytes.
    pub size: u16,
}

/// Specification by kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_flow_spec_anon1 {
    /// Common start.
    pub hdr: ibv_flow_spec_anon1_hdr,
    /// Ethernet.
    pub eth: ibv_flow_spec_eth,
    /// IPv4 addresses.
    pub ipv4: ibv_flow_spec_ipv4,
    /// Ports.
    pub tcp_udp: ibv_flow_spec_tcp_udp,
    /// IPv4 header.
    pub ipv4_ext: ibv_flow_spec_ipv4_ext,
    /// IPv6.
    pub ipv6: ibv_flow_spec_ipv6,
    /// IPsec ESP.
    pub esp: ibv_flow_spec_esp,
    /// Tunnel.
    pub tunnel: ibv_flow_spec_tunnel,
    /// GRE.
    pub gre: ibv_flow_spec_gre,
    /// MPLS.
    pub mpls: ibv_flow_spec_mpls,
    /// Tagging.
    pub flow_tag: ibv_flow_spec_action_tag,
    /// Dropping.
    pub drop: ibv_flow_spec_action_drop,
    /// Flow action.
    pub handle: ibv_flow_spec_action_handle,
    /// Counting.
    pub flow_count: ibv_flow_spec_counter_action,
}

/// One filter or action of a rule.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec {
    /// The specification.
    pub anon1: ibv_flow_spec_anon1,
}

/// A rule; its specifications follow in memory, packed one after the other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_attr {
    /// Must be 0.
    pub comp_mask: u32,
    /// Kind of rule.
    pub type_: ibv_flow_attr_type_t,
    /// Size of this struct and its specifications in bytes.
    pub size: u16,
    /// Lower numbers win.
    pub priority: u16,
    /// Number of specifications.
    pub num_of_specs: u8,
    /// Port, counted from 1.
    pub port: u8,
    /// Bits of `ibv_flow_flags`.
    pub flags: u32,
}

/// An installed rule.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow {
    /// Reserved.
    pub comp_mask: u32,
    /// Device context.
    pub context: *mut ibv_context,
    /// Kernel handle.
    pub handle: u32,
}

/// An action that rules refer to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_action {
    /// Device context.
    pub context: *mut ibv_context,
}

/// Attributes of an IPsec ESP action.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_action_esp_attr {
    /// Security association.
    pub esp_attr: *mut ib_uverbs_flow_action_esp,
    /// Kind of key material.
    pub keymat_proto: ib_uverbs_flow_action_esp_keymat_t,
    /// Its length in bytes.
    pub keymat_len: u16,
    /// The key material.
    pub keymat_ptr: *mut c_void,
    /// Kind of replay protection.
    pub replay_proto: ib_uverbs_flow_action_esp_replay_t,
    /// Length of its parameters in bytes.
    pub replay_len: u16,
    /// The parameters.
    pub replay_ptr: *mut c_void,
    /// Encapsulation.
    pub esp_encap: *mut ib_uverbs_flow_action_esp_encap,
    /// Bits of `ibv_flow_action_esp_mask`.
    pub comp_mask: u32,
    /// Upper half of the extended sequence number.
    pub esn: u32,
}
