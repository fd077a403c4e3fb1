//! Messages between queue pairs of one process.

use std::time::{Duration, Instant};

use softrdma::core::keys::Bind;
use softrdma::core::receive::Sge;
use softrdma::core::request::{BindWindow, Operands, Rejected};
use softrdma::core::timers::ack_timeout;
use softrdma::core::verbs::{
    Access, Attr, Event, Opcode, QpState, QpType, SendFlags, Status, WcFlags, WcOpcode,
};
use softrdma::device::{
    Attributes, CompletionQueue, CqFlags, Data, Datagram, QpInit, QueuePair, SharedReceiveQueue, SrqInit,
    SrqType, WindowType, Wr, XrcDomain,
};

use softrdma::host::keys;
use softrdma_testing::device::*;

fn pair(qp_type: QpType) -> (Folder, Node, End, End) {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(qp_type), node.end(qp_type));
    connect(&one.qp, &other.qp);
    (folder, node, one, other)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251 + 1) as u8).collect()
}

#[test]
fn sends_of_many_sizes_arrive() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let (_folder, _node, one, other) = pair(qp_type);
        let data = pattern(32 << 10);
        one.memory.fill(0, &data);
        for (n, length) in
            [0, 1, 7, 8, 64, 191, 192, 193, 200, 201, 256, 4096, 30_000].into_iter().enumerate()
        {
            let n = n as u64;
            other.memory.fill(0, &vec![0; 32 << 10]);
            other.receive(n, 0, 32 << 10);
            one.send(100 + n, 0, length);
            one.done(100 + n);
            let completion = other.done(n);
            assert_eq!((completion.byte_len as usize, completion.opcode), (length, WcOpcode::Recv));
            assert_eq!((completion.qp_num, completion.src_qp), (other.qp.qp_num(), one.qp.qp_num()));
            assert_eq!(other.memory.bytes(0, length), data[..length], "{length} bytes");
            assert_eq!(other.memory.bytes(length, 8), [0; 8]);
        }
    }
}

#[test]
fn gathered_scattered_and_inline() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    let data = pattern(3000);
    one.memory.fill(0, &data);
    let to = [other.sge(0, 10), other.sge(100, 0), other.sge(5000, 1500), other.sge(9000, 2000)];
    other.qp.post_receive(1, &to).unwrap();
    let from = [one.sge(0, 1), one.sge(1, 2000), one.sge(2001, 999)];
    one.qp.post_send(&wr(2, Opcode::Send, &from)).unwrap();
    one.done(2);
    assert_eq!(other.done(1).byte_len, 3000);
    let got = [other.memory.bytes(0, 10), other.memory.bytes(5000, 1500), other.memory.bytes(9000, 1490)];
    assert_eq!(got.concat(), data);

    let bytes = pattern(64);
    other.receive(3, 0, 100);
    one.qp.post_send(&Wr { data: Data::Inline(&bytes), ..wr(4, Opcode::Send, &[]) }).unwrap();
    one.done(4);
    other.done(3);
    assert_eq!(other.memory.bytes(0, 64), bytes);
    other.receive(5, 0, 100);
    let sges = [one.sge(10, 20), one.sge(100, 30)].map(|sge| Sge { lkey: 0, ..sge });
    one.qp.post_send(&Wr { data: Data::InlineSges(&sges), ..wr(6, Opcode::Send, &[]) }).unwrap();
    one.done(6);
    assert_eq!(other.done(5).byte_len, 50);
    assert_eq!(other.memory.bytes(0, 50), [&data[10..30], &data[100..130]].concat());
    let long = pattern(65);
    let refused = one.qp.post_send(&Wr { data: Data::Inline(&long), ..wr(7, Opcode::Send, &[]) });
    assert_eq!(refused, Err(Rejected::Inline));
}

#[test]
fn immediate_data() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    other.receive(1, 0, 100);
    other.receive(2, 0, 0);
    one.qp.post_send(&Wr { imm_or_key: 77, ..wr(3, Opcode::SendWithImm, &[one.sge(0, 8)]) }).unwrap();
    one.done(3);
    let completion = other.done(1);
    assert_eq!((completion.imm_or_key, completion.flags), (77, WcFlags::WITH_IMM));
    one.memory.fill(0, &pattern(500));
    let operands = Operands::Remote { addr: other.memory.addr(1000), rkey: other.region.rkey, length: 500 };
    let sges = [one.sge(0, 500)];
    one.qp.post_send(&Wr { operands, imm_or_key: 78, ..wr(4, Opcode::RdmaWriteWithImm, &sges) }).unwrap();
    assert_eq!(one.done(4).opcode, WcOpcode::RdmaWrite);
    let completion = other.done(2);
    assert_eq!((completion.imm_or_key, completion.flags), (78, WcFlags::WITH_IMM));
    assert_eq!((completion.opcode, completion.byte_len), (WcOpcode::RecvRdmaWithImm, 500));
    assert_eq!(other.memory.bytes(1000, 500), pattern(500));
}

#[test]
fn remote_memory() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    let there = |offset| (other.memory.addr(offset), other.region.rkey);
    let data = pattern(40_000);
    one.memory.fill(0, &data);
    one.remote(1, Opcode::RdmaWrite, 0, 40_000, there(100));
    one.done(1);
    assert_eq!(other.memory.bytes(100, 40_000), data);
    one.remote(2, Opcode::RdmaRead, 50_000, 1000, there(200));
    assert_eq!(one.done(2).byte_len, 1000);
    assert_eq!(one.memory.bytes(50_000, 1000), data[100..1100]);
    other.memory.fill(0, &5u64.to_ne_bytes());
    let atomic = |opcode, compare_add, swap| {
        let (addr, rkey) = there(0);
        let operands = Operands::Atomic { addr, rkey, compare_add, swap };
        one.qp.post_send(&Wr { operands, ..wr(3, opcode, &[one.sge(0, 8)]) }).unwrap();
        assert_eq!(one.done(3).byte_len, 8);
        (one.memory.word(0), other.memory.word(0))
    };
    assert_eq!(atomic(Opcode::FetchAndAdd, 10, 0), (5, 15));
    assert_eq!(atomic(Opcode::CmpAndSwp, 14, 99), (15, 15));
    assert_eq!(atomic(Opcode::CmpAndSwp, 15, 99), (15, 99));
    one.memory.fill(0, &7u64.to_ne_bytes());
    one.remote(4, Opcode::AtomicWrite, 0, 8, there(0));
    one.done(4);
    assert_eq!(other.memory.word(0), 7);
    assert_eq!(other.try_poll(), None);
}

#[test]
fn unsignalled_requests_complete_in_silence() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    let quiet = |n| one.qp.post_send(&Wr { flags: SendFlags::NONE, ..wr(n, Opcode::Send, &[]) });
    for n in 0..15 {
        other.receive(n, 0, 8);
        quiet(n).unwrap();
        other.done(n);
    }
    assert_eq!((one.try_poll(), one.qp.send_room()), (None, 1));
}

#[test]
fn unsignalled_requests_keep_their_places_until_a_later_one_is_polled() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    let quiet = |n| one.qp.post_send(&Wr { flags: SendFlags::NONE, ..wr(n, Opcode::Send, &[]) });
    let mut came = 0;
    let mut room_for_more = |last: u64| {
        for n in came..last {
            other.receive(n, 0, 8);
        }
        came = last;
    };
    // Every fourth asks for a completion, and each gives four places back.
    room_for_more(16);
    for n in 0..16 {
        if n % 4 == 3 {
            one.send(n, 0, 8)
        } else {
            quiet(n).unwrap()
        }
        other.done(n);
    }
    assert_eq!((quiet(16), one.try_send(16, 0, 8)), (Err(Rejected::Full), Err(Rejected::Full)));
    for n in 0..3 {
        one.done(4 * n + 3);
        assert_eq!(one.qp.send_room(), 4 * (n as u32 + 1));
    }
    // Those that are behind the last are still there when it is polled.
    room_for_more(20);
    (16..20).for_each(|n| quiet(n).unwrap());
    one.done(15);
    assert_eq!(one.qp.send_room(), 12);
    // One that waits gives back its own place and theirs.
    one.send(20, 0, 8);
    assert_eq!(one.qp.send_room(), 11);
    room_for_more(21);
    one.done(20);
    assert_eq!(one.qp.send_room(), 16);
    // Without any that asks, it is over after so many.
    room_for_more(37);
    (16..20).for_each(|n| assert_eq!(other.done(n).wr_id, n));
    other.done(20);
    for n in 21..37 {
        quiet(n).unwrap();
        other.done(n);
    }
    assert_eq!((quiet(37), one.try_poll()), (Err(Rejected::Full), None));
    // A reset forgets them.
    set_state(&one.qp, QpState::Reset);
    assert_eq!(one.qp.send_room(), 16);
}

#[test]
fn completions_that_are_lost_give_no_place_back() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let flags = CqFlags { ignore_overrun: true, ..CqFlags::default() };
    let cq = CompletionQueue::new(&node.device, 4, None, &node.events, 1, flags).unwrap();
    let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let (one, other) = (node.end_of(qp, cq), node.end(QpType::Rc));
    connect(&one.qp, &other.qp);
    (0..16).for_each(|n| other.receive(n, 0, 8));
    for n in 0..10 {
        one.send(n, 0, 8);
    }
    (0..4).for_each(|n| assert_eq!(one.done(n).wr_id, n));
    assert_eq!((one.try_poll(), one.qp.send_room()), (None, 10));
    // The next that comes through gives back those of the lost.
    one.send(10, 0, 8);
    one.done(10);
    assert_eq!(one.qp.send_room(), 16);
}

#[test]
fn datagrams_bring_a_header() {
    let (_folder, _node, one, other) = pair(QpType::Ud);
    for length in [0, 100, 152, 153, 4096] {
        one.memory.fill(0, &pattern(4096));
        other.receive(1, 0, 8192);
        one.datagram(2, other.qp.qp_num(), 0, length);
        one.done(2);
        let completion = other.done(1);
        assert_eq!((completion.byte_len as usize, completion.flags), (length + 40, WcFlags::GRH));
        assert_eq!(completion.src_qp, one.qp.qp_num());
        assert_eq!(other.memory.bytes(0, 40), [0x60; 40]);
        assert_eq!(other.memory.bytes(40, length), pattern(4096)[..length]);
    }
    // Nobody there, no request posted, wrong key: lost without a word.
    one.datagram(3, 0x12_3456, 0, 8);
    one.done(3);
    one.datagram(4, other.qp.qp_num(), 0, 8);
    one.done(4);
    other.receive(5, 0, 100);
    let sges = [one.sge(0, 8)];
    let datagram = Some(Datagram { qp_num: other.qp.qp_num(), qkey: 5, grh: &[0; 40], dgid: GID });
    one.qp.post_send(&Wr { datagram, ..wr(6, Opcode::Send, &sges) }).unwrap();
    one.done(6);
    assert_eq!(other.try_poll(), None);
    one.datagram(7, other.qp.qp_num(), 0, 8);
    other.done(5);
}

#[test]
fn too_long_datagrams_fail_here() {
    let (_folder, node, one, other) = pair(QpType::Ud);
    one.datagram(1, other.qp.qp_num(), 0, 4097);
    assert_eq!(one.poll().status, Status::LocLenErr);
    assert_eq!(one.qp.state(), QpState::Sqe);
    one.datagram(2, other.qp.qp_num(), 0, 8);
    assert_eq!(one.poll().status, Status::WrFlushErr);
    set_state(&one.qp, QpState::Rts);
    one.datagram(3, other.qp.qp_num(), 0, 8);
    one.done(3);
    assert!(!node.has_event());
}

#[test]
fn groups_reach_their_members() {
    let (_folder, node, one, other) = pair(QpType::Ud);
    let group = {
        let mut gid = GID;
        (gid[0], gid[1]) = (0xff, 0x0e);
        gid
    };
    let third = node.end(QpType::Ud);
    bring_up(&third.qp, &attributes(0), QpState::Rts);
    let device = &node.device;
    assert!(device.attach_multicast(&one.qp, &GID).is_err());
    for end in [&one, &other, &third] {
        assert_eq!(device.attach_multicast(&end.qp, &group), Ok(()));
        assert_eq!(device.attach_multicast(&end.qp, &group), Ok(()));
        end.receive(1, 0, 100);
    }
    let send = || {
        one.memory.fill(200, &pattern(20));
        let sges = [one.sge(200, 20)];
        let datagram = Some(Datagram { qp_num: 0xff_ffff, qkey: QKEY, grh: &[1; 40], dgid: group });
        one.qp.post_send(&Wr { datagram, ..wr(2, Opcode::Send, &sges) }).unwrap();
        one.done(2);
    };
    send();
    for end in [&other, &third] {
        assert_eq!(end.done(1).byte_len, 60);
        assert_eq!(end.memory.bytes(40, 20), pattern(20));
        end.receive(1, 0, 100);
    }
    assert_eq!(one.try_poll(), None);
    assert!(other.qp.destroy().is_err());
    assert_eq!(device.detach_multicast(&other.qp, &group), Ok(()));
    assert!(device.detach_multicast(&other.qp, &group).is_err());
    send();
    third.done(1);
    assert_eq!(other.try_poll(), None);
    assert_eq!(other.qp.destroy(), Ok(()));
}

#[test]
fn a_receiver_that_is_not_ready_is_tried_again() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    one.memory.fill(0, &pattern(5000));
    for wr_id in 0..5 {
        one.send(wr_id, wr_id as usize * 1000, 1000);
    }
    let inline = pattern(50);
    one.qp.post_send(&Wr { data: Data::Inline(&inline), ..wr(5, Opcode::Send, &[]) }).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(one.try_poll(), None);
    for wr_id in 0..6 {
        other.receive(100 + wr_id, 6000 + wr_id as usize * 1000, 1000);
        one.done(wr_id);
        other.done(100 + wr_id);
    }
    assert_eq!(other.memory.bytes(6000, 5000), pattern(5000));
    assert_eq!(other.memory.bytes(11_000, 50), inline);
}

#[test]
fn a_sender_that_sleeps_is_served_by_its_thread() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    one.send(1, 0, 500);
    other.receive(2, 0, 1000);
    other.done(2);
    one.done(1);
}

#[test]
fn a_send_queue_that_waits_is_full_one_day() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    for wr_id in 0..16 {
        one.send(wr_id, 0, 8);
    }
    assert_eq!(one.try_send(16, 0, 8), Err(Rejected::Full));
    for wr_id in 0..16 {
        other.receive(wr_id, 0, 8);
    }
    for wr_id in 0..16 {
        one.done(wr_id);
        other.done(wr_id);
    }
}

#[test]
fn rnr_retries_end() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    let set = Attributes { state: QpState::Rts, ..attributes(other.qp.qp_num()) };
    set_state(&one.qp, QpState::Reset);
    bring_up(&one.qp, &Attributes { rnr_retry: 2, ..set }, QpState::Rts);
    one.send(1, 0, 8);
    one.send(2, 0, 8);
    let completion = one.poll();
    assert_eq!((completion.wr_id, completion.status), (1, Status::RnrRetryExcErr));
    let completion = one.poll();
    assert_eq!((completion.wr_id, completion.status), (2, Status::WrFlushErr));
    assert_eq!(one.qp.state(), QpState::Err);
}

#[test]
fn a_peer_that_does_not_answer_is_given_up_in_time() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    set_state(&one.qp, QpState::Reset);
    let few = Attributes { timeout: 12, retry_cnt: 2, ..attributes(other.qp.qp_num()) };
    bring_up(&one.qp, &few, QpState::Rts);
    set_state(&other.qp, QpState::Reset);
    let start = Instant::now();
    one.receive(9, 0, 8);
    one.send(1, 0, 8);
    one.send(2, 0, 8);
    let completion = one.poll();
    let waited = start.elapsed();
    assert_eq!((completion.wr_id, completion.status), (1, Status::RetryExcErr));
    assert!(waited >= Duration::from_nanos(3 * ack_timeout(12).unwrap()), "{waited:?}");
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    let mut rest = [one.poll(), one.poll()].map(|completion| (completion.wr_id, completion.status));
    rest.sort_by_key(|completion| completion.0);
    assert_eq!(rest, [(2, Status::WrFlushErr), (9, Status::WrFlushErr)]);
}

#[test]
fn refusals_break_both_sides() {
    let (_folder, node, one, other) = pair(QpType::Rc);
    other.receive(5, 0, 8);
    one.remote(1, Opcode::RdmaWrite, 0, 8, (other.memory.addr(0), other.region.rkey ^ 1));
    one.send(2, 0, 8);
    assert_eq!(one.poll().status, Status::RemAccessErr);
    assert_eq!(one.poll().status, Status::WrFlushErr);
    assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Err));
    let completion = other.poll();
    assert_eq!((completion.wr_id, completion.status), (5, Status::WrFlushErr));
    assert_eq!(node.event(), Event::QpAccessErr);

    let (_folder, node, one, other) = pair(QpType::Rc);
    other.receive(5, 0, 8);
    one.send(1, 0, 9);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    assert_eq!(other.poll().status, Status::LocLenErr);
    assert!(!node.has_event() || node.event() == Event::QpReqErr);

    let (_folder, _node, one, other) = pair(QpType::Rc);
    let wrong = [Sge { lkey: 3, ..one.sge(0, 8) }];
    other.receive(5, 0, 8);
    one.qp.post_send(&wr(1, Opcode::Send, &wrong)).unwrap();
    assert_eq!(one.poll().status, Status::LocProtErr);
    assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Rts));
}

#[test]
fn one_poll_takes_what_broke_and_all_behind_it() {
    let (_folder, _node, one, other) = pair(QpType::Rc);
    other.receive(1, 0, 8);
    (2..=5).for_each(|wr_id| other.receive(wr_id, 0, 64));
    one.send(1, 0, 9);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    let mut taken = Vec::new();
    other.cq.poll(16, &mut |completion| taken.push((completion.wr_id, completion.status)));
    assert_eq!(taken[0], (1, Status::LocLenErr));
    assert_eq!(taken[1..], [2, 3, 4, 5].map(|wr_id| (wr_id, Status::WrFlushErr)));
}

#[test]
fn memory_that_is_written_to_is_not_given_back() {
    const LEN: usize = 32 << 20;
    let (_folder, node, one, other) = pair(QpType::Rc);
    let buffers = [Buffer::new(LEN), Buffer::new(LEN)];
    let register = |buffer: &Buffer| {
        node.device.register(node.pd, buffer.addr(0), LEN as u64, buffer.addr(0), ALL).unwrap()
    };
    buffers[0].fill(0, &[1]);
    buffers[0].fill(LEN - 1, &[1]);
    let (from, to) = (register(&buffers[0]), register(&buffers[1]));
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let sges = [Sge { addr: buffers[1].addr(0), length: LEN as u32, lkey: to.lkey }];
            let operands = Operands::Remote { addr: buffers[0].addr(0), rkey: from.rkey, length: LEN as u64 };
            one.qp.post_send(&Wr { operands, ..wr(1, Opcode::RdmaRead, &sges) }).unwrap();
            one.done(1);
        });
        while buffers[1].bytes(0, 1) == [0] {
            std::hint::spin_loop();
        }
        // Under way: from here on the last byte is the program's again.
        assert_eq!(node.device.deregister(to.lkey), Ok(()));
        buffers[1].fill(LEN - 1, &[7]);
        reader.join().unwrap();
    });
    assert_eq!(buffers[1].bytes(LEN - 1, 1), [7]);
    assert_eq!(other.qp.state(), QpState::Rts);
}

#[test]
fn windows_open_and_close() {
    let (_folder, node, one, other) = pair(QpType::Rc);
    let device = &node.device;
    let window = device.alloc_window(node.pd, WindowType::Two).unwrap();
    let bind = |wr_id, window: u32, key8: u8, offset, length| {
        let access = Access::REMOTE_WRITE.and(Access::REMOTE_READ);
        let bind = Bind { addr: other.memory.addr(offset), length, access };
        let operands = Operands::Bind(BindWindow { window, key8, region: other.region.lkey, bind });
        other.qp.post_send(&Wr { operands, ..wr(wr_id, Opcode::BindMw, &[]) }).unwrap();
    };
    bind(1, window, 0x42, 1000, 100);
    assert_eq!(other.done(1).opcode, WcOpcode::BindMw);
    assert!(device.deregister(other.region.lkey).is_err());
    let rkey = window & !0xff | 0x42;
    one.memory.fill(0, &pattern(100));
    one.remote(2, Opcode::RdmaWrite, 0, 100, (other.memory.addr(1000), rkey));
    one.done(2);
    assert_eq!(other.memory.bytes(1000, 100), pattern(100));
    // Closed by the peer's send.
    other.receive(3, 0, 100);
    one.qp.post_send(&Wr { imm_or_key: rkey, ..wr(4, Opcode::SendWithInv, &[one.sge(0, 8)]) }).unwrap();
    one.done(4);
    let completion = other.done(3);
    assert_eq!((completion.imm_or_key, completion.flags), (rkey, WcFlags::WITH_INV));
    // Opened anew, closed by its owner.
    bind(5, rkey, 0x43, 1000, 100);
    other.done(5);
    let rkey = window & !0xff | 0x43;
    let close = Wr { operands: Operands::Key(rkey), ..wr(6, Opcode::LocalInv, &[]) };
    other.qp.post_send(&close).unwrap();
    other.done(6);
    one.remote(7, Opcode::RdmaWrite, 0, 100, (other.memory.addr(1000), rkey));
    assert_eq!(one.poll().status, Status::RemAccessErr);
    assert_eq!(device.deregister(other.region.lkey), Ok(()));
    assert_eq!(device.free_window(rkey), Ok(()));
}

#[test]
fn whoever_uses_a_window_is_waited_for() {
    let (folder, node, _one, other) = pair(QpType::Rc);
    let (stranger, peer) = folder.stranger();
    let table = keys::Table::of(&peer);
    let use_it = |rkey| table.pin(rkey, stranger.owner(), &*stranger).unwrap();
    let device = &node.device;
    let window = device.alloc_window(node.pd, WindowType::Two).unwrap();
    let bind = |wr_id, window, key8| {
        let bind = Bind { addr: other.memory.addr(0), length: 100, access: Access::REMOTE_WRITE };
        let operands = Operands::Bind(BindWindow { window, key8, region: other.region.lkey, bind });
        other.qp.post_send(&Wr { operands, ..wr(wr_id, Opcode::BindMw, &[]) }).unwrap();
        other.done(wr_id);
        window & !0xff | u32::from(key8)
    };
    let rkey = bind(1, window, 0x41);
    let used = use_it(rkey);
    std::thread::scope(|s| {
        let closes = s.spawn(|| {
            let close = Wr { operands: Operands::Key(rkey), ..wr(2, Opcode::LocalInv, &[]) };
            other.qp.post_send(&close).unwrap();
            other.done(2);
        });
        std::thread::sleep(Duration::from_millis(500));
        assert!(!closes.is_finished());
        drop(used);
        closes.join().unwrap();
    });
    let rkey = bind(3, rkey, 0x42);
    let used = use_it(rkey);
    assert!(table.invalidate(rkey));
    std::thread::scope(|s| {
        let ends = s.spawn(|| assert_eq!(device.deregister(other.region.lkey), Ok(())));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!ends.is_finished());
        drop(used);
    });
}

fn shared(node: &Node, max_wr: u32) -> std::sync::Arc<SharedReceiveQueue> {
    let init = SrqInit {
        pd: node.pd,
        srq_type: SrqType::Basic,
        max_wr,
        max_sge: 2,
        xrcd: None,
        cq: None,
        events: node.events.clone(),
        cookie: 3,
    };
    SharedReceiveQueue::new(&node.device, &init).unwrap()
}

/// Requests that queue pairs held come back when these are reset, however many were posted in their place.
#[test]
fn a_shared_queue_loses_no_request_that_comes_back() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let srq = shared(&node, 3);
    let home = node.end(QpType::Rc);
    let target = || {
        let cq = node.cq(16, None, 1);
        let init = QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &cq) };
        node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq)
    };
    let pairs = [(node.end(QpType::Rc), target()), (node.end(QpType::Rc), target())];
    (1..4).for_each(|wr_id| post_shared(&srq, wr_id, &home, wr_id as usize * 4096, 4096));
    // Memory that is not there any more: the message is lost when its target holds a request already.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: fresh memory, which nobody else uses.
    let gone = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    let region = node.device.register(node.pd, gone as u64, 4096, gone as u64, ALL).unwrap();
    // SAFETY: as above.
    unsafe { libc::munmap(gone, 4096) };
    for (sender, target) in &pairs {
        connect(&sender.qp, &target.qp);
        let lost = [Sge { addr: gone as u64, length: 4096, lkey: region.lkey }];
        sender.qp.post_send(&wr(9, Opcode::Send, &lost)).unwrap();
        assert_eq!(sender.poll().status, Status::LocProtErr);
    }
    (4..6).for_each(|wr_id| post_shared(&srq, wr_id, &home, wr_id as usize * 4096, 4096));
    assert_eq!(srq.post(6, &[]), Err(Rejected::Full));
    for (sender, target) in &pairs {
        set_state(&sender.qp, QpState::Reset);
        set_state(&target.qp, QpState::Reset);
    }
    let (sender, target) = &pairs[0];
    connect(&sender.qp, &target.qp);
    let mut received: Vec<u64> = (0..5)
        .map(|n| {
            sender.send(10 + n, 0, 4096);
            sender.done(10 + n);
            target.poll().wr_id
        })
        .collect();
    received.sort_unstable();
    assert_eq!(received, [1, 2, 3, 4, 5]);
    assert_eq!((srq.max_wr(), node.device.deregister(region.lkey)), (3, Ok(())));
}

#[test]
fn a_shared_queue_serves_many_and_tells_of_its_limit() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let srq = shared(&node, 8);
    let senders = [0; 3].map(|_| node.end(QpType::Rc));
    let cq = node.cq(64, None, 0);
    let init = QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &cq) };
    let receivers = [0; 3].map(|_| node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq.clone()));
    for (one, other) in senders.iter().zip(&receivers) {
        connect(&one.qp, &other.qp);
    }
    for wr_id in 0..6 {
        post_shared(&srq, wr_id, &receivers[0], wr_id as usize * 1000, 1000);
    }
    srq.modify(Some(4), None).unwrap();
    for wr_id in 0..6 {
        let sender = &senders[wr_id as usize % 3];
        sender.memory.fill(0, &[wr_id as u8 + 1; 600]);
        sender.send(wr_id, 0, 600);
        sender.done(wr_id);
        let completion = receivers[0].done(wr_id);
        assert_eq!(completion.qp_num, receivers[wr_id as usize % 3].qp.qp_num());
        assert_eq!(receivers[0].memory.bytes(wr_id as usize * 1000, 600), [wr_id as u8 + 1; 600]);
        assert_eq!(node.has_event(), wr_id >= 2, "{wr_id}");
    }
    assert_eq!(node.event(), Event::SrqLimitReached);
    assert_eq!(srq.limit(), 0);
    assert!(!node.has_event());
    // Not ready, then resized, then ready.
    senders[0].send(7, 0, 8);
    srq.modify(None, Some(100)).unwrap();
    post_shared(&srq, 8, &receivers[0], 0, 8);
    senders[0].done(7);
    receivers[0].done(8);
    // The last request of a queue pair in error.
    set_state(&receivers[1].qp, QpState::Err);
    assert_eq!(node.event(), Event::QpLastWqeReached);
}

#[test]
fn xrc_names_the_queue() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let xrcd = XrcDomain::open(&node.device, None, true, false).unwrap();
    let cq = node.cq(16, None, 0);
    let make = || {
        let init = SrqInit {
            pd: node.pd,
            srq_type: SrqType::Xrc,
            max_wr: 4,
            max_sge: 1,
            xrcd: Some(xrcd.clone()),
            cq: Some(cq.clone()),
            events: node.events.clone(),
            cookie: 3,
        };
        SharedReceiveQueue::new(&node.device, &init).unwrap()
    };
    let queues = [make(), make()];
    let sender = node.end(QpType::XrcSend);
    let init = QpInit { xrcd: Some(xrcd.clone()), ..node.init(QpType::XrcRecv, &cq) };
    let target = QueuePair::new(&node.device, &init).unwrap();
    connect(&sender.qp, &target);
    sender.memory.fill(0, &pattern(500));
    for (wr_id, srq) in (0..).zip(&queues) {
        post_shared(srq, wr_id, &sender, 1000, 600);
        let sges = [sender.sge(0, 500)];
        sender.qp.post_send(&Wr { srq_num: srq.number(), ..wr(10 + wr_id, Opcode::Send, &sges) }).unwrap();
        sender.done(10 + wr_id);
        let completion = poll_soon(&cq);
        assert_eq!((completion.wr_id, completion.status), (wr_id, Status::Success));
        assert_eq!(sender.memory.bytes(1000, 500), pattern(500));
    }
    assert!(xrcd.close().is_err() && cq.destroy().is_err());
    target.destroy().unwrap();
    for srq in &queues {
        srq.destroy().unwrap();
    }
    assert_eq!((xrcd.close(), cq.destroy()), (Ok(()), Ok(())));
}

#[test]
fn a_drained_send_queue_stops_and_goes_on() {
    let (_folder, node, one, other) = pair(QpType::Rc);
    let drain = Attributes { state: QpState::Sqd, en_sqd_async_notify: true, ..Attributes::default() };
    one.qp.modify(Attr::STATE.and(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert_eq!(node.event(), Event::SqDrained);
    one.send(1, 0, 8);
    other.receive(1, 0, 8);
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(one.try_poll(), None);
    set_state(&one.qp, QpState::Rts);
    one.done(1);
    other.done(1);
    // Under way: drains when it is done.
    one.send(2, 0, 8);
    one.qp.modify(Attr::STATE.and(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert!(one.qp.query().sq_draining && !node.has_event());
    one.send(3, 0, 8);
    other.receive(2, 0, 8);
    other.receive(3, 0, 8);
    one.done(2);
    assert_eq!(node.event(), Event::SqDrained);
    assert!(!one.qp.query().sq_draining);
    assert_eq!(one.try_poll(), None);
    set_state(&one.qp, QpState::Rts);
    one.done(3);
}

#[test]
fn a_completion_queue_that_overruns_breaks_its_queue_pairs() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let one = node.end(QpType::Rc);
    let cq = node.cq(4, None, 0);
    let other = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let other = node.end_of(other, cq.clone());
    connect(&one.qp, &other.qp);
    for wr_id in 0..6 {
        other.receive(wr_id, 0, 8);
    }
    for wr_id in 0..5 {
        one.send(wr_id, 0, 8);
    }
    for wr_id in 0..4 {
        one.done(wr_id);
    }
    assert_ne!(one.poll().status, Status::Success);
    let mut events = [node.event(), node.event()];
    events.sort();
    assert_eq!(events, [Event::CqErr, Event::QpFatal]);
    assert_eq!(other.qp.state(), QpState::Err);
    for wr_id in 0..4 {
        assert_eq!(poll(&cq).unwrap().wr_id, wr_id);
    }
}
