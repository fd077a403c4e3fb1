//! Layouts of commands and answers (`rdma/rdma_user_cm.h`, `rdma/ib_user_sa.h`, `rdma/ib_user_verbs.h`). Sizes
//! and offsets are those of the kernel's headers; there is no byte between fields that is not named.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Structs of bytes alone, with the size and the offsets that the header gives them.
macro_rules! layouts {
    ($($(#[$meta:meta])* $name:ident $size:literal { $($field:ident : $kind:ty = $at:literal,)* })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[allow(missing_docs, reason = "the names are the header's")]
        pub struct $name { $(pub $field: $kind,)* }
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(core::mem::offset_of!($name, $field) == $at);)*
        };
    )*};
}

layouts! {
    /// In front of each command: `input` bytes follow, and there are `output` bytes of room for the answer.
    Header 8 { command: u32 = 0, input: u16 = 4, output: u16 = 6, }
    /// `sockaddr_storage`, whose first two bytes are the family.
    Storage 128 { family: u16 = 0, data: [u8; 126] = 2, }
    /// `sockaddr_in`.
    SockaddrIn 16 { family: u16 = 0, port: U16 = 2, address: [u8; 4] = 4, zero: [u8; 8] = 8, }
    /// `sockaddr_in6`.
    SockaddrIn6 28 { family: u16 = 0, port: U16 = 2, flow: U32 = 4, address: [u8; 16] = 8, scope: u32 = 24, }
    /// `sockaddr_ib`.
    SockaddrIb 48 {
        family: u16 = 0, pkey: U16 = 2, flow: U32 = 4, gid: [u8; 16] = 8, service: U64 = 24, mask: U64 = 32,
        scope: u64 = 40,
    }
    /// `rdma_conn_param`.
    ConnParam 272 {
        qp_num: u32 = 0, qkey: u32 = 4, private_data: [u8; 256] = 8,
        private_data_len: u8 = 264, srq: u8 = 265,
        responder_resources: u8 = 266, initiator_depth: u8 = 267,
        flow_control: u8 = 268, retry_count: u8 = 269,
        rnr_retry_count: u8 = 270, valid: u8 = 271,
    }
    /// `ib_uverbs_ah_attr`.
    AhAttr 32 {
        dgid: [u8; 16] = 0, flow_label: u32 = 16, sgid_index: u8 = 20,
        hop_limit: u8 = 21, traffic_class: u8 = 22,
        reserved: u8 = 23, dlid: u16 = 24, sl: u8 = 26, src_path_bits: u8 = 27, static_rate: u8 = 28,
        is_global: u8 = 29, port_num: u8 = 30, reserved2: u8 = 31,
    }
    /// `rdma_ucm_ud_param`.
    UdParam 304 {
        qp_num: u32 = 0, qkey: u32 = 4, ah_attr: AhAttr = 8, private_data: [u8; 256] = 40,
        private_data_len: u8 = 296, reserved: [u8; 7] = 297,
    }
    /// `rdma_ucm_ece`.
    Ece 8 { vendor_id: u32 = 0, attr_mod: u32 = 4, }

    /// 0.
    CreateId 24 {
        uid: u64 = 0, response: u64 = 8, ps: u16 = 16, qp_type: u8 = 18, reserved: [u8; 5] = 19,
    }
    /// 1 and 17.
    DestroyId 16 { response: u64 = 0, id: u32 = 8, reserved: u32 = 12, }
    /// 2.
    BindIp 40 { response: u64 = 0, address: SockaddrIn6 = 8, id: u32 = 36, }
    /// 3.
    ResolveIp 64 { source: SockaddrIn6 = 0, destination: SockaddrIn6 = 28, id: u32 = 56, timeout_ms: u32 = 60, }
    /// 4.
    ResolveRoute 8 { id: u32 = 0, timeout_ms: u32 = 4, }
    /// 5 and 19.
    Query 16 { response: u64 = 0, id: u32 = 8, option: u32 = 12, }
    /// 6 without what was added to it later.
    Connect 280 { param: ConnParam = 0, id: u32 = 272, reserved: u32 = 276, }
    /// 7.
    Listen 8 { id: u32 = 0, backlog: u32 = 4, }
    /// 8 without what was added to it later.
    Accept 288 { uid: u64 = 0, param: ConnParam = 8, id: u32 = 280, reserved: u32 = 284, }
    /// 9.
    Reject 264 {
        id: u32 = 0, private_data_len: u8 = 4, reason: u8 = 5,
        reserved: [u8; 2] = 6, private_data: [u8; 256] = 8,
    }
    /// 10.
    Disconnect 4 { id: u32 = 0, }
    /// 11.
    InitQpAttr 16 { response: u64 = 0, id: u32 = 8, qp_state: u32 = 12, }
    /// 12.
    GetEvent 8 { response: u64 = 0, }
    /// 14.
    SetOption 24 { optval: u64 = 0, id: u32 = 8, level: u32 = 12, optname: u32 = 16, optlen: u32 = 20, }
    /// 15.
    Notify 8 { id: u32 = 0, event: u32 = 4, }
    /// 16.
    JoinIp 48 { response: u64 = 0, uid: u64 = 8, address: SockaddrIn6 = 16, id: u32 = 44, }
    /// 18.
    Migrate 16 { response: u64 = 0, id: u32 = 8, fd: u32 = 12, }
    /// 20.
    Bind 136 { id: u32 = 0, addr_size: u16 = 4, reserved: u16 = 6, address: Storage = 8, }
    /// 21.
    ResolveAddr 272 {
        id: u32 = 0, timeout_ms: u32 = 4, src_size: u16 = 8, dst_size: u16 = 10, reserved: u32 = 12,
        source: Storage = 16, destination: Storage = 144,
    }
    /// 22.
    Join 152 {
        response: u64 = 0, uid: u64 = 8, id: u32 = 16, addr_size: u16 = 20, join_flags: u16 = 22,
        address: Storage = 24,
    }
    /// 23.
    ResolveIbService 88 {
        id: u32 = 0, reserved: u32 = 4, service_id: u64 = 8, name: [u8; 64] = 16, flags: u32 = 80,
        reserved2: u32 = 84,
    }
    /// 24.
    WriteEvent 320 {
        id: u32 = 0, reserved: u32 = 4, event: u32 = 8, status: i32 = 12, argument: u64 = 16,
        rest: [u8; 296] = 24,
    }

    /// Answer of 0, 16 and 22.
    Created 4 { id: u32 = 0, }
    /// Answer of 1, 17 and 18.
    Reported 4 { events_reported: u32 = 0, }
    /// Answer of 12.
    Event 336 {
        uid: u64 = 0, id: u32 = 8, event: u32 = 12,
        status: i32 = 16, param: [u8; 304] = 20, reserved: u32 = 324,
        ece: Ece = 328,
    }
    /// Answer of 19, options 0 and 2.
    QueryAddr 280 {
        node_guid: [u8; 8] = 0, port_num: u8 = 8, reserved: u8 = 9, pkey: U16 = 10, src_size: u16 = 12,
        dst_size: u16 = 14, source: Storage = 16, destination: Storage = 144, ibdev_index: u32 = 272,
        reserved2: u32 = 276,
    }
    /// In front of the records in the answer of 19, options 1 and 3.
    Records 8 { count: u32 = 0, reserved: u32 = 4, }
    /// A path in the answer of 19, option 1: a record of the subnet administrator.
    PathData 72 { flags: u32 = 0, reserved: u32 = 4, record: [u8; 64] = 8, }
    /// `ib_user_path_rec`.
    UserPath 64 {
        dgid: [u8; 16] = 0, sgid: [u8; 16] = 16, dlid: U16 = 32, slid: U16 = 34, raw_traffic: u32 = 36,
        flow_label: U32 = 40, reversible: u32 = 44, mtu: u32 = 48, pkey: U16 = 52, hop_limit: u8 = 54,
        traffic_class: u8 = 55, numb_path: u8 = 56, sl: u8 = 57,
        mtu_selector: u8 = 58, rate_selector: u8 = 59,
        rate: u8 = 60, packet_life_time_selector: u8 = 61, packet_life_time: u8 = 62, preference: u8 = 63,
    }
    /// Answer of 5.
    QueryRoute 208 {
        node_guid: [u8; 8] = 0, paths: [UserPath; 2] = 8,
        source: SockaddrIn6 = 136, destination: SockaddrIn6 = 164,
        num_paths: u32 = 192, port_num: u8 = 196, reserved: [u8; 3] = 197,
        ibdev_index: u32 = 200, reserved2: u32 = 204,
    }
    /// Answer of 11.
    QpAttr 144 {
        qp_attr_mask: u32 = 0, qp_state: u32 = 4, cur_qp_state: u32 = 8,
        path_mtu: u32 = 12, path_mig_state: u32 = 16,
        qkey: u32 = 20, rq_psn: u32 = 24, sq_psn: u32 = 28, dest_qp_num: u32 = 32, qp_access_flags: u32 = 36,
        ah_attr: AhAttr = 40, alt_ah_attr: AhAttr = 72, max_send_wr: u32 = 104, max_recv_wr: u32 = 108,
        max_send_sge: u32 = 112, max_recv_sge: u32 = 116, max_inline_data: u32 = 120, pkey_index: u16 = 124,
        alt_pkey_index: u16 = 126, en_sqd_async_notify: u8 = 128,
        sq_draining: u8 = 129, max_rd_atomic: u8 = 130,
        max_dest_rd_atomic: u8 = 131, min_rnr_timer: u8 = 132, port_num: u8 = 133, timeout: u8 = 134,
        retry_cnt: u8 = 135, rnr_retry: u8 = 136, alt_port_num: u8 = 137, alt_timeout: u8 = 138,
        reserved: [u8; 5] = 139,
    }
}
