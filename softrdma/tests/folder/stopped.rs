//! Peers that have a lock and do not go on: stopped by a signal or a debugger. Each of these tests waits for
//! longer than a lock is waited for.

use std::time::Instant;

use softrdma::device::{Attributes, Channel, QueuePair};
use softrdma::queues::completion::Armed;
use softrdma::queues::shared::{CqJournal, CqWord, Memory, Object, Word};
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport;
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Attr, Opcode, QpState, QpType, Status};
use softrdma::shm::objects::{Host, LOCK_LIMIT};
use softrdma_testing::device::*;
use softrdma_testing::thread::{asleep, until};

const MARK: u64 = 0x5ca1_ab1e;

/// Takes the lock of completion queue 0, to repair it after a sender to queue pair 0: what its holder does
/// there then cannot be told from outside, and it is waited for.
fn keep(there: &Host) {
    assert_eq!(there.lock(Object::Cq(0)), Ok(Locked::Clean));
    there.store(Word::Cq(0, CqWord::Journal), CqJournal { qp: 0, tail: 1 << 31 }.pack());
}

fn give_back(there: &Host) {
    there.store(Word::Cq(0, CqWord::Journal), 0);
    assert!(there.unlock(Object::Cq(0)));
}

/// A queue pair whose receive requests 1 and 2 were flushed, and what a peer sees of it.
fn flushed() -> (Folder, Node, Host, End) {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    set_state(&end.qp, QpState::Err);
    (1..3).for_each(|n| end.receive(n, 0, 8));
    (folder, node, there, end)
}

#[test]
fn what_a_stopped_peer_still_writes_to_is_not_used_again() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let (qp, cq) = (Object::Qp(0), Object::Cq(0));
    let end = node.end(QpType::Rc);
    let objects = [qp, cq].map(|object| {
        assert_eq!(there.lock(object), Ok(Locked::Clean));
        there.find([Some(object), None, None])
    });
    let words = |object| {
        (0..128).map(move |n| (n / 8, n % 8)).map(move |(slot, word)| match object {
            Object::Cq(cq) => Word::Entry { cq, slot, word },
            queue => Word::Receive { queue, slot, word },
        })
    };
    let before = [words(qp).next(), words(cq).next()].map(|word| there.offset(word.unwrap()).unwrap());
    let same = |word: Option<Word>, n: usize| there.offset(word.unwrap()) == Some(before[n]);
    end.qp.destroy().unwrap();
    end.cq.destroy().unwrap();
    let others = [0; 4].map(|_| node.end(QpType::Rc));
    // It goes on.
    for (object, held) in [qp, cq].into_iter().zip(&objects) {
        words(object).for_each(|word| there.with(held).store(word, MARK));
    }
    for index in 1..=others.len() as u32 {
        for object in [Object::Qp(index), Object::Cq(index)] {
            assert!(there.exists(object));
            assert!(words(object).all(|word| there.load(word) != MARK));
        }
    }
    // Once it is done, nothing is lost.
    for (object, held) in [qp, cq].into_iter().zip(&objects) {
        there.with(held).unlock(object);
    }
    let _more = [0; 4].map(|_| node.end(QpType::Rc));
    let again = |n: usize, object: fn(u32) -> Object| (5..9).any(|i| same(words(object(i)).next(), n));
    assert!(again(0, Object::Qp) && again(1, Object::Cq));
}

#[test]
fn completions_that_could_not_be_removed_are_gone_before_the_number_is_used_again() {
    let (_folder, node, there, end) = flushed();
    assert_eq!(end.poll().wr_id, 1);
    assert_eq!(there.lock(Object::Cq(0)), Ok(Locked::Clean));
    end.qp.destroy().unwrap();
    assert!(!there.exists(Object::Qp(0)));
    there.unlock(Object::Cq(0));
    let _next = node.end(QpType::Rc);
    assert_eq!(end.try_poll(), None);
    end.cq.destroy().unwrap();
}

#[test]
fn completions_that_a_reset_could_not_remove_count_for_no_later_message() {
    let (_folder, node, there, end) = flushed();
    keep(&there);
    set_state(&end.qp, QpState::Reset);
    give_back(&there);
    let peer = node.end(QpType::Rc);
    connect(&peer.qp, &end.qp);
    (11..15).for_each(|n| end.receive(n, 0, 8));
    // Two that look for a ring, and two that would go by one.
    for n in 1..5 {
        peer.send(n, 0, 8);
        peer.done(n);
    }
    let polled: Vec<_> =
        std::iter::from_fn(|| end.try_poll()).map(|done| (done.wr_id, done.status)).collect();
    let stale = (1..3).map(|n| (n, Status::WrFlushErr));
    let expected: Vec<_> = stale.chain((11..15).map(|n| (n, Status::Success))).collect();
    assert_eq!(polled, expected);
}

#[test]
fn a_queue_pair_breaks_though_its_receives_cannot_be_flushed_now() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    end.receive(1, 0, 8);
    keep(&there);
    set_state(&end.qp, QpState::Err);
    give_back(&there);
    end.send(7, 0, 8);
    end.receive(2, 0, 8);
    let flushed =
        [end.poll(), end.poll(), end.poll()].map(|completion| (completion.wr_id, completion.status));
    assert_eq!(flushed, [7, 1, 2].map(|wr_id| (wr_id, Status::WrFlushErr)));
    assert_eq!((end.try_poll(), end.qp.state()), (None, QpState::Err));
}

#[test]
fn a_sleeper_that_could_not_look_looks_again() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(64, Some(&channel), 42);
    let end = node.end_of(QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap(), cq);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    set_state(&end.qp, QpState::Err);
    end.cq.arm(false).unwrap();
    keep(&there);
    // Who completes something is stopped between these two.
    assert!(there.bell(0));
    std::thread::scope(|s| {
        let (sleeper, task) = asleep(s, || channel.next().unwrap());
        // It waits for the lock, and has begun to look anew when it has been awake after that time.
        std::thread::sleep(LOCK_LIMIT);
        let many = task.sleeps() + 2;
        until(|| task.sleeps() >= many || sleeper.is_finished());
        assert!(!sleeper.is_finished());
        there.store(Word::Cq(0, CqWord::Armed), Armed::No as u64);
        give_back(&there);
        let begun = Instant::now();
        until(|| sleeper.is_finished() || begun.elapsed() >= GUARD);
        let woken = sleeper.is_finished();
        if !woken {
            end.cq.arm(false).unwrap();
            end.receive(1, 0, 8);
        }
        assert_eq!(sleeper.join().unwrap(), 42);
        assert!(woken);
    });
    assert!(!readable(channel.fd(), 0));
}

#[test]
fn a_queue_pair_that_fails_shows_it_though_a_peer_has_its_lock() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    end.receive(1, 0, 8);
    assert_eq!(there.lock(Object::Qp(0)), Ok(Locked::Clean));
    let sges = [Sge { lkey: end.region.lkey ^ 1, ..end.sge(0, 8) }];
    end.qp.post_send(&wr(2, Opcode::Send, &sges)).unwrap();
    let completion = end.poll();
    assert_eq!((completion.wr_id, completion.status), (2, Status::LocProtErr));
    assert_eq!((end.qp.state(), end.qp.query().attributes.state), (QpState::Err, QpState::Err));
    // Who changes it waits for longer, and takes the lock back.
    assert!(
        end.qp.modify(Attr::STATE, &Attributes { state: QpState::Rts, ..Attributes::default() }).is_err()
    );
    assert!(!there.unlock(Object::Qp(0)));
    end.receive(3, 0, 8);
    let flushed = [(); 2].map(|()| end.poll()).map(|completion| (completion.wr_id, completion.status));
    assert_eq!(flushed, [(1, Status::WrFlushErr), (3, Status::WrFlushErr)]);
}

#[test]
fn receives_are_flushed_once_a_peer_gives_back_the_lock_of_a_queue_pair_that_failed() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    (1..3).for_each(|n| end.receive(n, 0, 8));
    assert_eq!(there.lock(Object::Qp(0)), Ok(Locked::Clean));
    let sges = [Sge { lkey: end.region.lkey ^ 1, ..end.sge(0, 8) }];
    end.qp.post_send(&wr(3, Opcode::Send, &sges)).unwrap();
    assert_eq!(end.poll().wr_id, 3);
    assert_eq!(end.try_poll(), None);
    assert!(there.unlock(Object::Qp(0)));
    let flushed = [(); 2].map(|()| end.poll()).map(|completion| (completion.wr_id, completion.status));
    assert_eq!(flushed, [(1, Status::WrFlushErr), (2, Status::WrFlushErr)]);
    assert_eq!(end.try_poll(), None);
}
