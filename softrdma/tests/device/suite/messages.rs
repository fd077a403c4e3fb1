//! Messages between queue pairs of one process.

use softrdma::device::{CompletionQueue, CqFlags, Data, Datagram, QueuePair, Wr};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Opcode, QpState, QpType, SendFlags, Status, WcFlags, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pair, pattern};

super::suite! {
    messages:
    sends_of_many_sizes_arrive,
    gathered_scattered_and_inline,
    immediate_data,
    remote_memory,
    unsignalled_requests_complete_in_silence,
    unsignalled_requests_keep_their_places_until_a_later_one_is_polled,
    completions_that_are_lost_give_no_place_back,
    datagrams_bring_a_header,
    too_long_datagrams_fail_here,
}

pub fn sends_of_many_sizes_arrive(carrier: Carrier) {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let (_fabric, _nodes, one, other) = pair(carrier, qp_type);
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

pub fn gathered_scattered_and_inline(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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

pub fn immediate_data(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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

pub fn remote_memory(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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

pub fn unsignalled_requests_complete_in_silence(carrier: Carrier) {
    let (fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    let quiet = |n| one.qp.post_send(&Wr { flags: SendFlags::NONE, ..wr(n, Opcode::Send, &[]) });
    for n in 0..15 {
        other.receive(n, 0, 8);
        quiet(n).unwrap();
        other.done(n);
    }
    fabric.settle();
    assert_eq!((one.try_poll(), one.qp.send_room()), (None, 1));
}

pub fn unsignalled_requests_keep_their_places_until_a_later_one_is_polled(carrier: Carrier) {
    let (fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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
    fabric.settle();
    assert_eq!((quiet(37), one.try_poll()), (Err(Rejected::Full), None));
    // A reset forgets them.
    set_state(&one.qp, QpState::Reset);
    assert_eq!(one.qp.send_room(), 16);
}

pub fn completions_that_are_lost_give_no_place_back(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let flags = CqFlags { ignore_overrun: true, ..CqFlags::default() };
    let cq = CompletionQueue::new(&here.device, 4, None, &here.events, 1, flags).unwrap();
    let qp = QueuePair::new(&here.device, &here.init(QpType::Rc, &cq)).unwrap();
    let (one, other) = (here.end_of(qp, cq), there.end(QpType::Rc));
    connect_ends(&one, &other);
    (0..16).for_each(|n| other.receive(n, 0, 8));
    for n in 0..10 {
        one.send(n, 0, 8);
    }
    fabric.settle();
    (0..4).for_each(|n| assert_eq!(one.done(n).wr_id, n));
    assert_eq!((one.try_poll(), one.qp.send_room()), (None, 10));
    // The next that comes through gives back those of the lost.
    one.send(10, 0, 8);
    one.done(10);
    assert_eq!(one.qp.send_room(), 16);
}

pub fn datagrams_bring_a_header(carrier: Carrier) {
    let (fabric, _nodes, one, other) = pair(carrier, QpType::Ud);
    for length in [0, 100, 152, 153, 4096] {
        one.memory.fill(0, &pattern(4096));
        other.receive(1, 0, 8192);
        one.datagram_to(2, &other, 0, length);
        one.done(2);
        let completion = other.done(1);
        assert_eq!((completion.byte_len as usize, completion.flags), (length + 40, WcFlags::GRH));
        assert_eq!(completion.src_qp, one.qp.qp_num());
        assert_eq!(other.memory.bytes(0, 40), [0x60; 40]);
        assert_eq!(other.memory.bytes(40, length), pattern(4096)[..length]);
    }
    // Nobody there, no request posted, wrong key: lost without a word.
    let send = |wr_id, datagram| {
        let sges = [one.sge(0, 8)];
        one.qp.post_send(&Wr { datagram: Some(datagram), ..wr(wr_id, Opcode::Send, &sges) }).unwrap();
        one.done(wr_id);
        fabric.settle();
    };
    let right = other.datagrams().unwrap();
    send(3, Datagram { qp_num: 0x12_3456, ..right });
    send(4, right);
    other.receive(5, 0, 100);
    send(6, Datagram { qkey: 5, ..right });
    assert_eq!(other.try_poll(), None);
    one.datagram_to(7, &other, 0, 8);
    other.done(5);
}

pub fn too_long_datagrams_fail_here(carrier: Carrier) {
    let (_fabric, nodes, one, other) = pair(carrier, QpType::Ud);
    one.datagram_to(1, &other, 0, 4097);
    assert_eq!(one.poll().status, Status::LocLenErr);
    assert_eq!(one.qp.state(), QpState::Sqe);
    one.datagram_to(2, &other, 0, 8);
    assert_eq!(one.poll().status, Status::WrFlushErr);
    set_state(&one.qp, QpState::Rts);
    one.datagram_to(3, &other, 0, 8);
    one.done(3);
    assert!(!nodes.iter().any(Node::has_event));
}
