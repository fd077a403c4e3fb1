//! Many connections whose receive requests complete in one queue. Over shared memory a message may have to say
//! that it is there, where nothing came by its connection for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use softrdma::device::{Channel, CompletionQueue, QpInit, QueuePair};
use softrdma::rules::completion::Completion;
use softrdma::rules::verbs::{QpState, QpType, Status};
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, Fabric};

super::suite! {
    many:
    each_of_many_is_heard_in_its_order,
    who_sleeps_is_woken_by_whoever_was_silent,
    who_was_silent_is_heard_while_others_talk,
    what_came_before_an_error_is_handed_out_though_nobody_was_heard,
    others_are_heard_when_a_silent_one_begins_anew_or_ends,
    nobody_is_missed_who_speaks_just_when_that_is_looked_for,
    a_forked_child_that_polls_is_not_told_in_place_of_its_parent,
}

/// More than a poll looks at in any case.
const COUNT: usize = 40;
/// Receive requests of each.
const DEPTH: u64 = 4;

struct Many {
    fabric: Box<dyn Fabric>,
    nodes: [Node; 2],
    cq: Arc<CompletionQueue>,
    /// Senders and receivers.
    pairs: Vec<(End, End)>,
}

impl Many {
    fn new(carrier: Carrier, count: usize, has_channel: bool) -> (Self, Option<Arc<Channel>>) {
        let fabric = carrier();
        let nodes = fabric.pair();
        let [here, there] = &nodes;
        let channel = has_channel.then(|| Channel::new(&there.device).unwrap());
        let (cq, sends) = (there.cq(16_384, channel.as_ref(), 7), there.cq(64, None, 0));
        let init = QpInit { recv_cq: Some(cq.clone()), ..there.init(QpType::Rc, &sends) };
        let connect = |_| {
            let receiver = there.end_of(QueuePair::new(&there.device, &init).unwrap(), cq.clone());
            let sender = here.end(QpType::Rc);
            connect_ends(&sender, &receiver);
            (0..DEPTH).for_each(|n| receiver.receive(n, 64 * n as usize, 64));
            (sender, receiver)
        };
        let pairs = (0..count).map(connect).collect();
        (Self { fabric, nodes, cq, pairs }, channel)
    }

    /// Sends a word by this connection.
    fn send(&self, connection: usize, word: u64) {
        send(&self.pairs[connection].0, word);
    }

    /// The connection and word of a message; its request is posted again.
    fn read(&self, found: &Completion) -> (usize, u64) {
        assert_eq!((found.status, found.byte_len), (Status::Success, 8));
        let connection = self.pairs.iter().position(|pair| pair.1.qp.qp_num() == found.qp_num).unwrap();
        let receiver = &self.pairs[connection].1;
        let word = receiver.memory.word(64 * found.wr_id as usize);
        receiver.receive(found.wr_id, 64 * found.wr_id as usize, 64);
        (connection, word)
    }

    fn take(&self) -> (usize, u64) {
        self.read(&poll_soon(&self.cq))
    }

    /// Two messages by each connection, the first of which may go another way than those that follow.
    fn greet(&self) {
        for word in 0..2 {
            for connection in 0..self.pairs.len() {
                self.send(connection, word);
                assert_eq!(self.take(), (connection, word));
            }
        }
    }

    /// Polls in vain for so long that nothing is expected of any connection.
    fn wait(&self) {
        for _ in 0..30_000 {
            assert_eq!(poll(&self.cq), None);
        }
    }
}

fn send(sender: &End, word: u64) {
    sender.memory.fill(0, &word.to_ne_bytes());
    sender.send(word, 0, 8);
    sender.done(word);
}

pub fn each_of_many_is_heard_in_its_order(carrier: Carrier) {
    // As many as all of them can be watched, and more.
    for count in [COUNT, 300] {
        let (many, _) = Many::new(carrier, count, false);
        many.greet();
        for round in 0..4 {
            if round % 2 == 1 {
                many.wait();
            }
            // Some say more, and in another order each time.
            let says = |connection: usize| 1 + (connection + round) as u64 % DEPTH;
            let order = || (0..count).map(|n| (n * 7 + round) % count);
            for connection in order() {
                (0..says(connection)).for_each(|word| many.send(connection, word));
            }
            many.fabric.settle();
            let mut next = vec![0; count];
            for _ in 0..order().map(says).sum() {
                let (connection, word) = many.take();
                assert_eq!(word, next[connection], "round {round}, connection {connection}");
                next[connection] += 1;
            }
            assert!((0..count).all(|connection| next[connection] == says(connection)));
            assert_eq!(poll(&many.cq), None);
        }
    }
}

pub fn who_sleeps_is_woken_by_whoever_was_silent(carrier: Carrier) {
    let (many, channel) = Many::new(carrier, COUNT, true);
    let channel = channel.unwrap();
    many.greet();
    for round in 0..COUNT {
        many.wait();
        many.cq.arm(false).unwrap();
        assert_eq!(poll(&many.cq), None);
        let connection = (round * 7) % COUNT;
        many.send(connection, 5);
        assert!(readable(channel.fd(), 10_000), "round {round}");
        assert_eq!(channel.next().unwrap(), 7);
        assert_eq!(many.take(), (connection, 5));
    }
}

pub fn who_was_silent_is_heard_while_others_talk(carrier: Carrier) {
    let (many, _) = Many::new(carrier, COUNT, false);
    many.greet();
    many.wait();
    let silent = COUNT - 1;
    many.send(silent, 9);
    // One of those who talk has something whenever a poll looks.
    for word in 0..DEPTH {
        (0..2).for_each(|connection| many.send(connection, word));
    }
    for word in DEPTH..1000 {
        let (connection, _) = many.take();
        if connection == silent {
            return;
        }
        many.send(connection, word);
    }
    panic!("it was not heard");
}

pub fn what_came_before_an_error_is_handed_out_though_nobody_was_heard(carrier: Carrier) {
    let (many, _) = Many::new(carrier, COUNT, false);
    many.greet();
    many.wait();
    for connection in [3, COUNT - 1] {
        many.send(connection, 1);
        many.send(connection, 2);
        many.fabric.settle();
        let receiver = &many.pairs[connection].1;
        set_state(&receiver.qp, QpState::Err);
        for word in [1, 2] {
            let found = poll_soon(&many.cq);
            assert_eq!((found.status, found.qp_num), (Status::Success, receiver.qp.qp_num()));
            assert_eq!(receiver.memory.word(64 * found.wr_id as usize), word);
        }
        for _ in 2..DEPTH {
            let found = poll_soon(&many.cq);
            assert_eq!((found.status, found.qp_num), (Status::WrFlushErr, receiver.qp.qp_num()));
        }
        assert_eq!(poll(&many.cq), None);
    }
}

pub fn others_are_heard_when_a_silent_one_begins_anew_or_ends(carrier: Carrier) {
    let (mut many, _) = Many::new(carrier, COUNT, false);
    many.greet();
    many.wait();
    // Messages of these two are lost with it.
    for connection in [COUNT - 1, COUNT - 2] {
        many.send(connection, 1);
    }
    many.send(4, 4);
    many.fabric.settle();
    let (sender, receiver) = &many.pairs[COUNT - 1];
    for qp in [&sender.qp, &receiver.qp] {
        set_state(qp, QpState::Reset);
    }
    connect_ends(sender, receiver);
    (0..DEPTH).for_each(|n| receiver.receive(n, 64 * n as usize, 64));
    let gone = many.pairs.swap_remove(COUNT - 2);
    gone.1.qp.destroy().unwrap();
    assert_eq!(many.take(), (4, 4));
    assert_eq!(poll(&many.cq), None);
    many.wait();
    many.greet();
    assert!(!many.nodes[1].has_event());
}

pub fn nobody_is_missed_who_speaks_just_when_that_is_looked_for(carrier: Carrier) {
    const MESSAGES: usize = 600;
    let (many, _) = Many::new(carrier, COUNT, false);
    many.greet();
    let (pairs, heard) = (&many.pairs, &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = 1_u64;
            for n in 0..MESSAGES {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Other polls go by until then each time.
                for _ in 0..random >> 50 {
                    std::hint::spin_loop();
                }
                send(&pairs[(random >> 33) as usize % COUNT].0, n as u64);
                while heard.load(Ordering::Acquire) <= n {
                    std::thread::yield_now();
                }
            }
        });
        for n in 0..MESSAGES {
            // A message that nobody hears is waited for until the test's time is over.
            let found = loop {
                if let Some(found) = poll(&many.cq) {
                    break found;
                }
            };
            assert_eq!(many.read(&found).1, n as u64);
            heard.store(n + 1, Ordering::Release);
        }
    });
}

pub fn a_forked_child_that_polls_is_not_told_in_place_of_its_parent(carrier: Carrier) {
    let (many, _) = Many::new(carrier, COUNT, false);
    many.greet();
    for round in 0..4 {
        if round % 2 == 1 {
            many.wait();
        }
        for connection in 0..COUNT {
            many.send(connection, 3);
        }
        let polled = in_child(|| (0..30_000).for_each(|_| assert_eq!(poll(&many.cq), None)));
        assert_eq!(polled, 0);
        let mut heard: Vec<_> = (0..COUNT).map(|_| many.take()).collect();
        heard.sort_unstable();
        assert!(heard.into_iter().eq((0..COUNT).map(|connection| (connection, 3))));
    }
}
