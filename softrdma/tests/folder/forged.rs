//! Lock words that say that a living process holds what it does not hold: whoever may write the segment writes
//! them with one store. The own calls of the process go through all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use softrdma::device::{Attributes, Error, QueuePair};
use softrdma::queues::shared::{CqJournal, CqWord, Memory, Object, QpJournal, QpWord, Take, Word};
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport;
use softrdma::rules::verbs::{Attr, QpState, QpType, Status};
use softrdma::shm::keys::Table;
use softrdma::shm::lock::PATIENCE;
use softrdma::shm::objects::{Host, LOCK_LIMIT, STUCK};
use softrdma::shm::segment::{Peer, Segment};
use softrdma::testing::number;
use softrdma_testing::device::*;
use softrdma_testing::thread::{asleep, sleeps, until};

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

/// The lock's word in the peer's segment, which [`forge`] wrote: behind the header the only one that names
/// `own`.
fn forged_word<'a>(own: &Segment, peer: &'a Peer) -> &'a AtomicU64 {
    let words = peer.memory().words(0, peer.memory().len() / 8).unwrap();
    words.iter().skip(512).find(|word| word.load(Ordering::Relaxed) == own.owner().word()).unwrap()
}

/// A connected end whose lock is forged, and the segments by which [`forged_word`] finds its word.
fn forged_end(folder: &Folder) -> (Node, End, Arc<Segment>, Arc<Peer>) {
    let node = Node::new(folder);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(77), QpState::Rts);
    let (own, peer) = folder.stranger();
    forge(&Host::of_peer(own.clone(), peer.clone()));
    (node, end, own, peer)
}

/// Of its own threads a process knows no more than the word says: it is waited for, once.
#[test]
fn a_lock_that_the_process_itself_is_said_to_have_is_waited_for_once() {
    let folder = Folder::new();
    let (_node, end, own, peer) = forged_end(&folder);
    let word = forged_word(&own, &peer);
    word.store(peer.owner().word(), Ordering::Relaxed);
    assert_eq!(change(&end, QpState::Err), Err(Error::Busy));
    busy_at_once(&end);
    word.store(0, Ordering::Relaxed);
    set_state(&end.qp, QpState::Err);
}

fn busy_at_once(end: &End) {
    let before = sleeps();
    for _ in 0..8 {
        assert_eq!(change(end, QpState::Err), Err(Error::Busy));
    }
    let slept = sleeps() - before;
    println!("eight calls slept {slept} times");
    // Who waits asks after each PATIENCE whether the holder lives.
    let once = (LOCK_LIMIT.as_millis() / PATIENCE.as_millis()) as u64;
    assert!(slept < once / 2, "each of eight calls waited: {slept} sleeps");
}

/// Who let go after all is waited for as anybody is when it has the lock again.
#[test]
fn a_lock_that_was_kept_once_is_waited_for_again() {
    let folder = Folder::new();
    let (_node, end, own, peer) = forged_end(&folder);
    let word = forged_word(&own, &peer);
    word.store(peer.owner().word(), Ordering::Relaxed);
    assert_eq!(change(&end, QpState::Err), Err(Error::Busy));
    word.store(0, Ordering::Relaxed);
    set_state(&end.qp, QpState::Err);
    word.store(peer.owner().word(), Ordering::Relaxed);
    std::thread::scope(|s| {
        let (changes, task) = asleep(s, || change(&end, QpState::Reset));
        // Longer than it would be waited for if it had not been had meanwhile.
        let many = task.sleeps() + 2 * (STUCK.as_millis() / PATIENCE.as_millis()) as u64;
        until(|| task.sleeps() >= many || changes.is_finished());
        word.store(0, Ordering::Relaxed);
        assert_eq!(changes.join().unwrap(), Ok(()));
    });
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

/// A control group for the time of a test (cgroup v2).
struct Group(std::path::PathBuf);

impl Group {
    fn new() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let mount = mount.and_then(|line| line.split(' ').nth(1)).expect("a mount of cgroup v2");
        let path = std::path::Path::new(mount).join(format!("ironverbs-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Group(path)
    }

    fn put(&self, file: &str, value: impl ToString) {
        std::fs::write(self.0.join(file), value.to_string()).unwrap();
    }

    fn freeze(&self, child: &Child) {
        self.put("cgroup.procs", child.id());
        self.put("cgroup.freeze", 1);
        let is_frozen =
            || std::fs::read_to_string(self.0.join("cgroup.events")).unwrap().contains("frozen 1");
        while !is_frozen() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (file, value) in [("cgroup.freeze", "0"), ("cgroup.kill", "1")] {
            let _ = std::fs::write(self.0.join(file), value);
        }
        let _ = (0..1000).find(|_| {
            std::thread::sleep(Duration::from_millis(1));
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
#[ignore = "needs root and cgroup v2"]
fn a_frozen_peer_keeps_its_queue_pair() {
    let group = Group::new();
    left_to_its_peer(|child| group.freeze(child), |_| group.put("cgroup.freeze", 0), false);
}

/// A peer that runs, has a queue pair and its completion queue within a delivery, and does not go on: both are
/// taken from it, and others use the completion queue.
#[test]
fn a_queue_does_not_stay_with_who_lost_its_queue_pair() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let cq = node.cq(64, None, 1);
    let of = |qp| node.end_of(qp, cq.clone());
    let make = || QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let (end, other) = (of(make()), of(make()));
    let (own, peer) = folder.stranger();
    let there = Host::of_peer(own.clone(), peer);
    bring_up(&end.qp, &attributes(number(own.owner().slot(), 0)), QpState::Rts);
    end.receive(1, 0, 64);
    forge(&there);
    let delivery = QpJournal { published: false, cq: 0, take: Take::Head(0), breaks: false };
    there.store(Word::Qp(0, QpWord::Journal), delivery.pack());
    assert_eq!(there.lock(Object::Cq(0)), Ok(Locked::Clean));
    there.store(Word::Cq(0, CqWord::Journal), CqJournal { qp: 0, tail: 1 }.pack());
    assert_eq!(change(&end, QpState::Err), Ok(()));
    assert_eq!(end.poll().status, Status::WrFlushErr);
    assert_eq!(cq.arm(false), Ok(()));
    // It finds out.
    assert!(!there.unlock(Object::Cq(0)) && !there.unlock(QP));
    drop(other);
}
