//! Peers that are killed: the survivor is told, and loses nothing that it was told of.

use std::time::{Duration, Instant};

use softrdma::device::{Attributes, QpInit, QueuePair, SharedReceiveQueue, SrqInit, SrqType};
use softrdma::rules::verbs::{QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, between};

use super::stress::{receive_all, send_all};

super::suite! {
    killed:
    a_killed_peer_is_given_up,
    peers_that_are_killed_disturb_nobody_else,
    a_shared_queue_loses_nothing_when_senders_are_killed,
}

pub fn a_killed_peer_is_given_up(carrier: Carrier) {
    // Whoever is kept from its processor is late now and then, and not each time.
    assert!(
        (0..10).any(|_| killed_peer_is_given_up_after(carrier) < Duration::from_secs(5)),
        "late each time"
    );
}

fn killed_peer_is_given_up_after(carrier: Carrier) -> Duration {
    let waited = std::cell::Cell::new(Duration::MAX);
    between(
        carrier,
        QpType::Rc,
        |_, end, words| {
            end.receive(1, 0, 8);
            end.done(1);
            words.put(1, &[1]);
            words.get::<1>(1);
        },
        |_, end, words, child| {
            end.send(1, 0, 8);
            end.done(1);
            words.get::<1>(0);
            child.kill();
            let start = Instant::now();
            end.send(2, 0, 8);
            let completion = end.poll();
            assert_eq!((completion.wr_id, completion.status), (2, Status::RetryExcErr));
            waited.set(start.elapsed());
            assert_eq!(end.qp.state(), QpState::Err);
        },
    );
    waited.get()
}

pub fn peers_that_are_killed_disturb_nobody_else(carrier: Carrier) {
    let fabric = carrier();
    let [node, there] = fabric.pair();
    let cq = node.cq(1024, None, 0);
    let steady = (node.end(QpType::Rc), there.end(QpType::Rc));
    connect_ends(&steady.0, &steady.1);
    std::thread::scope(|s| {
        s.spawn(|| send_all(&steady.0, 2000, 16));
        s.spawn(|| receive_all(&steady.1, 2000, 8));
        for round in 0..5 {
            let words = Words::new();
            let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
            let end = node.end_of(qp, cq.clone());
            let child = Child::run(|| {
                let own = fabric.open(2);
                let mine = own.end(QpType::Rc);
                bring_up(&mine.qp, &end.address(), QpState::Rts);
                (0..16).for_each(|n| mine.receive(n, 0, 1024));
                words.exchange(1, &mine);
                for n in 0.. {
                    let _ = mine.try_send(n, 2048, 500);
                    if let Some(completion) = mine.try_poll()
                        && completion.opcode == WcOpcode::Recv
                    {
                        mine.receive(n, 0, 1024);
                    }
                }
            });
            bring_up(&end.qp, &words.exchange(0, &end), QpState::Rts);
            (0..16).for_each(|n| end.receive(n, 0, 1024));
            let mut failed = None;
            for n in 0.. {
                let _ = end.try_send(n, 2048, 500);
                if n == 200 + 100 * round {
                    child.kill();
                }
                match end.try_poll() {
                    Some(completion) if completion.status == Status::RetryExcErr => {
                        failed = Some(completion.status);
                        break;
                    }
                    Some(completion) if completion.opcode == WcOpcode::Recv => end.receive(n, 0, 1024),
                    _ => {}
                }
            }
            assert_eq!(failed, Some(Status::RetryExcErr));
            // A machine that keeps the peer from running breaks the connection before its end.
            child.kill();
            child.wait();
            end.qp.destroy().unwrap();
        }
    });
    assert!(poll(&cq).is_none());
}

pub fn a_shared_queue_loses_nothing_when_senders_are_killed(carrier: Carrier) {
    const REQUESTS: u64 = 32;
    let fabric = carrier();
    let [node, there] = fabric.pair();
    let cq = node.cq(256, None, 0);
    let init = SrqInit {
        pd: node.pd,
        srq_type: SrqType::Basic,
        max_wr: REQUESTS as u32,
        max_sge: 1,
        xrcd: None,
        cq: None,
        events: node.events.clone(),
        cookie: 3,
    };
    let srq = SharedReceiveQueue::new(&node.device, &init).unwrap();
    let init = QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &cq) };
    let make = || QueuePair::new(&node.device, &init).unwrap();
    let home = node.end_of(make(), cq.clone());
    let post = |wr_id: u64| post_shared(&srq, wr_id, &home, wr_id as usize * 1024, 1024);
    (0..REQUESTS).for_each(post);
    // Everybody sends for a while; what arrives is posted again.
    let mut received = 0;
    let mut serve = |some: u32| {
        let mut wr_ids = Vec::new();
        for _ in 0..some {
            cq.poll(16, &mut |completion| {
                if completion.status == Status::Success {
                    received += 1;
                }
                wr_ids.push(completion.wr_id);
            });
            wr_ids.drain(..).for_each(post);
        }
    };
    for round in 0..6 {
        let senders: Vec<_> = (2..5)
            .map(|n| {
                let (target, words) = (node.end_of(make(), cq.clone()), Words::new());
                let child = Child::run(|| {
                    let own = fabric.open(n);
                    let mine = own.end(QpType::Rc);
                    let patient = Attributes { rnr_retry: 7, ..target.address() };
                    bring_up(&mine.qp, &patient, QpState::Rts);
                    words.exchange(1, &mine);
                    for n in 0.. {
                        // By either way that messages go.
                        let _ = mine.try_send(n, 0, if round % 3 == 0 { 300 } else { 8 });
                        let _ = mine.try_poll();
                    }
                });
                bring_up(&target.qp, &words.exchange(0, &target), QpState::Rts);
                (target, child)
            })
            .collect();
        serve(2000 + 777 * round);
        for (target, child) in senders {
            child.kill();
            child.wait();
            if round % 2 == 0 {
                set_state(&target.qp, QpState::Err);
            }
            serve(100);
            target.qp.destroy().unwrap();
            serve(1);
        }
    }
    assert!(received > 100, "{received} messages");
    // All requests are there: so many messages find one each, and the next finds none.
    let (last, target) = (there.end(QpType::Rc), node.end_of(make(), cq.clone()));
    set_state(&home.qp, QpState::Reset);
    connect_ends(&last, &target);
    let mut seen: Vec<u64> = (0..REQUESTS)
        .map(|n| {
            last.send(n, 0, 8);
            last.done(n);
            let completion = poll_soon(&cq);
            assert_eq!(completion.status, Status::Success);
            completion.wr_id
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..REQUESTS).collect::<Vec<_>>());
    last.send(0, 0, 8);
    assert!(last.try_poll().is_none());
}
