//! Lists of requests, of which the small ones go together.

use std::sync::Arc;

use softrdma::device::{Channel, CompletionQueue, CqFlags, Data, Wr};
use softrdma::rules::completion::Completion;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::Carrier;

super::suite! {
    lists:
    a_long_list_arrives_in_order_whoever_it_is_for,
    a_receiver_that_is_not_ready_gets_the_rest_later,
    small_and_large_and_other_requests_keep_their_order,
    what_is_wrong_ends_the_list_there_and_nothing_before,
    a_full_queue_refuses_what_it_has_no_place_for,
    datagrams_of_a_list_go_to_many,
    a_bell_rings_once_for_a_list,
    a_full_completion_queue_overruns_within_a_list,
}

/// Requests that each queue holds here: more than go together.
const DEEP: u32 = 200;

/// An end with deep queues.
fn deep(node: &Node, qp_type: QpType, cq: &Arc<CompletionQueue>) -> End {
    node.deep_end(qp_type, cq, DEEP)
}

fn deep_pair(nodes: &[Node; 2]) -> (End, End) {
    let [one, other] = [0, 1].map(|n| deep(&nodes[n], QpType::Rc, &nodes[n].cq(2 * DEEP, None, 1)));
    connect_ends(&one, &other);
    (one, other)
}

/// Posts sends of the words that stand at the start of the sender's memory, one of them each.
fn post_words(end: &End, count: usize, flags: SendFlags) -> (usize, Option<Rejected>) {
    let sges: Vec<_> = (0..count).map(|n| [end.sge(8 * n, 8)]).collect();
    let list: Vec<_> =
        sges.iter().zip(0..).map(|(sge, n)| Wr { flags, ..wr(n, Opcode::Send, sge) }).collect();
    post_list(end, &list)
}

fn words(end: &End, count: u64) {
    for n in 0..count {
        end.memory.fill(8 * n as usize, &(n * 77).to_ne_bytes());
    }
}

fn ended(completions: &[Completion]) -> Vec<(u64, Status)> {
    completions.iter().map(|completion| (completion.wr_id, completion.status)).collect()
}

pub fn a_long_list_arrives_in_order_whoever_it_is_for(carrier: Carrier) {
    let fabric = carrier();
    let (node, far) = (fabric.open(0), fabric.open(1));
    // To another device's queue pair, to one's own, and to oneself by one completion queue for everything.
    for way in 0..3 {
        let cq = node.cq(2 * DEEP, None, 1);
        let one = deep(&node, QpType::Rc, &cq);
        let other = match way {
            0 => deep(&far, QpType::Rc, &far.cq(2 * DEEP, None, 1)),
            1 => deep(&node, QpType::Rc, &node.cq(2 * DEEP, None, 1)),
            _ => deep(&node, QpType::Rc, &cq),
        };
        connect_ends(&one, &other);
        words(&one, u64::from(DEEP));
        for n in 0..DEEP as usize {
            other.receive(1000 + n as u64, 8 * n, 8);
        }
        assert_eq!(post_words(&one, DEEP as usize, SendFlags::SIGNALED), (DEEP as usize, None));
        fabric.settle();
        let (mut sent, mut received) = (poll_all(&one.cq), poll_all(&other.cq));
        if way == 2 {
            (received, sent) = sent.into_iter().partition(|completion| completion.wr_id >= 1000);
        }
        let good =
            |from: u64| (from..from + u64::from(DEEP)).map(|n| (n, Status::Success)).collect::<Vec<_>>();
        assert_eq!(ended(&sent), good(0), "way {way}");
        assert_eq!(ended(&received), good(1000), "way {way}");
        assert_eq!(other.memory.bytes(0, 8 * DEEP as usize), one.memory.bytes(0, 8 * DEEP as usize));
    }
}

pub fn a_receiver_that_is_not_ready_gets_the_rest_later(carrier: Carrier) {
    let fabric = carrier();
    let (one, other) = deep_pair(&fabric.pair());
    words(&one, 30);
    for n in 0..10 {
        other.receive(n, 8 * n as usize, 8);
    }
    post_words(&one, 30, SendFlags::SIGNALED);
    fabric.settle();
    assert_eq!(poll_all(&other.cq).len(), 10);
    assert_eq!(poll_all(&one.cq).len(), 10);
    for n in 10..30 {
        other.receive(n, 8 * n as usize, 8);
    }
    for n in 10..30 {
        one.done(n);
        other.done(n);
    }
    assert_eq!(other.memory.bytes(0, 240), one.memory.bytes(0, 240));
}

pub fn small_and_large_and_other_requests_keep_their_order(carrier: Carrier) {
    let fabric = carrier();
    let (one, other) = deep_pair(&fabric.pair());
    one.memory.fill(0, &[1; 8192]);
    let there =
        |offset| Operands::Remote { addr: other.memory.addr(offset), rkey: other.region.rkey, length: 0 };
    for n in 0..5 {
        other.receive(n, 16_384, 8192);
    }
    let (small, large, back) = ([one.sge(0, 8)], [one.sge(0, 8192)], [one.sge(20_000, 8)]);
    let list = [
        wr(0, Opcode::Send, &small),
        Wr { flags: SendFlags::NONE, ..wr(1, Opcode::Send, &small) },
        Wr { operands: there(0), ..wr(2, Opcode::RdmaWrite, &small) },
        Wr { imm_or_key: 9, ..wr(3, Opcode::SendWithImm, &small) },
        wr(4, Opcode::Send, &large),
        Wr { operands: there(0), ..wr(5, Opcode::RdmaRead, &back) },
        Wr {
            data: Data::Inline(&[7; 20]),
            flags: SendFlags::SIGNALED.union(SendFlags::INLINE),
            ..wr(6, Opcode::Send, &[])
        },
    ];
    assert_eq!(post_list(&one, &list), (7, None));
    fabric.settle();
    let numbers: Vec<_> = poll_all(&one.cq).iter().map(|c| c.wr_id).collect();
    assert_eq!(numbers, [0, 2, 3, 4, 5, 6]);
    let lengths: Vec<_> = poll_all(&other.cq).iter().map(|c| (c.wr_id, c.byte_len, c.imm_or_key)).collect();
    assert_eq!(lengths, [(0, 8, 0), (1, 8, 0), (2, 8, 9), (3, 8192, 0), (4, 20, 0)]);
    assert_eq!(one.memory.bytes(20_000, 8), [1; 8]);
    assert_eq!(other.memory.bytes(16_384, 21), [[7; 20].as_slice(), &[1]].concat());
}

pub fn what_is_wrong_ends_the_list_there_and_nothing_before(carrier: Carrier) {
    let fabric = carrier();
    let nodes = fabric.pair();
    // The sender's key, the receiver's key, a buffer too short: status of the request, and of the receive
    // request.
    for (fault, sent, received) in [
        (0, Status::LocProtErr, None),
        (1, Status::RemOpErr, Some(Status::LocProtErr)),
        (2, Status::RemInvReqErr, Some(Status::LocLenErr)),
    ] {
        let (one, other) = deep_pair(&nodes);
        for n in 0..6 {
            let mut sge = other.sge(8 * n as usize, 8);
            match (fault, n) {
                (1, 3) => sge.lkey ^= 0x100_0000,
                (2, 3) => sge.length = 4,
                _ => {}
            }
            other.qp.post_receive(n, &[sge]).unwrap();
        }
        let mut sges = [[one.sge(0, 8)]; 6];
        if fault == 0 {
            sges[3][0].lkey ^= 1;
        }
        let list: Vec<_> = sges.iter().zip(0..).map(|(sge, n)| wr(n, Opcode::Send, sge)).collect();
        post_list(&one, &list);
        fabric.settle();
        let (good, flushed) = (Status::Success, Status::WrFlushErr);
        let statuses = |end: &End| poll_all(&end.cq).iter().map(|c| c.status).collect::<Vec<_>>();
        assert_eq!(statuses(&one), [good, good, good, sent, flushed, flushed], "fault {fault}");
        let expected = match received {
            None => vec![good; 3],
            Some(status) => vec![good, good, good, status, flushed, flushed],
        };
        assert_eq!(statuses(&other), expected, "fault {fault}");
        assert_eq!(one.qp.state(), QpState::Err);
    }
}

pub fn a_full_queue_refuses_what_it_has_no_place_for(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let (one, other) = (here.end(QpType::Rc), deep(&there, QpType::Rc, &there.cq(2 * DEEP, None, 1)));
    connect_ends(&one, &other);
    for n in 0..100 {
        other.receive(n, 0, 8);
    }
    // 16 that nobody has polled, and no more.
    assert_eq!(post_words(&one, 20, SendFlags::SIGNALED), (16, Some(Rejected::Full)));
    fabric.settle();
    assert_eq!(poll_all(&other.cq).len(), 16);
    assert_eq!(post_words(&one, 1, SendFlags::NONE), (0, Some(Rejected::Full)));
    assert_eq!(poll_all(&one.cq).len(), 16);
    // The same without completions, which give nothing back.
    assert_eq!(post_words(&one, 40, SendFlags::NONE), (16, Some(Rejected::Full)));
    fabric.settle();
    assert_eq!(poll_all(&other.cq).len(), 16);
    assert_eq!((poll_all(&one.cq).len(), one.qp.send_room()), (0, 0));
}

pub fn datagrams_of_a_list_go_to_many(carrier: Carrier) {
    let fabric = carrier();
    let (node, far) = (fabric.open(0), fabric.open(1));
    let one = deep(&node, QpType::Ud, &node.cq(2 * DEEP, None, 1));
    let ends: Vec<_> = [&node, &far, &far].map(|node| deep(node, QpType::Ud, &node.cq(DEEP, None, 1))).into();
    for end in ends.iter().chain([&one]) {
        bring_up(&end.qp, &attributes(0), QpState::Rts);
    }
    for end in &ends {
        for n in 0..20 {
            end.receive(n, 64 * n as usize, 64);
        }
    }
    words(&one, 40);
    let sges: Vec<_> = (0..40).map(|n| [one.sge(8 * n, 8)]).collect();
    let to = |n: usize| ends[n % 7 % 3].datagrams();
    let list: Vec<_> = sges
        .iter()
        .enumerate()
        .map(|(n, sge)| Wr { datagram: to(n), ..wr(n as u64, Opcode::Send, sge) })
        .collect();
    assert_eq!(post_list(&one, &list), (40, None));
    fabric.settle();
    assert_eq!(poll_all(&one.cq).len(), 40);
    for (place, end) in ends.iter().enumerate() {
        let expected: Vec<u64> = (0..40).filter(|n| n % 7 % 3 == place).map(|n| n as u64 * 77).collect();
        let received = poll_all(&end.cq);
        assert!(received.iter().all(|c| c.byte_len == 48 && c.src_qp == one.qp.qp_num()));
        let got: Vec<_> = (0..received.len()).map(|n| end.memory.word(64 * n + 40)).collect();
        assert_eq!(got, expected);
    }
}

pub fn a_bell_rings_once_for_a_list(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let channel = Channel::new(&there.device).unwrap();
    let cq = there.cq(64, Some(&channel), 5);
    let (one, other) = (here.end(QpType::Rc), deep(&there, QpType::Rc, &cq));
    connect_ends(&one, &other);
    for n in 0..12 {
        other.receive(n, 0, 8);
    }
    set_nonblocking(channel.fd());
    cq.arm(false).unwrap();
    post_words(&one, 6, SendFlags::NONE);
    fabric.settle();
    assert_eq!(channel.next().unwrap(), 5);
    assert!(channel.next().is_err());
    assert_eq!(poll_all(&cq).len(), 6);
    // Solicited: by the third of them.
    cq.arm(true).unwrap();
    let sges = [one.sge(0, 8)];
    let list: Vec<_> = (0..6)
        .map(|n| {
            let flags = if n == 2 { SendFlags::SOLICITED } else { SendFlags::NONE };
            Wr { flags, ..wr(n, Opcode::Send, &sges) }
        })
        .collect();
    post_list(&one, &list[..2]);
    fabric.settle();
    assert!(channel.next().is_err());
    post_list(&one, &list[2..]);
    fabric.settle();
    assert_eq!(channel.next().unwrap(), 5);
    assert!(channel.next().is_err());
    assert_eq!(poll_all(&cq).len(), 6);
}

pub fn a_full_completion_queue_overruns_within_a_list(carrier: Carrier) {
    let fabric = carrier();
    let (node, far) = (fabric.open(0), fabric.open(1));
    let (one, other) = (node.end(QpType::Rc), deep(&far, QpType::Rc, &far.cq(4, None, 1)));
    connect_ends(&one, &other);
    for n in 0..10 {
        other.receive(n, 0, 8);
    }
    post_words(&one, 10, SendFlags::SIGNALED);
    fabric.settle();
    assert_eq!(poll_all(&other.cq).len(), 4);
    let statuses: Vec<_> = poll_all(&one.cq).iter().map(|c| c.status).collect();
    assert_eq!(statuses[..4], [Status::Success; 4]);
    assert_eq!(statuses[4], Status::RemOpErr);
    assert!(statuses[5..].iter().all(|status| *status == Status::WrFlushErr) && statuses.len() == 10);
    let events = [far.event(), far.event()];
    assert!(events.contains(&Event::CqErr) && events.contains(&Event::QpFatal), "{events:?}");

    // One that does not mind loses what has no room.
    let ignores = CqFlags { ignore_overrun: true, ..CqFlags::default() };
    let cq = CompletionQueue::new(&far.device, 4, None, &far.events, 1, ignores).unwrap();
    let (one, other) = (node.end(QpType::Rc), deep(&far, QpType::Rc, &cq));
    connect_ends(&one, &other);
    for n in 0..10 {
        other.receive(n, 0, 8);
    }
    post_words(&one, 10, SendFlags::SIGNALED);
    fabric.settle();
    assert_eq!(poll_all(&one.cq).len(), 10);
    assert_eq!(poll_all(&other.cq).len(), 4);
}
