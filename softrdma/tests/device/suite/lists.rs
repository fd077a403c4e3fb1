//! Lists of requests, of which the small ones go together.

use std::sync::Arc;

use softrdma::device::{
    Capabilities, Channel, CompletionQueue, CqFlags, Data, Datagram, QpInit, QueuePair, Wr,
};
use softrdma::queues::shared::Object;
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport as _;
use softrdma::rules::completion::Completion;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::device::*;

/// Requests that each queue holds here: more than go together.
const DEEP: u32 = 200;

/// An end with deep queues.
fn deep(node: &Node, qp_type: QpType, cq: &Arc<CompletionQueue>) -> End {
    let init = node.init(qp_type, cq);
    let cap = Capabilities { max_send_wr: DEEP, max_recv_wr: DEEP, ..init.cap };
    node.end_of(QueuePair::new(&node.device, &QpInit { cap, ..init }).unwrap(), cq.clone())
}

fn deep_pair(node: &Node) -> (End, End) {
    let end = || deep(node, QpType::Rc, &node.cq(2 * DEEP, None, 1));
    let (one, other) = (end(), end());
    connect(&one.qp, &other.qp);
    (one, other)
}

/// Posts a list as `ibv_post_send` does: what the first that is refused was refused for, and how many were
/// posted.
fn post(end: &End, list: &[Wr<'_>]) -> (usize, Option<Rejected>) {
    let mut sending = end.qp.sending();
    for (count, wr) in list.iter().enumerate() {
        if let Err(rejected) = sending.accept(wr) {
            return (count, Some(rejected));
        }
        sending.post(wr);
    }
    (list.len(), None)
}

/// Posts sends of the words that stand at the start of the sender's memory, one of them each.
fn post_words(end: &End, count: usize, flags: SendFlags) -> (usize, Option<Rejected>) {
    let sges: Vec<_> = (0..count).map(|n| [end.sge(8 * n, 8)]).collect();
    let list: Vec<_> =
        sges.iter().zip(0..).map(|(sge, n)| Wr { flags, ..wr(n, Opcode::Send, sge) }).collect();
    post(end, &list)
}

fn words(end: &End, count: u64) {
    for n in 0..count {
        end.memory.fill(8 * n as usize, &(n * 77).to_ne_bytes());
    }
}

fn all(cq: &CompletionQueue) -> Vec<Completion> {
    std::iter::from_fn(|| poll(cq)).collect()
}

fn ended(completions: &[Completion]) -> Vec<(u64, Status)> {
    completions.iter().map(|completion| (completion.wr_id, completion.status)).collect()
}

#[test]
fn a_long_list_arrives_in_order_whoever_it_is_for() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    // To another process's queue pair, to one's own, and to oneself by one completion queue for everything.
    for way in 0..3 {
        let cq = node.cq(2 * DEEP, None, 1);
        let far = Node::new(&folder);
        let one = deep(&node, QpType::Rc, &cq);
        let other = match way {
            0 => deep(&far, QpType::Rc, &far.cq(2 * DEEP, None, 1)),
            1 => deep(&node, QpType::Rc, &node.cq(2 * DEEP, None, 1)),
            _ => deep(&node, QpType::Rc, &cq),
        };
        connect(&one.qp, &other.qp);
        words(&one, u64::from(DEEP));
        for n in 0..DEEP as usize {
            other.receive(1000 + n as u64, 8 * n, 8);
        }
        assert_eq!(post_words(&one, DEEP as usize, SendFlags::SIGNALED), (DEEP as usize, None));
        let (mut sent, mut received) = (all(&one.cq), all(&other.cq));
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

#[test]
fn a_receiver_that_is_not_ready_gets_the_rest_later() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = deep_pair(&node);
    words(&one, 30);
    for n in 0..10 {
        other.receive(n, 8 * n as usize, 8);
    }
    post_words(&one, 30, SendFlags::SIGNALED);
    assert_eq!(all(&other.cq).len(), 10);
    assert_eq!(all(&one.cq).len(), 10);
    for n in 10..30 {
        other.receive(n, 8 * n as usize, 8);
    }
    for n in 10..30 {
        one.done(n);
        other.done(n);
    }
    assert_eq!(other.memory.bytes(0, 240), one.memory.bytes(0, 240));
}

#[test]
fn small_and_large_and_other_requests_keep_their_order() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = deep_pair(&node);
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
    assert_eq!(post(&one, &list), (7, None));
    let numbers: Vec<_> = all(&one.cq).iter().map(|c| c.wr_id).collect();
    assert_eq!(numbers, [0, 2, 3, 4, 5, 6]);
    let lengths: Vec<_> = all(&other.cq).iter().map(|c| (c.wr_id, c.byte_len, c.imm_or_key)).collect();
    assert_eq!(lengths, [(0, 8, 0), (1, 8, 0), (2, 8, 9), (3, 8192, 0), (4, 20, 0)]);
    assert_eq!(one.memory.bytes(20_000, 8), [1; 8]);
    assert_eq!(other.memory.bytes(16_384, 21), [[7; 20].as_slice(), &[1]].concat());
}

#[test]
fn what_is_wrong_ends_the_list_there_and_nothing_before() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    // The sender's key, the receiver's key, a buffer too short: status of the request, and of the receive
    // request.
    for (fault, sent, received) in [
        (0, Status::LocProtErr, None),
        (1, Status::RemOpErr, Some(Status::LocProtErr)),
        (2, Status::RemInvReqErr, Some(Status::LocLenErr)),
    ] {
        let (one, other) = deep_pair(&node);
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
        post(&one, &list);
        let (good, flushed) = (Status::Success, Status::WrFlushErr);
        let statuses = |end: &End| all(&end.cq).iter().map(|c| c.status).collect::<Vec<_>>();
        assert_eq!(statuses(&one), [good, good, good, sent, flushed, flushed], "fault {fault}");
        let expected = match received {
            None => vec![good; 3],
            Some(status) => vec![good, good, good, status, flushed, flushed],
        };
        assert_eq!(statuses(&other), expected, "fault {fault}");
        assert_eq!(one.qp.state(), QpState::Err);
    }
}

#[test]
fn a_full_queue_refuses_what_it_has_no_place_for() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), deep(&node, QpType::Rc, &node.cq(2 * DEEP, None, 1)));
    connect(&one.qp, &other.qp);
    for n in 0..100 {
        other.receive(n, 0, 8);
    }
    // 16 that nobody has polled, and no more.
    assert_eq!(post_words(&one, 20, SendFlags::SIGNALED), (16, Some(Rejected::Full)));
    assert_eq!(all(&other.cq).len(), 16);
    assert_eq!(post_words(&one, 1, SendFlags::NONE), (0, Some(Rejected::Full)));
    assert_eq!(all(&one.cq).len(), 16);
    // The same without completions, which give nothing back.
    assert_eq!(post_words(&one, 40, SendFlags::NONE), (16, Some(Rejected::Full)));
    assert_eq!(all(&other.cq).len(), 16);
    assert_eq!((all(&one.cq).len(), one.qp.send_room()), (0, 0));
}

#[test]
fn datagrams_of_a_list_go_to_many() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let far = Node::new(&folder);
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
    let to = |n: usize| ends[n % 7 % 3].qp.qp_num();
    let list: Vec<_> = sges
        .iter()
        .enumerate()
        .map(|(n, sge)| Wr {
            datagram: Some(Datagram { qp_num: to(n), qkey: QKEY, grh: &[0x60; 40], dgid: GID }),
            ..wr(n as u64, Opcode::Send, sge)
        })
        .collect();
    assert_eq!(post(&one, &list), (40, None));
    assert_eq!(all(&one.cq).len(), 40);
    for (place, end) in ends.iter().enumerate() {
        let expected: Vec<u64> = (0..40).filter(|n| n % 7 % 3 == place).map(|n| n as u64 * 77).collect();
        let received = all(&end.cq);
        assert!(received.iter().all(|c| c.byte_len == 48 && c.src_qp == one.qp.qp_num()));
        let got: Vec<_> = (0..received.len()).map(|n| end.memory.word(64 * n + 40)).collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn a_target_that_cannot_be_had_keeps_nothing_back_and_mixes_up_no_order() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    // Queue pairs 0 and 1, and their completion queues.
    let [reached, held] = [0, 1].map(|_| deep(&node, QpType::Ud, &node.cq(DEEP, None, 1)));
    let one = deep(&node, QpType::Ud, &node.cq(2 * DEEP, None, 1));
    for end in [&reached, &held, &one] {
        bring_up(&end.qp, &attributes(0), QpState::Rts);
        for n in 0..20 {
            end.receive(n, 64 * n as usize, 64);
        }
    }
    let sge = [one.sge(0, 8)];
    let to = |n: u64, end: &End| Wr {
        datagram: Some(Datagram { qp_num: end.qp.qp_num(), qkey: QKEY, grh: &[0x60; 40], dgid: GID }),
        ..wr(n, Opcode::Send, &sge)
    };
    post(&one, &[to(0, &reached), to(1, &held)]);
    assert_eq!(all(&one.cq).len(), 2);
    for object in [Object::Qp(1), Object::Cq(1)] {
        assert_eq!(there.lock(object), Ok(Locked::Clean));
        let list = [to(10, &reached), to(11, &reached), to(12, &held), to(13, &reached)];
        assert_eq!(post(&one, &list), (4, None));
        there.unlock(object);
        let numbers: Vec<_> = all(&one.cq).iter().map(|completion| completion.wr_id).collect();
        assert_eq!(numbers, [10, 11, 12, 13]);
        assert_eq!(all(&reached.cq).len(), if object == Object::Qp(1) { 4 } else { 3 });
    }
    // What was left half done is whole again.
    post(&one, &[to(20, &held)]);
    assert_eq!(all(&held.cq).len(), 2);
}

#[test]
fn a_bell_rings_once_for_a_list() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(64, Some(&channel), 5);
    let (one, other) = (node.end(QpType::Rc), deep(&node, QpType::Rc, &cq));
    connect(&one.qp, &other.qp);
    for n in 0..12 {
        other.receive(n, 0, 8);
    }
    set_nonblocking(channel.fd());
    cq.arm(false).unwrap();
    post_words(&one, 6, SendFlags::NONE);
    assert_eq!(channel.next().unwrap(), 5);
    assert!(channel.next().is_err());
    assert_eq!(all(&cq).len(), 6);
    // Solicited: by the third of them.
    cq.arm(true).unwrap();
    let sges = [one.sge(0, 8)];
    let list: Vec<_> = (0..6)
        .map(|n| {
            let flags = if n == 2 { SendFlags::SOLICITED } else { SendFlags::NONE };
            Wr { flags, ..wr(n, Opcode::Send, &sges) }
        })
        .collect();
    post(&one, &list[..2]);
    assert!(channel.next().is_err());
    post(&one, &list[2..]);
    assert_eq!(channel.next().unwrap(), 5);
    assert!(channel.next().is_err());
    assert_eq!(all(&cq).len(), 6);
}

#[test]
fn a_full_completion_queue_overruns_within_a_list() {
    let folder = Folder::new();
    let (node, far) = (Node::new(&folder), Node::new(&folder));
    let (one, other) = (node.end(QpType::Rc), deep(&far, QpType::Rc, &far.cq(4, None, 1)));
    connect(&one.qp, &other.qp);
    for n in 0..10 {
        other.receive(n, 0, 8);
    }
    post_words(&one, 10, SendFlags::SIGNALED);
    assert_eq!(all(&other.cq).len(), 4);
    let statuses: Vec<_> = all(&one.cq).iter().map(|c| c.status).collect();
    assert_eq!(statuses[..4], [Status::Success; 4]);
    assert_eq!(statuses[4], Status::RemOpErr);
    assert!(statuses[5..].iter().all(|status| *status == Status::WrFlushErr) && statuses.len() == 10);
    let events = [far.event(), far.event()];
    assert!(events.contains(&Event::CqErr) && events.contains(&Event::QpFatal), "{events:?}");

    // One that does not mind loses what has no room.
    let ignores = CqFlags { ignore_overrun: true, ..CqFlags::default() };
    let cq = CompletionQueue::new(&far.device, 4, None, &far.events, 1, ignores).unwrap();
    let (one, other) = (node.end(QpType::Rc), deep(&far, QpType::Rc, &cq));
    connect(&one.qp, &other.qp);
    for n in 0..10 {
        other.receive(n, 0, 8);
    }
    post_words(&one, 10, SendFlags::SIGNALED);
    assert_eq!(all(&one.cq).len(), 10);
    assert_eq!(all(&other.cq).len(), 4);
}
