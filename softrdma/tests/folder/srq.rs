//! Shared receive queues whose requests come back from queue pairs that held them.

use softrdma::device::{QpInit, QueuePair};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;

/// Requests that queue pairs held come back when these are reset, however many were posted in their place.
#[test]
fn a_shared_queue_loses_no_request_that_comes_back() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let srq = node.shared_queue(3);
    let home = node.end(QpType::Rc);
    let target = || {
        let cq = node.cq(16, None, 1);
        let init = QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &cq) };
        node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq)
    };
    let pairs = [(node.end(QpType::Rc), target()), (node.end(QpType::Rc), target())];
    (1..4).for_each(|wr_id| post_shared(&srq, wr_id, &home, wr_id as usize * 4096, 4096));
    // Memory that cannot be read any more: the message is lost when its target holds a request already. It
    // stays where it is, so that no other test has memory there.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: fresh memory, which nobody else uses.
    let gone = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    let region = node.device.register(node.pd, gone as u64, 4096, gone as u64, ALL).unwrap();
    // SAFETY: as above.
    unsafe { libc::mprotect(gone, 4096, libc::PROT_NONE) };
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
    // SAFETY: as above.
    unsafe { libc::munmap(gone, 4096) };
}
