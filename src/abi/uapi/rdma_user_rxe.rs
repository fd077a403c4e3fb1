//! Rings and answers of the soft-RoCE driver.
//!
//! Source: linux-libc-dev, `rdma/rdma_user_rxe.h`. Sizes and offsets are those that a C compiler gave for that
//! header on a 64-bit machine; flexible arrays at the end of a C structure are left out.

use core::mem::offset_of;

use super::layout;

pub const RXE_NETWORK_TYPE_IPV4: u8 = 1;
pub const RXE_NETWORK_TYPE_IPV6: u8 = 2;

layout! {
    /// Where in the device file a ring is to be mapped (bytes).
    pub struct mminfo(16) {
        offset: u64 => 0,
        size: u32 => 8,
        pad: u32 => 12,
    }

    /// Driver part of the answer of CREATE_AH.
    pub struct rxe_create_ah_resp(8) {
        ah_num: u32 => 0,
        reserved: u32 => 4,
    }

    /// Driver part of the answer of CREATE_CQ.
    pub struct rxe_create_cq_resp(16) {
        mi: mminfo => 0,
    }

    /// Driver part of the answer of RESIZE_CQ.
    pub struct rxe_resize_cq_resp(16) {
        mi: mminfo => 0,
    }

    /// Driver part of the answer of CREATE_QP.
    pub struct rxe_create_qp_resp(32) {
        rq_mi: mminfo => 0,
        sq_mi: mminfo => 16,
    }

    /// Driver part of the answer of CREATE_SRQ.
    pub struct rxe_create_srq_resp(24) {
        mi: mminfo => 0,
        srq_num: u32 => 16,
        reserved: u32 => 20,
    }

    /// Driver part of MODIFY_SRQ: where the driver writes the [`mminfo`] of a resized ring.
    pub struct rxe_modify_srq_cmd(8) {
        mmap_info_addr: u64 => 0,
    }

    /// Head of every ring; the entries follow at [`RXE_QUEUE_DATA`].
    pub struct rxe_queue_buf(384) {
        log2_elem_size: u32 => 0,
        index_mask: u32 => 4,
        pad_1: [u32; 30] => 8,
        producer_index: u32 => 128,
        pad_2: [u32; 31] => 132,
        consumer_index: u32 => 256,
        pad_3: [u32; 31] => 260,
    }

    /// One scatter/gather entry.
    pub struct rxe_sge(16) {
        addr: u64 => 0,
        length: u32 => 8,
        lkey: u32 => 12,
    }

    /// Payload of a work queue entry; inline bytes or [`rxe_sge`] entries follow.
    pub struct rxe_dma_info(24) {
        length: u32 => 0,
        resid: u32 => 4,
        cur_sge: u32 => 8,
        num_sge: u32 => 12,
        sge_offset: u32 => 16,
        reserved: u32 => 20,
    }

    /// Head of a receive queue entry.
    pub struct rxe_recv_wqe(40) {
        wr_id: u64 => 0,
        reserved: u32 => 8,
        padding: u32 => 12,
        dma: rxe_dma_info => 16,
    }

    /// Global route of an address vector.
    pub struct rxe_global_route(24) {
        dgid: [u8; 16] => 0,
        flow_label: u32 => 16,
        sgid_index: u8 => 20,
        hop_limit: u8 => 21,
        traffic_class: u8 => 22,
        _pad23: u8 => 23,
    }

    /// Address vector; the addresses are a `sockaddr_in` or a `sockaddr_in6` each.
    pub struct rxe_av(88) {
        port_num: u8 => 0,
        network_type: u8 => 1,
        dmac: [u8; 6] => 2,
        grh: rxe_global_route => 8,
        sgid_addr: [u32; 7] => 32,
        dgid_addr: [u32; 7] => 60,
    }

    /// `wr.rdma` of a send work request.
    pub struct rxe_wr_rdma(16) {
        remote_addr: u64 => 0,
        rkey: u32 => 8,
        reserved: u32 => 12,
    }

    /// `wr.flush` of a send work request.
    pub struct rxe_wr_flush(24) {
        remote_addr: u64 => 0,
        length: u32 => 8,
        rkey: u32 => 12,
        kind: u8 => 16,
        level: u8 => 17,
        _pad18: [u8; 6] => 18,
    }

    /// `wr.atomic` of a send work request.
    pub struct rxe_wr_atomic(32) {
        remote_addr: u64 => 0,
        compare_add: u64 => 8,
        swap: u64 => 16,
        rkey: u32 => 24,
        reserved: u32 => 28,
    }

    /// `wr.ud` of a send work request.
    pub struct rxe_wr_ud(120) {
        remote_qpn: u32 => 0,
        remote_qkey: u32 => 4,
        pkey_index: u16 => 8,
        reserved: u16 => 10,
        ah_num: u32 => 12,
        pad: [u32; 4] => 16,
        av: rxe_av => 32,
    }

    /// `wr.mw` of a send work request.
    pub struct rxe_wr_mw(32) {
        addr: u64 => 0,
        length: u64 => 8,
        mr_lkey: u32 => 16,
        mw_rkey: u32 => 20,
        rkey: u32 => 24,
        access: u32 => 28,
    }
}

/// Offset of the entries in a ring (bytes).
pub const RXE_QUEUE_DATA: usize = 384;

/// What a send work request carries beside its payload, by opcode.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rxe_send_wr_wr {
    pub rdma: rxe_wr_rdma,
    pub atomic: rxe_wr_atomic,
    /// Flush.
    pub flush: rxe_wr_flush,
    pub ud: rxe_wr_ud,
    pub mw: rxe_wr_mw,
}

/// A send work request; `imm_data` (big endian) also is `invalidate_rkey`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rxe_send_wr {
    pub wr_id: u64,
    pub reserved: u32,
    pub opcode: u32,
    pub send_flags: u32,
    pub imm_data: u32,
    pub wr: rxe_send_wr_wr,
}

/// Head of a send queue entry.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rxe_send_wqe {
    pub wr: rxe_send_wr,
    pub status: u32,
    pub state: u32,
    pub iova: u64,
    pub mask: u32,
    pub first_psn: u32,
    pub last_psn: u32,
    pub ack_length: u32,
    pub ssn: u32,
    pub has_rd_atomic: u32,
    pub dma: rxe_dma_info,
}

const _: () = {
    assert!(size_of::<rxe_send_wr_wr>() == 120);
    assert!(size_of::<rxe_send_wr>() == 144);
    assert!(offset_of!(rxe_send_wr, opcode) == 12);
    assert!(offset_of!(rxe_send_wr, send_flags) == 16);
    assert!(offset_of!(rxe_send_wr, imm_data) == 20);
    assert!(offset_of!(rxe_send_wr, wr) == 24);
    assert!(size_of::<rxe_send_wqe>() == 208);
    assert!(offset_of!(rxe_send_wqe, status) == 144);
    assert!(offset_of!(rxe_send_wqe, state) == 148);
    assert!(offset_of!(rxe_send_wqe, iova) == 152);
    assert!(offset_of!(rxe_send_wqe, mask) == 160);
    assert!(offset_of!(rxe_send_wqe, first_psn) == 164);
    assert!(offset_of!(rxe_send_wqe, last_psn) == 168);
    assert!(offset_of!(rxe_send_wqe, ack_length) == 172);
    assert!(offset_of!(rxe_send_wqe, ssn) == 176);
    assert!(offset_of!(rxe_send_wqe, has_rd_atomic) == 180);
    assert!(offset_of!(rxe_send_wqe, dma) == 184);
};

impl rxe_send_wqe {
    /// An entry of which every byte is zero.
    #[must_use]
    pub const fn zeroed() -> Self {
        // SAFETY: all fields are integers, or a union of structures of integers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}
