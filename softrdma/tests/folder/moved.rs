//! Queues that are moved away from a process that is stopped with their lock, and those that use them.

use std::sync::atomic::Ordering;
use std::time::Instant;

use softrdma::device::{QpInit, QueuePair, Wr, XrcDomain};
use softrdma::queues::shared::{
    CqJournal, CqWord, Fence, Memory, Object, QpJournal, QpWord, SrqWord, Take, Word,
};
use softrdma::queues::transport::Transport;
use softrdma::rules::completion::Completion;
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{Opcode, QpState, QpType, SendFlags, Status, WcOpcode};
use softrdma::shm::objects::Host;
use softrdma_testing::device::*;
use softrdma_testing::thread::sleeps;

use crate::bystander::{Server, stop};

/// What a sender has of a queue pair with 15 requests, whose ring has no room for more than one besides.
struct Held {
    folder: Folder,
    /// Alive as long as its end is.
    _node: Node,
    end: End,
}

impl Held {
    fn new() -> Self {
        let folder = Folder::new();
        let node = Node::new(&folder);
        let cq = node.cq(64, None, 1);
        let mut init = node.init(QpType::Rc, &cq);
        init.cap.max_recv_wr = 15;
        let end = node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq);
        bring_up(&end.qp, &attributes(77), QpState::Rts);
        (0..15).for_each(|n| end.receive(n, 0, 64));
        Held { folder, _node: node, end }
    }
}

/// An entry of a completion queue that a sender to queue pair 0 publishes.
fn publish(there: &Host, count: u32, wr_id: u64, qp_num: u32) {
    let completion =
        Completion { status: Status::Success, ..Completion::flushed(wr_id, WcOpcode::Recv, qp_num) };
    let entry = |word| Word::Entry { cq: 0, slot: (count - 1) % 64, word };
    let words = completion.pack(count, None);
    for word in (0..words.len()).rev() {
        there.store(entry(word as u32), words[word]);
    }
}

/// A sender that is stopped after the completion, before it takes the request.
#[test]
fn a_program_that_saw_a_completion_posts_though_the_sender_is_stopped() {
    let held = Held::new();
    let qp_num = held.end.qp.qp_num();
    let words = Words::new();
    let child = Child::run(|| {
        let there = held.folder.view();
        there.lock(Object::Qp(0)).unwrap();
        publish(&there, 1, 0, qp_num);
        there.store(Word::Cq(0, CqWord::Tail), 1);
        words.put(1, &[0]);
        words.get::<1>(1);
        there.store(Word::Qp(0, QpWord::Head), 1);
        words.put(1, &[u64::from(there.unlock(Object::Qp(0)))]);
        words.get::<1>(1);
    });
    words.get::<1>(0);
    stop(&child);
    assert_eq!(held.end.qp.post_receive(15, &[]), Ok(()), "15 are posted, one of them completed");
    assert_eq!(held.end.done(0).qp_num, qp_num);
    // The ring has no more.
    assert_eq!(held.end.qp.post_receive(16, &[]), Err(Rejected::Full));
    child.signal(libc::SIGCONT);
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [1]);
    child.kill();
    child.wait();
}

/// A sender that was stopped within a burst goes on with it: what it counts reaches nobody, and no request is
/// lost over it.
#[test]
fn what_a_stopped_sender_counts_makes_no_room() {
    let held = Held::new();
    let qp_num = held.end.qp.qp_num();
    let words = Words::new();
    let child = Child::run(|| {
        let there = held.folder.view();
        let head = |count| there.store(Word::Qp(0, QpWord::Head), count);
        there.lock(Object::Qp(0)).unwrap();
        let delivery = QpJournal { published: false, cq: 0, take: Take::Head(0), breaks: false };
        there.store(Word::Qp(0, QpWord::Journal), delivery.pack());
        there.lock(Object::Cq(0)).unwrap();
        there.store(Word::Cq(0, CqWord::Journal), CqJournal { qp: 0, tail: 1 }.pack());
        publish(&there, 1, 0, qp_num);
        head(1);
        words.put(1, &[0]);
        words.get::<1>(1);
        for count in 2..12 {
            publish(&there, count, u64::from(count) - 1, qp_num);
            head(u64::from(count));
        }
        words.put(1, &[0]);
        words.get::<1>(1);
        let is_mine = there.unlock(Object::Cq(0));
        let found = there.resolve(0, Object::Cq(0)).unwrap();
        let is_known = matches!(found, Some(Fence::Delivery(so)) if so.take == Take::Head(1) && so.published);
        there.store(Word::Qp(0, QpWord::Journal), 0);
        let gave_back = there.unlock(Object::Qp(0));
        words.put(1, &[u64::from(!is_mine && is_known && gave_back)]);
        words.get::<1>(1);
    });
    words.get::<1>(0);
    stop(&child);
    held.end.done(0);
    // Moved, as the owner waits for it.
    held.end.cq.arm(false).unwrap();
    child.signal(libc::SIGCONT);
    words.put(0, &[0]);
    words.get::<1>(0);
    let posted =
        (15..40).take_while(|n| held.end.qp.post_receive(*n, &[held.end.sge(0, 64)]).is_ok()).count();
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [1]);
    assert_eq!(held.end.try_poll(), None);
    assert_eq!(posted, 2, "one was completed, and there is room for one besides");
    child.kill();
    child.wait();
}

/// A client that goes on with a list after its target has gone on without it: what is lost has a completion
/// that says so, also where none was asked for, and gives its place back.
#[test]
fn requests_of_a_list_that_are_lost_complete_with_errors() {
    let folder = Folder::new();
    let server = Server::new(&folder, false);
    let words = Words::new();
    let child = Child::run(|| {
        let node = Node::new(&folder);
        let end = node.end(QpType::Rc);
        words.connect(1, &end.qp);
        end.send(100, 0, 8);
        end.done(100);
        // 1 and 4 ask for a completion.
        let sges = [end.sge(0, 8)];
        let request = |n: u64| {
            let flags = if matches!(n, 1 | 4) { SendFlags::SIGNALED } else { SendFlags::NONE };
            Wr { flags, ..wr(n, Opcode::Send, &sges) }
        };
        let mut sending = end.qp.sending();
        (0..6).for_each(|n| sending.accept(&request(n)).unwrap());
        (0..2).for_each(|n| sending.post(&request(n)));
        words.put(1, &[0]);
        words.get::<1>(1);
        (2..6).for_each(|n| sending.post(&request(n)));
        drop(sending);
        for (wr_id, status) in [(1, Status::Success), (2, Status::RemOpErr)]
            .into_iter()
            .chain((3..6).map(|n| (n, Status::WrFlushErr)))
        {
            let completion = end.poll();
            assert_eq!((completion.wr_id, completion.status), (wr_id, status));
        }
        assert_eq!((end.try_poll(), end.qp.send_room()), (None, 16));
    });
    let [client] = words.get(0);
    bring_up(&server.a.qp, &attributes(client as u32), QpState::Rts);
    (0..8).for_each(|n| server.receive(&server.a, n, 64 * n as usize));
    words.put(0, &[u64::from(server.a.qp.qp_num())]);
    words.get::<1>(0);
    stop(&child);
    // Moved, as the owner waits for it.
    server.a.cq.arm(false).unwrap();
    child.signal(libc::SIGCONT);
    words.put(0, &[0]);
    assert_eq!(child.wait(), 0);
    for n in 0..3 {
        server.a.done(n);
    }
    assert_eq!(server.a.try_poll(), None);
}

/// Takes the lock of an object of the process in slot 0 and is stopped with it.
fn stopped_with(folder: &Folder, object: Object) -> Child {
    let words = Words::new();
    let child = Child::run(|| {
        let there = folder.view();
        there.lock(object).unwrap();
        words.put(1, &[0]);
        words.get::<1>(1);
    });
    words.get::<1>(0);
    stop(&child);
    child
}

/// What the owner changes about a queue is changed though a client is stopped with its lock.
#[test]
fn an_owner_changes_queues_that_a_stopped_client_keeps() {
    let folder = Folder::new();
    let server = Server::new(&folder, true);
    let node = Node::new(&folder);
    let b = node.end(QpType::Rc);
    connect(&b.qp, &server.b.qp);
    let srq = server.srq.as_ref().unwrap();
    let mut children = vec![stopped_with(&folder, Object::Srq(0))];
    assert_eq!(srq.modify(Some(2), Some(64)), Ok(()));
    assert_eq!((srq.limit(), srq.max_wr()), (2, 64));
    children.push(stopped_with(&folder, Object::Cq(0)));
    assert_eq!(server.b.cq.resize(200), Ok(200));
    for n in 0..3 {
        server.receive(&server.b, n, 0);
    }
    for n in 0..3 {
        b.send(n, 0, 8);
        b.done(n);
        server.b.done(n);
    }
    for child in children {
        child.kill();
        child.wait();
    }
}

/// A queue of the target is kept by who is stopped, and the target does not look after it: who goes on posting
/// waits for it once, not with each request.
#[test]
fn who_posts_more_does_not_wait_for_a_stopped_bystander_each_time() {
    let folder = Folder::new();
    let words = Words::new();
    let target = Child::run(|| {
        let node = Node::new(&folder);
        let end = node.end(QpType::Rc);
        words.connect(1, &end.qp);
        (0..8).for_each(|n| end.receive(n, 0, 64));
        words.put(1, &[0]);
        words.get::<1>(1);
        (0..8).for_each(|n| assert_eq!(end.done(n).byte_len, 8));
    });
    let [qp_num] = words.get(0);
    let node = Node::new(&folder);
    let b = node.end(QpType::Rc);
    words.put(0, &[u64::from(b.qp.qp_num())]);
    words.get::<1>(0);
    bring_up(&b.qp, &attributes(qp_num as u32), QpState::Rts);
    let stopped = stopped_with(&folder, Object::Cq(0));
    let begun = Instant::now();
    b.send(0, 0, 8);
    let before = sleeps();
    (1..8).for_each(|n| b.send(n, 0, 8));
    let slept = sleeps() - before;
    println!("eight calls took {:?}, the last seven {slept} sleeps", begun.elapsed());
    words.put(0, &[0]);
    (0..8).for_each(|n| assert_eq!(b.done(n).status, Status::Success));
    assert_eq!(target.wait(), 0);
    stopped.kill();
    stopped.wait();
    assert!(slept < 25, "seven calls slept {slept} times");
}

/// Two clients are stopped one after the other, each with the lock of the queue where it was by then. What the
/// owner sends completes.
#[test]
fn a_completion_follows_a_queue_that_is_moved_again() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (end, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&end.qp, &other.qp);
    let first = stopped_with(&folder, Object::Cq(0));
    // Moved, as the owner waits for it.
    end.cq.arm(false).unwrap();
    let second = stopped_with(&folder, Object::Cq(0));
    other.receive(1, 0, 64);
    end.send(2, 0, 8);
    assert_eq!(other.done(1).byte_len, 8);
    assert_eq!(
        (end.done(2).status, end.qp.state(), node.has_event()),
        (Status::Success, QpState::Rts, false)
    );
    for child in [first, second] {
        child.kill();
        child.wait();
    }
}

/// The word of an object of the process in slot 0 that says of which making it is.
fn generation(folder: &Folder, first: Word) -> impl Fn(Option<u64>) -> u64 {
    let (own, peer) = folder.stranger();
    let at = Host::of_peer(own, peer.clone()).offset(first).unwrap() - 72;
    move |value| {
        let word = peer.memory().u64(at).unwrap();
        let before = word.load(Ordering::Acquire);
        value.into_iter().for_each(|value| word.store(value, Ordering::Release));
        before
    }
}

/// Requests that meet a queue at the moment at which it is moved come a little later.
#[test]
fn a_queue_that_is_moved_just_now_breaks_no_connection() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let xrcd = XrcDomain::open(&node.device, None, true, false).unwrap();
    let cq = node.cq(16, None, 0);
    let srq = node.xrc_srq(&xrcd, &cq);
    let init = QpInit { xrcd: Some(xrcd), ..node.init(QpType::XrcRecv, &cq) };
    let target = QueuePair::new(&node.device, &init).unwrap();
    let other = Node::new(&folder);
    let sender = other.end(QpType::XrcSend);
    connect(&sender.qp, &target);
    let home = node.end(QpType::Rc);
    post_shared(&srq, 1, &home, 1000, 64);
    let generation = generation(&folder, Word::Srq(0, SrqWord::Journal));
    let before = generation(None);
    // As its owner does while it moves the queue.
    generation(Some(before | 1 << 63));
    let sges = [sender.sge(0, 8)];
    sender.qp.post_send(&Wr { srq_num: srq.number(), ..wr(5, Opcode::Send, &sges) }).unwrap();
    assert_eq!(sender.try_poll(), None);
    generation(Some(before));
    sender.done(5);
    assert_eq!(poll_soon(&cq).wr_id, 1);
}
