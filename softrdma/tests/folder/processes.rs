//! Processes that meet others in a folder: what their connections need of the kernel, and who has a slot next.

use std::sync::Arc;
use std::time::Instant;

use softrdma::device::{Attributes, Channel, QpInit, QueuePair, Wr};
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{between, near};
use softrdma_testing::thread::Task;

#[test]
fn an_answer_comes_after_the_own_completion() {
    const ROUNDS: u64 = 1000;
    between(
        near,
        QpType::Rc,
        |node, _, words| {
            // Its own completions wake nobody: it is asleep whenever a message comes.
            let channel = Channel::new(&node.device).unwrap();
            let (sent, received) = (node.cq(16, None, 4), node.cq(16, Some(&channel), 5));
            let init = QpInit { send_cq: Some(sent.clone()), ..node.init(QpType::Rc, &received) };
            let end = node.end_of(QueuePair::new(&node.device, &init).unwrap(), received);
            end.cq.arm(false).unwrap();
            connect_by(words, 1, &end);
            for n in 0..ROUNDS {
                assert_eq!(channel.next().unwrap(), 5);
                end.cq.arm(false).unwrap();
                end.done(0);
                end.receive(0, 0, 8);
                end.send(n, 0, 8);
                assert_eq!(poll_soon(&sent).wr_id, n);
            }
            words.get::<1>(1);
        },
        |node, _, words, peer| {
            let end = node.end(QpType::Rc);
            connect_by(words, 0, &end);
            let peer = Task::first_of(peer.pid());
            let (mut overtaken, before) = (0, peer.preemptions());
            for n in 1..=ROUNDS {
                end.send(n, 0, 8);
                // As an acknowledgement comes before all that the peer sends after it.
                let first = end.poll();
                overtaken += u64::from(first.opcode != WcOpcode::Send);
                assert_eq!((first.status, end.poll().status), (Status::Success, Status::Success));
                end.receive(n, 0, 8);
            }
            // A peer that is kept from its processor just then has the lock for too long.
            let kept = peer.preemptions() - before;
            println!("{overtaken} of {ROUNDS} overtaken, {kept} times the peer was kept from its processor");
            assert!(overtaken < ROUNDS / 20 + kept, "{overtaken} of {ROUNDS}, {kept} times kept");
        },
    );
}

#[test]
fn who_follows_the_dead_is_reached() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let mut before = None;
    for _ in 0..5 {
        let words = Words::new();
        let child = Child::run(|| {
            let node = Node::new(&folder);
            let end = node.end(QpType::Rc);
            connect_by(&words, 1, &end);
            end.done(0);
            words.put(1, &[0]);
            words.get::<1>(1);
        });
        let end = node.end(QpType::Rc);
        let peer = connect_by(&words, 0, &end);
        // The place and the number of the one before, who died just now.
        assert_eq!(*before.get_or_insert(peer), peer);
        end.send(1, 0, 8);
        end.done(1);
        words.get::<1>(0);
        child.kill();
        child.wait();
    }
}

/// Connects an end with that of the other side, which has a request to receive; the number of that.
fn connect_by(words: &Words, side: usize, end: &End) -> u32 {
    let peer = words.connect(side, &end.qp);
    end.receive(0, 0, 8);
    words.put(side, &[0]);
    words.get::<1>(side);
    peer
}

/// Sets how many descriptors the process may have.
fn limit_descriptors(most: u64) {
    // SAFETY: plain system calls on a struct of this function.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = most;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

/// A change of state with all attributes that it needs.
fn step(end: &End, from: QpState, state: QpState, to: &Attributes) -> softrdma::device::Result<()> {
    let (required, _) = softrdma::rules::qp::attributes(QpType::Rc, from, state).unwrap();
    end.qp.modify(required.union(softrdma::rules::verbs::Attr::STATE), &Attributes { state, ..*to })
}

/// An end whose completions come with an event.
fn with_channel(node: &Node) -> (Arc<Channel>, End) {
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(16, Some(&channel), 5);
    let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    (channel, node.end_of(qp, cq))
}

#[test]
fn a_connection_has_its_descriptors_before_it_sends() {
    let folder = Folder::new();
    let words = Words::new();
    let sender = Child::run(|| {
        // SAFETY: plain system call; the other side would wait for one that failed.
        unsafe { libc::alarm(300) };
        let node = Node::new(&folder);
        let (channel, end) = with_channel(&node);
        words.put(1, &[u64::from(end.qp.qp_num())]);
        let [peer] = words.get(1);
        let to = attributes(peer as u32);
        bring_up(&end.qp, &to, QpState::Init);
        // As many more as it takes to get through, one after the other.
        let (mut most, mut refused) = (0, 0);
        limit_descriptors(most);
        while let Err(e) = step(&end, QpState::Init, QpState::Rtr, &to) {
            assert_eq!((e.errno(), end.qp.state()), (libc::EMFILE, QpState::Init));
            assert!(most < 1000, "no number of descriptors is enough");
            (most, refused) = (most + 1, refused + 1);
            limit_descriptors(most);
        }
        assert!(refused > 0, "nothing was looked for");
        limit_descriptors(0);
        step(&end, QpState::Rtr, QpState::Rts, &to).unwrap();
        // Both who sleep for it are woken.
        for (n, length) in [(1, 8), (2, 5000)] {
            end.cq.arm(false).unwrap();
            words.get::<1>(1);
            end.send(n, 0, length);
            assert_eq!(channel.next().unwrap(), 5);
            end.done(n);
        }
    });
    let node = Node::new(&folder);
    let (channel, end) = with_channel(&node);
    words.connect(0, &end.qp);
    for n in [1, 2] {
        end.receive(n, 0, 5000);
        end.cq.arm(false).unwrap();
        words.put(0, &[0]);
        assert!(readable(channel.fd(), GUARD.as_millis() as i32), "nobody wakes it");
        assert_eq!(channel.next().unwrap(), 5);
        end.done(n);
    }
    assert_eq!(sender.wait(), 0);
}

/// A process whose first thread ends at one of these times, while another one waits for the end.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ends {
    BeforeItIsMet,
    OnceConnected,
}

/// Ends the calling thread, as `pthread_exit` does at its end. In a first thread the process lives on with the
/// others.
fn end_thread() -> ! {
    // SAFETY: nothing of this thread's is used afterwards, and its stack stays.
    unsafe { libc::syscall(libc::SYS_exit, 1) };
    unreachable!("the thread has ended");
}

/// Waits until the first thread has ended.
fn first_thread_has_ended(pid: i32) {
    let start = Instant::now();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap();
    while !stat().contains(") Z ") {
        assert!(start.elapsed() < GUARD);
        std::thread::yield_now();
    }
}

fn without_its_first_thread(ends: Ends) {
    const LEN: usize = 20_000;
    let folder = Folder::new();
    let (words, calls) = (Words::new(), Words::new());
    let target = Child::run(|| {
        std::thread::scope(|s| {
            s.spawn(|| {
                // What becomes of a panic here would be seen by nobody.
                let work = std::panic::AssertUnwindSafe(|| {
                    // SAFETY: plain system calls.
                    let pid = unsafe {
                        libc::alarm(300);
                        libc::getpid()
                    };
                    let node = Node::new(&folder);
                    let end = node.end(QpType::Rc);
                    if ends == Ends::BeforeItIsMet {
                        calls.put(1, &[0]);
                        first_thread_has_ended(pid);
                    }
                    let own = [u64::from(end.qp.qp_num()), end.memory.addr(0), u64::from(end.region.rkey)];
                    words.put(1, &own);
                    let [peer] = words.get(1);
                    bring_up(&end.qp, &attributes(peer as u32), QpState::Rts);
                    end.receive(1, 0, LEN);
                    words.put(1, &[0]);
                    words.get::<1>(1);
                    if ends == Ends::OnceConnected {
                        calls.put(1, &[0]);
                        first_thread_has_ended(pid);
                    }
                    // Nothing of the library runs here until the other side is done.
                    words.put(1, &[0]);
                    words.get::<1>(1);
                    end.done(1);
                    assert_eq!(end.memory.bytes(0, LEN), [7; LEN]);
                    assert_eq!(end.memory.word(LEN), 1);
                    // It reaches the other side, and itself.
                    end.send(2, 0, LEN);
                    end.done(2);
                    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
                    connect(&one.qp, &other.qp);
                    one.memory.fill(0, &[5; LEN]);
                    other.receive(3, 0, LEN);
                    one.send(4, 0, LEN);
                    one.done(4);
                    other.done(3);
                    assert_eq!(other.memory.bytes(0, LEN), [5; LEN]);
                });
                let ok = std::panic::catch_unwind(work).is_ok();
                // SAFETY: ends the process without running what belongs to the parent.
                unsafe { libc::_exit(i32::from(!ok)) };
            });
            calls.get::<1>(0);
            end_thread();
        });
    });
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    let [peer, addr, rkey] = words.get(0);
    words.put(0, &[u64::from(end.qp.qp_num())]);
    bring_up(&end.qp, &attributes(peer as u32), QpState::Rts);
    words.get::<1>(0);
    let there = |offset: usize| (addr + offset as u64, rkey as u32);
    end.remote(1, Opcode::RdmaWrite, 0, 8, there(LEN + 8));
    end.done(1);
    words.put(0, &[0]);
    words.get::<1>(0);
    end.memory.fill(0, &[7; LEN]);
    end.send(2, 0, LEN);
    end.done(2);
    end.remote(3, Opcode::RdmaWrite, 0, LEN, there(LEN + 8));
    end.done(3);
    end.remote(4, Opcode::RdmaRead, LEN, LEN, there(LEN + 8));
    end.done(4);
    assert_eq!(end.memory.bytes(LEN, LEN), [7; LEN]);
    let (addr, rkey) = there(LEN);
    let operands = Operands::Atomic { addr, rkey, compare_add: 1, swap: 0 };
    end.qp.post_send(&Wr { operands, ..wr(5, Opcode::FetchAndAdd, &[end.sge(0, 8)]) }).unwrap();
    end.done(5);
    // The answer comes from a process whose own number means nothing to the kernel.
    end.receive(6, 0, LEN);
    words.put(0, &[0]);
    end.done(6);
    assert_eq!(target.wait(), 0);
}

#[test]
fn a_process_whose_first_thread_has_ended_is_met() {
    without_its_first_thread(Ends::BeforeItIsMet);
}

#[test]
fn a_process_whose_first_thread_ends_is_still_reached() {
    without_its_first_thread(Ends::OnceConnected);
}
