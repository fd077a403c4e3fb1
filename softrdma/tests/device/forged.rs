//! Lock words that say that a living process holds what it does not hold: whoever may write the segment writes
//! them with one store. The own calls of the process go through all the same.

use std::sync::atomic::Ordering;
use std::time::Instant;

use softrdma::core::shared::Object;
use softrdma::core::transport::{Locked, Transport};
use softrdma::core::verbs::{Attr, QpState, QpType, Status};
use softrdma::device::site::number;
use softrdma::device::{Attributes, Error};
use softrdma::host::keys::Table;
use softrdma::host::objects::{Host, LOCK_LIMIT};

use crate::common::*;

const QP: Object = Object::Qp(0);

fn change(end: &End, state: QpState) -> Result<(), Error> {
    end.qp.modify(Attr::STATE, &Attributes { state, ..Attributes::default() })
}

/// What a lock leaves in memory is what a forger writes.
fn forge(there: &Host) {
    assert_eq!(there.lock(QP), Ok(Locked::Clean));
}

#[test]
fn a_queue_pair_that_nobody_sends_to_is_connected() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (end, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    let there = folder.view();
    forge(&there);
    bring_up(&end.qp, &attributes(other.qp.qp_num()), QpState::Init);
    set_state(&end.qp, QpState::Reset);
    forge(&there);
    connect(&end.qp, &other.qp);
    assert!(!there.unlock(QP));
    end.receive(1, 0, 64);
    other.send(2, 0, 64);
    assert_eq!((end.done(1).byte_len, other.done(2).status), (64, Status::Success));
}

#[test]
fn a_queue_pair_is_not_held_by_who_is_not_its_peer() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (end, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&end.qp, &other.qp);
    let there = folder.view();
    end.receive(1, 0, 64);
    forge(&there);
    set_state(&end.qp, QpState::Err);
    assert_eq!(end.poll().status, Status::WrFlushErr);
    assert!(!there.unlock(QP));
}

#[test]
fn a_peer_that_runs_and_does_nothing_does_not_hold_a_queue_pair() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    let (own, peer) = folder.stranger();
    let there = Host::of_peer(own.clone(), peer);
    bring_up(&end.qp, &attributes(number(own.owner().slot(), 0)), QpState::Rts);
    end.receive(1, 0, 64);
    forge(&there);
    set_state(&end.qp, QpState::Err);
    assert_eq!(end.poll().status, Status::WrFlushErr);
    forge(&there);
    set_state(&end.qp, QpState::Reset);
    assert!(!there.unlock(QP));
}

/// Of its own threads a process knows no more than the word says: it is waited for, once.
#[test]
fn a_lock_that_the_process_itself_is_said_to_have_is_waited_for_once() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    let (own, peer) = folder.stranger();
    let there = Host::of_peer(own.clone(), peer.clone());
    forge(&there);
    // Its word is the one that says what this process has signed.
    let words = peer.memory().words(0, peer.memory().len() / 8).unwrap();
    let word =
        words.iter().skip(512).find(|word| word.load(Ordering::Relaxed) == own.owner().word()).unwrap();
    word.store(peer.owner().word(), Ordering::Relaxed);
    assert_eq!(change(&end, QpState::Err), Err(Error::Busy));
    busy_at_once(&end);
    word.store(0, Ordering::Relaxed);
    set_state(&end.qp, QpState::Err);
}

fn busy_at_once(end: &End) {
    let begun = Instant::now();
    for _ in 0..8 {
        assert_eq!(change(end, QpState::Err), Err(Error::Busy));
    }
    assert!(begun.elapsed() < LOCK_LIMIT, "each of eight calls waited");
}

/// What a peer may be at work with is left to it, and not waited for again in every call.
fn left_to_its_peer(keep: impl Fn(&Child), go_on: impl Fn(&Child), uses_memory: bool) {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    let words = Words::new();
    let child = Child::run(|| {
        let (own, peer) = folder.stranger();
        let there = Host::of_peer(own.clone(), peer.clone());
        words.put(1, &[u64::from(own.owner().slot())]);
        let [rkey] = words.get(1);
        forge(&there);
        let pin = uses_memory.then(|| Table::of(&peer).pin(rkey as u32, own.owner(), &*own).unwrap());
        words.put(1, &[0]);
        words.get::<1>(1);
        drop(pin);
        words.put(1, &[u64::from(there.unlock(QP))]);
        words.get::<1>(1);
    });
    let [slot] = words.get(0);
    bring_up(&end.qp, &attributes(number(slot as u16, 0)), QpState::Rts);
    words.put(0, &[u64::from(end.region.rkey)]);
    words.get::<1>(0);
    keep(&child);
    assert_eq!(change(&end, QpState::Err), Err(Error::Busy));
    busy_at_once(&end);
    assert_eq!(end.qp.state(), QpState::Rts);
    go_on(&child);
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [1], "it was still its own");
    set_state(&end.qp, QpState::Err);
    child.kill();
    child.wait();
}

#[test]
fn a_stopped_peer_keeps_its_queue_pair() {
    let stop = |child: &Child| {
        child.signal(libc::SIGSTOP);
        child.wait_stopped();
    };
    left_to_its_peer(stop, |child| child.signal(libc::SIGCONT), false);
}

#[test]
fn a_peer_that_uses_memory_keeps_its_queue_pair() {
    left_to_its_peer(|_| {}, |_| {}, true);
}
