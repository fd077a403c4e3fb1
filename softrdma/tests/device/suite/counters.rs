//! Completion counters.

use std::sync::Arc;

use softrdma::device::{
    CompletionCounter, CompletionQueue, Counted, CqFlags, Error, Operations, QueuePair, Wr,
};
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, ends, pattern};

super::suite! {
    counters:
    receives_are_counted_and_still_polled,
    silent_requests_that_are_counted_take_no_place,
    what_is_kept_for_the_program_keeps_its_place,
    failures_are_counted_by_themselves,
    a_queue_that_may_overrun_goes_on_counting,
    what_cannot_be_counted_is_refused,
    a_forked_child_sees_nothing_of_what_was_counted_for_its_parent,
}

fn counter(node: &Node) -> Arc<CompletionCounter> {
    CompletionCounter::new(&node.device, Counted::Requests).unwrap()
}

pub fn receives_are_counted_and_still_polled(carrier: Carrier) {
    let (fabric, [_, there], one, other) = ends(carrier, QpType::Rc);
    let (receives, all) = (counter(&there), Operations::ALL);
    other.qp.attach_counter(&receives, Operations::RECV).unwrap();
    connect_ends(&one, &other);
    assert_eq!(
        other.qp.attach_counter(&receives, all),
        Err(Error::Invalid("not before the queue pair sends and receives"))
    );
    one.memory.fill(0, &pattern(100));
    for n in 0..5 {
        other.receive(n, 100 * n as usize, 100);
        one.send(n, 0, 100);
        fabric.settle();
        assert_eq!(receives.done(), n + 1);
        assert_eq!(other.memory.bytes(100 * n as usize, 100), pattern(100));
    }
    // Once there, the buffer is the program's.
    other.memory.fill(0, &[0; 500]);
    for n in 0..5 {
        assert_eq!(other.done(n).byte_len, 100);
    }
    assert!(other.try_poll().is_none());
    assert_eq!(other.memory.bytes(0, 500), [0; 500]);
    // Polled first.
    other.receive(9, 0, 100);
    one.send(9, 0, 100);
    other.done(9);
    assert_eq!((receives.done(), receives.failed()), (6, 0));
    assert_eq!(receives.destroy(), Err(Error::Busy));
    other.qp.destroy().unwrap();
    assert_eq!((receives.destroy(), receives.done()), (Ok(()), 6));
}

/// A request that asks for no completion is told by the counter, which gives its place back.
pub fn silent_requests_that_are_counted_take_no_place(carrier: Carrier) {
    let (fabric, [here, _], one, other) = ends(carrier, QpType::Rc);
    let (sends, bytes) = (counter(&here), CompletionCounter::new(&here.device, Counted::Bytes).unwrap());
    one.qp.attach_counter(&sends, Operations::SEND).unwrap();
    one.qp.attach_counter(&bytes, Operations::RDMA_WRITE).unwrap();
    connect_ends(&one, &other);
    let silent = |opcode, length: usize| {
        let sges = [one.sge(0, length)];
        let operands =
            Operands::Remote { addr: other.memory.addr(0), rkey: other.region.rkey, length: length as u64 };
        let operands = if opcode == Opcode::Send { Operands::None } else { operands };
        one.qp.post_send(&Wr { flags: SendFlags::NONE, operands, ..wr(1, opcode, &sges) })
    };
    for n in 0..50 {
        other.receive(n, 0, 100);
        assert_eq!(silent(Opcode::Send, 60), Ok(()));
        assert_eq!(silent(Opcode::RdmaWrite, 1000), Ok(()));
        other.done(n);
        fabric.settle();
    }
    assert_eq!((sends.done(), bytes.done(), one.qp.send_room()), (50, 50_000, 16));
    // Those that are not counted do.
    let mut accepted = 0;
    while silent(Opcode::RdmaRead, 8) == Ok(()) {
        accepted += 1;
    }
    assert_eq!((accepted, silent(Opcode::RdmaRead, 8)), (16, Err(Rejected::Full)));
    // What is kept for the program keeps its place until it is polled.
    fabric.settle();
    assert!(one.try_poll().is_none());
}

pub fn what_is_kept_for_the_program_keeps_its_place(carrier: Carrier) {
    let (fabric, [here, _], one, other) = ends(carrier, QpType::Rc);
    let receives = counter(&here);
    one.qp.attach_counter(&receives, Operations::RECV).unwrap();
    connect_ends(&one, &other);
    for n in 0..3 {
        one.remote(n, Opcode::RdmaWrite, 0, 8, (other.memory.addr(0), other.region.rkey));
    }
    fabric.settle();
    assert_eq!((one.qp.send_room(), receives.done(), one.qp.send_room()), (13, 0, 13));
    one.done(0);
    assert_eq!(one.qp.send_room(), 14);
    // Beside what waits here there is no room in a smaller queue.
    assert_eq!(one.cq.resize(1), Err(Error::Invalid("fewer entries than wait to be polled")));
    one.cq.resize(2).unwrap();
    // What is left of a queue pair goes with it.
    set_state(&one.qp, QpState::Reset);
    assert!(one.try_poll().is_none());
    assert_eq!(one.qp.send_room(), 16);
}

pub fn failures_are_counted_by_themselves(carrier: Carrier) {
    let (fabric, [here, there], one, other) = ends(carrier, QpType::Rc);
    let (sends, receives) = (counter(&here), counter(&there));
    one.qp.attach_counter(&sends, Operations::SEND).unwrap();
    other.qp.attach_counter(&receives, Operations::RECV).unwrap();
    connect_ends(&one, &other);
    for n in 0..3 {
        other.receive(n, 0, 50);
    }
    one.send(1, 0, 50);
    one.send(2, 0, 100);
    one.done(1);
    assert_eq!(one.poll().status, Status::RemInvReqErr);
    one.send(3, 0, 8);
    assert_eq!(one.poll().status, Status::WrFlushErr);
    fabric.settle();
    assert_eq!((sends.done(), sends.failed()), (1, 2));
    assert_eq!((receives.done(), receives.failed()), (1, 2));
    sends.set_failed(7);
    sends.add_failed(u64::MAX);
    assert_eq!((sends.done(), sends.failed()), (1, 6));
}

/// Where completions that have no room are lost, they are counted as far as somebody looks.
pub fn a_queue_that_may_overrun_goes_on_counting(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let one = here.end(QpType::Rc);
    let flags = CqFlags { ignore_overrun: true, ..CqFlags::default() };
    let cq = CompletionQueue::new(&there.device, 4, None, &there.events, 1, flags).unwrap();
    let qp = QueuePair::new(&there.device, &there.init(QpType::Rc, &cq)).unwrap();
    let other = there.end_of(qp, cq);
    let receives = counter(&there);
    other.qp.attach_counter(&receives, Operations::RECV).unwrap();
    connect_ends(&one, &other);
    for n in 0..40 {
        other.receive(n, 0, 100);
        one.send(n, 0, 60);
        one.done(n);
        fabric.settle();
        assert_eq!(receives.done(), n + 1);
    }
    for n in 0..4 {
        other.done(n);
    }
    assert!(other.try_poll().is_none());
}

pub fn what_cannot_be_counted_is_refused(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    let (first, second) = (counter(&node), counter(&node));
    let attach = |counter, operations| one.qp.attach_counter(counter, Operations(operations));
    assert!(matches!(attach(&first, 0), Err(Error::Invalid(_))));
    for operations in [8, 32, 63, 64, u32::MAX] {
        assert_eq!(attach(&first, operations), Err(Error::Unsupported));
    }
    let elsewhere = carrier();
    let foreign = counter(&elsewhere.open(0));
    assert!(matches!(attach(&foreign, 1), Err(Error::Invalid(_))));
    assert_eq!(
        (attach(&first, 3), attach(&second, 2), attach(&second, 20)),
        (Ok(()), Err(Error::Busy), Ok(()))
    );
    assert_eq!(other.qp.attach_counter(&second, Operations::RECV), Ok(()));
    drop((one, other));
    assert_eq!((first.destroy(), second.destroy()), (Ok(()), Ok(())));
}

pub fn a_forked_child_sees_nothing_of_what_was_counted_for_its_parent(carrier: Carrier) {
    let (fabric, [_, there], one, other) = ends(carrier, QpType::Rc);
    let receives = counter(&there);
    other.qp.attach_counter(&receives, Operations::RECV).unwrap();
    connect_ends(&one, &other);
    other.receive(1, 0, 8);
    one.send(1, 0, 8);
    fabric.settle();
    // Taken for the counter, and kept for the program.
    assert_eq!(receives.done(), 1);
    assert_eq!(in_child(|| assert!(other.try_poll().is_none())), 0);
    other.done(1);
}
