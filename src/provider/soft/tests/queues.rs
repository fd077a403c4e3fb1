//! Queues that are shared or that tell of themselves: events, shared receive queues, XRC.

use super::*;
use crate::testing::asleep;

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
        assert_eq!(room.ops().req_notify_cq.unwrap()(cq, 0), 0);
        let mut piece = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_RDMA_WRITE, &mut piece);
        wr.wr.rdma = room.remote(0);
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
        let pair = room.connected(cq, room.qp(IBV_QPT_RC, cq), b);

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
        assert_eq!(room.send(pair.a, &mut send_wr(2, IBV_WR_SEND, &mut from)), 0);
        assert_eq!(room.success(cq).qp_num, (*b).qp_num);
        room.success(cq);
        let mut event: ibv_async_event = zeroed();
        assert_eq!(api::event::ibv_get_async_event(room.context, &mut event), 0);
        assert_eq!(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED as u32);
        assert_eq!(event.element.srq, srq);
        assert_eq!(api::srq::ibv_query_srq(srq, &mut attr), 0);
        assert_eq!((attr.max_wr, attr.srq_limit), (8, 0));

        assert_eq!(api::srq::ibv_destroy_srq(srq), libc::EBUSY);
        drop(pair);
        let queue = srq as usize;
        let destroyer = asleep(move || api::srq::ibv_destroy_srq(queue as *mut ibv_srq));
        assert!(!destroyer.is_finished());
        api::event::ibv_ack_async_event(&mut event);
        assert_eq!(destroyer.join().unwrap(), 0);
    }
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
