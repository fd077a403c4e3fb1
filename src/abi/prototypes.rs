//! Functions that programs call by name, as verbs.h declares them.
//!
//! The header generator takes the prototypes from here.

use super::verbs::*;
use libc::{c_char, c_int, c_uint, c_void, ssize_t};

unsafe extern "C" {
    /// Text for a completion status; a fixed text for an unknown one.
    pub fn ibv_wc_status_str(status: ibv_wc_status_t) -> *const c_char;
    /// Multiple of 2.5 Gbit/s that a rate stands for, -1 if it is none.
    pub fn ibv_rate_to_mult(rate: ibv_rate_t) -> c_int;
    /// Rate for a multiple of 2.5 Gbit/s, `IBV_RATE_MAX` if there is none.
    pub fn mult_to_ibv_rate(mult: c_int) -> ibv_rate_t;
    /// Rate in Mbit/s, -1 if unknown.
    pub fn ibv_rate_to_mbps(rate: ibv_rate_t) -> c_int;
    /// Rate for a number of Mbit/s, `IBV_RATE_MAX` if there is none.
    pub fn mbps_to_ibv_rate(mbps: c_int) -> ibv_rate_t;
    /// Devices of this machine, ended by a null pointer. The number goes to `num_devices` unless that is null.
    /// Null and errno on failure. Free the list with `ibv_free_device_list`.
    pub fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device;
    /// Frees a list. Devices that were not opened are gone afterwards.
    pub fn ibv_free_device_list(list: *mut *mut ibv_device);
    /// Name of the RDMA device.
    pub fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    /// Kernel's index of the device, -1 if the kernel does not tell.
    pub fn ibv_get_device_index(device: *mut ibv_device) -> c_int;
    /// Node GUID.
    pub fn ibv_get_device_guid(device: *mut ibv_device) -> __be64;
    /// Opens a device. Null and errno on failure.
    pub fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    /// Closes a context; its objects must be gone. 0 or -1.
    pub fn ibv_close_device(context: *mut ibv_context) -> c_int;
    /// Opens a context over a command descriptor that another process owns. Null and errno on failure.
    pub fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context;
    /// Protection domain for a kernel handle. Null and errno on failure.
    pub fn ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd;
    /// Forgets an imported protection domain without destroying it in the kernel.
    pub fn ibv_unimport_pd(pd: *mut ibv_pd);
    /// Memory region for a kernel handle; its address is null. Null and errno on failure.
    pub fn ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr;
    /// Forgets an imported memory region.
    pub fn ibv_unimport_mr(mr: *mut ibv_mr);
    /// Device memory for a kernel handle. Null and errno on failure.
    pub fn ibv_import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm;
    /// Forgets imported device memory.
    pub fn ibv_unimport_dm(dm: *mut ibv_dm);
    /// Waits for the next asynchronous event. 0 or -1 and errno. Each event must be acknowledged.
    pub fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    /// Acknowledges an event. Destroying an object waits for its events to be acknowledged.
    pub fn ibv_ack_async_event(event: *mut ibv_async_event);
    /// Device properties. 0 or an errno value.
    pub fn ibv_query_device(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int;
    /// Port properties in their first layout. 0 or an errno value. Programs get the full layout through the
    /// macro of the same name.
    pub fn ibv_query_port(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int;
    /// One GID. 0 or -1.
    pub fn ibv_query_gid(context: *mut ibv_context, port_num: u8, index: c_int, gid: *mut ibv_gid) -> c_int;
    /// Worker of `ibv_query_gid_ex`; `entry_size` is the size that the program was built with.
    pub fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> c_int;
    /// Worker of `ibv_query_gid_table`; `entry_size` is the size that the program was built with.
    pub fn _ibv_query_gid_table(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
        flags: u32,
        entry_size: usize,
    ) -> ssize_t;
    /// One partition key. 0 or -1.
    pub fn ibv_query_pkey(context: *mut ibv_context, port_num: u8, index: c_int, pkey: *mut __be16) -> c_int;
    /// Index of a partition key, or -1.
    pub fn ibv_get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: __be16) -> c_int;
    /// New protection domain. Null and errno on failure.
    pub fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    /// Frees a protection domain. 0 or an errno value.
    pub fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    /// Registers memory; keys address it from `iova` on. Optional rights are dropped when the kernel does not
    /// know them. Null and errno on failure.
    pub fn ibv_reg_mr_iova2(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_uint,
    ) -> *mut ibv_mr;
    /// Registers memory. Null and errno on failure.
    pub fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    /// Registers memory; keys address it from `iova` on. Null and errno on failure.
    pub fn ibv_reg_mr_iova(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> *mut ibv_mr;
    /// Registers a part of a dma-buf. Null and errno on failure.
    pub fn ibv_reg_dmabuf_mr(
        pd: *mut ibv_pd,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> *mut ibv_mr;
    /// Changes a region as `ibv_rereg_mr_flags` say. 0 or a value of `ibv_rereg_mr_err_code`, with errno.
    pub fn ibv_rereg_mr(
        mr: *mut ibv_mr,
        flags: c_int,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> c_int;
    /// Frees a memory region. 0 or an errno value.
    pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    /// New completion event channel. Null and errno on failure.
    pub fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    /// Frees a channel. 0 or an errno value; EBUSY while completion queues use it.
    pub fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    /// New completion queue with at least `cqe` entries. Null and errno on failure.
    pub fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    /// Changes the number of entries to at least `cqe`. 0 or an errno value.
    pub fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;
    /// Frees a completion queue, after its events were acknowledged. 0 or an errno value.
    pub fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    /// Waits for the next completion event. 0 or -1 and errno. Each event must be acknowledged.
    pub fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    /// Acknowledges completion events.
    pub fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint);
    /// New shared receive queue; the sizes made are written back. Null and errno on failure.
    pub fn ibv_create_srq(pd: *mut ibv_pd, srq_init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    /// Changes size or limit. 0 or an errno value.
    pub fn ibv_modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int;
    /// Attributes of a shared receive queue. 0 or an errno value.
    pub fn ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int;
    /// Frees a shared receive queue, after its events were acknowledged. 0 or an errno value.
    pub fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    /// New queue pair; the sizes made are written back. Null and errno on failure.
    pub fn ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    /// Extended form of a queue pair that was created with send operations, else null.
    pub fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
    /// Changes the attributes that the mask names. 0 or an errno value.
    pub fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
    /// Whether the data of an operation lands in memory in order: 1 if the whole message does, else 0, or bits
    /// of `ibv_query_qp_data_in_order_caps` as `ibv_query_qp_data_in_order_flags` ask for.
    pub fn ibv_query_qp_data_in_order(qp: *mut ibv_qp, op: ibv_wr_opcode_t, flags: u32) -> c_int;
    /// Attributes of a queue pair; the mask is a hint. 0 or an errno value.
    pub fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: *mut ibv_qp_init_attr,
    ) -> c_int;
    /// Frees a queue pair, after its events were acknowledged. 0 or an errno value.
    pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    /// New address handle. Null and errno on failure.
    pub fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    /// Address of the sender of a received datagram; `grh` counts only if the completion has the flag. 0 or -1.
    pub fn ibv_init_ah_from_wc(
        context: *mut ibv_context,
        port_num: u8,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        ah_attr: *mut ibv_ah_attr,
    ) -> c_int;
    /// Address handle for the sender of a received datagram. Null on failure.
    pub fn ibv_create_ah_from_wc(
        pd: *mut ibv_pd,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        port_num: u8,
    ) -> *mut ibv_ah;
    /// Frees an address handle. 0 or an errno value.
    pub fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    /// Lets a datagram queue pair receive from a multicast group; `lid` is in host byte order. 0 or an errno
    /// value.
    pub fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    /// Reverse of `ibv_attach_mcast`. 0 or an errno value.
    pub fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    /// Makes registered memory safe with fork; call it first. 0 or an errno value.
    pub fn ibv_fork_init() -> c_int;
    /// State of fork protection.
    pub fn ibv_is_fork_initialized() -> ibv_fork_status_t;
    /// Text for a node type.
    pub fn ibv_node_type_str(node_type: ibv_node_type_t) -> *const c_char;
    /// Text for a port state.
    pub fn ibv_port_state_str(port_state: ibv_port_state_t) -> *const c_char;
    /// Text for an event type.
    pub fn ibv_event_type_str(event: ibv_event_type_t) -> *const c_char;
    /// Ethernet address (6 bytes) and VLAN that lead to the GID of an address. 0 or an errno value.
    pub fn ibv_resolve_eth_l2_from_gid(
        context: *mut ibv_context,
        attr: *mut ibv_ah_attr,
        eth_mac: *mut u8,
        vid: *mut u16,
    ) -> c_int;
    /// Text for an operation.
    pub fn ibv_wr_opcode_str(opcode: ibv_wr_opcode_t) -> *const c_char;
    /// Speed of a port in units of 100 Mb/s. 0 or an errno value.
    pub fn ibv_query_port_speed(context: *mut ibv_context, port_num: u32, port_speed: *mut u64) -> c_int;
    /// New memory region with all options. Null and errno on failure.
    pub fn ibv_reg_mr_ex(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr;
    /// New file descriptor of a dma-buf over device memory. -1 and errno on failure.
    pub fn ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int;
    /// New hints for direct memory access. Null and errno on failure.
    pub fn ibv_alloc_dmah(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah;
    /// Frees hints for direct memory access. 0 or an errno value.
    pub fn ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int;
    /// New buffer of the kind that suits the device, at a page's start; `buf` gets its handle. Null and errno
    /// on failure.
    pub fn ibv_alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void;
    /// New file descriptor of the dma-buf behind a buffer. -1 and errno; ENODATA where there is none.
    pub fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int;
    /// Frees a buffer.
    pub fn ibv_free_buf(buf: *mut ibv_buf);
    /// New memory region in a buffer. Null and errno on failure.
    pub fn ibv_reg_buf_mr(
        pd: *mut ibv_pd,
        buf: *mut ibv_buf,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> *mut ibv_mr;
    /// What completion counters can do, the first `caps_size` bytes. 0 or an errno value.
    pub fn _ibv_query_comp_cntr_caps(
        context: *mut ibv_context,
        caps: *mut ibv_comp_cntr_caps,
        caps_size: usize,
    ) -> c_int;
    /// New completion counter. Null and errno on failure.
    pub fn ibv_create_comp_cntr(
        context: *mut ibv_context,
        cc_attr: *mut ibv_comp_cntr_init_attr,
    ) -> *mut ibv_comp_cntr;
    /// Frees a completion counter. 0 or an errno value.
    pub fn ibv_destroy_comp_cntr(comp_cntr: *mut ibv_comp_cntr) -> c_int;
    /// Sets the number of completions. 0 or an errno value.
    pub fn ibv_set_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
    /// Sets the number of failures. 0 or an errno value.
    pub fn ibv_set_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
    /// Adds to the number of completions. 0 or an errno value.
    pub fn ibv_inc_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
    /// Adds to the number of failures. 0 or an errno value.
    pub fn ibv_inc_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
    /// The number of completions. 0 or an errno value.
    pub fn ibv_read_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
    /// The number of failures. 0 or an errno value.
    pub fn ibv_read_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
    /// Has a counter count operations of a queue pair. 0 or an errno value.
    pub fn ibv_qp_attach_comp_cntr(
        qp: *mut ibv_qp,
        comp_cntr: *mut ibv_comp_cntr,
        attr: *mut ibv_qp_attach_comp_cntr_attr,
    ) -> c_int;
    /// Sets connection enhancements before the queue pair leaves INIT. 0 or an errno value.
    pub fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    /// Connection enhancements in effect. 0 or an errno value.
    pub fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
}
