//! A client that is stopped with the lock of a queue of its server, and the others that use the same queue: the
//! server and its other clients do not notice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use softrdma::device::{Attributes, Channel, QpInit, QueuePair, SharedReceiveQueue, SrqInit, SrqType, Wr};
use softrdma::queues::shared::{CqWord, Memory, Object, SrqWord, Word};
use softrdma::queues::transport::Transport;
use softrdma::rules::completion::Completion;
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma::shm::lock::{Lock, Owner, PATIENCE};
use softrdma::shm::objects::{Host, LOCK_LIMIT};
use softrdma_testing::device::*;
use softrdma_testing::thread::sleeps;

/// A server with a queue that two clients share: one in this process, one to be stopped.
pub struct Server {
    /// Alive as long as its ends are.
    pub _node: Node,
    pub channel: Arc<Channel>,
    pub a: End,
    pub b: End,
    pub srq: Option<Arc<SharedReceiveQueue>>,
}

impl Server {
    pub fn new(folder: &Folder, shared: bool) -> Self {
        let node = Node::new(folder);
        let srq = shared.then(|| {
            let init = SrqInit {
                pd: node.pd,
                srq_type: SrqType::Basic,
                max_wr: 16,
                max_sge: 2,
                xrcd: None,
                cq: None,
                events: node.events.clone(),
                cookie: 0,
            };
            SharedReceiveQueue::new(&node.device, &init).unwrap()
        });
        let channel = Channel::new(&node.device).unwrap();
        let cq = node.cq(64, Some(&channel), 1);
        let end = || {
            let mut init = QpInit { srq: srq.clone(), ..node.init(QpType::Rc, &cq) };
            // More than the queue has room for, so that its clients take its lock for each message.
            init.cap.max_send_wr = 64;
            node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq.clone())
        };
        let (a, b) = (end(), end());
        Server { channel, a, b, srq, _node: node }
    }

    /// Posts a request for whom it may concern.
    pub fn receive(&self, end: &End, wr_id: u64, offset: usize) {
        match &self.srq {
            Some(srq) => post_shared(srq, wr_id, end, offset, 64),
            None => end.receive(wr_id, offset, 64),
        }
    }
}

/// The process that has the lock of the server's queue.
pub fn holder(folder_view: &Host, peer: &softrdma::shm::segment::Peer, object: Object) -> Option<Owner> {
    let first = match object {
        Object::Cq(cq) => Word::Cq(cq, CqWord::Journal),
        Object::Srq(srq) => Word::Srq(srq, SrqWord::Journal),
        Object::Qp(_) => return None,
    };
    // The lock stands in front of the words.
    let at = folder_view.offset(first)? - 8;
    Lock::at(peer.memory().u64(at).unwrap()).owner()
}

pub fn stop(child: &Child) {
    child.signal(libc::SIGSTOP);
    child.wait_stopped();
}

/// What the client that is to be stopped sends: numbers, one after the other.
struct Messages<'a> {
    server: &'a Server,
    /// The next request to receive.
    next: u64,
    received: u64,
}

impl Messages<'_> {
    fn post(&mut self) {
        self.server.receive(&self.server.a, self.next, 64 * (self.next % 12) as usize);
        self.next += 1;
    }

    fn take(&mut self, completion: &Completion) {
        let a = &self.server.a;
        assert_eq!((completion.status, completion.qp_num), (Status::Success, a.qp.qp_num()));
        let at = 64 * (completion.wr_id % 12) as usize;
        assert_eq!(a.memory.word(at), self.received, "lost or doubled");
        self.received += 1;
        self.post();
    }

    /// Takes a message if there is one.
    fn take_one(&mut self) {
        if let Some(completion) = poll(&self.server.a.cq) {
            self.take(&completion);
        }
    }
}

/// The client sends by the engine, and is stopped at random moments until it has the lock.
fn stopped_in_the_midst(shared: bool, object: Object) {
    let folder = Folder::new();
    let server = Server::new(&folder, shared);
    let words = Words::new();
    let child = Child::run(|| {
        let node = Node::new(&folder);
        let end = node.end(QpType::Rc);
        words.connect(1, &end.qp);
        words.put(1, &[0]);
        let mut failed = None;
        for n in 0.. {
            end.memory.fill(0, &u64::to_ne_bytes(n));
            end.send(n, 0, 8);
            let completion = end.poll_long();
            if completion.status != Status::Success {
                failed = Some(completion);
                break;
            }
        }
        words.put(1, &[failed.map_or(0, |completion| completion.status as u64)]);
    });
    let [client] = words.get(0);
    bring_up(&server.a.qp, &attributes(client as u32), QpState::Rts);
    words.put(0, &[u64::from(server.a.qp.qp_num())]);
    words.get::<1>(0);
    let node = Node::new(&folder);
    let b = node.end(QpType::Rc);
    connect(&b.qp, &server.b.qp);
    let (own, peer) = folder.stranger();
    let view = Host::of_peer(own, peer.clone());
    let mine = peer.owner();
    for n in 0..12 {
        server.receive(&server.a, n, 64 * n as usize);
    }
    let mut messages = Messages { server: &server, next: 12, received: 0 };
    // Stopped with the lock.
    let begun = Instant::now();
    for n in 0u64.. {
        // It has got on since it was stopped last, and is anywhere in the next message.
        let before = messages.received;
        while messages.received == before {
            messages.take_one();
            assert!(begun.elapsed() < GUARD, "never stopped with the lock");
        }
        (0..n * 97 % 4096).for_each(|_| std::hint::spin_loop());
        stop(&child);
        if holder(&view, &peer, object).is_some_and(|holder| holder != mine) {
            break;
        }
        child.signal(libc::SIGCONT);
    }
    // Others go on, while it is stopped.
    let begun = Instant::now();
    if !shared {
        server.b.receive(500, 2000, 64);
    }
    b.memory.fill(0, &[7; 40]);
    b.send(77, 0, 40);
    let mut armed = None;
    let message = loop {
        if let Some(completion) = poll(&server.a.cq) {
            if completion.qp_num == server.b.qp.qp_num() {
                break completion;
            }
            // The client may have used up all requests of the shared queue before it was stopped.
            messages.take(&completion);
        }
        if let Some(completion) = b.try_poll() {
            assert_eq!(completion.status, Status::Success);
        }
        assert!(begun.elapsed() < GUARD, "a bystander waits");
        armed = armed.or_else(|| Some(server.a.cq.arm(false)));
    };
    assert_eq!(message.status, Status::Success);
    assert_eq!(armed, Some(Ok(())));
    assert_eq!(server.a.cq.arm(true), Ok(()));
    println!("a bystander's message took {:?}", begun.elapsed());
    // It goes on, and its connection either does or ends.
    child.signal(libc::SIGCONT);
    let (begun, before) = (Instant::now(), messages.received);
    if shared {
        // In place of the request that the bystander's message took.
        messages.post();
    }
    let has_ended = || readable(words.fd(0), 0);
    // Many more than may be there already.
    while messages.received < before + 1000 && !has_ended() {
        messages.take_one();
        assert!(begun.elapsed() < GUARD, "the connection neither goes on nor ends");
    }
    println!("{before} messages before, {} in all", messages.received);
    if has_ended() {
        // Its process went on with a burst whose place was gone.
        assert_eq!(words.get::<1>(0), [Status::RemOpErr as u64]);
    }
    child.kill();
    child.wait();
}

#[test]
fn a_client_stopped_with_the_lock_of_a_completion_queue() {
    stopped_in_the_midst(false, Object::Cq(0));
}

#[test]
fn a_client_stopped_with_the_lock_of_a_shared_receive_queue() {
    stopped_in_the_midst(true, Object::Srq(0));
}

/// A client that is stopped within an atomic operation: others, elsewhere in the same memory, go on, and who
/// waits for the same bytes waits and does not break.
#[test]
fn a_client_stopped_with_the_lock_of_an_atomic_operation() {
    let folder = Folder::new();
    let server = Server::new(&folder, false);
    let node = Node::new(&folder);
    let b = node.end(QpType::Rc);
    bring_up(&b.qp, &Attributes { retry_cnt: 1, ..attributes(server.b.qp.qp_num()) }, QpState::Rts);
    bring_up(&server.b.qp, &attributes(b.qp.qp_num()), QpState::Rts);
    let counter = |n: usize| (server.b.memory.addr(8 * n), server.b.region.rkey);
    server.b.memory.fill(0, &[0; 64]);
    let words = Words::new();
    let child = Child::run(|| {
        let (own, peer) = folder.stranger();
        assert!(peer.atomics_lock(counter(0).0).unwrap().try_lock(own.owner()));
        words.put(1, &[0]);
        words.get::<1>(1);
        assert!(peer.atomics_lock(counter(0).0).unwrap().unlock(own.owner()));
        words.get::<1>(1);
    });
    words.get::<1>(0);
    stop(&child);
    let add = |wr_id: u64, to: (u64, u32)| {
        let sges = [b.sge(0, 8)];
        let operands = Operands::Atomic { addr: to.0, rkey: to.1, compare_add: 1, swap: 0 };
        b.qp.post_send(&Wr { operands, ..wr(wr_id, Opcode::FetchAndAdd, &sges) }).unwrap();
    };
    add(1, counter(1));
    b.done(1);
    // Longer than its retries take, with a wait for the lock in each.
    add(2, counter(0));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert_eq!(b.try_poll(), None);
    }
    child.signal(libc::SIGCONT);
    words.put(0, &[0]);
    b.done(2);
    assert_eq!((server.b.memory.word(0), server.b.memory.word(8)), (1, 1));
    child.kill();
    child.wait();
}

/// A server that sleeps until the queue has something for it, while a client is stopped with the queue's lock.
#[test]
fn a_server_that_sleeps_for_a_queue_is_woken_to_take_it_back() {
    let folder = Folder::new();
    let server = Server::new(&folder, false);
    let node = Node::new(&folder);
    let b = node.end(QpType::Rc);
    connect(&b.qp, &server.b.qp);
    server.b.receive(5, 0, 64);
    server.b.cq.arm(false).unwrap();
    let words = Words::new();
    let child = Child::run(|| {
        let there = folder.view();
        there.lock(Object::Cq(0)).unwrap();
        words.put(1, &[0]);
        words.get::<1>(1);
        // What it writes now reaches nobody, and it finds out.
        there.store(Word::Cq(0, CqWord::Tail), 77);
        there.store(Word::Cq(0, CqWord::Events), u64::MAX);
        words.put(1, &[u64::from(there.unlock(Object::Cq(0)))]);
        words.get::<1>(1);
    });
    words.get::<1>(0);
    stop(&child);
    std::thread::scope(|s| {
        let sleeper = s.spawn(|| server.channel.next().unwrap());
        b.send(6, 0, 40);
        b.done(6);
        assert_eq!(sleeper.join().unwrap(), 1);
    });
    assert_eq!(server.b.done(5).byte_len, 40);
    child.signal(libc::SIGCONT);
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [0]);
    for n in 0..100 {
        server.b.receive(n, 0, 64);
        b.send(n, 0, 8);
        b.done(n);
        server.b.done(n);
    }
    assert!(!node.has_event());
    child.kill();
    child.wait();
}

/// A datagram queue pair of which another sender is stopped with the lock: what is sent there meanwhile is
/// lost, as datagrams may be, and does not hold up who sends. Afterwards nothing is.
#[test]
fn datagrams_to_a_queue_pair_that_a_stopped_sender_keeps_hold_nobody_up() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let target = node.end(QpType::Ud);
    bring_up(&target.qp, &attributes(0), QpState::Rts);
    let other = Node::new(&folder);
    let (sender, elsewhere) = (other.end(QpType::Ud), other.end(QpType::Ud));
    for end in [&sender, &elsewhere] {
        bring_up(&end.qp, &attributes(0), QpState::Rts);
    }
    target.receive(1, 0, 2000);
    sender.datagram(1, target.qp.qp_num(), 0, 8);
    sender.done(1);
    target.done(1);
    let words = Words::new();
    let child = Child::run(|| {
        let there = folder.view();
        there.lock(Object::Qp(0)).unwrap();
        words.put(1, &[0]);
        words.get::<1>(1);
        words.put(1, &[u64::from(there.unlock(Object::Qp(0)))]);
        words.get::<1>(1);
    });
    words.get::<1>(0);
    stop(&child);
    let (begun, slept) = (Instant::now(), sleeps());
    // Small and large ones, which go different ways.
    for n in 0..40 {
        sender.datagram(n, target.qp.qp_num(), 0, if n % 2 == 0 { 8 } else { 1000 });
        sender.done(n);
        elsewhere.receive(n, 0, 2000);
        sender.datagram(n, elsewhere.qp.qp_num(), 0, 8);
        sender.done(n);
        elsewhere.done(n);
    }
    let slept = sleeps() - slept;
    println!("80 datagrams took {:?} and {slept} sleeps", begun.elapsed());
    // Who waits for a lock sleeps until it asks after the holder again.
    let whole_wait = (LOCK_LIMIT.as_millis() / PATIENCE.as_millis()) as u64;
    assert!(slept < whole_wait, "a bystander waits: {slept} sleeps");
    child.signal(libc::SIGCONT);
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [1]);
    assert_eq!(target.try_poll(), None);
    for n in 0..5 {
        target.receive(n, 0, 2000);
        sender.datagram(n, target.qp.qp_num(), 0, 8);
        sender.done(n);
        target.done(n);
    }
    child.kill();
    child.wait();
}
