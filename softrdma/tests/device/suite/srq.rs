//! Shared receive queues, of XRC too.

use softrdma::device::{QpInit, QueuePair, SharedReceiveQueue, SrqInit, SrqType, Wr, XrcDomain};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::pattern;

pub fn shared(node: &Node, max_wr: u32) -> std::sync::Arc<SharedReceiveQueue> {
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
// rule: event-last-request, event-limit
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
    let queues = [node.xrc_srq(&xrcd, &cq), node.xrc_srq(&xrcd, &cq)];
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
