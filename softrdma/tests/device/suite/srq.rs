//! Shared receive queues.

use softrdma::device::{QpInit, QueuePair};
use softrdma::rules::verbs::{Event, QpState, QpType};
use softrdma_testing::device::*;
use softrdma_testing::fabric::Carrier;

super::suite! {
    srq:
    a_shared_queue_serves_many_and_tells_of_its_limit,
}

// rule: event-last-request, event-limit
pub fn a_shared_queue_serves_many_and_tells_of_its_limit(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let srq = there.shared_queue(8);
    let senders = [0; 3].map(|_| here.end(QpType::Rc));
    let cq = there.cq(64, None, 0);
    let init = QpInit { srq: Some(srq.clone()), ..there.init(QpType::Rc, &cq) };
    let receivers = [0; 3].map(|_| there.end_of(QueuePair::new(&there.device, &init).unwrap(), cq.clone()));
    for (one, other) in senders.iter().zip(&receivers) {
        connect_ends(one, other);
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
        fabric.settle();
        assert_eq!(there.has_event(), wr_id >= 2, "{wr_id}");
    }
    assert_eq!(there.event(), Event::SrqLimitReached);
    assert_eq!(srq.limit(), 0);
    assert!(!there.has_event());
    // Not ready, then resized, then ready.
    senders[0].send(7, 0, 8);
    srq.modify(None, Some(100)).unwrap();
    post_shared(&srq, 8, &receivers[0], 0, 8);
    senders[0].done(7);
    receivers[0].done(8);
    // The last request of a queue pair in error.
    set_state(&receivers[1].qp, QpState::Err);
    assert_eq!(there.event(), Event::QpLastWqeReached);
}
