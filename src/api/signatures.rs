//! Every verb is defined with the signature that `verbs.h` is generated from; a difference stops the
//! compilation.

use crate::abi::prototypes as declared;

/// Types of a verb in which a thread may be cancelled, which unwinds through it, and of its declaration in C.
const fn same_of_two<A, B, R>(_: unsafe extern "C-unwind" fn(A, B) -> R, _: unsafe extern "C" fn(A, B) -> R) {
}

/// The same with three arguments.
const fn same_of_three<A, B, C, R>(
    _: unsafe extern "C-unwind" fn(A, B, C) -> R,
    _: unsafe extern "C" fn(A, B, C) -> R,
) {
}

/// Definition and declaration of each verb are elements of one array, so of one function pointer type.
const _: () = {
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::ah::ibv_create_ah, declared::ibv_create_ah];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] =
        [super::ah::ibv_create_ah_from_wc, declared::ibv_create_ah_from_wc];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::ah::ibv_destroy_ah, declared::ibv_destroy_ah];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::ah::ibv_init_ah_from_wc, declared::ibv_init_ah_from_wc];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] =
        [super::ah::ibv_resolve_eth_l2_from_gid, declared::ibv_resolve_eth_l2_from_gid];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::channel::ibv_ack_cq_events, declared::ibv_ack_cq_events];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::channel::ibv_create_comp_channel, declared::ibv_create_comp_channel];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::channel::ibv_destroy_comp_channel, declared::ibv_destroy_comp_channel];
    same_of_three(super::channel::ibv_get_cq_event, declared::ibv_get_cq_event);
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::cq::ibv_create_cq, declared::ibv_create_cq];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::cq::ibv_destroy_cq, declared::ibv_destroy_cq];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::cq::ibv_resize_cq, declared::ibv_resize_cq];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::device::ibv_close_device, declared::ibv_close_device];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::device::ibv_free_device_list, declared::ibv_free_device_list];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::device::ibv_get_device_guid, declared::ibv_get_device_guid];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::device::ibv_get_device_index, declared::ibv_get_device_index];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::device::ibv_get_device_list, declared::ibv_get_device_list];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::device::ibv_get_device_name, declared::ibv_get_device_name];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::device::ibv_open_device, declared::ibv_open_device];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::device::ibv_query_device, declared::ibv_query_device];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::event::ibv_ack_async_event, declared::ibv_ack_async_event];
    same_of_two(super::event::ibv_get_async_event, declared::ibv_get_async_event);
    let _: [unsafe extern "C" fn() -> _; 2] = [super::fork::ibv_fork_init, declared::ibv_fork_init];
    let _: [unsafe extern "C" fn() -> _; 2] =
        [super::fork::ibv_is_fork_initialized, declared::ibv_is_fork_initialized];
    let _: [unsafe extern "C" fn(_, _, _, _, _, _) -> _; 2] =
        [super::gid::_ibv_query_gid_ex, declared::_ibv_query_gid_ex];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::gid::_ibv_query_gid_table, declared::_ibv_query_gid_table];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] = [super::gid::ibv_query_gid, declared::ibv_query_gid];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::import::ibv_import_device, declared::ibv_import_device];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::import::ibv_import_dm, declared::ibv_import_dm];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::import::ibv_import_mr, declared::ibv_import_mr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::import::ibv_import_pd, declared::ibv_import_pd];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::import::ibv_unimport_dm, declared::ibv_unimport_dm];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::import::ibv_unimport_mr, declared::ibv_unimport_mr];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::import::ibv_unimport_pd, declared::ibv_unimport_pd];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::mcast::ibv_attach_mcast, declared::ibv_attach_mcast];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::mcast::ibv_detach_mcast, declared::ibv_detach_mcast];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::mr::ibv_dereg_mr, declared::ibv_dereg_mr];
    let _: [unsafe extern "C" fn(_, _, _, _, _, _) -> _; 2] =
        [super::mr::ibv_reg_dmabuf_mr, declared::ibv_reg_dmabuf_mr];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] = [super::mr::ibv_reg_mr, declared::ibv_reg_mr];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::mr::ibv_reg_mr_iova, declared::ibv_reg_mr_iova];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::mr::ibv_reg_mr_iova2, declared::ibv_reg_mr_iova2];
    let _: [unsafe extern "C" fn(_, _, _, _, _, _) -> _; 2] =
        [super::mr::ibv_rereg_mr, declared::ibv_rereg_mr];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::pd::ibv_alloc_pd, declared::ibv_alloc_pd];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::pd::ibv_dealloc_pd, declared::ibv_dealloc_pd];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::port::ibv_get_pkey_index, declared::ibv_get_pkey_index];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] =
        [super::port::ibv_query_pkey, declared::ibv_query_pkey];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [super::port::ibv_query_port, declared::ibv_query_port];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::qp::ibv_create_qp, declared::ibv_create_qp];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::qp::ibv_destroy_qp, declared::ibv_destroy_qp];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [super::qp::ibv_modify_qp, declared::ibv_modify_qp];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::qp::ibv_qp_to_qp_ex, declared::ibv_qp_to_qp_ex];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::qp::ibv_query_ece, declared::ibv_query_ece];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] = [super::qp::ibv_query_qp, declared::ibv_query_qp];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::qp::ibv_query_qp_data_in_order, declared::ibv_query_qp_data_in_order];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::qp::ibv_set_ece, declared::ibv_set_ece];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::rate::ibv_rate_to_mbps, declared::ibv_rate_to_mbps];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::rate::ibv_rate_to_mult, declared::ibv_rate_to_mult];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::rate::mbps_to_ibv_rate, declared::mbps_to_ibv_rate];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::rate::mult_to_ibv_rate, declared::mult_to_ibv_rate];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::srq::ibv_create_srq, declared::ibv_create_srq];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::srq::ibv_destroy_srq, declared::ibv_destroy_srq];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [super::srq::ibv_modify_srq, declared::ibv_modify_srq];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::srq::ibv_query_srq, declared::ibv_query_srq];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::strings::ibv_event_type_str, declared::ibv_event_type_str];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::strings::ibv_node_type_str, declared::ibv_node_type_str];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::strings::ibv_port_state_str, declared::ibv_port_state_str];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::strings::ibv_wc_status_str, declared::ibv_wc_status_str];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [super::buf::ibv_alloc_buf, declared::ibv_alloc_buf];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::buf::ibv_export_buf_dmabuf_fd, declared::ibv_export_buf_dmabuf_fd];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::buf::ibv_free_buf, declared::ibv_free_buf];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::buf::ibv_reg_buf_mr, declared::ibv_reg_buf_mr];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::comp_cntr::_ibv_query_comp_cntr_caps, declared::_ibv_query_comp_cntr_caps];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_create_comp_cntr, declared::ibv_create_comp_cntr];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::comp_cntr::ibv_destroy_comp_cntr, declared::ibv_destroy_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_inc_comp_cntr, declared::ibv_inc_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_inc_err_comp_cntr, declared::ibv_inc_err_comp_cntr];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::comp_cntr::ibv_qp_attach_comp_cntr, declared::ibv_qp_attach_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_read_comp_cntr, declared::ibv_read_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_read_err_comp_cntr, declared::ibv_read_err_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_set_comp_cntr, declared::ibv_set_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::comp_cntr::ibv_set_err_comp_cntr, declared::ibv_set_err_comp_cntr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::dmah::ibv_alloc_dmah, declared::ibv_alloc_dmah];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::dmah::ibv_dealloc_dmah, declared::ibv_dealloc_dmah];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::dm::ibv_dm_export_dmabuf_fd, declared::ibv_dm_export_dmabuf_fd];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::mr::ibv_reg_mr_ex, declared::ibv_reg_mr_ex];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::port::ibv_query_port_speed, declared::ibv_query_port_speed];
};
