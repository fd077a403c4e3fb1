//! Scalar names of the C API: byte-ordered integers, and the integers that carry enumerators across the C
//! border.
//!
//! A program may hand over any bit pattern where C says `enum`, so fields and arguments have these integer
//! types and the enums themselves only name the values.

use libc::{c_int, c_uint};

/// 16-bit integer in network byte order.
pub type __be16 = u16;
/// 32-bit integer in network byte order.
pub type __be32 = u32;
/// 64-bit integer in network byte order.
pub type __be64 = u64;

/// Port attributes as programs built before `ibv_port_attr` grew know them; opaque here.
#[repr(C)]
pub struct _compat_ibv_port_attr {
    _opaque: [u8; 0],
}
/// Memory from `ibv_alloc_buf`; opaque here.
#[repr(C)]
pub struct ibv_buf {
    _opaque: [u8; 0],
}
/// Private part of a `verbs_context`; opaque here.
#[repr(C)]
pub struct verbs_ex_private {
    _opaque: [u8; 0],
}

/// Carries `enum ibv_access_flags`.
pub type ibv_access_flags_t = c_uint;
/// Carries `enum ibv_atomic_cap`.
pub type ibv_atomic_cap_t = c_uint;
/// Carries `enum ibv_comp_cntr_type`.
pub type ibv_comp_cntr_type_t = c_uint;
/// Carries `enum ibv_counter_description`.
pub type ibv_counter_description_t = c_uint;
/// Carries `enum ibv_cq_attr_mask`.
pub type ibv_cq_attr_mask_t = c_uint;
/// Carries `enum ibv_cq_init_attr_mask`.
pub type ibv_cq_init_attr_mask_t = c_uint;
/// Carries `enum ibv_create_cq_attr_flags`.
pub type ibv_create_cq_attr_flags_t = c_uint;
/// Carries `enum ibv_create_cq_wc_flags`.
pub type ibv_create_cq_wc_flags_t = c_uint;
/// Carries `enum ibv_device_cap_flags`.
pub type ibv_device_cap_flags_t = c_uint;
/// Carries `enum ibv_dm_mask`.
pub type ibv_dm_mask_t = c_uint;
/// Carries `enum ibv_event_type`.
pub type ibv_event_type_t = c_uint;
/// Carries `enum ibv_flow_action_esp_mask`.
pub type ibv_flow_action_esp_mask_t = c_uint;
/// Carries `enum ibv_flow_attr_type`.
pub type ibv_flow_attr_type_t = c_uint;
/// Carries `enum ibv_flow_flags`.
pub type ibv_flow_flags_t = c_uint;
/// Carries `enum ibv_flow_spec_type`.
pub type ibv_flow_spec_type_t = c_uint;
/// Carries `enum ibv_fork_status`.
pub type ibv_fork_status_t = c_uint;
/// Carries `enum ibv_gid_type`.
pub type ibv_gid_type_t = c_uint;
/// Carries `enum ibv_ind_table_init_attr_mask`.
pub type ibv_ind_table_init_attr_mask_t = c_uint;
/// Carries `enum ibv_mig_state`.
pub type ibv_mig_state_t = c_uint;
/// Carries `enum ibv_mtu`.
pub type ibv_mtu_t = c_uint;
/// Carries `enum ibv_mw_type`.
pub type ibv_mw_type_t = c_uint;
/// Carries `enum ibv_node_type`.
pub type ibv_node_type_t = c_int;
/// Carries `enum ibv_odp_general_caps`.
pub type ibv_odp_general_caps_t = c_uint;
/// Carries `enum ibv_odp_transport_cap_bits`.
pub type ibv_odp_transport_cap_bits_t = c_uint;
/// Carries `enum ibv_ops_flags`.
pub type ibv_ops_flags_t = c_uint;
/// Carries `enum ibv_ops_wr_opcode`.
pub type ibv_ops_wr_opcode_t = c_uint;
/// Carries `enum ibv_parent_domain_init_attr_mask`.
pub type ibv_parent_domain_init_attr_mask_t = c_uint;
/// Carries `enum ibv_pci_atomic_op_size`.
pub type ibv_pci_atomic_op_size_t = c_uint;
/// Carries `enum ibv_port_cap_flags`.
pub type ibv_port_cap_flags_t = c_uint;
/// Carries `enum ibv_port_cap_flags2`.
pub type ibv_port_cap_flags2_t = c_uint;
/// Carries `enum ibv_port_state`.
pub type ibv_port_state_t = c_uint;
/// Carries `enum ibv_qp_attr_mask`.
pub type ibv_qp_attr_mask_t = c_uint;
/// Carries `enum ibv_qp_create_flags`.
pub type ibv_qp_create_flags_t = c_uint;
/// Carries `enum ibv_qp_create_send_ops_flags`.
pub type ibv_qp_create_send_ops_flags_t = c_uint;
/// Carries `enum ibv_qp_init_attr_mask`.
pub type ibv_qp_init_attr_mask_t = c_uint;
/// Carries `enum ibv_qp_open_attr_mask`.
pub type ibv_qp_open_attr_mask_t = c_uint;
/// Carries `enum ibv_qp_state`.
pub type ibv_qp_state_t = c_uint;
/// Carries `enum ibv_qp_type`.
pub type ibv_qp_type_t = c_uint;
/// Carries `enum ibv_rate`.
pub type ibv_rate_t = c_uint;
/// Carries `enum ibv_raw_packet_caps`.
pub type ibv_raw_packet_caps_t = c_uint;
/// Carries `enum ibv_read_counters_flags`.
pub type ibv_read_counters_flags_t = c_uint;
/// Carries `enum ibv_rereg_mr_err_code`.
pub type ibv_rereg_mr_err_code_t = c_int;
/// Carries `enum ibv_rereg_mr_flags`.
pub type ibv_rereg_mr_flags_t = c_uint;
/// Carries `enum ibv_rx_hash_fields`.
pub type ibv_rx_hash_fields_t = c_uint;
/// Carries `enum ibv_rx_hash_function_flags`.
pub type ibv_rx_hash_function_flags_t = c_uint;
/// Carries `enum ibv_send_flags`.
pub type ibv_send_flags_t = c_uint;
/// Carries `enum ibv_srq_attr_mask`.
pub type ibv_srq_attr_mask_t = c_uint;
/// Carries `enum ibv_srq_init_attr_mask`.
pub type ibv_srq_init_attr_mask_t = c_uint;
/// Carries `enum ibv_srq_type`.
pub type ibv_srq_type_t = c_uint;
/// Carries `enum ibv_tm_cap_flags`.
pub type ibv_tm_cap_flags_t = c_uint;
/// Carries `enum ibv_tmh_op`.
pub type ibv_tmh_op_t = c_uint;
/// Carries `enum ibv_transport_type`.
pub type ibv_transport_type_t = c_int;
/// Carries `enum ibv_values_mask`.
pub type ibv_values_mask_t = c_uint;
/// Carries `enum ibv_wc_flags`.
pub type ibv_wc_flags_t = c_uint;
/// Carries `enum ibv_wc_opcode`.
pub type ibv_wc_opcode_t = c_uint;
/// Carries `enum ibv_wc_status`.
pub type ibv_wc_status_t = c_uint;
/// Carries `enum ibv_wq_attr_mask`.
pub type ibv_wq_attr_mask_t = c_uint;
/// Carries `enum ibv_wq_flags`.
pub type ibv_wq_flags_t = c_uint;
/// Carries `enum ibv_wq_init_attr_mask`.
pub type ibv_wq_init_attr_mask_t = c_uint;
/// Carries `enum ibv_wq_state`.
pub type ibv_wq_state_t = c_uint;
/// Carries `enum ibv_wq_type`.
pub type ibv_wq_type_t = c_uint;
/// Carries `enum ibv_wr_opcode`.
pub type ibv_wr_opcode_t = c_uint;
/// Carries `enum ibv_xrcd_init_attr_mask`.
pub type ibv_xrcd_init_attr_mask_t = c_uint;
/// Carries `enum ibv_advise_mr_advice`.
pub type ibv_advise_mr_advice_t = c_uint;
/// Carries `enum ib_uverbs_flow_action_esp_keymat`.
pub type ib_uverbs_flow_action_esp_keymat_t = c_uint;
/// Carries `enum ib_uverbs_flow_action_esp_replay`.
pub type ib_uverbs_flow_action_esp_replay_t = c_uint;
