//! Sends, RDMA and atomics between connected queue pairs, posted as lists.

use super::*;

#[test]
fn messages_reads_writes_and_atomics_between_two_queue_pairs() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_RC);

    room.bytes(0, 8).copy_from_slice(b"softrdma");
    room.receive(pair.b, 1, room.piece(1024, 100));
    let mut piece = room.piece(0, 8);
    let mut wr = send_wr(2, IBV_WR_SEND_WITH_IMM, &mut piece);
    wr.anon1.imm_data = 99;
    assert_eq!(room.send(pair.a, &mut wr), 0);
    let (first, second) = (room.success(pair.cq), room.success(pair.cq));
    let (received, sent) = if first.wr_id == 1 { (first, second) } else { (second, first) };
    assert_eq!((sent.wr_id, sent.opcode), (2, IBV_WC_SEND as u32));
    assert_eq!((received.byte_len, received.opcode), (8, IBV_WC_RECV as u32));
    // SAFETY: every view of the union is one integer; live queue pairs.
    unsafe {
        assert_eq!((received.anon1.imm_data, received.wc_flags), (99, IBV_WC_WITH_IMM as u32));
        assert_eq!((sent.qp_num, received.qp_num), ((*pair.a).qp_num, (*pair.b).qp_num));
    }
    assert_eq!(room.bytes(1024, 8), b"softrdma");

    let mut wr = send_wr(3, IBV_WR_RDMA_WRITE, &mut piece);
    wr.wr.rdma = room.remote(2048);
    assert_eq!(room.send(pair.a, &mut wr), 0);
    assert_eq!(room.success(pair.cq).opcode, IBV_WC_RDMA_WRITE as u32);
    assert_eq!(room.bytes(2048, 8), b"softrdma");

    let mut into = room.piece(3072, 8);
    let mut wr = send_wr(4, IBV_WR_RDMA_READ, &mut into);
    wr.wr.rdma = room.remote(2048);
    assert_eq!(room.send(pair.a, &mut wr), 0);
    assert_eq!(room.success(pair.cq).opcode, IBV_WC_RDMA_READ as u32);
    assert_eq!(room.bytes(3072, 8), b"softrdma");

    room.bytes(2048, 8).copy_from_slice(&40_u64.to_ne_bytes());
    let mut wr = send_wr(5, IBV_WR_ATOMIC_FETCH_AND_ADD, &mut into);
    let ibv_send_wr_wr_rdma { remote_addr, rkey } = room.remote(2048);
    wr.wr.atomic = ibv_send_wr_wr_atomic { remote_addr, compare_add: 2, swap: 0, rkey };
    assert_eq!(room.send(pair.a, &mut wr), 0);
    assert_eq!(room.success(pair.cq).opcode, IBV_WC_FETCH_ADD as u32);
    assert_eq!(room.bytes(3072, 8), 40_u64.to_ne_bytes());
    assert_eq!(room.bytes(2048, 8), 42_u64.to_ne_bytes());
}

#[test]
fn later_writes_and_reads_do_what_the_first_did() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_RC);
    for n in 1..5 {
        room.bytes(0, 8).copy_from_slice(&[n; 8]);
        let mut from = room.piece(0, 8);
        let mut write = send_wr(3, IBV_WR_RDMA_WRITE, &mut from);
        write.wr.rdma = room.remote(2048);
        let mut into = room.piece(3072, 8);
        let mut read = send_wr(4, IBV_WR_RDMA_READ, &mut into);
        read.wr.rdma = room.remote(2048);
        write.next = &raw mut read;
        assert_eq!(room.send(pair.a, &mut write), 0);
        let (first, second) = (room.success(pair.cq), room.success(pair.cq));
        assert_eq!((first.wr_id, first.opcode), (3, IBV_WC_RDMA_WRITE as u32));
        assert_eq!((second.wr_id, second.opcode, second.byte_len), (4, IBV_WC_RDMA_READ as u32, 8));
        assert_eq!(room.bytes(2048, 9), with_end(n));
        assert_eq!(room.bytes(3072, 9), with_end(n));

        // Data taken when posting, of memory that is not registered.
        let data = [n + 100; 8];
        let mut inline = ibv_sge { addr: data.as_ptr() as u64, length: 8, lkey: 0 };
        let mut write = send_wr(5, IBV_WR_RDMA_WRITE, &mut inline);
        write.send_flags |= IBV_SEND_INLINE as u32;
        write.wr.rdma = room.remote(2048);
        assert_eq!(room.send(pair.a, &mut write), 0);
        assert_eq!(room.success(pair.cq).wr_id, 5);
        assert_eq!(room.bytes(2048, 9), with_end(n + 100));
        read.send_flags |= IBV_SEND_INLINE as u32;
        assert_eq!(room.send(pair.a, &mut read), libc::EINVAL);
        inline.length = 65;
        let mut write = send_wr(6, IBV_WR_RDMA_WRITE, &mut inline);
        write.send_flags |= IBV_SEND_INLINE as u32;
        write.wr.rdma = room.remote(2048);
        assert_eq!(room.send(pair.a, &mut write), libc::EINVAL);
    }
}

/// Eight of these bytes, and one that nobody wrote.
fn with_end(byte: u8) -> [u8; 9] {
    let mut bytes = [byte; 9];
    bytes[8] = 0;
    bytes
}

#[test]
fn a_list_is_posted_up_to_the_request_that_is_refused() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_RC);
    let mut piece = room.piece(0, 8);
    let mut bad: *mut ibv_send_wr = null_mut();
    let post_send = room.ops().post_send.unwrap();
    // SAFETY: plain C data, live queue pairs and valid lists.
    unsafe {
        let mut list = [
            send_wr(1, IBV_WR_RDMA_WRITE, &mut piece),
            send_wr(2, IBV_WR_RDMA_WRITE, &mut piece),
            send_wr(3, IBV_WR_RDMA_WRITE, &mut piece),
        ];
        for wr in &mut list {
            wr.wr.rdma = room.remote(1024);
        }
        list[1].num_sge = 3;
        list[0].next = &raw mut list[1];
        list[1].next = &raw mut list[2];
        assert_eq!(post_send(pair.a, &raw mut list[0], &mut bad), libc::EINVAL);
        assert_eq!(bad, &raw mut list[1]);
        assert_eq!(room.success(pair.cq).wr_id, 1);
        assert!(room.poll(pair.cq).is_none());

        list[2].num_sge = -1;
        assert_eq!(post_send(pair.a, &raw mut list[2], &mut bad), libc::EINVAL);
        list[2].num_sge = 1;
        list[2].opcode = IBV_WR_TSO as u32;
        assert_eq!(post_send(pair.a, &raw mut list[2], &mut bad), libc::EINVAL);
        assert_eq!(post_send(pair.a, null_mut(), &mut bad), libc::EINVAL);
        assert!(bad.is_null());
        assert_eq!(post_send(null_mut(), &raw mut list[0], &mut bad), libc::EINVAL);

        // Not ready to send yet.
        let c = room.qp(IBV_QPT_RC, pair.cq);
        assert_eq!(post_send(c, &raw mut list[0], &mut bad), libc::EINVAL);
        assert_eq!(bad, &raw mut list[0]);
        let mut wr = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        let mut bad_receive = null_mut();
        let post_recv = room.ops().post_recv.unwrap();
        assert_eq!(post_recv(c, &mut wr, &mut bad_receive), libc::EINVAL);
        assert_eq!(bad_receive, &raw mut wr);
        for n in 0.. {
            let posted = post_recv(pair.a, &mut wr, &mut bad_receive);
            if posted != 0 {
                assert!(n >= 16);
                assert_eq!(posted, libc::ENOMEM);
                break;
            }
        }
        destroy_qps(&[c]);
    }
}

/// What a list that goes round comes to, and which request was refused.
fn go_round(room: &Room, qp: *mut ibv_qp, list: &mut [ibv_send_wr]) -> (c_int, *mut ibv_send_wr) {
    let first = list.as_mut_ptr();
    for (at, wr) in list.iter_mut().enumerate() {
        // SAFETY: within the list.
        wr.next = unsafe { first.add((at + 1) % 3) };
    }
    let mut bad = null_mut();
    // SAFETY: plain system call, which ends a test that would never end; a live queue pair and a valid list.
    let answer = unsafe {
        libc::alarm(300);
        let answer = room.ops().post_send.unwrap()(qp, first, &mut bad);
        libc::alarm(0);
        answer
    };
    (answer, bad)
}

#[test]
fn a_list_that_goes_round_ends_when_the_send_queue_is_full() {
    let room = Room::new();
    for flags in [0, IBV_SEND_SIGNALED as u32] {
        let pair = room.pair(IBV_QPT_RC);
        let mut piece = room.piece(0, 8);
        let mut list = [0, 1, 2].map(|n| send_wr(n, IBV_WR_RDMA_WRITE, &mut piece));
        for wr in &mut list {
            (wr.wr.rdma, wr.send_flags) = (room.remote(2048), flags);
        }
        // 16 are done, the 17th has no place.
        assert_eq!(go_round(&room, pair.a, &mut list), (libc::ENOMEM, &raw mut list[16 % 3]));
        let done = core::iter::from_fn(|| room.poll(pair.cq)).count();
        assert_eq!(done, if flags == 0 { 0 } else { 16 });
        // In the error state each is flushed, and a queue of few completions overruns.
        break_it(pair.b);
        let (answer, _) = go_round(&room, pair.b, &mut list);
        assert_eq!(answer, libc::ENOMEM);
        assert_eq!(core::iter::from_fn(|| room.poll(pair.cq)).count(), 16);
    }
    // SAFETY: an open context.
    let small = unsafe { api::cq::ibv_create_cq(room.context, 4, null_mut(), null_mut(), 0) };
    let (qp, other) = (room.qp(IBV_QPT_RC, small), room.qp(IBV_QPT_RC, small));
    room.connect(qp, other);
    break_it(qp);
    let mut piece = room.piece(0, 8);
    let mut list = [0, 1, 2].map(|n| send_wr(n, IBV_WR_RDMA_WRITE, &mut piece));
    assert_eq!(go_round(&room, qp, &mut list).0, libc::ENOMEM);
    destroy_qps(&[qp, other]);
    destroy_cq(small);
}

/// Puts a queue pair into the error state.
fn break_it(qp: *mut ibv_qp) {
    // SAFETY: plain C data; a live queue pair.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_ERR as u32;
        assert_eq!(api::qp::ibv_modify_qp(qp, &mut attr, IBV_QP_STATE as c_int), 0);
    }
}

#[test]
fn a_list_that_goes_round_ends_when_the_receive_queue_is_full() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_RC);
    let mut piece = room.piece(1024, 64);
    let mut wr = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
    wr.next = &mut wr;
    let mut post = |qp| {
        let mut bad = null_mut();
        // SAFETY: plain system call, which ends a test that would never end; a live queue pair and a valid
        // list.
        unsafe {
            libc::alarm(300);
            let answer = room.ops().post_recv.unwrap()(qp, &mut wr, &mut bad);
            libc::alarm(0);
            assert_eq!((answer, bad), (libc::ENOMEM, &raw mut wr));
        }
        core::iter::from_fn(|| room.poll(pair.cq)).count()
    };
    assert_eq!(post(pair.b), 0);
    // In the error state each is flushed at once.
    break_it(pair.a);
    assert_eq!(post(pair.a), 16);
}
