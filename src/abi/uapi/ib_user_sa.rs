//! Path records as the kernel's connection manager gives them.
//!
//! Source: linux-libc-dev, `rdma/ib_user_sa.h`.

use super::layout;

layout! {
    /// A path between two ports. Fields of two bytes and `flow_label` are in network byte order.
    pub struct ib_user_path_rec(64) {
        dgid: [u8; 16] => 0,
        sgid: [u8; 16] => 16,
        dlid: u16 => 32,
        slid: u16 => 34,
        raw_traffic: u32 => 36,
        flow_label: u32 => 40,
        reversible: u32 => 44,
        mtu: u32 => 48,
        pkey: u16 => 52,
        hop_limit: u8 => 54,
        traffic_class: u8 => 55,
        numb_path: u8 => 56,
        sl: u8 => 57,
        mtu_selector: u8 => 58,
        rate_selector: u8 => 59,
        rate: u8 => 60,
        packet_life_time_selector: u8 => 61,
        packet_life_time: u8 => 62,
        preference: u8 => 63,
    }
}
