//! Everything that a provider can do for an opened device: the table of C functions that it hands to the
//! library.
//!
//! Releases of rdma-core insert new operations in alphabetical order, so the offset of one depends on the
//! release. The library keeps [`verbs_context_ops`], the newest layout, which has all of them.

use core::ffi::{c_int, c_uint, c_void};
use core::mem::size_of;

use super::verbs_mr;
use crate::abi::verbs::*;

macro_rules! operations {
    ($($name:ident($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)?;)+) => {
        /// The C type of each operation, under its name.
        pub mod op {
            use super::*;
            $(
                #[doc = concat!("`", stringify!($name), "`; its contract is that of the verb.")]
                pub type $name = unsafe extern "C" fn($($argument: $of),*) $(-> $result)?;
            )+
        }

        /// The operations of a provider in the layout of rdma-core 65; NULL where it has none.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct verbs_context_ops {
            $(
                #[doc = concat!("See [`op::", stringify!($name), "`].")]
                pub $name: Option<op::$name>,
            )+
        }
    };
}

/// Calls the macro `$then` with the names and types of all operations, in the order of [`verbs_context_ops`].
macro_rules! with_operations {
    ($then:ident) => {
        $then! {
            advise_mr(
                pd: *mut ibv_pd,
                advice: ibv_advise_mr_advice_t,
                flags: u32,
                sg_list: *mut ibv_sge,
                num_sges: u32,
            ) -> c_int;
            alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void;
            alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
            alloc_dmah(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah;
            alloc_mw(pd: *mut ibv_pd, type_: ibv_mw_type_t) -> *mut ibv_mw;
            alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr;
            alloc_parent_domain(
                context: *mut ibv_context,
                attr: *mut ibv_parent_domain_init_attr,
            ) -> *mut ibv_pd;
            alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
            alloc_td(context: *mut ibv_context, init_attr: *mut ibv_td_init_attr) -> *mut ibv_td;
            async_event(context: *mut ibv_context, event: *mut ibv_async_event);
            attach_counters_point_flow(
                counters: *mut ibv_counters,
                attr: *mut ibv_counter_attach_attr,
                flow: *mut ibv_flow,
            ) -> c_int;
            attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
            bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int;
            close_xrcd(xrcd: *mut ibv_xrcd) -> c_int;
            cq_event(cq: *mut ibv_cq);
            create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
            create_comp_cntr(
                context: *mut ibv_context,
                attr: *mut ibv_comp_cntr_init_attr,
            ) -> *mut ibv_comp_cntr;
            create_counters(
                context: *mut ibv_context,
                init_attr: *mut ibv_counters_init_attr,
            ) -> *mut ibv_counters;
            create_cq(
                context: *mut ibv_context,
                cqe: c_int,
                channel: *mut ibv_comp_channel,
                comp_vector: c_int,
            ) -> *mut ibv_cq;
            create_cq_ex(context: *mut ibv_context, init_attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
            create_flow(qp: *mut ibv_qp, flow_attr: *mut ibv_flow_attr) -> *mut ibv_flow;
            create_flow_action_esp(
                context: *mut ibv_context,
                attr: *mut ibv_flow_action_esp_attr,
            ) -> *mut ibv_flow_action;
            create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
            create_qp_ex(context: *mut ibv_context, qp_init_attr_ex: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
            create_rwq_ind_table(
                context: *mut ibv_context,
                init_attr: *mut ibv_rwq_ind_table_init_attr,
            ) -> *mut ibv_rwq_ind_table;
            create_srq(pd: *mut ibv_pd, srq_init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
            create_srq_ex(
                context: *mut ibv_context,
                srq_init_attr_ex: *mut ibv_srq_init_attr_ex,
            ) -> *mut ibv_srq;
            create_wq(context: *mut ibv_context, wq_init_attr: *mut ibv_wq_init_attr) -> *mut ibv_wq;
            dealloc_dmah(dmah: *mut ibv_dmah) -> c_int;
            dealloc_mw(mw: *mut ibv_mw) -> c_int;
            dealloc_pd(pd: *mut ibv_pd) -> c_int;
            dealloc_td(td: *mut ibv_td) -> c_int;
            dereg_mr(vmr: *mut verbs_mr) -> c_int;
            destroy_ah(ah: *mut ibv_ah) -> c_int;
            destroy_comp_cntr(comp_cntr: *mut ibv_comp_cntr) -> c_int;
            destroy_counters(counters: *mut ibv_counters) -> c_int;
            destroy_cq(cq: *mut ibv_cq) -> c_int;
            destroy_flow(flow: *mut ibv_flow) -> c_int;
            destroy_flow_action(action: *mut ibv_flow_action) -> c_int;
            destroy_qp(qp: *mut ibv_qp) -> c_int;
            destroy_rwq_ind_table(rwq_ind_table: *mut ibv_rwq_ind_table) -> c_int;
            destroy_srq(srq: *mut ibv_srq) -> c_int;
            destroy_wq(wq: *mut ibv_wq) -> c_int;
            detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
            dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int;
            free_buf(buf: *mut ibv_buf);
            free_context(context: *mut ibv_context);
            free_dm(dm: *mut ibv_dm) -> c_int;
            get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int;
            import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm;
            import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr;
            import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd;
            inc_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
            inc_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
            modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int;
            modify_flow_action_esp(action: *mut ibv_flow_action, attr: *mut ibv_flow_action_esp_attr) -> c_int;
            modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
            modify_qp_rate_limit(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int;
            modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int;
            modify_wq(wq: *mut ibv_wq, wq_attr: *mut ibv_wq_attr) -> c_int;
            open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
            open_xrcd(context: *mut ibv_context, xrcd_init_attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
            poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int;
            post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
            post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int;
            post_srq_ops(srq: *mut ibv_srq, op: *mut ibv_ops_wr, bad_op: *mut *mut ibv_ops_wr) -> c_int;
            post_srq_recv(
                srq: *mut ibv_srq,
                recv_wr: *mut ibv_recv_wr,
                bad_recv_wr: *mut *mut ibv_recv_wr,
            ) -> c_int;
            qp_attach_comp_cntr(
                qp: *mut ibv_qp,
                comp_cntr: *mut ibv_comp_cntr,
                attr: *mut ibv_qp_attach_comp_cntr_attr,
            ) -> c_int;
            query_comp_cntr_caps(
                context: *mut ibv_context,
                caps: *mut ibv_comp_cntr_caps,
                caps_size: usize,
            ) -> c_int;
            query_device_ex(
                context: *mut ibv_context,
                input: *const ibv_query_device_ex_input,
                attr: *mut ibv_device_attr_ex,
                attr_size: usize,
            ) -> c_int;
            query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
            query_port(context: *mut ibv_context, port_num: u8, port_attr: *mut ibv_port_attr) -> c_int;
            query_port_speed(context: *mut ibv_context, port_num: u32, speed: *mut u64) -> c_int;
            query_qp(
                qp: *mut ibv_qp,
                attr: *mut ibv_qp_attr,
                attr_mask: c_int,
                init_attr: *mut ibv_qp_init_attr,
            ) -> c_int;
            query_qp_data_in_order(qp: *mut ibv_qp, op: ibv_wr_opcode_t, flags: u32) -> c_int;
            query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int;
            query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int;
            read_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
            read_counters(
                counters: *mut ibv_counters,
                counters_value: *mut u64,
                ncounters: u32,
                flags: u32,
            ) -> c_int;
            read_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
            reg_dm_mr(
                pd: *mut ibv_pd,
                dm: *mut ibv_dm,
                dm_offset: u64,
                length: usize,
                access: c_uint,
            ) -> *mut ibv_mr;
            reg_dmabuf_mr(
                pd: *mut ibv_pd,
                offset: u64,
                length: usize,
                iova: u64,
                fd: c_int,
                access: c_int,
            ) -> *mut ibv_mr;
            reg_mr(
                pd: *mut ibv_pd,
                addr: *mut c_void,
                length: usize,
                hca_va: u64,
                access: c_int,
            ) -> *mut ibv_mr;
            reg_mr_ex(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr;
            req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int;
            rereg_mr(
                vmr: *mut verbs_mr,
                flags: c_int,
                pd: *mut ibv_pd,
                addr: *mut c_void,
                length: usize,
                access: c_int,
            ) -> c_int;
            resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;
            set_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
            set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
            set_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
            unimport_dm(dm: *mut ibv_dm);
            unimport_mr(mr: *mut ibv_mr);
            unimport_pd(pd: *mut ibv_pd);
        }
    };
}
pub(crate) use with_operations;

with_operations!(operations);

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<verbs_context_ops>() == 744);
};
