//! Messages that wait, are refused, or find no room.

use std::time::{Duration, Instant};

use softrdma::device::{Attributes, Data, QueuePair, Wr};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Rejected;
use softrdma::rules::timers::ack_timeout;
use softrdma::rules::verbs::{Attr, Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, pair, pattern};

#[test]
fn a_receiver_that_is_not_ready_is_tried_again() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    one.memory.fill(0, &pattern(5000));
    for wr_id in 0..5 {
        one.send(wr_id, wr_id as usize * 1000, 1000);
    }
    let inline = pattern(50);
    one.qp.post_send(&Wr { data: Data::Inline(&inline), ..wr(5, Opcode::Send, &[]) }).unwrap();
    // Each look tries it again.
    (0..1000).for_each(|_| assert_eq!(one.try_poll(), None));
    for wr_id in 0..6 {
        other.receive(100 + wr_id, 6000 + wr_id as usize * 1000, 1000);
        one.done(wr_id);
        other.done(100 + wr_id);
    }
    assert_eq!(other.memory.bytes(6000, 5000), pattern(5000));
    assert_eq!(other.memory.bytes(11_000, 50), inline);
}

#[test]
fn a_sender_that_sleeps_is_served_by_its_thread() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    one.send(1, 0, 500);
    other.receive(2, 0, 1000);
    other.done(2);
    one.done(1);
}

#[test]
fn a_send_queue_that_waits_is_full_one_day() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    for wr_id in 0..16 {
        one.send(wr_id, 0, 8);
    }
    assert_eq!(one.try_send(16, 0, 8), Err(Rejected::Full));
    for wr_id in 0..16 {
        other.receive(wr_id, 0, 8);
    }
    for wr_id in 0..16 {
        one.done(wr_id);
        other.done(wr_id);
    }
}

#[test]
// rule: rnr-retries
fn rnr_retries_end() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    let set = Attributes { state: QpState::Rts, ..attributes(other.qp.qp_num()) };
    set_state(&one.qp, QpState::Reset);
    bring_up(&one.qp, &Attributes { rnr_retry: 2, ..set }, QpState::Rts);
    one.send(1, 0, 8);
    one.send(2, 0, 8);
    let completion = one.poll();
    assert_eq!((completion.wr_id, completion.status), (1, Status::RnrRetryExcErr));
    let completion = one.poll();
    assert_eq!((completion.wr_id, completion.status), (2, Status::WrFlushErr));
    assert_eq!(one.qp.state(), QpState::Err);
}

#[test]
fn a_peer_that_does_not_answer_is_given_up_in_time() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    set_state(&other.qp, QpState::Reset);
    // Whoever is kept from its processor is late now and then, and not each time.
    let in_time = |_| given_up_after(&one, other.qp.qp_num()) < Duration::from_secs(2);
    assert!((0..20).any(in_time), "late each time");
}

/// How long it takes to give up a peer that does not answer.
fn given_up_after(one: &End, peer: u32) -> Duration {
    set_state(&one.qp, QpState::Reset);
    let few = Attributes { timeout: 12, retry_cnt: 2, ..attributes(peer) };
    bring_up(&one.qp, &few, QpState::Rts);
    let start = Instant::now();
    one.receive(9, 0, 8);
    one.send(1, 0, 8);
    one.send(2, 0, 8);
    let completion = one.poll();
    let waited = start.elapsed();
    assert_eq!((completion.wr_id, completion.status), (1, Status::RetryExcErr));
    assert!(waited >= Duration::from_nanos(3 * ack_timeout(12).unwrap()), "{waited:?}");
    let mut rest = [one.poll(), one.poll()].map(|completion| (completion.wr_id, completion.status));
    rest.sort_by_key(|completion| completion.0);
    assert_eq!(rest, [(2, Status::WrFlushErr), (9, Status::WrFlushErr)]);
    waited
}

#[test]
// rule: status-local-key, rsp-key, event-refused
fn refusals_break_both_sides() {
    let (_folder, [node, _], one, other) = pair(near, QpType::Rc);
    other.receive(5, 0, 8);
    one.remote(1, Opcode::RdmaWrite, 0, 8, (other.memory.addr(0), other.region.rkey ^ 1));
    one.send(2, 0, 8);
    assert_eq!(one.poll().status, Status::RemAccessErr);
    assert_eq!(one.poll().status, Status::WrFlushErr);
    assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Err));
    let completion = other.poll();
    assert_eq!((completion.wr_id, completion.status), (5, Status::WrFlushErr));
    assert_eq!(node.event(), Event::QpAccessErr);

    let (_folder, [node, _], one, other) = pair(near, QpType::Rc);
    other.receive(5, 0, 8);
    one.send(1, 0, 9);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    assert_eq!(other.poll().status, Status::LocLenErr);
    assert!(!node.has_event() || node.event() == Event::QpReqErr);

    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    let wrong = [Sge { lkey: 3, ..one.sge(0, 8) }];
    other.receive(5, 0, 8);
    one.qp.post_send(&wr(1, Opcode::Send, &wrong)).unwrap();
    assert_eq!(one.poll().status, Status::LocProtErr);
    assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Rts));
}

#[test]
fn one_poll_takes_what_broke_and_all_behind_it() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    other.receive(1, 0, 8);
    (2..=5).for_each(|wr_id| other.receive(wr_id, 0, 64));
    one.send(1, 0, 9);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    let mut taken = Vec::new();
    other.cq.poll(16, &mut |completion| taken.push((completion.wr_id, completion.status)));
    assert_eq!(taken[0], (1, Status::LocLenErr));
    assert_eq!(taken[1..], [2, 3, 4, 5].map(|wr_id| (wr_id, Status::WrFlushErr)));
}

#[test]
// rule: qp-drains
fn a_drained_send_queue_stops_and_goes_on() {
    let (_folder, [node, _], one, other) = pair(near, QpType::Rc);
    let drain = Attributes { state: QpState::Sqd, en_sqd_async_notify: true, ..Attributes::default() };
    one.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert_eq!(node.event(), Event::SqDrained);
    one.send(1, 0, 8);
    other.receive(1, 0, 8);
    (0..1000).for_each(|_| assert_eq!(one.try_poll(), None));
    set_state(&one.qp, QpState::Rts);
    one.done(1);
    other.done(1);
    // Under way: drains when it is done.
    one.send(2, 0, 8);
    one.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert!(one.qp.query().sq_draining && !node.has_event());
    one.send(3, 0, 8);
    other.receive(2, 0, 8);
    other.receive(3, 0, 8);
    one.done(2);
    assert_eq!(node.event(), Event::SqDrained);
    assert!(!one.qp.query().sq_draining);
    assert_eq!(one.try_poll(), None);
    set_state(&one.qp, QpState::Rts);
    one.done(3);
}

#[test]
// rule: event-overrun, overrun-breaks
fn a_completion_queue_that_overruns_breaks_its_queue_pairs() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let one = node.end(QpType::Rc);
    let cq = node.cq(4, None, 0);
    let other = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let other = node.end_of(other, cq.clone());
    connect(&one.qp, &other.qp);
    for wr_id in 0..6 {
        other.receive(wr_id, 0, 8);
    }
    for wr_id in 0..5 {
        one.send(wr_id, 0, 8);
    }
    for wr_id in 0..4 {
        one.done(wr_id);
    }
    assert_ne!(one.poll().status, Status::Success);
    let mut events = [node.event(), node.event()];
    events.sort();
    assert_eq!(events, [Event::CqErr, Event::QpFatal]);
    assert_eq!(other.qp.state(), QpState::Err);
    for wr_id in 0..4 {
        assert_eq!(poll(&cq).unwrap().wr_id, wr_id);
    }
}
