//! Commands and answers of the uverbs device file.
//!
//! Source: linux-libc-dev, `rdma/ib_user_verbs.h`. Sizes and offsets are those that a C compiler gave for that
//! header on a 64-bit machine; flexible arrays at the end of a C structure are left out.

use super::layout;

/// Newest ABI version of the uverbs command set.
pub const IB_USER_VERBS_ABI_VERSION: u32 = 6;
/// Flag of the command number that selects the extended protocol.
pub const IB_USER_VERBS_CMD_FLAG_EXTENDED: u32 = 0x8000_0000;

// Command numbers of the write protocol.
pub const IB_USER_VERBS_CMD_GET_CONTEXT: u32 = 0;
pub const IB_USER_VERBS_CMD_QUERY_DEVICE: u32 = 1;
pub const IB_USER_VERBS_CMD_QUERY_PORT: u32 = 2;
pub const IB_USER_VERBS_CMD_ALLOC_PD: u32 = 3;
pub const IB_USER_VERBS_CMD_DEALLOC_PD: u32 = 4;
pub const IB_USER_VERBS_CMD_CREATE_AH: u32 = 5;
pub const IB_USER_VERBS_CMD_MODIFY_AH: u32 = 6;
pub const IB_USER_VERBS_CMD_QUERY_AH: u32 = 7;
pub const IB_USER_VERBS_CMD_DESTROY_AH: u32 = 8;
pub const IB_USER_VERBS_CMD_REG_MR: u32 = 9;
pub const IB_USER_VERBS_CMD_REG_SMR: u32 = 10;
pub const IB_USER_VERBS_CMD_REREG_MR: u32 = 11;
pub const IB_USER_VERBS_CMD_QUERY_MR: u32 = 12;
pub const IB_USER_VERBS_CMD_DEREG_MR: u32 = 13;
pub const IB_USER_VERBS_CMD_ALLOC_MW: u32 = 14;
pub const IB_USER_VERBS_CMD_BIND_MW: u32 = 15;
pub const IB_USER_VERBS_CMD_DEALLOC_MW: u32 = 16;
pub const IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: u32 = 17;
pub const IB_USER_VERBS_CMD_CREATE_CQ: u32 = 18;
pub const IB_USER_VERBS_CMD_RESIZE_CQ: u32 = 19;
pub const IB_USER_VERBS_CMD_DESTROY_CQ: u32 = 20;
pub const IB_USER_VERBS_CMD_POLL_CQ: u32 = 21;
pub const IB_USER_VERBS_CMD_PEEK_CQ: u32 = 22;
pub const IB_USER_VERBS_CMD_REQ_NOTIFY_CQ: u32 = 23;
pub const IB_USER_VERBS_CMD_CREATE_QP: u32 = 24;
pub const IB_USER_VERBS_CMD_QUERY_QP: u32 = 25;
pub const IB_USER_VERBS_CMD_MODIFY_QP: u32 = 26;
pub const IB_USER_VERBS_CMD_DESTROY_QP: u32 = 27;
pub const IB_USER_VERBS_CMD_POST_SEND: u32 = 28;
pub const IB_USER_VERBS_CMD_POST_RECV: u32 = 29;
pub const IB_USER_VERBS_CMD_ATTACH_MCAST: u32 = 30;
pub const IB_USER_VERBS_CMD_DETACH_MCAST: u32 = 31;
pub const IB_USER_VERBS_CMD_CREATE_SRQ: u32 = 32;
pub const IB_USER_VERBS_CMD_MODIFY_SRQ: u32 = 33;
pub const IB_USER_VERBS_CMD_QUERY_SRQ: u32 = 34;
pub const IB_USER_VERBS_CMD_DESTROY_SRQ: u32 = 35;
pub const IB_USER_VERBS_CMD_POST_SRQ_RECV: u32 = 36;
pub const IB_USER_VERBS_CMD_OPEN_XRCD: u32 = 37;
pub const IB_USER_VERBS_CMD_CLOSE_XRCD: u32 = 38;
pub const IB_USER_VERBS_CMD_CREATE_XSRQ: u32 = 39;
pub const IB_USER_VERBS_CMD_OPEN_QP: u32 = 40;

// Command numbers of the extended write protocol.
pub const IB_USER_VERBS_EX_CMD_QUERY_DEVICE: u32 = 1;
pub const IB_USER_VERBS_EX_CMD_CREATE_CQ: u32 = 18;
pub const IB_USER_VERBS_EX_CMD_CREATE_QP: u32 = 24;
pub const IB_USER_VERBS_EX_CMD_MODIFY_QP: u32 = 26;
pub const IB_USER_VERBS_EX_CMD_CREATE_FLOW: u32 = 50;
pub const IB_USER_VERBS_EX_CMD_DESTROY_FLOW: u32 = 51;
pub const IB_USER_VERBS_EX_CMD_CREATE_WQ: u32 = 52;
pub const IB_USER_VERBS_EX_CMD_MODIFY_WQ: u32 = 53;
pub const IB_USER_VERBS_EX_CMD_DESTROY_WQ: u32 = 54;
pub const IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL: u32 = 55;
pub const IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL: u32 = 56;
pub const IB_USER_VERBS_EX_CMD_MODIFY_CQ: u32 = 57;

// Flags of extended CREATE_CQ.
pub const IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION: u32 = 1;
pub const IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN: u32 = 2;

// Valid fields of extended CREATE_QP.
pub const IB_UVERBS_CREATE_QP_MASK_IND_TABLE: u32 = 1;

layout! {
    /// On-demand paging capabilities of each transport.
    pub struct ib_uverbs_odp_per_transport_caps(12) {
        rc_odp_caps: u32 => 0,
        uc_odp_caps: u32 => 4,
        ud_odp_caps: u32 => 8,
    }

    /// On-demand paging capabilities.
    pub struct ib_uverbs_odp_caps(24) {
        general_caps: u64 => 0,
        per_transport_caps: ib_uverbs_odp_per_transport_caps => 8,
        reserved: u32 => 20,
    }

    /// One completion as the kernel writes it; `imm_data` also is `invalidate_rkey`.
    pub struct ib_uverbs_wc(48) {
        wr_id: u64 => 0,
        status: u32 => 8,
        opcode: u32 => 12,
        vendor_err: u32 => 16,
        byte_len: u32 => 20,
        imm_data: u32 => 24,
        qp_num: u32 => 28,
        src_qp: u32 => 32,
        wc_flags: u32 => 36,
        pkey_index: u16 => 40,
        slid: u16 => 42,
        sl: u8 => 44,
        dlid_path_bits: u8 => 45,
        port_num: u8 => 46,
        reserved: u8 => 47,
    }

    /// What `read` on the asynchronous event file returns, one per event.
    pub struct ib_uverbs_async_event_desc(16) {
        element: u64 => 0,
        event_type: u32 => 8,
        reserved: u32 => 12,
    }

    /// What `read` on a completion channel returns, one per event.
    pub struct ib_uverbs_comp_event_desc(8) {
        cq_handle: u64 => 0,
    }

    /// Header of every command given through `write`.
    pub struct ib_uverbs_cmd_hdr(8) {
        command: u32 => 0,
        in_words: u16 => 4,
        out_words: u16 => 6,
    }

    /// Second header of an extended command given through `write`.
    pub struct ib_uverbs_ex_cmd_hdr(16) {
        response: u64 => 0,
        provider_in_words: u16 => 8,
        provider_out_words: u16 => 10,
        cmd_hdr_reserved: u32 => 12,
    }

    /// GET_CONTEXT.
    pub struct ib_uverbs_get_context(8) {
        response: u64 => 0,
    }

    /// Answer of GET_CONTEXT.
    pub struct ib_uverbs_get_context_resp(8) {
        async_fd: u32 => 0,
        num_comp_vectors: u32 => 4,
    }

    /// QUERY_DEVICE.
    pub struct ib_uverbs_query_device(8) {
        response: u64 => 0,
    }

    /// Answer of QUERY_DEVICE; GUIDs are big endian.
    pub struct ib_uverbs_query_device_resp(176) {
        fw_ver: u64 => 0,
        node_guid: u64 => 8,
        sys_image_guid: u64 => 16,
        max_mr_size: u64 => 24,
        page_size_cap: u64 => 32,
        vendor_id: u32 => 40,
        vendor_part_id: u32 => 44,
        hw_ver: u32 => 48,
        max_qp: u32 => 52,
        max_qp_wr: u32 => 56,
        device_cap_flags: u32 => 60,
        max_sge: u32 => 64,
        max_sge_rd: u32 => 68,
        max_cq: u32 => 72,
        max_cqe: u32 => 76,
        max_mr: u32 => 80,
        max_pd: u32 => 84,
        max_qp_rd_atom: u32 => 88,
        max_ee_rd_atom: u32 => 92,
        max_res_rd_atom: u32 => 96,
        max_qp_init_rd_atom: u32 => 100,
        max_ee_init_rd_atom: u32 => 104,
        atomic_cap: u32 => 108,
        max_ee: u32 => 112,
        max_rdd: u32 => 116,
        max_mw: u32 => 120,
        max_raw_ipv6_qp: u32 => 124,
        max_raw_ethy_qp: u32 => 128,
        max_mcast_grp: u32 => 132,
        max_mcast_qp_attach: u32 => 136,
        max_total_mcast_qp_attach: u32 => 140,
        max_ah: u32 => 144,
        max_fmr: u32 => 148,
        max_map_per_fmr: u32 => 152,
        max_srq: u32 => 156,
        max_srq_wr: u32 => 160,
        max_srq_sge: u32 => 164,
        max_pkeys: u16 => 168,
        local_ca_ack_delay: u8 => 170,
        phys_port_cnt: u8 => 171,
        reserved: [u8; 4] => 172,
    }

    /// Extended QUERY_DEVICE.
    pub struct ib_uverbs_ex_query_device(8) {
        comp_mask: u32 => 0,
        reserved: u32 => 4,
    }

    /// Receive-side scaling limits.
    pub struct ib_uverbs_rss_caps(16) {
        supported_qpts: u32 => 0,
        max_rwq_indirection_tables: u32 => 4,
        max_rwq_indirection_table_size: u32 => 8,
        reserved: u32 => 12,
    }

    /// Tag matching limits.
    pub struct ib_uverbs_tm_caps(24) {
        max_rndv_hdr_size: u32 => 0,
        max_num_tags: u32 => 4,
        flags: u32 => 8,
        max_ops: u32 => 12,
        max_sge: u32 => 16,
        reserved: u32 => 20,
    }

    /// Limits of completion moderation (events, microseconds).
    pub struct ib_uverbs_cq_moderation_caps(8) {
        max_cq_moderation_count: u16 => 0,
        max_cq_moderation_period: u16 => 2,
        reserved: u32 => 4,
    }

    /// Answer of extended QUERY_DEVICE; `hca_core_clock` in kHz, `response_length` says how much the kernel
    /// knows.
    pub struct ib_uverbs_ex_query_device_resp(304) {
        base: ib_uverbs_query_device_resp => 0,
        comp_mask: u32 => 176,
        response_length: u32 => 180,
        odp_caps: ib_uverbs_odp_caps => 184,
        timestamp_mask: u64 => 208,
        hca_core_clock: u64 => 216,
        device_cap_flags_ex: u64 => 224,
        rss_caps: ib_uverbs_rss_caps => 232,
        max_wq_type_rq: u32 => 248,
        raw_packet_caps: u32 => 252,
        tm_caps: ib_uverbs_tm_caps => 256,
        cq_moderation_caps: ib_uverbs_cq_moderation_caps => 280,
        max_dm_size: u64 => 288,
        xrc_odp_caps: u32 => 296,
        reserved: u32 => 300,
    }

    /// QUERY_PORT.
    pub struct ib_uverbs_query_port(16) {
        response: u64 => 0,
        port_num: u8 => 8,
        reserved: [u8; 7] => 9,
    }

    /// Answer of QUERY_PORT.
    pub struct ib_uverbs_query_port_resp(40) {
        port_cap_flags: u32 => 0,
        max_msg_sz: u32 => 4,
        bad_pkey_cntr: u32 => 8,
        qkey_viol_cntr: u32 => 12,
        gid_tbl_len: u32 => 16,
        pkey_tbl_len: u16 => 20,
        lid: u16 => 22,
        sm_lid: u16 => 24,
        state: u8 => 26,
        max_mtu: u8 => 27,
        active_mtu: u8 => 28,
        lmc: u8 => 29,
        max_vl_num: u8 => 30,
        sm_sl: u8 => 31,
        subnet_timeout: u8 => 32,
        init_type_reply: u8 => 33,
        active_width: u8 => 34,
        active_speed: u8 => 35,
        phys_state: u8 => 36,
        link_layer: u8 => 37,
        flags: u8 => 38,
        reserved: u8 => 39,
    }

    /// ALLOC_PD.
    pub struct ib_uverbs_alloc_pd(8) {
        response: u64 => 0,
    }

    /// Answer of ALLOC_PD.
    pub struct ib_uverbs_alloc_pd_resp(4) {
        pd_handle: u32 => 0,
    }

    /// DEALLOC_PD.
    pub struct ib_uverbs_dealloc_pd(4) {
        pd_handle: u32 => 0,
    }

    /// OPEN_XRCD; `fd` is the inode's file or -1.
    pub struct ib_uverbs_open_xrcd(16) {
        response: u64 => 0,
        fd: u32 => 8,
        oflags: u32 => 12,
    }

    /// Answer of OPEN_XRCD.
    pub struct ib_uverbs_open_xrcd_resp(4) {
        xrcd_handle: u32 => 0,
    }

    /// CLOSE_XRCD.
    pub struct ib_uverbs_close_xrcd(4) {
        xrcd_handle: u32 => 0,
    }

    /// REG_MR.
    pub struct ib_uverbs_reg_mr(40) {
        response: u64 => 0,
        start: u64 => 8,
        length: u64 => 16,
        hca_va: u64 => 24,
        pd_handle: u32 => 32,
        access_flags: u32 => 36,
    }

    /// Answer of REG_MR.
    pub struct ib_uverbs_reg_mr_resp(12) {
        mr_handle: u32 => 0,
        lkey: u32 => 4,
        rkey: u32 => 8,
    }

    /// REREG_MR.
    pub struct ib_uverbs_rereg_mr(48) {
        response: u64 => 0,
        mr_handle: u32 => 8,
        flags: u32 => 12,
        start: u64 => 16,
        length: u64 => 24,
        hca_va: u64 => 32,
        pd_handle: u32 => 40,
        access_flags: u32 => 44,
    }

    /// Answer of REREG_MR.
    pub struct ib_uverbs_rereg_mr_resp(8) {
        lkey: u32 => 0,
        rkey: u32 => 4,
    }

    /// DEREG_MR.
    pub struct ib_uverbs_dereg_mr(4) {
        mr_handle: u32 => 0,
    }

    /// ALLOC_MW.
    pub struct ib_uverbs_alloc_mw(16) {
        response: u64 => 0,
        pd_handle: u32 => 8,
        mw_type: u8 => 12,
        reserved: [u8; 3] => 13,
    }

    /// Answer of ALLOC_MW.
    pub struct ib_uverbs_alloc_mw_resp(8) {
        mw_handle: u32 => 0,
        rkey: u32 => 4,
    }

    /// DEALLOC_MW.
    pub struct ib_uverbs_dealloc_mw(4) {
        mw_handle: u32 => 0,
    }

    /// CREATE_COMP_CHANNEL.
    pub struct ib_uverbs_create_comp_channel(8) {
        response: u64 => 0,
    }

    /// Answer of CREATE_COMP_CHANNEL.
    pub struct ib_uverbs_create_comp_channel_resp(4) {
        fd: u32 => 0,
    }

    /// CREATE_CQ; `comp_channel` is a file descriptor or -1.
    pub struct ib_uverbs_create_cq(32) {
        response: u64 => 0,
        user_handle: u64 => 8,
        cqe: u32 => 16,
        comp_vector: u32 => 20,
        comp_channel: i32 => 24,
        reserved: u32 => 28,
    }

    /// Extended CREATE_CQ.
    pub struct ib_uverbs_ex_create_cq(32) {
        user_handle: u64 => 0,
        cqe: u32 => 8,
        comp_vector: u32 => 12,
        comp_channel: i32 => 16,
        comp_mask: u32 => 20,
        flags: u32 => 24,
        reserved: u32 => 28,
    }

    /// Answer of CREATE_CQ.
    pub struct ib_uverbs_create_cq_resp(8) {
        cq_handle: u32 => 0,
        cqe: u32 => 4,
    }

    /// Answer of extended CREATE_CQ.
    pub struct ib_uverbs_ex_create_cq_resp(16) {
        base: ib_uverbs_create_cq_resp => 0,
        comp_mask: u32 => 8,
        response_length: u32 => 12,
    }

    /// RESIZE_CQ.
    pub struct ib_uverbs_resize_cq(16) {
        response: u64 => 0,
        cq_handle: u32 => 8,
        cqe: u32 => 12,
    }

    /// Answer of RESIZE_CQ.
    pub struct ib_uverbs_resize_cq_resp(8) {
        cqe: u32 => 0,
        reserved: u32 => 4,
    }

    /// POLL_CQ.
    pub struct ib_uverbs_poll_cq(16) {
        response: u64 => 0,
        cq_handle: u32 => 8,
        ne: u32 => 12,
    }

    /// Answer of POLL_CQ: this header, then `count` times [`ib_uverbs_wc`].
    pub struct ib_uverbs_poll_cq_resp(8) {
        count: u32 => 0,
        reserved: u32 => 4,
    }

    /// REQ_NOTIFY_CQ.
    pub struct ib_uverbs_req_notify_cq(8) {
        cq_handle: u32 => 0,
        solicited_only: u32 => 4,
    }

    /// DESTROY_CQ.
    pub struct ib_uverbs_destroy_cq(16) {
        response: u64 => 0,
        cq_handle: u32 => 8,
        reserved: u32 => 12,
    }

    /// Answer of DESTROY_CQ: how many events the kernel has handed out for it.
    pub struct ib_uverbs_destroy_cq_resp(8) {
        comp_events_reported: u32 => 0,
        async_events_reported: u32 => 4,
    }

    /// Global route header of an address vector.
    pub struct ib_uverbs_global_route(24) {
        dgid: [u8; 16] => 0,
        flow_label: u32 => 16,
        sgid_index: u8 => 20,
        hop_limit: u8 => 21,
        traffic_class: u8 => 22,
        reserved: u8 => 23,
    }

    /// Address vector.
    pub struct ib_uverbs_ah_attr(32) {
        grh: ib_uverbs_global_route => 0,
        dlid: u16 => 24,
        sl: u8 => 26,
        src_path_bits: u8 => 27,
        static_rate: u8 => 28,
        is_global: u8 => 29,
        port_num: u8 => 30,
        reserved: u8 => 31,
    }

    /// Queue pair attributes as the connection manager hands them out.
    pub struct ib_uverbs_qp_attr(144) {
        qp_attr_mask: u32 => 0,
        qp_state: u32 => 4,
        cur_qp_state: u32 => 8,
        path_mtu: u32 => 12,
        path_mig_state: u32 => 16,
        qkey: u32 => 20,
        rq_psn: u32 => 24,
        sq_psn: u32 => 28,
        dest_qp_num: u32 => 32,
        qp_access_flags: u32 => 36,
        ah_attr: ib_uverbs_ah_attr => 40,
        alt_ah_attr: ib_uverbs_ah_attr => 72,
        max_send_wr: u32 => 104,
        max_recv_wr: u32 => 108,
        max_send_sge: u32 => 112,
        max_recv_sge: u32 => 116,
        max_inline_data: u32 => 120,
        pkey_index: u16 => 124,
        alt_pkey_index: u16 => 126,
        en_sqd_async_notify: u8 => 128,
        sq_draining: u8 => 129,
        max_rd_atomic: u8 => 130,
        max_dest_rd_atomic: u8 => 131,
        min_rnr_timer: u8 => 132,
        port_num: u8 => 133,
        timeout: u8 => 134,
        retry_cnt: u8 => 135,
        rnr_retry: u8 => 136,
        alt_port_num: u8 => 137,
        alt_timeout: u8 => 138,
        reserved: [u8; 5] => 139,
    }

    /// CREATE_QP.
    pub struct ib_uverbs_create_qp(56) {
        response: u64 => 0,
        user_handle: u64 => 8,
        pd_handle: u32 => 16,
        send_cq_handle: u32 => 20,
        recv_cq_handle: u32 => 24,
        srq_handle: u32 => 28,
        max_send_wr: u32 => 32,
        max_recv_wr: u32 => 36,
        max_send_sge: u32 => 40,
        max_recv_sge: u32 => 44,
        max_inline_data: u32 => 48,
        sq_sig_all: u8 => 52,
        qp_type: u8 => 53,
        is_srq: u8 => 54,
        reserved: u8 => 55,
    }

    /// Extended CREATE_QP.
    pub struct ib_uverbs_ex_create_qp(64) {
        user_handle: u64 => 0,
        pd_handle: u32 => 8,
        send_cq_handle: u32 => 12,
        recv_cq_handle: u32 => 16,
        srq_handle: u32 => 20,
        max_send_wr: u32 => 24,
        max_recv_wr: u32 => 28,
        max_send_sge: u32 => 32,
        max_recv_sge: u32 => 36,
        max_inline_data: u32 => 40,
        sq_sig_all: u8 => 44,
        qp_type: u8 => 45,
        is_srq: u8 => 46,
        reserved: u8 => 47,
        comp_mask: u32 => 48,
        create_flags: u32 => 52,
        rwq_ind_tbl_handle: u32 => 56,
        source_qpn: u32 => 60,
    }

    /// OPEN_QP.
    pub struct ib_uverbs_open_qp(32) {
        response: u64 => 0,
        user_handle: u64 => 8,
        pd_handle: u32 => 16,
        qpn: u32 => 20,
        qp_type: u8 => 24,
        reserved: [u8; 7] => 25,
    }

    /// Answer of CREATE_QP and OPEN_QP.
    pub struct ib_uverbs_create_qp_resp(32) {
        qp_handle: u32 => 0,
        qpn: u32 => 4,
        max_send_wr: u32 => 8,
        max_recv_wr: u32 => 12,
        max_send_sge: u32 => 16,
        max_recv_sge: u32 => 20,
        max_inline_data: u32 => 24,
        reserved: u32 => 28,
    }

    /// Answer of extended CREATE_QP.
    pub struct ib_uverbs_ex_create_qp_resp(40) {
        base: ib_uverbs_create_qp_resp => 0,
        comp_mask: u32 => 32,
        response_length: u32 => 36,
    }

    /// Address vector inside MODIFY_QP and QUERY_QP; no field may leave implicit padding.
    pub struct ib_uverbs_qp_dest(32) {
        dgid: [u8; 16] => 0,
        flow_label: u32 => 16,
        dlid: u16 => 20,
        reserved: u16 => 22,
        sgid_index: u8 => 24,
        hop_limit: u8 => 25,
        traffic_class: u8 => 26,
        sl: u8 => 27,
        src_path_bits: u8 => 28,
        static_rate: u8 => 29,
        is_global: u8 => 30,
        port_num: u8 => 31,
    }

    /// QUERY_QP.
    pub struct ib_uverbs_query_qp(16) {
        response: u64 => 0,
        qp_handle: u32 => 8,
        attr_mask: u32 => 12,
    }

    /// Answer of QUERY_QP.
    pub struct ib_uverbs_query_qp_resp(128) {
        dest: ib_uverbs_qp_dest => 0,
        alt_dest: ib_uverbs_qp_dest => 32,
        max_send_wr: u32 => 64,
        max_recv_wr: u32 => 68,
        max_send_sge: u32 => 72,
        max_recv_sge: u32 => 76,
        max_inline_data: u32 => 80,
        qkey: u32 => 84,
        rq_psn: u32 => 88,
        sq_psn: u32 => 92,
        dest_qp_num: u32 => 96,
        qp_access_flags: u32 => 100,
        pkey_index: u16 => 104,
        alt_pkey_index: u16 => 106,
        qp_state: u8 => 108,
        cur_qp_state: u8 => 109,
        path_mtu: u8 => 110,
        path_mig_state: u8 => 111,
        sq_draining: u8 => 112,
        max_rd_atomic: u8 => 113,
        max_dest_rd_atomic: u8 => 114,
        min_rnr_timer: u8 => 115,
        port_num: u8 => 116,
        timeout: u8 => 117,
        retry_cnt: u8 => 118,
        rnr_retry: u8 => 119,
        alt_port_num: u8 => 120,
        alt_timeout: u8 => 121,
        sq_sig_all: u8 => 122,
        reserved: [u8; 5] => 123,
    }

    /// MODIFY_QP.
    pub struct ib_uverbs_modify_qp(112) {
        dest: ib_uverbs_qp_dest => 0,
        alt_dest: ib_uverbs_qp_dest => 32,
        qp_handle: u32 => 64,
        attr_mask: u32 => 68,
        qkey: u32 => 72,
        rq_psn: u32 => 76,
        sq_psn: u32 => 80,
        dest_qp_num: u32 => 84,
        qp_access_flags: u32 => 88,
        pkey_index: u16 => 92,
        alt_pkey_index: u16 => 94,
        qp_state: u8 => 96,
        cur_qp_state: u8 => 97,
        path_mtu: u8 => 98,
        path_mig_state: u8 => 99,
        en_sqd_async_notify: u8 => 100,
        max_rd_atomic: u8 => 101,
        max_dest_rd_atomic: u8 => 102,
        min_rnr_timer: u8 => 103,
        port_num: u8 => 104,
        timeout: u8 => 105,
        retry_cnt: u8 => 106,
        rnr_retry: u8 => 107,
        alt_port_num: u8 => 108,
        alt_timeout: u8 => 109,
        reserved: [u8; 2] => 110,
    }

    /// Extended MODIFY_QP.
    pub struct ib_uverbs_ex_modify_qp(120) {
        base: ib_uverbs_modify_qp => 0,
        rate_limit: u32 => 112,
        reserved: u32 => 116,
    }

    /// Answer of extended MODIFY_QP.
    pub struct ib_uverbs_ex_modify_qp_resp(8) {
        comp_mask: u32 => 0,
        response_length: u32 => 4,
    }

    /// DESTROY_QP.
    pub struct ib_uverbs_destroy_qp(16) {
        response: u64 => 0,
        qp_handle: u32 => 8,
        reserved: u32 => 12,
    }

    /// Answer of DESTROY_QP: how many asynchronous events the kernel has handed out for it.
    pub struct ib_uverbs_destroy_qp_resp(4) {
        events_reported: u32 => 0,
    }

    /// One scatter/gather entry.
    pub struct ib_uverbs_sge(16) {
        addr: u64 => 0,
        length: u32 => 8,
        lkey: u32 => 12,
    }

    /// One send work request inside POST_SEND. `imm_data` also is `invalidate_rkey`; `wr` is the C union of the
    /// parts by operation.
    pub struct ib_uverbs_send_wr(56) {
        wr_id: u64 => 0,
        num_sge: u32 => 8,
        opcode: u32 => 12,
        send_flags: u32 => 16,
        imm_data: u32 => 20,
        wr: [u64; 4] => 24,
    }

    /// Part `rdma` of [`ib_uverbs_send_wr`].
    pub struct ib_uverbs_send_wr_rdma(16) {
        remote_addr: u64 => 0,
        rkey: u32 => 8,
        reserved: u32 => 12,
    }

    /// Part `atomic` of [`ib_uverbs_send_wr`].
    pub struct ib_uverbs_send_wr_atomic(32) {
        remote_addr: u64 => 0,
        compare_add: u64 => 8,
        swap: u64 => 16,
        rkey: u32 => 24,
        reserved: u32 => 28,
    }

    /// Part `ud` of [`ib_uverbs_send_wr`].
    pub struct ib_uverbs_send_wr_ud(16) {
        ah: u32 => 0,
        remote_qpn: u32 => 4,
        remote_qkey: u32 => 8,
        reserved: u32 => 12,
    }

    /// POST_SEND: this header, then the work requests, then their scatter/gather entries.
    pub struct ib_uverbs_post_send(24) {
        response: u64 => 0,
        qp_handle: u32 => 8,
        wr_count: u32 => 12,
        sge_count: u32 => 16,
        wqe_size: u32 => 20,
    }

    /// Answer of POST_SEND: which request (from 1) failed.
    pub struct ib_uverbs_post_send_resp(4) {
        bad_wr: u32 => 0,
    }

    /// One receive work request inside POST_RECV and POST_SRQ_RECV.
    pub struct ib_uverbs_recv_wr(16) {
        wr_id: u64 => 0,
        num_sge: u32 => 8,
        reserved: u32 => 12,
    }

    /// POST_RECV.
    pub struct ib_uverbs_post_recv(24) {
        response: u64 => 0,
        qp_handle: u32 => 8,
        wr_count: u32 => 12,
        sge_count: u32 => 16,
        wqe_size: u32 => 20,
    }

    /// Answer of POST_RECV.
    pub struct ib_uverbs_post_recv_resp(4) {
        bad_wr: u32 => 0,
    }

    /// POST_SRQ_RECV.
    pub struct ib_uverbs_post_srq_recv(24) {
        response: u64 => 0,
        srq_handle: u32 => 8,
        wr_count: u32 => 12,
        sge_count: u32 => 16,
        wqe_size: u32 => 20,
    }

    /// Answer of POST_SRQ_RECV.
    pub struct ib_uverbs_post_srq_recv_resp(4) {
        bad_wr: u32 => 0,
    }

    /// CREATE_AH.
    pub struct ib_uverbs_create_ah(56) {
        response: u64 => 0,
        user_handle: u64 => 8,
        pd_handle: u32 => 16,
        reserved: u32 => 20,
        attr: ib_uverbs_ah_attr => 24,
    }

    /// Answer of CREATE_AH.
    pub struct ib_uverbs_create_ah_resp(4) {
        ah_handle: u32 => 0,
    }

    /// DESTROY_AH.
    pub struct ib_uverbs_destroy_ah(4) {
        ah_handle: u32 => 0,
    }

    /// ATTACH_MCAST.
    pub struct ib_uverbs_attach_mcast(24) {
        gid: [u8; 16] => 0,
        qp_handle: u32 => 16,
        mlid: u16 => 20,
        reserved: u16 => 22,
    }

    /// DETACH_MCAST.
    pub struct ib_uverbs_detach_mcast(24) {
        gid: [u8; 16] => 0,
        qp_handle: u32 => 16,
        mlid: u16 => 20,
        reserved: u16 => 22,
    }

    /// CREATE_SRQ.
    pub struct ib_uverbs_create_srq(32) {
        response: u64 => 0,
        user_handle: u64 => 8,
        pd_handle: u32 => 16,
        max_wr: u32 => 20,
        max_sge: u32 => 24,
        srq_limit: u32 => 28,
    }

    /// CREATE_XSRQ.
    pub struct ib_uverbs_create_xsrq(48) {
        response: u64 => 0,
        user_handle: u64 => 8,
        srq_type: u32 => 16,
        pd_handle: u32 => 20,
        max_wr: u32 => 24,
        max_sge: u32 => 28,
        srq_limit: u32 => 32,
        max_num_tags: u32 => 36,
        xrcd_handle: u32 => 40,
        cq_handle: u32 => 44,
    }

    /// Answer of CREATE_SRQ and CREATE_XSRQ.
    pub struct ib_uverbs_create_srq_resp(16) {
        srq_handle: u32 => 0,
        max_wr: u32 => 4,
        max_sge: u32 => 8,
        srqn: u32 => 12,
    }

    /// MODIFY_SRQ.
    pub struct ib_uverbs_modify_srq(16) {
        srq_handle: u32 => 0,
        attr_mask: u32 => 4,
        max_wr: u32 => 8,
        srq_limit: u32 => 12,
    }

    /// QUERY_SRQ.
    pub struct ib_uverbs_query_srq(16) {
        response: u64 => 0,
        srq_handle: u32 => 8,
        reserved: u32 => 12,
    }

    /// Answer of QUERY_SRQ.
    pub struct ib_uverbs_query_srq_resp(16) {
        max_wr: u32 => 0,
        max_sge: u32 => 4,
        srq_limit: u32 => 8,
        reserved: u32 => 12,
    }

    /// DESTROY_SRQ.
    pub struct ib_uverbs_destroy_srq(16) {
        response: u64 => 0,
        srq_handle: u32 => 8,
        reserved: u32 => 12,
    }

    /// Answer of DESTROY_SRQ: how many asynchronous events the kernel has handed out for it.
    pub struct ib_uverbs_destroy_srq_resp(4) {
        events_reported: u32 => 0,
    }

    /// Extended CREATE_WQ.
    pub struct ib_uverbs_ex_create_wq(40) {
        comp_mask: u32 => 0,
        wq_type: u32 => 4,
        user_handle: u64 => 8,
        pd_handle: u32 => 16,
        cq_handle: u32 => 20,
        max_wr: u32 => 24,
        max_sge: u32 => 28,
        create_flags: u32 => 32,
        reserved: u32 => 36,
    }

    /// Answer of extended CREATE_WQ.
    pub struct ib_uverbs_ex_create_wq_resp(24) {
        comp_mask: u32 => 0,
        response_length: u32 => 4,
        wq_handle: u32 => 8,
        max_wr: u32 => 12,
        max_sge: u32 => 16,
        wqn: u32 => 20,
    }

    /// Extended DESTROY_WQ.
    pub struct ib_uverbs_ex_destroy_wq(8) {
        comp_mask: u32 => 0,
        wq_handle: u32 => 4,
    }

    /// Answer of extended DESTROY_WQ.
    pub struct ib_uverbs_ex_destroy_wq_resp(16) {
        comp_mask: u32 => 0,
        response_length: u32 => 4,
        events_reported: u32 => 8,
        reserved: u32 => 12,
    }

    /// Extended MODIFY_WQ.
    pub struct ib_uverbs_ex_modify_wq(24) {
        attr_mask: u32 => 0,
        wq_handle: u32 => 4,
        wq_state: u32 => 8,
        curr_wq_state: u32 => 12,
        flags: u32 => 16,
        flags_mask: u32 => 20,
    }

    /// Extended CREATE_RWQ_IND_TBL: this header, then the work queue handles.
    pub struct ib_uverbs_ex_create_rwq_ind_table(8) {
        comp_mask: u32 => 0,
        log_ind_tbl_size: u32 => 4,
    }

    /// Answer of extended CREATE_RWQ_IND_TBL.
    pub struct ib_uverbs_ex_create_rwq_ind_table_resp(16) {
        comp_mask: u32 => 0,
        response_length: u32 => 4,
        ind_tbl_handle: u32 => 8,
        ind_tbl_num: u32 => 12,
    }

    /// Extended DESTROY_RWQ_IND_TBL.
    pub struct ib_uverbs_ex_destroy_rwq_ind_table(8) {
        comp_mask: u32 => 0,
        ind_tbl_handle: u32 => 4,
    }

    /// Start of every flow specification; values and masks follow.
    pub struct ib_uverbs_flow_spec_hdr(8) {
        type_: u32 => 0,
        size: u16 => 4,
        reserved: u16 => 6,
    }

    /// A flow rule: this header, then the specifications, which are `size` bytes.
    pub struct ib_uverbs_flow_attr(16) {
        type_: u32 => 0,
        size: u16 => 4,
        priority: u16 => 6,
        num_of_specs: u8 => 8,
        reserved: [u8; 2] => 9,
        port: u8 => 11,
        flags: u32 => 12,
    }

    /// Extended CREATE_FLOW.
    pub struct ib_uverbs_create_flow(24) {
        comp_mask: u32 => 0,
        qp_handle: u32 => 4,
        flow_attr: ib_uverbs_flow_attr => 8,
    }

    /// Answer of extended CREATE_FLOW.
    pub struct ib_uverbs_create_flow_resp(8) {
        comp_mask: u32 => 0,
        flow_handle: u32 => 4,
    }

    /// Extended DESTROY_FLOW.
    pub struct ib_uverbs_destroy_flow(8) {
        comp_mask: u32 => 0,
        flow_handle: u32 => 4,
    }

    /// Completion moderation (events, microseconds).
    pub struct ib_uverbs_cq_moderation(4) {
        cq_count: u16 => 0,
        cq_period: u16 => 2,
    }

    /// Extended MODIFY_CQ.
    pub struct ib_uverbs_ex_modify_cq(16) {
        cq_handle: u32 => 0,
        attr_mask: u32 => 4,
        attr: ib_uverbs_cq_moderation => 8,
        reserved: u32 => 12,
    }
}
