//! The device context and its tables of operations.

use super::completion::{ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_modify_cq_attr, ibv_wc};
use super::counters::{ibv_counter_attach_attr, ibv_counters, ibv_counters_init_attr, ibv_values_ex};
use super::device::{
    ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_port_attr, ibv_query_device_ex_input,
};
use super::flow::{ibv_flow, ibv_flow_action, ibv_flow_action_esp_attr, ibv_flow_attr};
use super::memory::{
    ibv_alloc_dm_attr, ibv_dm, ibv_dmah, ibv_dmah_init_attr, ibv_mr, ibv_mr_init_attr, ibv_mw, ibv_mw_bind,
    ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr, ibv_xrcd, ibv_xrcd_init_attr,
};
use super::queue::{
    ibv_qp, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_qp_rate_limit_attr, ibv_rwq_ind_table,
    ibv_rwq_ind_table_init_attr, ibv_srq, ibv_srq_init_attr_ex, ibv_wq, ibv_wq_attr, ibv_wq_init_attr,
};
use super::scalars::{
    _compat_ibv_port_attr, ibv_advise_mr_advice_t, ibv_buf, ibv_mw_type_t, verbs_ex_private,
};
use super::work::{ibv_ops_wr, ibv_recv_wr, ibv_send_wr, ibv_sge};
use libc::{c_int, c_uint, c_void, pthread_mutex_t};

/// Operations that the inline functions of verbs.h call. The members starting with `_compat_` belong to an
/// older ABI: today's programs call the functions by name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_context_ops {
    /// Old ABI.
    pub _compat_query_device:
        Option<unsafe extern "C" fn(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int>,
    /// Old ABI.
    pub _compat_query_port: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut _compat_ibv_port_attr,
        ) -> c_int,
    >,
    /// Old ABI.
    pub _compat_alloc_pd: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_dealloc_pd: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_reg_mr: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_rereg_mr: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_dereg_mr: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Allocates a memory window; null and errno on failure.
    pub alloc_mw: Option<unsafe extern "C" fn(pd: *mut ibv_pd, type_: ibv_mw_type_t) -> *mut ibv_mw>,
    /// Binds a window of type 1; 0 or an errno value.
    pub bind_mw:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int>,
    /// Frees a memory window; 0 or an errno value.
    pub dealloc_mw: Option<unsafe extern "C" fn(mw: *mut ibv_mw) -> c_int>,
    /// Old ABI.
    pub _compat_create_cq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Takes completions; their number, negative on failure.
    pub poll_cq: Option<unsafe extern "C" fn(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int>,
    /// Asks for an event; 0 or an errno value.
    pub req_notify_cq: Option<unsafe extern "C" fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int>,
    /// Old ABI.
    pub _compat_cq_event: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_resize_cq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_destroy_cq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_create_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_modify_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_query_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_destroy_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Posts receives to a shared queue; 0 or an errno value.
    pub post_srq_recv: Option<
        unsafe extern "C" fn(
            srq: *mut ibv_srq,
            recv_wr: *mut ibv_recv_wr,
            bad_recv_wr: *mut *mut ibv_recv_wr,
        ) -> c_int,
    >,
    /// Old ABI.
    pub _compat_create_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_query_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_modify_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_destroy_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Posts sends; 0 or an errno value.
    pub post_send: Option<
        unsafe extern "C" fn(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int,
    >,
    /// Posts receives; 0 or an errno value.
    pub post_recv: Option<
        unsafe extern "C" fn(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int,
    >,
    /// Old ABI.
    pub _compat_create_ah: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_destroy_ah: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_attach_mcast: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_detach_mcast: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Old ABI.
    pub _compat_async_event: Option<unsafe extern "C" fn() -> *mut c_void>,
}

/// An open device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_context {
    /// The device.
    pub device: *mut ibv_device,
    /// Operations.
    pub ops: ibv_context_ops,
    /// File descriptor for commands.
    pub cmd_fd: c_int,
    /// File descriptor that becomes readable with an asynchronous event.
    pub async_fd: c_int,
    /// Completion vectors.
    pub num_comp_vectors: c_int,
    /// Guards the context's lists.
    pub mutex: pthread_mutex_t,
    /// All bits set: this context is the last member of a `verbs_context`.
    pub abi_compat: *mut c_void,
}

/// Operations added after the first ABI. It grows at its start; `sz` says how much of it exists, counted back
/// from the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_context {
    /// Frees a buffer.
    pub free_buf: Option<unsafe extern "C" fn(buf: *mut ibv_buf)>,
    /// New buffer.
    pub alloc_buf:
        Option<unsafe extern "C" fn(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void>,
    /// Device memory as a dma-buf.
    pub dm_export_dmabuf_fd: Option<unsafe extern "C" fn(dm: *mut ibv_dm) -> c_int>,
    /// Region with all options.
    pub reg_mr_ex:
        Option<unsafe extern "C" fn(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr>,
    /// Frees hints for direct memory access.
    pub dealloc_dmah: Option<unsafe extern "C" fn(dmah: *mut ibv_dmah) -> c_int>,
    /// New hints for direct memory access.
    pub alloc_dmah: Option<
        unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah,
    >,
    /// Port properties.
    pub query_port: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut ibv_port_attr,
            port_attr_len: usize,
        ) -> c_int,
    >,
    /// Advice about memory.
    pub advise_mr: Option<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            advice: ibv_advise_mr_advice_t,
            flags: u32,
            sg_list: *mut ibv_sge,
            num_sges: u32,
        ) -> c_int,
    >,
    /// Region that swallows writes and reads as zero.
    pub alloc_null_mr: Option<unsafe extern "C" fn(pd: *mut ibv_pd) -> *mut ibv_mr>,
    /// Counter values.
    pub read_counters: Option<
        unsafe extern "C" fn(
            counters: *mut ibv_counters,
            counters_value: *mut u64,
            ncounters: u32,
            flags: u32,
        ) -> c_int,
    >,
    /// Attaches a counter to a flow.
    pub attach_counters_point_flow: Option<
        unsafe extern "C" fn(
            counters: *mut ibv_counters,
            attr: *mut ibv_counter_attach_attr,
            flow: *mut ibv_flow,
        ) -> c_int,
    >,
    /// New counters.
    pub create_counters: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_counters_init_attr,
        ) -> *mut ibv_counters,
    >,
    /// Frees counters.
    pub destroy_counters: Option<unsafe extern "C" fn(counters: *mut ibv_counters) -> c_int>,
    /// Region over device memory.
    pub reg_dm_mr: Option<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            dm: *mut ibv_dm,
            dm_offset: u64,
            length: usize,
            access: c_uint,
        ) -> *mut ibv_mr,
    >,
    /// Allocates device memory.
    pub alloc_dm:
        Option<unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
    /// Frees device memory.
    pub free_dm: Option<unsafe extern "C" fn(dm: *mut ibv_dm) -> c_int>,
    /// Changes an ESP action.
    pub modify_flow_action_esp: Option<
        unsafe extern "C" fn(action: *mut ibv_flow_action, attr: *mut ibv_flow_action_esp_attr) -> c_int,
    >,
    /// Frees a flow action.
    pub destroy_flow_action: Option<unsafe extern "C" fn(action: *mut ibv_flow_action) -> c_int>,
    /// New ESP action.
    pub create_flow_action_esp: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            attr: *mut ibv_flow_action_esp_attr,
        ) -> *mut ibv_flow_action,
    >,
    /// Rate limit of a queue pair.
    pub modify_qp_rate_limit:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int>,
    /// New parent domain.
    pub alloc_parent_domain: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            attr: *mut ibv_parent_domain_init_attr,
        ) -> *mut ibv_pd,
    >,
    /// Frees a thread domain.
    pub dealloc_td: Option<unsafe extern "C" fn(td: *mut ibv_td) -> c_int>,
    /// New thread domain.
    pub alloc_td: Option<
        unsafe extern "C" fn(context: *mut ibv_context, init_attr: *mut ibv_td_init_attr) -> *mut ibv_td,
    >,
    /// Changes a completion queue.
    pub modify_cq: Option<unsafe extern "C" fn(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int>,
    /// Tag matching operations.
    pub post_srq_ops: Option<
        unsafe extern "C" fn(srq: *mut ibv_srq, op: *mut ibv_ops_wr, bad_op: *mut *mut ibv_ops_wr) -> c_int,
    >,
    /// Frees an indirection table.
    pub destroy_rwq_ind_table: Option<unsafe extern "C" fn(rwq_ind_table: *mut ibv_rwq_ind_table) -> c_int>,
    /// New indirection table.
    pub create_rwq_ind_table: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_rwq_ind_table_init_attr,
        ) -> *mut ibv_rwq_ind_table,
    >,
    /// Frees a work queue.
    pub destroy_wq: Option<unsafe extern "C" fn(wq: *mut ibv_wq) -> c_int>,
    /// Changes a work queue.
    pub modify_wq: Option<unsafe extern "C" fn(wq: *mut ibv_wq, wq_attr: *mut ibv_wq_attr) -> c_int>,
    /// New work queue.
    pub create_wq: Option<
        unsafe extern "C" fn(context: *mut ibv_context, wq_init_attr: *mut ibv_wq_init_attr) -> *mut ibv_wq,
    >,
    /// Clock values.
    pub query_rt_values:
        Option<unsafe extern "C" fn(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int>,
    /// New extended completion queue.
    pub create_cq_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_cq_init_attr_ex,
        ) -> *mut ibv_cq_ex,
    >,
    /// Private data of the library.
    pub priv_: *mut verbs_ex_private,
    /// Extended device properties.
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            input: *const ibv_query_device_ex_input,
            attr: *mut ibv_device_attr_ex,
            attr_size: usize,
        ) -> c_int,
    >,
    /// Removes a rule.
    pub ibv_destroy_flow: Option<unsafe extern "C" fn(flow: *mut ibv_flow) -> c_int>,
    /// Unused slot.
    pub ABI_placeholder2: Option<unsafe extern "C" fn()>,
    /// Installs a rule.
    pub ibv_create_flow:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp, flow_attr: *mut ibv_flow_attr) -> *mut ibv_flow>,
    /// Unused slot.
    pub ABI_placeholder1: Option<unsafe extern "C" fn()>,
    /// Opens a shared queue pair.
    pub open_qp:
        Option<unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp>,
    /// New queue pair, extended.
    pub create_qp_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            qp_init_attr_ex: *mut ibv_qp_init_attr_ex,
        ) -> *mut ibv_qp,
    >,
    /// Number of a shared receive queue.
    pub get_srq_num: Option<unsafe extern "C" fn(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int>,
    /// New shared receive queue, extended.
    pub create_srq_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            srq_init_attr_ex: *mut ibv_srq_init_attr_ex,
        ) -> *mut ibv_srq,
    >,
    /// Opens an extended connection domain.
    pub open_xrcd: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            xrcd_init_attr: *mut ibv_xrcd_init_attr,
        ) -> *mut ibv_xrcd,
    >,
    /// Closes an extended connection domain.
    pub close_xrcd: Option<unsafe extern "C" fn(xrcd: *mut ibv_xrcd) -> c_int>,
    /// Unused.
    pub _ABI_placeholder3: u64,
    /// Size in bytes of this struct as its creator knew it. Directly before `context`.
    pub sz: usize,
    /// The context that programs hold. Last member.
    pub context: ibv_context,
}
