//! Messages between queue pairs of one process.

use softrdma::device::{CompletionQueue, CqFlags, Data, Datagram, QpInit, QueuePair, Wr};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, SendFlags, Status, WcFlags, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, pair, pattern};

use super::srq::shared;

#[test]
fn sends_of_many_sizes_arrive() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let (_folder, _nodes, one, other) = pair(near, qp_type);
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
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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
    let (_folder, _nodes, one, other) = pair(near, QpType::Ud);
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
    let (_folder, [node, _], one, other) = pair(near, QpType::Ud);
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
    let (_folder, [node, _], one, other) = pair(near, QpType::Ud);
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
    };
    send();
    one.done(1);
    one.done(2);
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
    one.done(2);
    third.done(1);
    assert_eq!(other.try_poll(), None);
    assert_eq!(other.qp.destroy(), Ok(()));
}

/// A sender that is in the group gets what it would get of a datagram to its own number, whatever its queues
/// are like.
#[test]
fn who_sends_to_his_own_group_is_a_member_as_any() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Queues {
        Own,
        Empty,
        Shared,
        Full,
        Blocked,
    }
    let mut group = GID;
    (group[0], group[1]) = (0xff, 0x0e);
    let run = |queues: Queues, to_group: bool| {
        let folder = Folder::new();
        let node = Node::new(&folder);
        let (sends, receives) = (node.cq(8, None, 1), node.cq(1, None, 2));
        let srq = shared(&node, 4);
        let init = QpInit {
            recv_cq: Some(receives.clone()),
            srq: (queues == Queues::Shared).then(|| srq.clone()),
            blocks_own_multicast: queues == Queues::Blocked,
            ..node.init(QpType::Ud, &sends)
        };
        let end = node.end_of(QueuePair::new(&node.device, &init).unwrap(), receives);
        bring_up(&end.qp, &attributes(0), QpState::Rts);
        node.device.attach_multicast(&end.qp, &group).unwrap();
        match queues {
            Queues::Empty => {}
            Queues::Shared => (0..3).for_each(|n| post_shared(&srq, n, &end, 512 * n as usize, 512)),
            _ => (0..8).for_each(|n| end.receive(n, 512 * n as usize, 512)),
        }
        end.memory.fill(8192, &pattern(300));
        let (qp_num, dgid) = if to_group { (0xff_ffff, group) } else { (end.qp.qp_num(), GID) };
        let datagram = Some(Datagram { qp_num, qkey: QKEY, grh: &[1; 40], dgid });
        // Small ones are copied before the target is held, others behind its lock.
        let mut seen = Vec::new();
        let lengths =
            if queues == Queues::Full { vec![20; 1 + end.cq.cqe() as usize] } else { vec![20, 300] };
        for (n, length) in lengths.into_iter().enumerate() {
            let sges = [end.sge(8192, length)];
            end.qp.post_send(&Wr { datagram, ..wr(9, Opcode::Send, &sges) }).unwrap();
            assert_eq!(poll_soon(&sends).wr_id, 9);
            if queues == Queues::Full {
                continue;
            }
            // What comes back does so before the request completes.
            let received = end.try_poll();
            if let Some(completion) = &received {
                assert_eq!((completion.status, completion.src_qp), (Status::Success, end.qp.qp_num()));
                assert_eq!(end.memory.bytes(512 * n + 40, length), pattern(length));
            }
            seen.push(received.map(|completion| (completion.wr_id, completion.byte_len)));
        }
        let event = (queues == Queues::Full).then(|| node.event());
        (seen, end.qp.state(), event)
    };
    for queues in [Queues::Own, Queues::Empty, Queues::Shared, Queues::Full] {
        let (by_group, by_number) = (run(queues, true), run(queues, false));
        assert_eq!(by_group, by_number, "{queues:?}");
        let expected = match queues {
            Queues::Own | Queues::Shared => vec![Some((0, 60)), Some((1, 340))],
            Queues::Empty => vec![None, None],
            _ => vec![],
        };
        assert_eq!(by_group.2, (queues == Queues::Full).then_some(Event::CqErr), "{queues:?}");
        assert_eq!(by_group.0, expected, "{queues:?}");
    }
    assert_eq!(run(Queues::Blocked, true), (vec![None, None], QpState::Rts, None));
    assert_eq!(run(Queues::Blocked, false).0, [Some((0, 60)), Some((1, 340))]);
}
