//! Own completions beside those of what is received: their order, their room, who is woken by them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use softrdma::device::site::now;
use softrdma::device::{Channel, CompletionQueue, CqFlags, QueuePair};
use softrdma::protocol::completion::Completion;
use softrdma::protocol::verbs::{Event, Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;

/// Two ends, of which the first completes all in this queue.
fn ends(folder: &Folder, make: impl FnOnce(&Node) -> Arc<CompletionQueue>) -> (Node, End, Node, End) {
    let (node, far) = (Node::new(folder), Node::new(folder));
    let cq = make(&node);
    let end = node.end_of(QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap(), cq);
    let other = far.end(QpType::Rc);
    connect(&end.qp, &other.qp);
    (node, end, far, other)
}

/// Completes a send of the first end.
fn send(end: &End, other: &End, wr_id: u64) {
    other.receive(wr_id, 0, 8);
    end.send(wr_id, 0, 8);
    other.done(wr_id);
}

/// Completes a receive of the first end.
fn receive(end: &End, other: &End, wr_id: u64) {
    end.receive(wr_id, 0, 8);
    other.send(wr_id, 0, 8);
    other.done(wr_id);
}

fn all(cq: &CompletionQueue) -> Vec<u64> {
    std::iter::from_fn(|| poll(cq)).map(|completion| completion.wr_id).collect()
}

#[test]
fn completions_come_in_the_order_in_which_they_were_made() {
    let folder = Folder::new();
    let (_node, end, _far, other) = ends(&folder, |node| node.cq(16, None, 1));
    // Each combination of eight of the one and the other.
    for kinds in 0..256u32 {
        for n in 0..8 {
            if kinds >> n & 1 == 0 { send(&end, &other, n) } else { receive(&end, &other, n) }
        }
        assert_eq!(all(&end.cq), (0..8).collect::<Vec<_>>(), "{kinds:#b}");
    }
}

/// A list of which the first request is answered before the last is posted.
fn answered_within_a_list(end: &End, other: &End, meanwhile: impl FnOnce()) {
    // The first of all goes another way, which has no lists.
    send(end, other, 0);
    end.done(0);
    other.receive(1, 0, 8);
    end.receive(2, 0, 8);
    let sges = [end.sge(0, 8)];
    let mut sending = end.qp.sending();
    let request = wr(1, Opcode::Send, &sges);
    sending.accept(&request).unwrap();
    sending.post(&request);
    other.done(1);
    other.send(2, 0, 8);
    other.done(2);
    meanwhile();
}

#[test]
fn an_answer_that_was_there_first_is_polled_after_the_own_completion() {
    let folder = Folder::new();
    let (_node, end, _far, other) = ends(&folder, |node| node.cq(16, None, 1));
    for _ in 0..20 {
        answered_within_a_list(&end, &other, || assert_eq!(poll(&end.cq), None));
        assert_eq!(all(&end.cq), [1, 2]);
    }
}

#[test]
fn who_was_kept_from_an_answer_is_woken_when_it_may_be_polled() {
    let folder = Folder::new();
    let mut made = None;
    let (_node, end, _far, other) = ends(&folder, |node| {
        let channel = Channel::new(&node.device).unwrap();
        let cq = node.cq(16, Some(&channel), 1);
        made = Some(channel);
        cq
    });
    let channel = made.unwrap();
    for _ in 0..20 {
        answered_within_a_list(&end, &other, || {
            assert_eq!(poll(&end.cq), None);
            // Neither the own completion nor the answer is solicited, but the answer was there before.
            end.cq.arm(true).unwrap();
            assert_eq!(poll(&end.cq), None);
            assert!(!readable(channel.fd(), 0));
        });
        assert!(readable(channel.fd(), 0));
        assert_eq!(channel.next().unwrap(), 1);
        assert_eq!(all(&end.cq), [1, 2]);
        assert!(!readable(channel.fd(), 0));
    }
}

#[test]
fn a_message_to_the_same_queue_is_received_before_it_is_sent() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let cq = node.cq(32, None, 1);
    let end = || node.end_of(QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap(), cq.clone());
    let (one, other) = (end(), end());
    connect(&one.qp, &other.qp);
    // Small ones, which go together but for the first, and long ones.
    for length in [8, 8, 5000, 5000, 8] {
        other.receive(1, 0, length);
        one.send(2, 0, length);
        other.receive(3, 0, length);
        other.receive(4, 0, length);
        let sges = [one.sge(0, length)];
        let mut sending = one.qp.sending();
        for wr_id in [5, 6] {
            let request = wr(wr_id, Opcode::Send, &sges);
            sending.accept(&request).unwrap();
            sending.post(&request);
        }
        drop(sending);
        let found = all(&cq);
        let together = [1, 2, 3, 4, 5, 6];
        let alone = [1, 2, 3, 5, 4, 6];
        assert_eq!(found, if length == 8 { together } else { alone }, "{length} bytes");
    }
}

#[test]
fn who_always_sends_keeps_nothing_from_being_received() {
    let folder = Folder::new();
    let (_node, end, _far, other) = ends(&folder, |node| node.cq(16, None, 1));
    send(&end, &other, 1);
    receive(&end, &other, 77);
    let seen = (0..3).position(|n| {
        let found = end.poll().wr_id;
        send(&end, &other, n);
        found == 77
    });
    assert_eq!(seen, Some(1));
}

#[test]
fn both_kinds_have_the_room_of_the_queue_together() {
    let folder = Folder::new();
    for sent in 0..=5u64 {
        let (node, end, _far, other) = ends(&folder, |node| node.cq(4, None, 1));
        (0..sent.min(4)).for_each(|n| send(&end, &other, n));
        (sent..4).for_each(|n| receive(&end, &other, n));
        if sent < 5 {
            assert!(!node.has_event());
            assert_eq!(all(&end.cq), [0, 1, 2, 3]);
            continue;
        }
        // An own one more is lost, and with it what the program knows of its queue.
        other.receive(4, 0, 8);
        end.send(4, 0, 8);
        let events = [node.event(), node.event()];
        assert!(events.contains(&Event::CqErr) && events.contains(&Event::QpFatal), "{events:?}");
        assert_eq!(all(&end.cq), [0, 1, 2, 3]);
        assert_eq!(end.qp.state(), QpState::Err);
    }
    // One more of a peer, which does not see the own ones: it is noticed when the queue is polled.
    let (node, end, _far, other) = ends(&folder, |node| node.cq(4, None, 1));
    (0..2).for_each(|n| send(&end, &other, n));
    (2..5).for_each(|n| receive(&end, &other, n));
    assert_eq!(end.poll().wr_id, 0);
    assert_eq!(node.event(), Event::CqErr);
    // As many receives, then an own one.
    let (node, end, _far, other) = ends(&folder, |node| node.cq(4, None, 1));
    (0..4).for_each(|n| receive(&end, &other, n));
    other.receive(4, 0, 8);
    end.send(4, 0, 8);
    let events = [node.event(), node.event()];
    assert!(events.contains(&Event::CqErr) && events.contains(&Event::QpFatal), "{events:?}");
    assert_eq!(all(&end.cq), [0, 1, 2, 3]);
}

#[test]
fn a_queue_that_does_not_mind_loses_what_has_no_room() {
    let folder = Folder::new();
    let flags = CqFlags { ignore_overrun: true, timestamps: true };
    let make = |node: &Node| CompletionQueue::new(&node.device, 4, None, &node.events, 1, flags).unwrap();
    let (node, end, _far, other) = ends(&folder, make);
    for _ in 0..3 {
        (0..2).for_each(|n| receive(&end, &other, n));
        (2..6).for_each(|n| send(&end, &other, n));
        assert_eq!(all(&end.cq), [0, 1, 2, 3]);
    }
    assert!(!node.has_event());
    assert_eq!(end.qp.state(), QpState::Rts);
}

#[test]
fn both_kinds_carry_the_time_where_it_is_asked_for() {
    let folder = Folder::new();
    for timestamps in [false, true] {
        let flags = CqFlags { timestamps, ..CqFlags::default() };
        let make = |node: &Node| CompletionQueue::new(&node.device, 4, None, &node.events, 1, flags).unwrap();
        let (_node, end, _far, other) = ends(&folder, make);
        let before = now();
        send(&end, &other, 1);
        receive(&end, &other, 2);
        let times = [end.poll(), end.poll()].map(|completion| completion.timestamp);
        let span = before..=now();
        assert!(times.iter().all(|time| if timestamps { span.contains(time) } else { *time == 0 }));
    }
}

#[test]
fn a_queue_pair_that_ends_takes_its_own_completions_with_it() {
    let folder = Folder::new();
    for destroy in [false, true] {
        let (node, end, far, other) = ends(&folder, |node| node.cq(16, None, 1));
        let second = node
            .end_of(QueuePair::new(&node.device, &node.init(QpType::Rc, &end.cq)).unwrap(), end.cq.clone());
        let its = far.end(QpType::Rc);
        connect(&second.qp, &its.qp);
        for n in 0..3 {
            send(&end, &other, 4 * n);
            send(&second, &its, 4 * n + 1);
            receive(&end, &other, 4 * n + 2);
            receive(&second, &its, 4 * n + 3);
        }
        if destroy {
            end.qp.destroy().unwrap();
        } else {
            set_state(&end.qp, QpState::Reset);
        }
        let mut left = all(&end.cq);
        left.sort_unstable();
        assert_eq!(left, [1, 3, 5, 7, 9, 11]);
        send(&second, &its, 50);
        assert_eq!(all(&end.cq), [50]);
    }
}

#[test]
fn another_size_loses_neither_kind() {
    let folder = Folder::new();
    let (_node, end, _far, other) = ends(&folder, |node| node.cq(8, None, 1));
    for n in 0..6 {
        if n % 2 == 0 { send(&end, &other, n) } else { receive(&end, &other, n) }
    }
    assert!(end.cq.resize(5).is_err(), "six wait");
    assert_eq!(end.poll().wr_id, 0);
    assert_eq!(end.cq.resize(30), Ok(30));
    (6..20).for_each(|n| if n % 3 == 0 { send(&end, &other, n) } else { receive(&end, &other, n) });
    assert_eq!(all(&end.cq), (1..20).collect::<Vec<_>>());
    assert_eq!(end.cq.resize(3), Ok(3));
    (0..3).for_each(|n| send(&end, &other, n));
    assert_eq!(all(&end.cq), [0, 1, 2]);
}

#[test]
fn a_thread_that_sleeps_is_woken_by_what_another_sends() {
    const ROUNDS: u64 = 2000;
    let folder = Folder::new();
    let mut made = None;
    let (_node, end, _far, other) = ends(&folder, |node| {
        let channel = Channel::new(&node.device).unwrap();
        let cq = node.cq(16, Some(&channel), 1);
        made = Some(channel);
        cq
    });
    let channel = made.unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..ROUNDS {
                other.receive(n, 0, 8);
                end.send(n, 0, 8);
                other.done(n);
                while !done.swap(false, Ordering::AcqRel) {
                    std::thread::yield_now();
                }
            }
        });
        for n in 0..ROUNDS {
            let mut found = None;
            while found.is_none() {
                end.cq.arm(false).unwrap();
                found = poll(&end.cq);
                if found.is_none() {
                    assert!(readable(channel.fd(), 20_000), "a lost wake-up in round {n}");
                    channel.next().unwrap();
                    found = poll(&end.cq);
                }
            }
            assert_eq!(
                found.map(|completion| (completion.wr_id, completion.status)),
                Some((n, Status::Success))
            );
            done.store(true, Ordering::Release);
        }
    });
}

#[test]
fn two_threads_that_poll_take_no_answer_before_the_own_completion() {
    const ROUNDS: u64 = 300;
    let folder = Folder::new();
    let (_node, end, _far, other) = ends(&folder, |node| node.cq(64, None, 1));
    let (log, ends) = (Mutex::new(Vec::<Completion>::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Ordering::Acquire) {
                    // Behind the queue's lock, so that this is the order of the queue.
                    end.cq.poll(2, &mut |completion| log.lock().unwrap().push(*completion));
                    std::thread::yield_now();
                }
            });
        }
        // The peer polls, and answers at once.
        scope.spawn(|| {
            for n in 0..ROUNDS {
                while poll(&other.cq).is_none_or(|completion| completion.opcode != WcOpcode::Recv) {
                    std::thread::yield_now();
                }
                other.receive(n + 1, 0, 8);
                other.send(n, 0, 8);
            }
        });
        other.receive(0, 0, 8);
        for n in 0..ROUNDS {
            end.receive(n, 0, 8);
            end.send(n, 0, 8);
            while (log.lock().unwrap().len() as u64) < 2 * n + 2 {
                std::thread::yield_now();
            }
        }
        ends.store(true, Ordering::Release);
    });
    for (two, n) in log.lock().unwrap().chunks(2).zip(0..) {
        let seen = [&two[0], &two[1]].map(|completion| (completion.opcode, completion.wr_id));
        assert_eq!(seen, [(WcOpcode::Send, n), (WcOpcode::Recv, n)]);
    }
}

#[test]
fn a_forked_child_sees_nothing_of_its_parents() {
    let folder = Folder::new();
    let (_node, end, _far, other) = ends(&folder, |node| node.cq(16, None, 1));
    send(&end, &other, 1);
    assert_eq!(in_child(|| assert!(poll(&end.cq).is_none())), 0);
    assert_eq!(all(&end.cq), [1]);
}

#[test]
fn queue_pairs_of_many_threads_complete_once_each_while_their_queue_changes_its_size() {
    const EACH: u64 = 2000;
    const SENDERS: u64 = 3;
    let folder = Folder::new();
    let (node, far) = (Node::new(&folder), Node::new(&folder));
    let cq = node.cq(300, None, 1);
    let ends: Vec<_> = (0..SENDERS)
        .map(|_| {
            let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
            let (end, other) = (node.end_of(qp, cq.clone()), far.end(QpType::Rc));
            connect(&end.qp, &other.qp);
            (end, other)
        })
        .collect();
    let mut seen = vec![[0; EACH as usize]; SENDERS as usize];
    std::thread::scope(|scope| {
        for ((end, other), sender) in ends.iter().zip(0..) {
            scope.spawn(move || {
                for n in 0..EACH {
                    other.receive(n, 0, 8);
                    while end.try_send(sender << 32 | n, 0, 8).is_err() {
                        std::thread::yield_now();
                    }
                    other.done(n);
                    // One answer for every other message.
                    if n % 2 == 0 {
                        end.receive(u64::MAX, 0, 8);
                        other.send(n, 0, 8);
                        other.done(n);
                    }
                }
            });
        }
        scope.spawn(|| {
            for n in 0..200 {
                cq.resize(300 + n % 2 * 500).unwrap();
                std::thread::yield_now();
            }
        });
        let (mut sent, mut received) = (0, 0);
        while sent < SENDERS * EACH || received < SENDERS * EACH / 2 {
            cq.poll(5, &mut |completion| {
                assert_eq!(completion.status, Status::Success);
                if completion.opcode == WcOpcode::Send {
                    let id = completion.wr_id;
                    seen[(id >> 32) as usize][id as u32 as usize] += 1;
                    sent += 1;
                } else {
                    received += 1;
                }
            });
        }
    });
    assert_eq!(poll(&cq), None);
    assert!(seen.iter().flatten().all(|count| *count == 1));
}
