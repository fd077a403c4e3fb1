//! Messages that wait, are refused, or find no room.

use std::time::{Duration, Instant};

use softrdma::device::{Attributes, Data, QueuePair, Wr};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Rejected;
use softrdma::rules::timers::ack_timeout;
use softrdma::rules::verbs::{Attr, Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pair, pattern};

super::suite! {
    refusals:
    a_receiver_that_is_not_ready_is_tried_again,
    a_sender_that_sleeps_is_served_by_its_thread,
    a_send_queue_that_waits_is_full_one_day,
    rnr_retries_end,
    a_peer_that_does_not_answer_is_given_up_in_time,
    refusals_break_both_sides,
    one_poll_takes_what_broke_and_all_behind_it,
    a_drained_send_queue_stops_and_goes_on,
    a_completion_queue_that_overruns_breaks_its_queue_pairs,
}

pub fn a_receiver_that_is_not_ready_is_tried_again(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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

pub fn a_sender_that_sleeps_is_served_by_its_thread(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    one.send(1, 0, 500);
    other.receive(2, 0, 1000);
    other.done(2);
    one.done(1);
}

pub fn a_send_queue_that_waits_is_full_one_day(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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

// rule: rnr-retries, flush-order
pub fn rnr_retries_end(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    let set = Attributes { state: QpState::Rts, ..other.address() };
    set_state(&one.qp, QpState::Reset);
    bring_up(&one.qp, &Attributes { rnr_retry: 2, ..set }, QpState::Rts);
    (1..=3).for_each(|wr_id| one.send(wr_id, 0, 8));
    for expected in [(1, Status::RnrRetryExcErr), (2, Status::WrFlushErr), (3, Status::WrFlushErr)] {
        let completion = one.poll();
        assert_eq!((completion.wr_id, completion.status), expected);
    }
    assert_eq!(one.qp.state(), QpState::Err);
}

pub fn a_peer_that_does_not_answer_is_given_up_in_time(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    set_state(&other.qp, QpState::Reset);
    // Whoever is kept from its processor is late now and then, and not each time.
    let in_time = |_| given_up_after(&one, &other) < Duration::from_secs(2);
    assert!((0..20).any(in_time), "late each time");
}

/// How long it takes to give up a peer that does not answer.
fn given_up_after(one: &End, other: &End) -> Duration {
    set_state(&one.qp, QpState::Reset);
    let few = Attributes { timeout: 12, retry_cnt: 2, ..other.address() };
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

// rule: status-local-key, rsp-key, event-refused
pub fn refusals_break_both_sides(carrier: Carrier) {
    let (_fabric, [_, there], one, other) = pair(carrier, QpType::Rc);
    other.receive(5, 0, 8);
    one.remote(1, Opcode::RdmaWrite, 0, 8, (other.memory.addr(0), other.region.rkey ^ 1));
    one.send(2, 0, 8);
    assert_eq!(one.poll().status, Status::RemAccessErr);
    assert_eq!(one.poll().status, Status::WrFlushErr);
    assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Err));
    let completion = other.poll();
    assert_eq!((completion.wr_id, completion.status), (5, Status::WrFlushErr));
    assert_eq!(there.event(), Event::QpAccessErr);

    let (_fabric, [_, there], one, other) = pair(carrier, QpType::Rc);
    other.receive(5, 0, 8);
    one.send(1, 0, 9);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    assert_eq!(other.poll().status, Status::LocLenErr);
    assert!(!there.has_event() || there.event() == Event::QpReqErr);

    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    let wrong = [Sge { lkey: 3, ..one.sge(0, 8) }];
    other.receive(5, 0, 8);
    one.qp.post_send(&wr(1, Opcode::Send, &wrong)).unwrap();
    assert_eq!(one.poll().status, Status::LocProtErr);
    assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Rts));
}

pub fn one_poll_takes_what_broke_and_all_behind_it(carrier: Carrier) {
    let (fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    other.receive(1, 0, 8);
    (2..=5).for_each(|wr_id| other.receive(wr_id, 0, 64));
    one.send(1, 0, 9);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    fabric.settle();
    let mut taken = Vec::new();
    other.cq.poll(16, &mut |completion| taken.push((completion.wr_id, completion.status)));
    assert_eq!(taken[0], (1, Status::LocLenErr));
    assert_eq!(taken[1..], [2, 3, 4, 5].map(|wr_id| (wr_id, Status::WrFlushErr)));
}

// rule: qp-drains
pub fn a_drained_send_queue_stops_and_goes_on(carrier: Carrier) {
    let (_fabric, [here, _], one, other) = pair(carrier, QpType::Rc);
    let drain = Attributes { state: QpState::Sqd, en_sqd_async_notify: true, ..Attributes::default() };
    one.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert_eq!(here.event(), Event::SqDrained);
    one.send(1, 0, 8);
    other.receive(1, 0, 8);
    (0..1000).for_each(|_| assert_eq!(one.try_poll(), None));
    set_state(&one.qp, QpState::Rts);
    one.done(1);
    other.done(1);
    // Under way: drains when it is done.
    one.send(2, 0, 8);
    one.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drain).unwrap();
    assert!(one.qp.query().sq_draining && !here.has_event());
    one.send(3, 0, 8);
    other.receive(2, 0, 8);
    other.receive(3, 0, 8);
    one.done(2);
    assert_eq!(here.event(), Event::SqDrained);
    assert!(!one.qp.query().sq_draining);
    assert_eq!(one.try_poll(), None);
    set_state(&one.qp, QpState::Rts);
    one.done(3);
}

// rule: event-overrun, overrun-breaks
pub fn a_completion_queue_that_overruns_breaks_its_queue_pairs(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let one = here.end(QpType::Rc);
    let cq = there.cq(4, None, 0);
    let other = QueuePair::new(&there.device, &there.init(QpType::Rc, &cq)).unwrap();
    let other = there.end_of(other, cq.clone());
    connect_ends(&one, &other);
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
    let mut events = [there.event(), there.event()];
    events.sort();
    assert_eq!(events, [Event::CqErr, Event::QpFatal]);
    assert_eq!(other.qp.state(), QpState::Err);
    for wr_id in 0..4 {
        assert_eq!(poll(&cq).unwrap().wr_id, wr_id);
    }
}
