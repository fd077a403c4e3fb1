//! Sizes and offsets of the subnet administration records and tag matching headers, checked when the crate is
//! compiled (x86-64; values of the C headers of rdma-core 44).

use core::mem::{offset_of, size_of};

use super::sa::*;
use super::tm_types::*;

macro_rules! layout {
    ($name:ident, $size:literal, { $($field:ident: $offset:literal),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)*
        };
    };
}

layout!(ibv_sa_path_rec, 64, {
    dgid: 0, sgid: 16, dlid: 32, slid: 34, raw_traffic: 36, flow_label: 40, hop_limit: 44, traffic_class: 45,
    reversible: 48, numb_path: 52, pkey: 54, sl: 56, mtu_selector: 57, mtu: 58, rate_selector: 59, rate: 60,
    packet_life_time_selector: 61, packet_life_time: 62, preference: 63,
});
layout!(ibv_sa_mcmember_rec, 64, {
    mgid: 0, port_gid: 16, qkey: 32, mlid: 36, mtu_selector: 38, mtu: 39, traffic_class: 40, pkey: 42,
    rate_selector: 44, rate: 45, packet_life_time_selector: 46, packet_life_time: 47, sl: 48, flow_label: 52,
    hop_limit: 56, scope: 57, join_state: 58, proxy_join: 60,
});
layout!(ibv_sa_service_rec, 176, {
    id: 0, gid: 8, pkey: 24, lease: 28, key: 32, name: 48, data8: 112, data16: 128, data32: 144, data64: 160,
});
layout!(ibv_path_record, 64, {
    service_id: 0, dgid: 8, sgid: 24, dlid: 40, slid: 42, flowlabel_hoplimit: 44, tclass: 48,
    reversible_numpath: 49, pkey: 50, qosclass_sl: 52, mtu: 54, rate: 55, packetlifetime: 56, preference: 57,
    reserved: 58,
});
layout!(ibv_path_data, 72, { flags: 0, reserved: 4, path: 8 });
layout!(ibv_tmh, 16, { opcode: 0, reserved: 1, app_ctx: 4, tag: 8 });
layout!(ibv_rvh, 16, { va: 0, rkey: 8, len: 12 });
