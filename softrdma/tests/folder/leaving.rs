//! Devices that a process leaves, and those of a forked child.

use softrdma::device::QueuePair;
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{QpState, QpType};
use softrdma_testing::device::*;

#[test]
fn a_forked_child_has_its_own_device() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    let child = Child::run(|| {
        assert!(!node.device.is_mine());
        let own = Node::new(&folder);
        assert!(own.device.is_mine());
        let other = own.end(QpType::Rc);
        assert_ne!(other.qp.qp_num() >> 14, end.qp.qp_num() >> 14);
        assert!(QueuePair::new(&node.device, &node.init(QpType::Rc, &end.cq)).is_err());
    });
    assert_eq!(child.wait(), 0);
    assert!(node.device.is_mine());
    bring_up(&end.qp, &attributes(77), QpState::Rts);
}

#[test]
fn a_device_stays_where_a_thread_may_be_at_work() {
    let folder = Folder::new();
    let (a, b) = (Node::new(&folder), Node::new(&folder));
    let (one, other) = (a.end(QpType::Rc), b.end(QpType::Rc));
    connect(&one.qp, &other.qp);
    other.receive(1, 0, 64);
    let asked = || {
        assert_eq!(one.try_send(2, 64, 8), Err(Rejected::State), "nobody begins meanwhile");
        false
    };
    assert!(!a.device.leave_if(asked) && a.device.is_mine());
    one.send(3, 64, 8);
    one.done(3);
    assert!(a.device.leave_if(|| true) && !a.device.is_mine());
}

#[test]
fn a_device_that_left_posts_nothing_and_finds_nothing() {
    let folder = Folder::new();
    let (leaver, stayer) = (Node::new(&folder), Node::new(&folder));
    let (a, b) = (leaver.end(QpType::Rc), stayer.end(QpType::Rc));
    connect(&a.qp, &b.qp);
    for (wr_id, end) in [(1, &a), (2, &b)] {
        end.receive(wr_id, 0, 64);
    }
    // A message that nobody polls before the device leaves.
    b.send(3, 64, 8);
    b.done(3);
    assert!(leaver.device.leave() && !leaver.device.is_mine());
    assert_eq!(a.try_send(4, 64, 8), Err(Rejected::State));
    assert_eq!(a.qp.post_receive(5, &[a.sge(0, 8)]), Err(Rejected::State));
    assert!(a.try_poll().is_none() && b.try_poll().is_none());
    assert!(!leaver.device.leave());
}
