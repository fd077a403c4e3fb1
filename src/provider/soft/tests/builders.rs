//! Requests built by calls, and completions walked one by one.

use super::*;
use crate::provider::object::Object;
use crate::provider::soft::device::nanoseconds;
use crate::provider::soft::qp::Qp;
use crate::testing::asleep;

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

        let operations = IBV_QP_EX_WITH_RDMA_WRITE as u64 | IBV_QP_EX_WITH_SEND as u64;
        let built = room.built_qp(IBV_QPT_RC, cq, operations);
        let pair = room.connected(cq, built, room.qp(IBV_QPT_RC, cq));

        let qpx = api::qp::ibv_qp_to_qp_ex(pair.a);
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
        assert_eq!(ex.read_qp_num.unwrap()(cq_ex), (*pair.a).qp_num);
        assert!(ex.read_imm_data.is_none());
        let now = nanoseconds(libc::CLOCK_MONOTONIC);
        let ago = now - ex.read_completion_ts.unwrap()(cq_ex);
        assert!(ago < 60_000_000_000, "{ago}");
        let wall = ex.read_completion_wallclock_ns.unwrap()(cq_ex);
        assert!(nanoseconds(libc::CLOCK_REALTIME) - wall < 60_000_000_000);
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
    }
}

#[test]
fn data_that_is_set_again_takes_the_place_of_what_was_set() {
    let room = Room::new();
    let pair = room.built_pair(IBV_QPT_RC);
    // SAFETY: live objects of this test.
    unsafe {
        let qpx = api::qp::ibv_qp_to_qp_ex(pair.a);
        let table = *qpx;
        room.bytes(0, 8).copy_from_slice(b"gathered");
        let (piece, mut inline) = (room.piece(0, 8), *b"inline");
        for number in 0..2 {
            room.receive(pair.b, number, room.piece(1024 + 64 * number as usize, 64));
        }
        table.wr_start.unwrap()(qpx);
        (*qpx).wr_flags = IBV_SEND_SIGNALED as u32;
        for ends_inline in [false, true] {
            table.wr_send.unwrap()(qpx);
            for n in 0..1000 {
                if (n % 2 == 1) == ends_inline {
                    table.wr_set_inline_data.unwrap()(qpx, inline.as_mut_ptr().cast(), 6);
                } else {
                    table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
                }
            }
        }
        let batch = Qp::from_extended(qpx).batch.held_mut();
        assert_eq!(batch.lengths(), (2, 1, 6));
        assert_eq!(table.wr_complete.unwrap()(qpx), 0);
        for _ in 0..4 {
            room.success(pair.cq);
        }
        assert_eq!(room.bytes(1024, 9), b"gathered\0");
        assert_eq!(room.bytes(1088, 7), b"inline\0");
    }
}

#[test]
fn a_batch_with_a_request_that_is_refused_is_not_posted_at_all() {
    let room = Room::new();
    let pair = room.built_pair(IBV_QPT_UD);
    // SAFETY: live objects of this test.
    unsafe {
        let ah = room.ah(&mut room.address());
        for wr_id in [1, 2, 3] {
            room.receive(pair.b, wr_id, room.piece(1024, 200));
        }
        let qpx = api::qp::ibv_qp_to_qp_ex(pair.a);
        let table = *qpx;
        let batch = |addressed: u64| {
            table.wr_start.unwrap()(qpx);
            (*qpx).wr_flags = IBV_SEND_SIGNALED as u32;
            for number in 1..=3 {
                (*qpx).wr_id = 10 + number;
                table.wr_send.unwrap()(qpx);
                if number <= addressed {
                    table.wr_set_ud_addr.unwrap()(qpx, ah, (*pair.b).qp_num, QKEY);
                }
                let piece = room.piece(0, 4);
                table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
            }
            table.wr_complete.unwrap()(qpx)
        };
        assert_eq!(batch(2), libc::EINVAL);
        assert!(room.poll(pair.cq).is_none(), "a part of the batch was posted");
        assert_eq!(batch(3), 0);
        let done: Vec<_> = (0..6).map(|_| room.success(pair.cq).wr_id).collect();
        for wr_id in [1, 2, 3, 11, 12, 13] {
            assert!(done.contains(&wr_id), "{done:?}");
        }
        drop(pair);
        assert_eq!(api::ah::ibv_destroy_ah(ah), 0);
    }
}

#[test]
fn a_list_of_another_thread_waits_for_the_end_of_a_batch() {
    let room = Room::new();
    let pair = room.built_pair(IBV_QPT_RC);
    room.receive(pair.b, 1, room.piece(1024, 8));
    room.receive(pair.b, 2, room.piece(1024, 8));
    // SAFETY: live objects of this test; the thread ends before they do.
    unsafe {
        let qpx = api::qp::ibv_qp_to_qp_ex(pair.a);
        let table = *qpx;
        table.wr_start.unwrap()(qpx);
        let (qp, post_send, piece) =
            (pair.a.expose_provenance(), room.ops().post_send.unwrap(), room.piece(0, 4));
        let other = asleep(move || {
            let (mut piece, mut bad) = (piece, null_mut());
            let mut wr = send_wr(12, IBV_WR_SEND, &mut piece);
            post_send(core::ptr::with_exposed_provenance_mut(qp), &mut wr, &mut bad)
        });
        assert!(!other.is_finished() && room.poll(pair.cq).is_none());
        (*qpx).wr_id = 11;
        (*qpx).wr_flags = IBV_SEND_SIGNALED as u32;
        table.wr_send.unwrap()(qpx);
        table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
        assert_eq!(table.wr_complete.unwrap()(qpx), 0);
        assert_eq!(other.join().unwrap(), 0);
    }
    let sent = (0..4).map(|_| room.success(pair.cq)).filter(|wc| wc.opcode == IBV_WC_SEND as u32);
    assert_eq!(sent.map(|wc| wc.wr_id).collect::<Vec<_>>(), [11, 12]);
}
