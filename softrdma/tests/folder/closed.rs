//! Processes that the kernel keeps from each other's memory: a real filter, and peers that did not expect it.

use softrdma::device::{Attributes, Channel, QueuePair, Wr};
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::filter::forbid_direct_copies;
use softrdma_testing::thread::Task;

const LEN: usize = 15_000;
/// Where the memory of each side has what.
const CAME: usize = 0;
const SENT: usize = LEN;
const WRITTEN: usize = 2 * LEN;
const READ: usize = 3 * LEN;
/// A word that the other side adds to, and one for what this side's addition finds there.
const WORD: usize = 4 * LEN;
const BEFORE: usize = WORD + 8;

fn data(n: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 5 + n) as u8).collect()
}

/// One side of a connection: sends a message, and reads, writes and adds to the other's memory.
fn both_ways(side: usize, folder: &Folder, words: &Words) {
    let node = Node::new(folder);
    let end = node.end(QpType::Rc);
    words.put(side, &[u64::from(end.qp.qp_num()), end.memory.addr(0), u64::from(end.region.rkey)]);
    let [peer, there, rkey] = words.get(side);
    bring_up(&end.qp, &Attributes { timeout: 20, ..attributes(peer as u32) }, QpState::Rts);
    end.receive(1, CAME, LEN);
    words.put(side, &[0]);
    words.get::<1>(side);
    end.memory.fill(SENT, &data(side));
    end.send(2, SENT, LEN);
    let mut seen = [end.poll(), end.poll()];
    seen.sort_by_key(|completion| completion.wr_id);
    assert!(seen.iter().all(|completion| completion.status == Status::Success), "{seen:?}");
    assert!(end.memory.bytes(CAME, LEN) == data(1 - side));
    // What came goes back, and comes again.
    let (written, rkey) = (there + WRITTEN as u64, rkey as u32);
    end.remote(3, Opcode::RdmaWrite, CAME, LEN, (written, rkey));
    end.done(3);
    end.remote(4, Opcode::RdmaRead, READ, LEN, (written, rkey));
    end.done(4);
    assert!(end.memory.bytes(READ, LEN) == data(1 - side));
    let addr = there + WORD as u64;
    let operands = Operands::Atomic { addr, rkey, compare_add: 5 + side as u64, swap: 0 };
    let sges = [end.sge(BEFORE, 8)];
    let wr = Wr { operands, ..wr(5, Opcode::FetchAndAdd, &sges) };
    end.qp.post_send(&wr).unwrap();
    end.done(5);
    // The other side may need help until it is done as well.
    words.put(side, &[0]);
    let mut done = false;
    while !done {
        assert!(poll(&end.cq).is_none());
        done = readable(words.fd(side), 0);
    }
    words.get::<1>(side);
    assert!(end.memory.bytes(WRITTEN, LEN) == data(side));
    assert_eq!(end.memory.word(WORD), 5 + (1 - side) as u64);
}

fn run(forbidden: [bool; 2]) {
    let folder = Folder::new();
    let words = Words::new();
    let side = |side: usize| {
        // SAFETY: plain system call; the other side would wait for one that failed.
        unsafe { libc::alarm(300) };
        if forbidden[side] {
            forbid_direct_copies();
        }
        both_ways(side, &folder, &words);
    };
    // Both are children: a filter stays for ever.
    let children = [Child::run(|| side(0)), Child::run(|| side(1))];
    for child in children {
        assert_eq!(child.wait(), 0);
    }
}

#[test]
fn both_behind_a_filter() {
    run([true; 2]);
}

/// The other one finds out when it is asked for help.
#[test]
fn one_behind_a_filter() {
    run([true, false]);
}

/// Also when it sleeps for the event of the message that needs help.
#[test]
fn one_that_sleeps_is_woken_to_help() {
    let folder = Folder::new();
    let words = Words::new();
    let limit = || {
        // SAFETY: plain system call; the other side would wait for one that failed.
        unsafe { libc::alarm(300) };
    };
    let sender = Child::run(|| {
        limit();
        forbid_direct_copies();
        let node = Node::new(&folder);
        let end = node.end(QpType::Rc);
        words.put(0, &[u64::from(end.qp.qp_num())]);
        let [peer] = words.get(0);
        bring_up(&end.qp, &Attributes { timeout: 20, ..attributes(peer as u32) }, QpState::Rts);
        let [sleeper] = words.get(0);
        Task::first_of(sleeper as i32).wait_asleep();
        end.memory.fill(SENT, &data(7));
        end.send(2, SENT, LEN);
        end.done(2);
        words.put(0, &[0]);
    });
    let receiver = Child::run(|| {
        limit();
        let node = Node::new(&folder);
        let channel = Channel::new(&node.device).unwrap();
        let cq = node.cq(64, Some(&channel), 5);
        let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
        let end = node.end_of(qp, cq);
        words.connect(1, &end.qp);
        end.receive(1, CAME, LEN);
        end.cq.arm(false).unwrap();
        words.put(1, &[u64::from(std::process::id())]);
        assert_eq!(channel.next().unwrap(), 5);
        end.done(1);
        assert!(end.memory.bytes(CAME, LEN) == data(7));
        words.get::<1>(1);
    });
    assert_eq!((sender.wait(), receiver.wait()), (0, 0));
}

/// One that does not look is not woken again and again.
#[test]
fn one_that_needs_help_rings_once() {
    let folder = Folder::new();
    let words = Words::new();
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(64, Some(&channel), 5);
    let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let end = node.end_of(qp, cq);
    let sender = Child::run(|| {
        // SAFETY: plain system call; the other side would wait for one that failed.
        unsafe { libc::alarm(300) };
        forbid_direct_copies();
        let node = Node::new(&folder);
        let own = node.end(QpType::Rc);
        words.put(0, &[u64::from(own.qp.qp_num())]);
        words.get::<1>(0);
        bring_up(&own.qp, &attributes(end.qp.qp_num()), QpState::Rts);
        own.remote(2, Opcode::RdmaWrite, 0, LEN, (end.memory.addr(0), end.region.rkey));
        // Where help is likely to be needed it is there before.
        assert!([Status::RetryExcErr, Status::Success].contains(&own.poll().status));
    });
    let [peer] = words.get(1);
    bring_up(&end.qp, &attributes(peer as u32), QpState::Rts);
    words.put(1, &[0]);
    assert_eq!(sender.wait(), 0);
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int.
    unsafe { libc::ioctl(channel.fd(), libc::FIONREAD, &raw mut bytes) };
    assert!(bytes <= 1, "{bytes}");
}
