//! Completion channels and asynchronous events.

use std::io::ErrorKind;

use softrdma::device::{Attributes, Channel, QueuePair, Wr};
use softrdma::rules::verbs::{Attr, Event, Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::device::*;
use softrdma_testing::thread::asleep;

/// A sender, and a receiver with a channel.
fn with_channel() -> (Folder, Node, End, End, std::sync::Arc<Channel>) {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    let one = node.end(QpType::Rc);
    let cq = node.cq(64, Some(&channel), 42);
    let other = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let other = node.end_of(other, cq);
    connect(&one.qp, &other.qp);
    for wr_id in 0..16 {
        other.receive(wr_id, 0, 100);
    }
    (folder, node, one, other, channel)
}

fn send(end: &End, solicited: bool) {
    let flags = if solicited { SendFlags::SOLICITED } else { SendFlags::NONE };
    end.qp.post_send(&Wr { flags, ..wr(0, Opcode::Send, &[]) }).unwrap();
}

#[test]
// rule: notify-once
fn an_armed_queue_wakes_once() {
    let (_folder, _node, one, other, channel) = with_channel();
    send(&one, false);
    assert!(!readable(channel.fd(), 0), "not armed");
    other.cq.arm(false).unwrap();
    assert!(!readable(channel.fd(), 0), "only what comes counts");
    send(&one, false);
    send(&one, false);
    assert!(readable(channel.fd(), 0));
    assert_eq!(channel.next().unwrap(), 42);
    assert!(!readable(channel.fd(), 0));
    set_nonblocking(channel.fd());
    assert_eq!(channel.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn an_event_survives_arming_again() {
    let (_folder, _node, one, other, channel) = with_channel();
    set_nonblocking(channel.fd());
    for _ in 0..2 {
        other.cq.arm(false).unwrap();
        send(&one, false);
    }
    other.cq.arm(false).unwrap();
    assert_eq!((channel.next().unwrap(), channel.next().unwrap()), (42, 42));
    assert!(!readable(channel.fd(), 0));
    send(&one, false);
    assert_eq!(channel.next().unwrap(), 42);
    assert!(!readable(channel.fd(), 0));
}

#[test]
// rule: notify-solicited
fn only_solicited_completions_wake_who_asked_for_them() {
    let (_folder, _node, one, other, channel) = with_channel();
    other.cq.arm(true).unwrap();
    send(&one, false);
    assert!(!readable(channel.fd(), 0));
    send(&one, true);
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

#[test]
fn a_sleeper_is_woken() {
    let (_folder, _node, one, other, channel) = with_channel();
    for _ in 0..10 {
        other.cq.arm(false).unwrap();
        std::thread::scope(|s| {
            let (sleeper, _) = asleep(s, || channel.next().unwrap());
            assert!(!sleeper.is_finished());
            send(&one, false);
            assert_eq!(sleeper.join().unwrap(), 42);
        });
        other.poll();
    }
}

#[test]
fn one_channel_serves_many_queues() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    set_nonblocking(channel.fd());
    let ends: Vec<End> = (0..10)
        .map(|n| {
            let cq = node.cq(16, Some(&channel), n);
            let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
            bring_up(&qp, &attributes(77), QpState::Rts);
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

#[test]
fn two_who_take_events_at_once_leave_no_byte_behind() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    let ends = [0, 1].map(|n| {
        let cq = node.cq(16, Some(&channel), n);
        let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
        bring_up(&qp, &attributes(77), QpState::Rts);
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

#[test]
// rule: event-established
fn the_first_message_in_rtr_establishes() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    bring_up(&one.qp, &attributes(other.qp.qp_num()), QpState::Rts);
    bring_up(&other.qp, &attributes(one.qp.qp_num()), QpState::Rtr);
    other.receive(1, 0, 8);
    other.receive(2, 0, 8);
    one.send(3, 0, 8);
    assert_eq!(node.events.next().unwrap(), (Event::CommEst, 7));
    one.send(4, 0, 8);
    assert!(!node.has_event());
    set_nonblocking(node.events.fd());
    assert_eq!(node.events.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn events_of_an_object_go_with_it() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    let drain = Attributes { state: QpState::Sqd, en_sqd_async_notify: true, ..Attributes::default() };
    end.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert!(node.has_event());
    end.qp.destroy().unwrap();
    assert!(!node.has_event());
}

#[test]
fn who_sleeps_is_woken_by_what_it_sent_before() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(64, Some(&channel), 42);
    let one = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let (one, other) = (node.end_of(one, cq), node.end(QpType::Rc));
    connect(&one.qp, &other.qp);
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
