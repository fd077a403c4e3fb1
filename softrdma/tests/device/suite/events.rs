//! Completion channels and asynchronous events.

use std::io::ErrorKind;
use std::sync::Arc;

use softrdma::device::{Attributes, Channel, QueuePair, Wr};
use softrdma::rules::verbs::{Attr, Event, Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, Fabric};
use softrdma_testing::thread::asleep;

super::suite! {
    events:
    an_armed_queue_wakes_once,
    an_event_survives_arming_again,
    only_solicited_completions_wake_who_asked_for_them,
    a_sleeper_is_woken,
    one_channel_serves_many_queues,
    two_who_take_events_at_once_leave_no_byte_behind,
    the_first_message_in_rtr_establishes,
    events_of_an_object_go_with_it,
    who_sleeps_is_woken_by_what_it_sent_before,
}

/// A sender, and a receiver with a channel.
fn with_channel(carrier: Carrier) -> (Box<dyn Fabric>, [Node; 2], End, End, Arc<Channel>) {
    let fabric = carrier();
    let nodes = fabric.pair();
    let channel = Channel::new(&nodes[1].device).unwrap();
    let one = nodes[0].end(QpType::Rc);
    let other = end_with(&nodes[1], &channel);
    connect_ends(&one, &other);
    for wr_id in 0..16 {
        other.receive(wr_id, 0, 100);
    }
    (fabric, nodes, one, other, channel)
}

/// An end whose completions come with an event of the cookie 42.
fn end_with(node: &Node, channel: &Arc<Channel>) -> End {
    let cq = node.cq(64, Some(channel), 42);
    let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    node.end_of(qp, cq)
}

fn send(fabric: &dyn Fabric, end: &End, solicited: bool) {
    let flags = if solicited { SendFlags::SOLICITED } else { SendFlags::NONE };
    end.qp.post_send(&Wr { flags, ..wr(0, Opcode::Send, &[]) }).unwrap();
    fabric.settle();
}

// rule: notify-once
pub fn an_armed_queue_wakes_once(carrier: Carrier) {
    let (fabric, _nodes, one, other, channel) = with_channel(carrier);
    send(&*fabric, &one, false);
    assert!(!readable(channel.fd(), 0), "not armed");
    other.cq.arm(false).unwrap();
    assert!(!readable(channel.fd(), 0), "only what comes counts");
    send(&*fabric, &one, false);
    send(&*fabric, &one, false);
    assert!(readable(channel.fd(), 0));
    assert_eq!(channel.next().unwrap(), 42);
    assert!(!readable(channel.fd(), 0));
    set_nonblocking(channel.fd());
    assert_eq!(channel.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

pub fn an_event_survives_arming_again(carrier: Carrier) {
    let (fabric, _nodes, one, other, channel) = with_channel(carrier);
    set_nonblocking(channel.fd());
    for _ in 0..2 {
        other.cq.arm(false).unwrap();
        send(&*fabric, &one, false);
    }
    other.cq.arm(false).unwrap();
    assert_eq!((channel.next().unwrap(), channel.next().unwrap()), (42, 42));
    assert!(!readable(channel.fd(), 0));
    send(&*fabric, &one, false);
    assert_eq!(channel.next().unwrap(), 42);
    assert!(!readable(channel.fd(), 0));
}

// rule: notify-solicited
pub fn only_solicited_completions_wake_who_asked_for_them(carrier: Carrier) {
    let (fabric, _nodes, one, other, channel) = with_channel(carrier);
    other.cq.arm(true).unwrap();
    send(&*fabric, &one, false);
    assert!(!readable(channel.fd(), 0));
    send(&*fabric, &one, true);
    assert!(readable(channel.fd(), 0));
    assert_eq!(channel.next().unwrap(), 42);
    // An error counts as solicited.
    other.cq.arm(true).unwrap();
    set_state(&other.qp, QpState::Err);
    assert_eq!(channel.next().unwrap(), 42);
    // Asking for solicited ones takes nothing back.
    other.cq.arm(false).unwrap();
    other.cq.arm(true).unwrap();
    other.receive(20, 0, 8);
    assert_eq!(channel.next().unwrap(), 42);
}

pub fn a_sleeper_is_woken(carrier: Carrier) {
    let (fabric, _nodes, one, other, channel) = with_channel(carrier);
    for _ in 0..10 {
        other.cq.arm(false).unwrap();
        std::thread::scope(|s| {
            let (sleeper, _) = asleep(s, || channel.next().unwrap());
            assert!(!sleeper.is_finished());
            send(&*fabric, &one, false);
            assert_eq!(sleeper.join().unwrap(), 42);
        });
        other.poll();
    }
}

pub fn one_channel_serves_many_queues(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let channel = Channel::new(&node.device).unwrap();
    set_nonblocking(channel.fd());
    let ends: Vec<End> = (0..10)
        .map(|n| {
            let cq = node.cq(16, Some(&channel), n);
            let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
            bring_up(&qp, &attributes_at(node.gid, 77), QpState::Rts);
            set_state(&qp, QpState::Err);
            cq.arm(false).unwrap();
            node.end_of(qp, cq)
        })
        .collect();
    for n in [3, 7, 1] {
        ends[n].receive(1, 0, 8);
    }
    let mut woken = [0; 3].map(|_| channel.next().unwrap());
    woken.sort_unstable();
    assert_eq!(woken, [1, 3, 7]);
    assert!(!readable(channel.fd(), 0));
    // The events of a queue that ends go with it.
    ends[5].receive(1, 0, 8);
    assert!(readable(channel.fd(), 0));
    ends[5].qp.destroy().unwrap();
    ends[5].cq.destroy().unwrap();
    assert!(!readable(channel.fd(), 0));
    assert_eq!(channel.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

pub fn two_who_take_events_at_once_leave_no_byte_behind(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let channel = Channel::new(&node.device).unwrap();
    let ends = [0, 1].map(|n| {
        let cq = node.cq(16, Some(&channel), n);
        let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
        bring_up(&qp, &attributes_at(node.gid, 77), QpState::Rts);
        set_state(&qp, QpState::Err);
        node.end_of(qp, cq)
    });
    for _ in 0..3000 {
        ends.iter().for_each(|end| end.cq.arm(false).unwrap());
        std::thread::scope(|s| {
            let takers = [0, 1].map(|_| s.spawn(|| channel.next().unwrap()));
            ends.iter().for_each(|end| end.receive(1, 0, 8));
            let mut taken = takers.map(|taker| taker.join().unwrap());
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
        });
        assert!(!readable(channel.fd(), 0));
        ends.iter().for_each(|end| assert_eq!(end.poll().wr_id, 1));
    }
}

// rule: event-established
pub fn the_first_message_in_rtr_establishes(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let (one, other) = (here.end(QpType::Rc), there.end(QpType::Rc));
    bring_up(&one.qp, &other.address(), QpState::Rts);
    bring_up(&other.qp, &one.address(), QpState::Rtr);
    other.receive(1, 0, 8);
    other.receive(2, 0, 8);
    one.send(3, 0, 8);
    assert_eq!(there.events.next().unwrap(), (Event::CommEst, 7));
    one.send(4, 0, 8);
    fabric.settle();
    assert!(!there.has_event());
    set_nonblocking(there.events.fd());
    assert_eq!(there.events.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

pub fn events_of_an_object_go_with_it(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes_at(node.gid, 77), QpState::Rts);
    let drain = Attributes { state: QpState::Sqd, en_sqd_async_notify: true, ..Attributes::default() };
    end.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert!(node.has_event());
    end.qp.destroy().unwrap();
    assert!(!node.has_event());
}

pub fn who_sleeps_is_woken_by_what_it_sent_before(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let channel = Channel::new(&here.device).unwrap();
    let (one, other) = (end_with(&here, &channel), there.end(QpType::Rc));
    connect_ends(&one, &other);
    for wr_id in 0..5 {
        one.cq.arm(false).unwrap();
        one.send(wr_id, 0, 8);
        std::thread::scope(|s| {
            let (sleeper, _) = asleep(s, || channel.next().unwrap());
            assert!(!sleeper.is_finished());
            other.receive(wr_id, 0, 8);
            assert_eq!(sleeper.join().unwrap(), 42);
        });
        one.done(wr_id);
    }
    // An answer that never comes wakes as well.
    one.cq.arm(false).unwrap();
    set_state(&other.qp, QpState::Reset);
    one.send(9, 0, 8);
    assert_eq!(channel.next().unwrap(), 42);
    assert_eq!(one.poll().status, Status::RetryExcErr);
}
