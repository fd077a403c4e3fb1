//! Sizes and offsets of the structs, checked when the crate is compiled (64 bits; values of the C headers of
//! rdma-core 65).

use core::mem::{align_of, offset_of, size_of};

use super::umad::*;
use super::umad_gid::*;
use super::umad_sa::*;
use super::umad_sa_mcm::*;
use super::umad_sm::*;
use super::umad_types::*;
use super::user_mad::*;

macro_rules! layout {
    ($name:ident, $size:literal, $align:literal, { $($field:ident: $offset:literal),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(align_of::<$name>() == $align);
            $(assert!(offset_of!($name, $field) == $offset);)*
        };
    };
}

layout!(umad_gid, 16, 4, { raw: 0, raw_be16: 0, global: 0 });
layout!(umad_gid_global, 16, 8, { subnet_prefix: 0, interface_id: 8 });
layout!(ib_mad_addr, 44, 4, {
    qpn: 0, qkey: 4, lid: 8, sl: 10, path_bits: 11, grh_present: 12, gid_index: 13, hop_limit: 14,
    traffic_class: 15, anon0: 16, flow_label: 32, pkey_index: 36, reserved: 38,
});
layout!(ib_user_mad, 64, 4, {
    agent_id: 0, status: 4, timeout_ms: 8, retries: 12, length: 16, addr: 20, data: 64,
});
layout!(umad_port, 112, 8, {
    ca_name: 0, portnum: 20, base_lid: 24, lmc: 28, sm_lid: 32, sm_sl: 36, state: 40, phys_state: 44, rate: 48,
    capmask: 52, gid_prefix: 56, port_guid: 64, pkeys_size: 72, pkeys: 80, link_layer: 88,
});
layout!(umad_ca, 208, 8, {
    ca_name: 0, node_type: 20, numports: 24, fw_ver: 28, ca_type: 48, hw_ver: 88, node_guid: 112,
    system_guid: 120, ports: 128,
});
layout!(umad_ca_pair, 48, 4, { smi_name: 0, smi_preferred_port: 20, gsi_name: 24, gsi_preferred_port: 44 });
layout!(umad_device_node, 16, 8, { next: 0, ca_name: 8 });
layout!(umad_reg_attr, 32, 8, {
    mgmt_class: 0, mgmt_class_version: 1, flags: 4, method_mask: 8, oui: 24, rmpp_version: 28,
});
layout!(umad_hdr, 24, 8, {
    base_version: 0, mgmt_class: 1, class_version: 2, method: 3, status: 4, class_specific: 6, tid: 8,
    attr_id: 16, resv: 18, attr_mod: 20,
});
layout!(umad_rmpp_hdr, 12, 4, {
    rmpp_version: 0, rmpp_type: 1, rmpp_rtime_flags: 2, rmpp_status: 3, seg_num: 4, paylen_newwin: 8,
});
layout!(umad_packet, 256, 8, { mad_hdr: 0, data: 24 });
layout!(umad_rmpp_packet, 256, 8, { mad_hdr: 0, rmpp_hdr: 24, data: 36 });
layout!(umad_dm_packet, 256, 8, { mad_hdr: 0, reserved: 24, data: 64 });
layout!(umad_vendor_packet, 256, 8, { mad_hdr: 0, rmpp_hdr: 24, reserved: 36, oui: 37, data: 40 });
layout!(umad_class_port_info, 72, 4, {
    base_ver: 0, class_ver: 1, cap_mask: 2, cap_mask2_resp_time: 4, anon0: 8, redir_tc_sl_fl: 24, redir_lid: 28,
    redir_pkey: 30, redir_qp: 32, redir_qkey: 36, anon1: 40, trap_tc_sl_fl: 56, trap_lid: 60, trap_pkey: 62,
    trap_hl_qp: 64, trap_qkey: 68,
});
layout!(umad_smp, 256, 8, {
    base_version: 0, mgmt_class: 1, class_version: 2, method: 3, status: 4, hop_ptr: 6, hop_cnt: 7, tid: 8,
    attr_id: 16, resv: 18, attr_mod: 20, mkey: 24, dr_slid: 32, dr_dlid: 34, reserved: 36, data: 64,
    initial_path: 128, return_path: 192,
});
layout!(umad_sa_packet, 256, 8, {
    mad_hdr: 0, rmpp_hdr: 24, sm_key: 36, attr_offset: 44, reserved: 46, comp_mask: 48, data: 56,
});
layout!(umad_sa_mcmember_record, 56, 4, {
    mgid: 0, portgid: 16, qkey: 32, mlid: 36, mtu: 38, tclass: 39, pkey: 40, rate: 42, pkt_life: 43,
    sl_flow_hop: 44, scope_state: 48, proxy_join: 49, reserved: 50, pad: 52,
});
layout!(ib_user_mad_reg_req, 28, 4, {
    id: 0, method_mask: 4, qpn: 20, mgmt_class: 21, mgmt_class_version: 22, oui: 23, rmpp_version: 26,
});
layout!(ib_user_mad_reg_req2, 40, 8, {
    id: 0, qpn: 4, mgmt_class: 8, mgmt_class_version: 9, res: 10, flags: 12, method_mask: 16, oui: 32,
    rmpp_version: 36, reserved: 37,
});
const _: () = assert!(
    IB_USER_MAD_REGISTER_AGENT == 0xc01c_1b01
        && IB_USER_MAD_UNREGISTER_AGENT == 0x4004_1b02
        && IB_USER_MAD_ENABLE_PKEY == 0x1b03
        && IB_USER_MAD_REGISTER_AGENT2 == 0xc028_1b04
);
