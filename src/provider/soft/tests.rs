//! The provider through the C functions that programs call, within one process.

use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;

use super::Soft;
use crate::abi::verbs::*;
use crate::api;
use crate::errno::Errno;
use crate::provider::device::{DeviceRef, Found};
use crate::provider::object::Handle;
use crate::provider::{Opening, context};
use crate::uverbs::discovery::DeviceInfo;

const LENGTH: usize = 4096;
const QKEY: u32 = 0x1234_5678;
const RIGHTS: c_int = (IBV_ACCESS_LOCAL_WRITE as u32
    | IBV_ACCESS_REMOTE_WRITE as u32
    | IBV_ACCESS_REMOTE_READ as u32
    | IBV_ACCESS_REMOTE_ATOMIC as u32
    | IBV_ACCESS_MW_BIND as u32) as c_int;

/// An open device with a protection domain and a registered buffer.
struct Room {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    buffer: *mut u8,
}

impl Room {
    fn new() -> Self {
        let info = DeviceInfo::software("soft_test", "uverbs-soft_test", 7).expect("a short name");
        let device = DeviceRef::native(Found::new(info), &Soft);
        // SAFETY: a live device; objects made here are live until the room is dropped.
        unsafe {
            let context = api::device::ibv_open_device(device.as_c());
            assert!(!context.is_null(), "{:?}", Errno::last());
            let pd = api::pd::ibv_alloc_pd(context);
            assert!(!pd.is_null());
            let buffer = libc::aligned_alloc(4096, LENGTH).cast::<u8>();
            buffer.write_bytes(0, LENGTH);
            let mr = api::mr::ibv_reg_mr(pd, buffer.cast(), LENGTH, RIGHTS);
            assert!(!mr.is_null(), "{:?}", Errno::last());
            Self { context, pd, mr, buffer }
        }
    }

    /// The functions that the inline functions of `verbs.h` call.
    fn ops(&self) -> ibv_context_ops {
        // SAFETY: an open context.
        unsafe { (*self.context).ops }
    }

    fn verbs(&self) -> &verbs_context {
        // SAFETY: an open context.
        unsafe { context::verbs(Handle::from_c(self.context).unwrap()).as_ref() }
    }

    fn cq(&self) -> *mut ibv_cq {
        // SAFETY: an open context.
        let cq = unsafe { api::cq::ibv_create_cq(self.context, 64, null_mut(), null_mut(), 0) };
        assert!(!cq.is_null(), "{:?}", Errno::last());
        cq
    }

    fn init(&self, qp_type: ibv_qp_type, cq: *mut ibv_cq) -> ibv_qp_init_attr {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut init: ibv_qp_init_attr = unsafe { zeroed() };
        init.qp_type = qp_type as u32;
        init.send_cq = cq;
        init.recv_cq = cq;
        init.cap = ibv_qp_cap {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 64,
        };
        init
    }

    fn qp(&self, qp_type: ibv_qp_type, cq: *mut ibv_cq) -> *mut ibv_qp {
        let mut init = self.init(qp_type, cq);
        // SAFETY: live objects.
        let qp = unsafe { api::qp::ibv_create_qp(self.pd, &mut init) };
        assert!(!qp.is_null(), "{:?}", Errno::last());
        qp
    }

    fn gid(&self) -> ibv_gid {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: an open context and a place to write.
        assert_eq!(unsafe { api::gid::ibv_query_gid(self.context, 1, 0, &mut gid) }, 0);
        gid
    }

    fn address(&self) -> ibv_ah_attr {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_ah_attr = unsafe { zeroed() };
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = self.gid();
        attr.grh.hop_limit = 1;
        attr
    }

    /// Moves a queue pair to RTS, connected to `peer`.
    fn connect(&self, qp: *mut ibv_qp, peer: *mut ibv_qp) {
        // SAFETY: live queue pairs; attributes are plain C data.
        unsafe {
            let kind = (*qp).qp_type;
            let ud = kind == IBV_QPT_UD as u32;
            // Of both halves of an XRC connection all may be given.
            let rc = !ud && kind != IBV_QPT_UC as u32;
            let mut attr: ibv_qp_attr = zeroed();
            attr.qp_state = IBV_QPS_INIT as u32;
            attr.port_num = 1;
            attr.qkey = QKEY;
            attr.qp_access_flags = RIGHTS as u32 & 0xf;
            let own = if ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS };
            let modify = |state: ibv_qp_state, attr: &mut ibv_qp_attr, mask: &[ibv_qp_attr_mask]| {
                attr.qp_state = state as u32;
                let mask = mask.iter().fold(IBV_QP_STATE as c_int, |all, bit| all | *bit as c_int);
                assert_eq!(api::qp::ibv_modify_qp(qp, attr, mask), 0);
            };
            modify(IBV_QPS_INIT, &mut attr, &[IBV_QP_PKEY_INDEX, IBV_QP_PORT, own]);
            attr.path_mtu = IBV_MTU_1024 as u32;
            attr.dest_qp_num = (*peer).qp_num;
            attr.max_dest_rd_atomic = 4;
            attr.min_rnr_timer = 1;
            attr.ah_attr = self.address();
            let to_rtr: &[ibv_qp_attr_mask] = if ud {
                &[]
            } else if rc {
                &[
                    IBV_QP_AV,
                    IBV_QP_PATH_MTU,
                    IBV_QP_DEST_QPN,
                    IBV_QP_RQ_PSN,
                    IBV_QP_MAX_DEST_RD_ATOMIC,
                    IBV_QP_MIN_RNR_TIMER,
                ]
            } else {
                &[IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN]
            };
            modify(IBV_QPS_RTR, &mut attr, to_rtr);
            attr.timeout = 14;
            attr.retry_cnt = 7;
            attr.rnr_retry = 7;
            attr.max_rd_atomic = 4;
            let to_rts: &[ibv_qp_attr_mask] = if rc {
                &[IBV_QP_SQ_PSN, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC]
            } else {
                &[IBV_QP_SQ_PSN]
            };
            modify(IBV_QPS_RTS, &mut attr, to_rts);
        }
    }

    /// A piece of the buffer.
    fn piece(&self, offset: usize, length: u32) -> ibv_sge {
        // SAFETY: a live region.
        ibv_sge { addr: self.buffer as u64 + offset as u64, length, lkey: unsafe { (*self.mr).lkey } }
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, offset: usize, length: usize) -> &mut [u8] {
        // SAFETY: within the buffer; tests use disjoint pieces, one thread each.
        unsafe { core::slice::from_raw_parts_mut(self.buffer.add(offset), length) }
    }

    fn receive(&self, qp: *mut ibv_qp, wr_id: u64, mut piece: ibv_sge) {
        let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        let mut bad = null_mut();
        // SAFETY: a live queue pair and a valid list.
        assert_eq!(unsafe { self.ops().post_recv.unwrap()(qp, &mut wr, &mut bad) }, 0);
    }

    fn send(&self, qp: *mut ibv_qp, wr: &mut ibv_send_wr) -> c_int {
        let mut bad = null_mut();
        // SAFETY: a live queue pair and a valid list.
        unsafe { self.ops().post_send.unwrap()(qp, wr, &mut bad) }
    }

    /// The next completion, which must come at once: everything happens in this process.
    fn poll(&self, cq: *mut ibv_cq) -> Option<ibv_wc> {
        // SAFETY: plain C data; all zeros is its empty value. A live queue and room for one completion.
        unsafe {
            let mut wc: ibv_wc = zeroed();
            (self.ops().poll_cq.unwrap()(cq, 1, &mut wc) == 1).then_some(wc)
        }
    }

    fn success(&self, cq: *mut ibv_cq) -> ibv_wc {
        let wc = self.poll(cq).expect("a completion");
        assert_eq!(wc.status, IBV_WC_SUCCESS as u32);
        wc
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: made in `new`; what tests made in the room is gone.
        unsafe {
            assert_eq!(api::mr::ibv_dereg_mr(self.mr), 0);
            libc::free(self.buffer.cast());
            assert_eq!(api::pd::ibv_dealloc_pd(self.pd), 0);
            assert_eq!(api::device::ibv_close_device(self.context), 0);
        }
    }
}

fn send_wr(wr_id: u64, opcode: ibv_wr_opcode, piece: &mut ibv_sge) -> ibv_send_wr {
    // SAFETY: plain C data; all zeros is its empty value.
    let mut wr: ibv_send_wr = unsafe { zeroed() };
    wr.wr_id = wr_id;
    wr.opcode = opcode as u32;
    wr.send_flags = IBV_SEND_SIGNALED as u32;
    wr.sg_list = piece;
    wr.num_sge = 1;
    wr
}

fn destroy_qps(qps: &[*mut ibv_qp]) {
    for qp in qps {
        // SAFETY: live, and given up.
        assert_eq!(unsafe { api::qp::ibv_destroy_qp(*qp) }, 0);
    }
}

fn destroy_cq(cq: *mut ibv_cq) {
    // SAFETY: live, and given up.
    assert_eq!(unsafe { api::cq::ibv_destroy_cq(cq) }, 0);
}

#[test]
fn a_context_and_its_device_describe_themselves() {
    let room = Room::new();
    // SAFETY: an open context.
    unsafe {
        assert!((*room.context).cmd_fd >= 0);
        assert!((*room.context).async_fd >= 0);
        let mut attr: ibv_device_attr = zeroed();
        assert_eq!(api::device::ibv_query_device(room.context, &mut attr), 0);
        assert_eq!((attr.phys_port_cnt, attr.node_guid), (1, 7_u64.to_be()));
        let mut pkey = 0;
        assert_eq!(api::port::ibv_query_pkey(room.context, 1, 0, &mut pkey), 0);
        assert_eq!(pkey, 0xffff);
        assert_eq!(api::port::ibv_query_pkey(room.context, 1, 1, &mut pkey), -1);
        let mut gid = ibv_gid { raw: [0; 16] };
        assert_eq!(api::gid::ibv_query_gid(room.context, 2, 0, &mut gid), -1);
        assert_eq!(api::gid::ibv_query_gid(room.context, 1, 63, &mut gid), 0);
        assert_eq!(gid.raw, [0; 16]);
    }
}

#[test]
fn messages_reads_writes_and_atomics_between_two_queue_pairs() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (room.qp(IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
    room.connect(a, b);
    room.connect(b, a);

    room.bytes(0, 8).copy_from_slice(b"softrdma");
    room.receive(b, 1, room.piece(1024, 100));
    let mut piece = room.piece(0, 8);
    let mut wr = send_wr(2, IBV_WR_SEND_WITH_IMM, &mut piece);
    wr.anon1.imm_data = 99;
    assert_eq!(room.send(a, &mut wr), 0);
    let (first, second) = (room.success(cq), room.success(cq));
    let (received, sent) = if first.wr_id == 1 { (first, second) } else { (second, first) };
    assert_eq!((sent.wr_id, sent.opcode), (2, IBV_WC_SEND as u32));
    assert_eq!((received.byte_len, received.opcode), (8, IBV_WC_RECV as u32));
    // SAFETY: every view of the union is one integer; live queue pairs.
    unsafe {
        assert_eq!((received.anon1.imm_data, received.wc_flags), (99, IBV_WC_WITH_IMM as u32));
        assert_eq!((sent.qp_num, received.qp_num), ((*a).qp_num, (*b).qp_num));
    }
    assert_eq!(room.bytes(1024, 8), b"softrdma");

    // SAFETY: a live region.
    let rkey = unsafe { (*room.mr).rkey };
    let remote = |offset: u64| ibv_send_wr_wr_rdma { remote_addr: room.buffer as u64 + offset, rkey };
    let mut wr = send_wr(3, IBV_WR_RDMA_WRITE, &mut piece);
    wr.wr.rdma = remote(2048);
    assert_eq!(room.send(a, &mut wr), 0);
    assert_eq!(room.success(cq).opcode, IBV_WC_RDMA_WRITE as u32);
    assert_eq!(room.bytes(2048, 8), b"softrdma");

    let mut into = room.piece(3072, 8);
    let mut wr = send_wr(4, IBV_WR_RDMA_READ, &mut into);
    wr.wr.rdma = remote(2048);
    assert_eq!(room.send(a, &mut wr), 0);
    assert_eq!(room.success(cq).opcode, IBV_WC_RDMA_READ as u32);
    assert_eq!(room.bytes(3072, 8), b"softrdma");

    room.bytes(2048, 8).copy_from_slice(&40_u64.to_ne_bytes());
    let mut wr = send_wr(5, IBV_WR_ATOMIC_FETCH_AND_ADD, &mut into);
    wr.wr.atomic =
        ibv_send_wr_wr_atomic { remote_addr: remote(2048).remote_addr, compare_add: 2, swap: 0, rkey };
    assert_eq!(room.send(a, &mut wr), 0);
    assert_eq!(room.success(cq).opcode, IBV_WC_FETCH_ADD as u32);
    assert_eq!(room.bytes(3072, 8), 40_u64.to_ne_bytes());
    assert_eq!(room.bytes(2048, 8), 42_u64.to_ne_bytes());

    destroy_qps(&[a, b]);
    destroy_cq(cq);
}

#[test]
fn a_list_is_posted_up_to_the_request_that_is_refused() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (room.qp(IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
    room.connect(a, b);
    room.connect(b, a);
    let mut piece = room.piece(0, 8);
    let mut bad: *mut ibv_send_wr = null_mut();
    let post_send = room.ops().post_send.unwrap();
    // SAFETY: plain C data, live queue pairs and valid lists.
    unsafe {
        let rdma = ibv_send_wr_wr_rdma { remote_addr: room.buffer as u64 + 1024, rkey: (*room.mr).rkey };
        let mut list = [
            send_wr(1, IBV_WR_RDMA_WRITE, &mut piece),
            send_wr(2, IBV_WR_RDMA_WRITE, &mut piece),
            send_wr(3, IBV_WR_RDMA_WRITE, &mut piece),
        ];
        for wr in &mut list {
            wr.wr.rdma = rdma;
        }
        list[1].num_sge = 3;
        list[0].next = &raw mut list[1];
        list[1].next = &raw mut list[2];
        assert_eq!(post_send(a, &raw mut list[0], &mut bad), libc::EINVAL);
        assert_eq!(bad, &raw mut list[1]);
        assert_eq!(room.success(cq).wr_id, 1);
        assert!(room.poll(cq).is_none());

        list[2].num_sge = -1;
        assert_eq!(post_send(a, &raw mut list[2], &mut bad), libc::EINVAL);
        list[2].num_sge = 1;
        list[2].opcode = IBV_WR_TSO as u32;
        assert_eq!(post_send(a, &raw mut list[2], &mut bad), libc::EINVAL);
        assert_eq!(post_send(a, null_mut(), &mut bad), libc::EINVAL);
        assert!(bad.is_null());
        assert_eq!(post_send(null_mut(), &raw mut list[0], &mut bad), libc::EINVAL);

        // Not ready to send yet.
        let c = room.qp(IBV_QPT_RC, cq);
        assert_eq!(post_send(c, &raw mut list[0], &mut bad), libc::EINVAL);
        assert_eq!(bad, &raw mut list[0]);
        let mut wr = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        let mut bad_receive = null_mut();
        let post_recv = room.ops().post_recv.unwrap();
        assert_eq!(post_recv(c, &mut wr, &mut bad_receive), libc::EINVAL);
        assert_eq!(bad_receive, &raw mut wr);
        for n in 0.. {
            let posted = post_recv(a, &mut wr, &mut bad_receive);
            if posted != 0 {
                assert!(n >= 16);
                assert_eq!(posted, libc::ENOMEM);
                break;
            }
        }
        destroy_qps(&[c]);
    }
    destroy_qps(&[a, b]);
    destroy_cq(cq);
}

#[test]
fn a_datagram_arrives_with_the_way_back() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (room.qp(IBV_QPT_UD, cq), room.qp(IBV_QPT_UD, cq));
    room.connect(a, b);
    room.connect(b, a);
    // SAFETY: live objects, and attributes of the test's own.
    unsafe {
        let mut address = room.address();
        let ah = api::ah::ibv_create_ah(room.pd, &mut address);
        assert!(!ah.is_null());
        room.bytes(0, 5).copy_from_slice(b"hello");
        room.receive(b, 1, room.piece(1024, 200));
        let mut piece = room.piece(0, 5);
        let mut wr = send_wr(2, IBV_WR_SEND, &mut piece);
        wr.send_flags = IBV_SEND_INLINE as u32;
        wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: (*b).qp_num, remote_qkey: QKEY };
        assert_eq!(room.send(a, &mut wr), 0);
        let mut wc = room.success(cq);
        assert_eq!((wc.wr_id, wc.byte_len, wc.src_qp), (1, 45, (*a).qp_num));
        assert_eq!(wc.wc_flags, IBV_WC_GRH as u32);
        // RoCE v2 over IPv4 or IPv6, as the header says.
        let version = room.bytes(1024, 1)[0] >> 4;
        assert_eq!(wc.sl, if version == 6 { 9 } else { 10 });
        assert_eq!(room.bytes(1064, 5), b"hello");

        let grh = room.buffer.add(1024).cast::<ibv_grh>();
        let mut back: ibv_ah_attr = zeroed();
        assert_eq!(api::ah::ibv_init_ah_from_wc(room.context, 1, &mut wc, grh, &mut back), 0);
        assert_eq!((back.is_global, back.grh.dgid.raw), (1, room.gid().raw));
        let answer = api::ah::ibv_create_ah_from_wc(room.pd, &mut wc, grh, 1);
        assert!(!answer.is_null());
        room.receive(a, 3, room.piece(2048, 200));
        wr.wr.ud = ibv_send_wr_wr_ud { ah: answer, remote_qpn: wc.src_qp, remote_qkey: QKEY };
        assert_eq!(room.send(b, &mut wr), 0);
        assert_eq!(room.success(cq).wr_id, 3);

        // A datagram without address, and a domain that still has addresses.
        wr.wr.ud.ah = null_mut();
        assert_eq!(room.send(b, &mut wr), libc::EINVAL);
        assert_eq!(api::ah::ibv_destroy_ah(answer), 0);
        assert_eq!(api::ah::ibv_destroy_ah(ah), 0);
        address.is_global = 0;
        assert!(api::ah::ibv_create_ah(room.pd, &mut address).is_null());
        assert_eq!(Errno::last(), Errno::EINVAL);
    }
    destroy_qps(&[a, b]);
    destroy_cq(cq);
}

#[test]
fn an_event_says_which_queue_has_something() {
    let room = Room::new();
    // SAFETY: live objects of this test.
    unsafe {
        let channel = api::channel::ibv_create_comp_channel(room.context);
        assert!(!channel.is_null() && (*channel).fd >= 0 && (*channel).context == room.context);
        let flags = libc::fcntl((*channel).fd, libc::F_GETFL);
        libc::fcntl((*channel).fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        let mut mark = 5_u32;
        let mark = (&raw mut mark).cast::<c_void>();
        let cq = api::cq::ibv_create_cq(room.context, 8, mark, channel, 0);
        assert!(!cq.is_null());
        assert_eq!(api::channel::ibv_destroy_comp_channel(channel), libc::EBUSY);
        let (mut from, mut cookie) = (null_mut(), null_mut());
        assert_eq!(api::channel::ibv_get_cq_event(channel, &mut from, &mut cookie), -1);
        assert_eq!(Errno::last(), Errno::EAGAIN);

        let (a, b) = (room.qp(IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
        room.connect(a, b);
        room.connect(b, a);
        assert_eq!(room.ops().req_notify_cq.unwrap()(cq, 0), 0);
        let mut piece = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_RDMA_WRITE, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: room.buffer as u64, rkey: (*room.mr).rkey };
        assert_eq!(room.send(a, &mut wr), 0);
        assert_eq!(api::channel::ibv_get_cq_event(channel, &mut from, &mut cookie), 0);
        assert_eq!((from, cookie), (cq, mark));
        assert_eq!(api::channel::ibv_get_cq_event(channel, &mut from, &mut cookie), -1);
        room.success(cq);
        destroy_qps(&[a, b]);
        // Destroying would wait for this.
        api::channel::ibv_ack_cq_events(cq, 1);
        destroy_cq(cq);
        assert_eq!(api::channel::ibv_destroy_comp_channel(channel), 0);
    }
}

#[test]
fn builders_post_their_batch_at_once_and_walks_read_its_completions() {
    let room = Room::new();
    let verbs = room.verbs();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let mut cq_attr: ibv_cq_init_attr_ex = zeroed();
        cq_attr.cqe = 16;
        cq_attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN as u64
            | IBV_WC_EX_WITH_QP_NUM as u64
            | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as u64
            | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64;
        let cq_ex = verbs.create_cq_ex.unwrap()(room.context, &mut cq_attr);
        assert!(!cq_ex.is_null(), "{:?}", Errno::last());
        cq_attr.wc_flags = IBV_WC_EX_WITH_FLOW_TAG as u64;
        assert!(verbs.create_cq_ex.unwrap()(room.context, &mut cq_attr).is_null());
        assert_eq!(Errno::last(), Errno::EOPNOTSUPP);
        let cq: *mut ibv_cq = cq_ex.cast();

        let base = room.init(IBV_QPT_RC, cq);
        let mut attr: ibv_qp_init_attr_ex = zeroed();
        (attr.qp_type, attr.cap, attr.send_cq, attr.recv_cq) = (base.qp_type, base.cap, cq, cq);
        attr.comp_mask = IBV_QP_INIT_ATTR_PD as u32 | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS as u32;
        attr.pd = room.pd;
        attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE as u64 | IBV_QP_EX_WITH_SEND as u64;
        let a = verbs.create_qp_ex.unwrap()(room.context, &mut attr);
        assert!(!a.is_null(), "{:?}", Errno::last());
        let b = room.qp(IBV_QPT_RC, cq);
        room.connect(a, b);
        room.connect(b, a);

        let qpx = api::qp::ibv_qp_to_qp_ex(a);
        let table = *qpx;
        assert!(table.wr_rdma_read.is_none() && table.wr_rdma_write.is_some());
        room.bytes(0, 4).copy_from_slice(b"abcd");
        let piece = room.piece(0, 4);
        let (rkey, start) = ((*room.mr).rkey, room.buffer as u64);
        let mut inline = *b"inline";
        table.wr_start.unwrap()(qpx);
        (*qpx).wr_id = 1;
        (*qpx).wr_flags = IBV_SEND_SIGNALED as u32;
        table.wr_rdma_write.unwrap()(qpx, rkey, start + 512);
        table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
        (*qpx).wr_id = 2;
        table.wr_rdma_write.unwrap()(qpx, rkey, start + 600);
        table.wr_set_inline_data.unwrap()(qpx, inline.as_mut_ptr().cast(), 6);
        inline.fill(0);
        assert_eq!(table.wr_complete.unwrap()(qpx), 0);
        assert_eq!(room.bytes(512, 4), b"abcd");
        assert_eq!(room.bytes(600, 6), b"inline");

        let ex = *cq_ex;
        assert_eq!(ex.start_poll.unwrap()(cq_ex, null_mut()), 0);
        assert_eq!(((*cq_ex).wr_id, (*cq_ex).status), (1, IBV_WC_SUCCESS as u32));
        assert_eq!(ex.read_opcode.unwrap()(cq_ex), IBV_WC_RDMA_WRITE as u32);
        assert_eq!(ex.read_qp_num.unwrap()(cq_ex), (*a).qp_num);
        assert!(ex.read_imm_data.is_none());
        let now = super::device::nanoseconds(libc::CLOCK_MONOTONIC);
        let ago = now - ex.read_completion_ts.unwrap()(cq_ex);
        assert!(ago < 60_000_000_000, "{ago}");
        let wall = ex.read_completion_wallclock_ns.unwrap()(cq_ex);
        assert!(super::device::nanoseconds(libc::CLOCK_REALTIME) - wall < 60_000_000_000);
        assert_eq!(ex.next_poll.unwrap()(cq_ex), 0);
        assert_eq!((*cq_ex).wr_id, 2);
        assert_eq!(ex.next_poll.unwrap()(cq_ex), libc::ENOENT);
        ex.end_poll.unwrap()(cq_ex);
        assert_eq!(ex.start_poll.unwrap()(cq_ex, null_mut()), libc::ENOENT);

        // What goes wrong drops the batch.
        table.wr_start.unwrap()(qpx);
        table.wr_rdma_write.unwrap()(qpx, rkey, start);
        table.wr_set_inline_data.unwrap()(qpx, room.buffer.cast(), 4096);
        table.wr_rdma_write.unwrap()(qpx, rkey, start);
        assert_eq!(table.wr_complete.unwrap()(qpx), libc::ENOSPC);
        table.wr_start.unwrap()(qpx);
        table.wr_rdma_write.unwrap()(qpx, rkey, start);
        table.wr_abort.unwrap()(qpx);
        assert!(room.poll(cq).is_none());
        destroy_qps(&[a, b]);
        destroy_cq(cq);
    }
}

/// A queue pair with builders for sends.
fn built_qp(room: &Room, qp_type: ibv_qp_type, cq: *mut ibv_cq) -> *mut ibv_qp {
    let base = room.init(qp_type, cq);
    // SAFETY: live objects; attributes are plain C data.
    unsafe {
        let mut attr: ibv_qp_init_attr_ex = zeroed();
        (attr.qp_type, attr.cap, attr.send_cq, attr.recv_cq) = (base.qp_type, base.cap, cq, cq);
        attr.comp_mask = IBV_QP_INIT_ATTR_PD as u32 | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS as u32;
        attr.pd = room.pd;
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND as u64;
        let qp = room.verbs().create_qp_ex.unwrap()(room.context, &mut attr);
        assert!(!qp.is_null(), "{:?}", Errno::last());
        qp
    }
}

#[test]
fn a_batch_with_a_request_that_is_refused_is_not_posted_at_all() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (built_qp(&room, IBV_QPT_UD, cq), room.qp(IBV_QPT_UD, cq));
    room.connect(a, b);
    room.connect(b, a);
    // SAFETY: live objects of this test.
    unsafe {
        let mut address = room.address();
        let ah = api::ah::ibv_create_ah(room.pd, &mut address);
        assert!(!ah.is_null());
        for wr_id in [1, 2, 3] {
            room.receive(b, wr_id, room.piece(1024, 200));
        }
        let qpx = api::qp::ibv_qp_to_qp_ex(a);
        let table = *qpx;
        let batch = |addressed: u64| {
            table.wr_start.unwrap()(qpx);
            (*qpx).wr_flags = IBV_SEND_SIGNALED as u32;
            for number in 1..=3 {
                (*qpx).wr_id = 10 + number;
                table.wr_send.unwrap()(qpx);
                if number <= addressed {
                    table.wr_set_ud_addr.unwrap()(qpx, ah, (*b).qp_num, QKEY);
                }
                let piece = room.piece(0, 4);
                table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
            }
            table.wr_complete.unwrap()(qpx)
        };
        assert_eq!(batch(2), libc::EINVAL);
        assert!(room.poll(cq).is_none(), "a part of the batch was posted");
        assert_eq!(batch(3), 0);
        let done: Vec<_> = (0..6).map(|_| room.success(cq).wr_id).collect();
        for wr_id in [1, 2, 3, 11, 12, 13] {
            assert!(done.contains(&wr_id), "{done:?}");
        }
        destroy_qps(&[a, b]);
        assert_eq!(api::ah::ibv_destroy_ah(ah), 0);
    }
    destroy_cq(cq);
}

#[test]
fn a_list_of_another_thread_waits_for_the_end_of_a_batch() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (built_qp(&room, IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
    room.connect(a, b);
    room.connect(b, a);
    room.receive(b, 1, room.piece(1024, 8));
    room.receive(b, 2, room.piece(1024, 8));
    // SAFETY: live objects of this test; the thread ends before they do.
    unsafe {
        let qpx = api::qp::ibv_qp_to_qp_ex(a);
        let table = *qpx;
        table.wr_start.unwrap()(qpx);
        let (qp, post_send, piece) = (a.expose_provenance(), room.ops().post_send.unwrap(), room.piece(0, 4));
        let other = std::thread::spawn(move || {
            let (mut piece, mut bad) = (piece, null_mut());
            let mut wr = send_wr(12, IBV_WR_SEND, &mut piece);
            post_send(core::ptr::with_exposed_provenance_mut(qp), &mut wr, &mut bad)
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!other.is_finished() && room.poll(cq).is_none());
        (*qpx).wr_id = 11;
        (*qpx).wr_flags = IBV_SEND_SIGNALED as u32;
        table.wr_send.unwrap()(qpx);
        table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
        assert_eq!(table.wr_complete.unwrap()(qpx), 0);
        assert_eq!(other.join().unwrap(), 0);
    }
    let sent = (0..4).map(|_| room.success(cq)).filter(|wc| wc.opcode == IBV_WC_SEND as u32);
    assert_eq!(sent.map(|wc| wc.wr_id).collect::<Vec<_>>(), [11, 12]);
    destroy_qps(&[a, b]);
    destroy_cq(cq);
}

#[test]
fn a_window_opens_part_of_a_region() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (room.qp(IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
    room.connect(a, b);
    room.connect(b, a);
    let ops = room.ops();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let mw = ops.alloc_mw.unwrap()(room.pd, IBV_MW_TYPE_1 as u32);
        assert!(!mw.is_null(), "{:?}", Errno::last());
        assert!(ops.alloc_mw.unwrap()(room.pd, 3).is_null());
        let before = (*mw).rkey;
        let mut bind = ibv_mw_bind {
            wr_id: 1,
            send_flags: IBV_SEND_SIGNALED as u32,
            bind_info: ibv_mw_bind_info {
                mr: room.mr,
                addr: room.buffer as u64 + 1024,
                length: 8,
                mw_access_flags: IBV_ACCESS_REMOTE_WRITE as u32,
            },
        };
        assert_eq!(ops.bind_mw.unwrap()(b, mw, &mut bind), 0);
        assert_ne!((*mw).rkey, before);
        assert_eq!(room.success(cq).opcode, IBV_WC_BIND_MW as u32);
        let mut piece = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_RDMA_WRITE, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: bind.bind_info.addr, rkey: (*mw).rkey };
        assert_eq!(room.send(a, &mut wr), 0);
        room.success(cq);
        wr.wr.rdma.remote_addr += 1;
        assert_eq!(room.send(a, &mut wr), 0);
        assert_eq!(room.poll(cq).unwrap().status, IBV_WC_REM_ACCESS_ERR as u32);
        destroy_qps(&[a, b]);
        assert_eq!(ops.dealloc_mw.unwrap()(mw), 0);
    }
    destroy_cq(cq);
}

#[test]
fn memory_of_the_device_is_registered_from_its_start() {
    let room = Room::new();
    let verbs = room.verbs();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let mut attr = ibv_alloc_dm_attr { length: 4096, log_align_req: 0, comp_mask: 0 };
        let dm = verbs.alloc_dm.unwrap()(room.context, &mut attr);
        assert!(!dm.is_null(), "{:?}", Errno::last());
        assert_eq!((*dm).context, room.context);
        let (from, mut to) = (*b"on board", [0_u8; 8]);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 8, from.as_ptr().cast(), 8), 0);
        assert_eq!((*dm).memcpy_from_dm.unwrap()(to.as_mut_ptr().cast(), dm, 8, 8), 0);
        assert_eq!(to, from);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 4090, from.as_ptr().cast(), 8), libc::EFAULT);
        let rights = RIGHTS as u32 | IBV_ACCESS_ZERO_BASED as u32;
        assert!(verbs.reg_dm_mr.unwrap()(room.pd, dm, 8, 4090, rights).is_null());
        assert!(verbs.reg_dm_mr.unwrap()(room.pd, dm, 0, 8, RIGHTS as u32).is_null());
        let mr = verbs.reg_dm_mr.unwrap()(room.pd, dm, 8, 16, rights);
        assert!(!mr.is_null(), "{:?}", Errno::last());

        let cq = room.cq();
        let (a, b) = (room.qp(IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
        room.connect(a, b);
        room.connect(b, a);
        let mut piece = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_RDMA_READ, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: 0, rkey: (*mr).rkey };
        assert_eq!(room.send(a, &mut wr), 0);
        room.success(cq);
        assert_eq!(room.bytes(0, 8), from);
        destroy_qps(&[a, b]);
        destroy_cq(cq);
        assert_eq!(verbs.free_dm.unwrap()(dm), libc::EBUSY);
        assert_eq!(api::mr::ibv_dereg_mr(mr), 0);
        assert_eq!(verbs.free_dm.unwrap()(dm), 0);
    }
}

#[test]
fn regions_are_refused_and_changed_as_on_kernel_devices() {
    let room = Room::new();
    // SAFETY: live objects of this test.
    unsafe {
        let register = |addr: *mut c_void, length: usize, rights: u32| {
            let mr = api::mr::ibv_reg_mr(room.pd, addr, length, rights as c_int);
            assert!(mr.is_null());
            Errno::last()
        };
        let start: *mut c_void = room.buffer.cast();
        assert_eq!(register(start, LENGTH, IBV_ACCESS_REMOTE_WRITE as u32), Errno::EINVAL);
        assert_eq!(register(start, LENGTH, 1 << 9), Errno::EINVAL);
        assert_eq!(register(4096 as *mut c_void, LENGTH, 1), Errno::EFAULT);
        let iova = api::mr::ibv_reg_mr_iova(room.pd, start, LENGTH, 1, 1);
        assert!(iova.is_null());
        assert_eq!(Errno::last(), Errno::EINVAL);
        let relaxed = IBV_ACCESS_RELAXED_ORDERING as c_int | IBV_ACCESS_HUGETLB as c_int;
        let mr = api::mr::ibv_reg_mr_iova2(room.pd, start, LENGTH, 1 << 40, relaxed as u32);
        assert!(!mr.is_null(), "{:?}", Errno::last());
        let access = IBV_REREG_MR_CHANGE_ACCESS as c_int;
        assert_eq!(api::mr::ibv_rereg_mr(mr, access, null_mut(), null_mut(), 0, RIGHTS), 0);
        assert_eq!(api::mr::ibv_dereg_mr(mr), 0);
    }
}

#[test]
fn pages_on_demand_need_not_be_there() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (room.qp(IBV_QPT_RC, cq), room.qp(IBV_QPT_RC, cq));
    room.connect(a, b);
    room.connect(b, a);
    let rights = RIGHTS | IBV_ACCESS_ON_DEMAND as c_int;
    // SAFETY: live objects of this test.
    unsafe {
        let all = api::mr::ibv_reg_mr(room.pd, null_mut(), usize::MAX, rights);
        assert!(!all.is_null(), "{:?}", Errno::last());
        let hole = api::mr::ibv_reg_mr(room.pd, 4096 as *mut c_void, 4096, rights);
        assert!(!hole.is_null());
        let mut piece = room.piece(0, 8);
        let advise = room.verbs().advise_mr.unwrap();
        piece.lkey = (*all).lkey;
        let prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
        assert_eq!(advise(room.pd, prefetch, IBV_ADVISE_MR_FLAG_FLUSH, &mut piece, 1), 0);
        assert_eq!(advise(room.pd, prefetch, 0, &mut piece, 0), libc::EINVAL);
        assert_eq!(advise(room.pd, 7, 0, &mut piece, 1), libc::EOPNOTSUPP);

        room.bytes(0, 8).copy_from_slice(b"anywhere");
        let mut wr = send_wr(1, IBV_WR_RDMA_WRITE, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: room.buffer as u64 + 512, rkey: (*all).rkey };
        assert_eq!(room.send(a, &mut wr), 0);
        room.success(cq);
        assert_eq!(room.bytes(512, 8), b"anywhere");
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: 4096, rkey: (*hole).rkey };
        assert_eq!(room.send(a, &mut wr), 0);
        assert_ne!(room.poll(cq).unwrap().status, IBV_WC_SUCCESS as u32);
        destroy_qps(&[a, b]);
        assert_eq!(api::mr::ibv_dereg_mr(hole), 0);
        assert_eq!(api::mr::ibv_dereg_mr(all), 0);
    }
    destroy_cq(cq);
}

#[test]
fn objects_of_one_context_are_imported_by_another() {
    let room = Room::new();
    let info = DeviceInfo::software("soft_test", "uverbs-soft_test", 7).expect("a short name");
    let device = DeviceRef::native(Found::new(info), &Soft);
    // SAFETY: live objects of this test; the copy of the descriptor is given away.
    unsafe {
        let copy = libc::dup((*room.context).cmd_fd);
        assert_eq!(crate::provider::device_of(copy).as_deref(), Some("uverbs-soft_test"));
        let Opening::Native(opened) = device.import(copy).unwrap() else { panic!() };
        let events = opened.context.open_async_events().unwrap();
        let other = context::create(device.clone(), opened, events);
        assert_eq!((*other.as_ptr()).cmd_fd, copy);

        let pd = api::import::ibv_import_pd(other.as_ptr(), (*room.pd).handle);
        assert!(!pd.is_null());
        assert!(api::import::ibv_import_pd(other.as_ptr(), 1 << 30).is_null());
        assert_eq!(Errno::last(), Errno::ENOENT);
        let mr = api::import::ibv_import_mr(pd, (*room.mr).handle);
        assert!(!mr.is_null());
        assert_eq!(((*mr).rkey, (*mr).length, (*mr).addr), ((*room.mr).rkey, LENGTH, null_mut()));

        let mut attr = ibv_alloc_dm_attr { length: 64, log_align_req: 0, comp_mask: 0 };
        let dm = room.verbs().alloc_dm.unwrap()(room.context, &mut attr);
        let same = api::import::ibv_import_dm(other.as_ptr(), (*dm).handle);
        assert!(!same.is_null() && (*same).context == other.as_ptr());
        let (from, mut to) = (*b"on board", [0_u8; 8]);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 0, from.as_ptr().cast(), 8), 0);
        assert_eq!((*same).memcpy_from_dm.unwrap()(to.as_mut_ptr().cast(), same, 0, 8), 0);
        assert_eq!(to, from);
        api::import::ibv_unimport_dm(same);
        assert_eq!(room.verbs().free_dm.unwrap()(dm), 0);
        api::import::ibv_unimport_mr(mr);
        api::import::ibv_unimport_pd(pd);
        assert_eq!(api::device::ibv_close_device(other.as_ptr()), 0);
    }
}

#[test]
fn a_shared_queue_tells_when_it_runs_low_and_destroying_it_waits_for_the_program() {
    let room = Room::new();
    let cq = room.cq();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let attr = ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
        let srq = api::srq::ibv_create_srq(room.pd, &mut init);
        assert!(!srq.is_null(), "{:?}", Errno::last());
        let mut init = room.init(IBV_QPT_RC, cq);
        init.srq = srq;
        let b = api::qp::ibv_create_qp(room.pd, &mut init);
        assert!(!b.is_null(), "{:?}", Errno::last());
        let a = room.qp(IBV_QPT_RC, cq);
        room.connect(a, b);
        room.connect(b, a);

        let mut piece = room.piece(1024, 64);
        let mut wr = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        let mut bad = null_mut();
        let post = room.ops().post_srq_recv.unwrap();
        assert_eq!(post(srq, &mut wr, &mut bad), 0);
        assert_eq!(post(srq, &mut wr, &mut bad), 0);
        wr.num_sge = 2;
        assert_eq!(post(srq, &mut wr, &mut bad), libc::EINVAL);
        assert_eq!(bad, &raw mut wr);
        let mut bad = null_mut();
        assert_eq!(room.ops().post_recv.unwrap()(b, &mut wr, &mut bad), libc::EINVAL);

        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 2 };
        assert_eq!(api::srq::ibv_modify_srq(srq, &mut attr, IBV_SRQ_LIMIT as c_int), 0);
        let mut from = room.piece(0, 8);
        assert_eq!(room.send(a, &mut send_wr(2, IBV_WR_SEND, &mut from)), 0);
        assert_eq!(room.success(cq).qp_num, (*b).qp_num);
        room.success(cq);
        let mut event: ibv_async_event = zeroed();
        assert_eq!(api::event::ibv_get_async_event(room.context, &mut event), 0);
        assert_eq!(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED as u32);
        assert_eq!(event.element.srq, srq);
        assert_eq!(api::srq::ibv_query_srq(srq, &mut attr), 0);
        assert_eq!((attr.max_wr, attr.srq_limit), (8, 0));

        assert_eq!(api::srq::ibv_destroy_srq(srq), libc::EBUSY);
        destroy_qps(&[a, b]);
        let queue = srq as usize;
        let destroyer = std::thread::spawn(move || api::srq::ibv_destroy_srq(queue as *mut ibv_srq));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!destroyer.is_finished());
        api::event::ibv_ack_async_event(&mut event);
        assert_eq!(destroyer.join().unwrap(), 0);
    }
    destroy_cq(cq);
}

#[test]
fn an_xrc_target_receives_by_the_number_of_a_queue() {
    let room = Room::new();
    let cq = room.cq();
    let verbs = room.verbs();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD as u32 | IBV_XRCD_INIT_ATTR_OFLAGS as u32,
            fd: -1,
            oflags: 0,
        };
        assert!(verbs.open_xrcd.unwrap()(room.context, &mut attr).is_null());
        attr.oflags = libc::O_CREAT;
        let xrcd = verbs.open_xrcd.unwrap()(room.context, &mut attr);
        assert!(!xrcd.is_null(), "{:?}", Errno::last());
        assert_eq!((*xrcd).context, room.context);

        let mut init: ibv_srq_init_attr_ex = zeroed();
        init.attr = ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 };
        init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE as u32 | IBV_SRQ_INIT_ATTR_PD as u32;
        (init.srq_type, init.pd) = (IBV_SRQT_XRC as u32, room.pd);
        assert!(verbs.create_srq_ex.unwrap()(room.context, &mut init).is_null());
        assert_eq!(Errno::last(), Errno::EINVAL);
        init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD as u32 | IBV_SRQ_INIT_ATTR_CQ as u32;
        (init.xrcd, init.cq) = (xrcd, cq);
        let srq = verbs.create_srq_ex.unwrap()(room.context, &mut init);
        assert!(!srq.is_null(), "{:?}", Errno::last());
        let mut number = 0;
        assert_eq!(verbs.get_srq_num.unwrap()(srq, &mut number), 0);

        let mut init: ibv_qp_init_attr_ex = zeroed();
        (init.qp_type, init.xrcd) = (IBV_QPT_XRC_RECV as u32, xrcd);
        init.comp_mask = IBV_QP_INIT_ATTR_XRCD as u32;
        let target = verbs.create_qp_ex.unwrap()(room.context, &mut init);
        assert!(!target.is_null(), "{:?}", Errno::last());
        let mut open: ibv_qp_open_attr = zeroed();
        open.comp_mask =
            IBV_QP_OPEN_ATTR_NUM as u32 | IBV_QP_OPEN_ATTR_XRCD as u32 | IBV_QP_OPEN_ATTR_TYPE as u32;
        (open.qp_num, open.xrcd, open.qp_type) = ((*target).qp_num, xrcd, IBV_QPT_XRC_RECV as u32);
        let opened = verbs.open_qp.unwrap()(room.context, &mut open);
        assert!(!opened.is_null(), "{:?}", Errno::last());
        assert_eq!((*opened).qp_num, (*target).qp_num);

        let source = room.qp(IBV_QPT_XRC_SEND, cq);
        room.connect(source, target);
        room.connect(target, source);
        let mut piece = room.piece(1024, 64);
        let mut wr = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        let mut bad = null_mut();
        assert_eq!(room.ops().post_srq_recv.unwrap()(srq, &mut wr, &mut bad), 0);
        room.bytes(0, 8).copy_from_slice(b"extended");
        let mut from = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_SEND, &mut from);
        wr.qp_type.xrc.remote_srqn = number;
        assert_eq!(room.send(source, &mut wr), 0);
        assert_eq!((room.success(cq).byte_len, room.success(cq).wr_id), (8, 2));
        assert_eq!(room.bytes(1024, 8), b"extended");

        assert_eq!(verbs.close_xrcd.unwrap()(xrcd), libc::EBUSY);
        destroy_qps(&[source, opened, target]);
        assert_eq!(api::srq::ibv_destroy_srq(srq), 0);
        assert_eq!(verbs.close_xrcd.unwrap()(xrcd), 0);
    }
    destroy_cq(cq);
}

#[test]
fn a_group_is_left_by_the_lid_that_it_was_joined_with() {
    let room = Room::new();
    let cq = room.cq();
    let (a, b) = (room.qp(IBV_QPT_UD, cq), room.qp(IBV_QPT_UD, cq));
    room.connect(a, b);
    room.connect(b, a);
    let mut group = ibv_gid { raw: [7; 16] };
    // SAFETY: live objects of this test; every view of the GID union is 16 plain bytes.
    unsafe {
        group.raw[0] = 0xff;
        let (attach, detach) = (api::mcast::ibv_attach_mcast, api::mcast::ibv_detach_mcast);
        assert_eq!(attach(b, &group, 0), 0);
        assert_eq!(attach(b, &group, 0), 0);
        assert_eq!(attach(b, &group, 9), 0);
        assert_eq!(attach(b, &room.gid(), 0), libc::EINVAL);

        let mut address = room.address();
        address.grh.dgid = group;
        let ah = api::ah::ibv_create_ah(room.pd, &mut address);
        assert!(!ah.is_null(), "{:?}", Errno::last());
        let mut piece = room.piece(0, 5);
        let mut wr = send_wr(2, IBV_WR_SEND, &mut piece);
        wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: 0xff_ffff, remote_qkey: QKEY };
        room.receive(b, 1, room.piece(1024, 200));
        assert_eq!(room.send(a, &mut wr), 0);
        let (one, other) = (room.success(cq), room.success(cq));
        assert!([one.wr_id, other.wr_id] == [1, 2] || [one.wr_id, other.wr_id] == [2, 1]);
        assert!(room.poll(cq).is_none());
        assert_eq!(api::ah::ibv_destroy_ah(ah), 0);

        assert_eq!(detach(b, &group, 5), libc::EINVAL);
        assert_eq!(detach(b, &group, 9), 0);
        assert_eq!(api::qp::ibv_destroy_qp(b), libc::EBUSY);
        assert_eq!(detach(b, &group, 0), 0);
        assert_eq!(detach(b, &group, 0), libc::EINVAL);
    }
    destroy_qps(&[a, b]);
    destroy_cq(cq);
}
