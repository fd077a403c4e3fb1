//! Small messages into a shared receive queue, which may go another way than larger ones (over shared memory,
//! by rings without a lock): each takes one request, whoever sends it and whichever way it goes.

use std::sync::Arc;

use softrdma::device::{CompletionQueue, QpInit, QueuePair, SharedReceiveQueue, Wr};
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, Fabric};

super::suite! {
    shared_rings:
    messages_of_all_sizes_come_in_order_from_many,
    as_many_messages_find_a_request_as_were_posted,
    the_limit_is_reached_when_so_few_are_left,
    requests_are_posted_while_nobody_polls,
    longer_messages_are_in_their_buffer_before_younger_ones,
    a_queue_is_resized_while_messages_wait,
    a_reset_takes_its_messages_and_no_request_of_others,
    what_came_before_an_error_is_delivered,
}

/// Bytes of a request's memory.
const LONG: usize = 512;

struct Shared {
    _fabric: Box<dyn Fabric>,
    nodes: [Node; 2],
    srq: Arc<SharedReceiveQueue>,
    cq: Arc<CompletionQueue>,
    /// Senders, and queue pairs that share requests.
    pairs: Vec<(End, End)>,
}

impl Shared {
    /// So many connections into one queue for so many requests.
    fn new(carrier: Carrier, connections: usize, max_wr: u32) -> Self {
        let fabric = carrier();
        let nodes = fabric.pair();
        let [here, there] = &nodes;
        let (srq, cq) = (there.shared_queue(max_wr), there.cq(1024, None, 0));
        let init = QpInit { srq: Some(srq.clone()), ..there.init(QpType::Rc, &cq) };
        let connect = |_| {
            let receiver = there.end_of(QueuePair::new(&there.device, &init).unwrap(), cq.clone());
            let sender = here.end(QpType::Rc);
            connect_ends(&sender, &receiver);
            (sender, receiver)
        };
        let pairs = (0..connections).map(connect).collect();
        Self { _fabric: fabric, nodes, srq, cq, pairs }
    }

    fn post(&self, wr_id: u64) {
        self.try_post(wr_id).unwrap();
    }

    fn try_post(&self, wr_id: u64) -> Result<(), Rejected> {
        self.srq.post(wr_id, &[self.pairs[0].1.sge(wr_id as usize % 64 * LONG, LONG)])
    }

    /// Sends a message whose bytes are all the same.
    fn send(&self, connection: usize, wr_id: u64, fill: u8, length: usize) {
        let sender = &self.pairs[connection].0;
        sender.memory.fill(0, &[fill; LONG]);
        sender.send(wr_id, 0, length);
    }

    /// Takes the next message: its connection, and what its bytes are.
    fn take_any(&self) -> (usize, u8) {
        let found = poll_soon(&self.cq);
        assert_eq!((found.status, found.byte_len), (Status::Success, 8));
        let connection = self.pairs.iter().position(|(_, end)| end.qp.qp_num() == found.qp_num).unwrap();
        (connection, self.pairs[0].1.memory.bytes(found.wr_id as usize % 64 * LONG, 8)[0])
    }

    /// Takes the next message, which is of this connection and has these bytes: its request.
    fn take(&self, connection: usize, fill: u8, length: usize) -> u64 {
        let found = poll_soon(&self.cq);
        assert_eq!((found.status, found.byte_len), (Status::Success, length as u32));
        assert_eq!(found.qp_num, self.pairs[connection].1.qp.qp_num());
        let at = found.wr_id as usize % 64 * LONG;
        assert_eq!(self.pairs[0].1.memory.bytes(at, length), vec![fill; length], "{}", found.wr_id);
        found.wr_id
    }
}

pub fn longer_messages_are_in_their_buffer_before_younger_ones(carrier: Carrier) {
    const SIZES: [usize; 8] = [300, 8192, 512, 700, 4096, 201, 600, 8256];
    let shared = Shared::new(carrier, 2, 8);
    let memory = &shared.pairs[0].1;
    // One buffer for all.
    let post = |count: u64| {
        (0..count).for_each(|n| shared.srq.post(n, &[memory.sge(0, 20_000)]).unwrap());
    };
    let mut mark = 0u8;
    for round in 0..12 {
        let mut sent = Vec::new();
        let mut expected = vec![0; 20_000];
        let mut send = |connection: usize, size: usize| {
            mark = mark.wrapping_add(1);
            let sender = &shared.pairs[connection].0;
            sender.memory.fill(0, &vec![mark; size]);
            sender.send(1, 0, size);
            sender.done(1);
            expected[..size].fill(mark);
            sent.push((connection, size, mark));
        };
        post(8);
        // Each behind the pool that the first one opened; requests of messages that wait give their places up.
        SIZES.iter().cycle().skip(round).take(8).for_each(|size| send(round % 2, *size));
        post(8);
        SIZES.iter().cycle().skip(2 * round).take(7).for_each(|size| send(round % 2, *size));
        send(round % 2, if round % 3 == 0 { 20_000 } else { 9000 });
        for (connection, size, mark) in &sent {
            let found = poll_soon(&shared.cq);
            assert_eq!((found.status, found.byte_len), (Status::Success, *size as u32), "round {round}");
            assert_eq!(found.qp_num, shared.pairs[*connection].1.qp.qp_num());
            let first = sent[0].2;
            let is_later = |byte: u8| byte.wrapping_sub(first) >= mark.wrapping_sub(first);
            assert!(memory.memory.bytes(0, *size).into_iter().all(is_later), "round {round}, {size} bytes");
        }
        assert!(memory.memory.bytes(0, 9000) == expected[..9000], "round {round}");
    }
}

/// More of them than a completion queue takes rings.
pub fn messages_of_all_sizes_come_in_order_from_many(carrier: Carrier) {
    for connections in [1, 3, 12] {
        let shared = Shared::new(carrier, connections, 64);
        (0..64).for_each(|n| shared.post(n));
        let mut posted = 64;
        for round in 0..40 {
            let connection = round % connections;
            let (sender, receiver) = &shared.pairs[connection];
            let to = Operands::Remote {
                addr: receiver.memory.addr(40_000),
                rkey: receiver.region.rkey,
                length: 8,
            };
            // Of one connection, without a poll in between.
            let lengths = [8, 0, 40, 41, 48, 49, 200, 201, LONG, 8, 1];
            for (n, length) in lengths.into_iter().enumerate() {
                let (wr_id, fill) = (n as u64, (round + n) as u8);
                sender.memory.fill(0, &[fill; LONG]);
                let sges = [sender.sge(0, length)];
                let imm = n % 3 == 1;
                let opcode = if imm { Opcode::SendWithImm } else { Opcode::Send };
                sender.qp.post_send(&Wr { imm_or_key: 7 + n as u32, ..wr(wr_id, opcode, &sges) }).unwrap();
                sender.done(wr_id);
                if n == 4 {
                    let sges = [sender.sge(0, 8)];
                    let with_imm = wr(50, Opcode::RdmaWriteWithImm, &sges);
                    sender.qp.post_send(&Wr { operands: to, imm_or_key: 9, ..with_imm }).unwrap();
                    sender.done(50);
                }
            }
            for (n, length) in lengths.into_iter().enumerate() {
                let found = poll_soon(&shared.cq);
                let (fill, imm) = ((round + n) as u8, n % 3 == 1);
                assert_eq!((found.status, found.byte_len), (Status::Success, length as u32), "{n}");
                assert_eq!(found.qp_num, receiver.qp.qp_num());
                assert_eq!(found.flags.has(WcFlags::WITH_IMM), imm, "{n}");
                assert_eq!(found.imm_or_key, if imm { 7 + n as u32 } else { 0 }, "{n}");
                let at = found.wr_id as usize % 64 * LONG;
                assert_eq!(shared.pairs[0].1.memory.bytes(at, length), vec![fill; length], "{n}");
                shared.post(posted);
                posted += 1;
                if n == 4 {
                    let written = poll_soon(&shared.cq);
                    assert_eq!((written.opcode, written.imm_or_key), (WcOpcode::RecvRdmaWithImm, 9));
                    shared.post(posted);
                    posted += 1;
                }
            }
            assert_eq!(poll(&shared.cq), None);
        }
    }
}

pub fn as_many_messages_find_a_request_as_were_posted(carrier: Carrier) {
    let shared = Shared::new(carrier, 3, 16);
    let mut posted = 0;
    for round in 0..30u64 {
        let requests = 1 + round % 5;
        for _ in 0..requests {
            shared.post(posted);
            posted += 1;
        }
        for n in 0..requests {
            let connection = (round + n) as usize % 3;
            shared.send(connection, n, n as u8, 8);
            shared.pairs[connection].0.done(n);
        }
        // None is left, for whoever sends.
        let late = round as usize % 3;
        shared.send(late, 99, 99, 8);
        shared._fabric.settle();
        assert_eq!(shared.pairs[late].0.try_poll(), None);
        let mut sent: Vec<_> = (0..requests).map(|n| ((round + n) as usize % 3, n as u8)).collect();
        let mut seen: Vec<_> = (0..requests).map(|_| shared.take_any()).collect();
        sent.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, sent);
        assert_eq!(poll(&shared.cq), None);
        shared.post(posted);
        posted += 1;
        shared.pairs[late].0.done(99);
        shared.take(late, 99, 8);
    }
}

pub fn the_limit_is_reached_when_so_few_are_left(carrier: Carrier) {
    let shared = Shared::new(carrier, 2, 16);
    let node = &shared.nodes[1];
    (0..12).for_each(|n| shared.post(n));
    let mut posted = 12;
    // Some are sent before, and are not polled.
    for round in 0..4u64 {
        for n in 0..3 {
            shared.send(n % 2, n as u64, n as u8, 8);
            shared.pairs[n % 2].0.done(n as u64);
        }
        // 9 are left.
        shared.srq.modify(Some(7), None).unwrap();
        for n in 0..5u8 {
            shared.send(usize::from(n % 2), n.into(), n, 8);
            shared.pairs[usize::from(n % 2)].0.done(n.into());
            shared._fabric.settle();
            if n == 2 {
                assert_eq!(node.event(), Event::SrqLimitReached, "round {round}");
                assert_eq!(shared.srq.limit(), 0);
            }
            assert!(!node.has_event(), "round {round}, message {n}");
        }
        let mut seen: Vec<_> = (0..8).map(|_| shared.take_any()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 0), (0, 0), (0, 2), (0, 2), (0, 4), (1, 1), (1, 1), (1, 3)]);
        for _ in 0..8 {
            shared.post(posted);
            posted += 1;
        }
    }
}

pub fn requests_are_posted_while_nobody_polls(carrier: Carrier) {
    // One sends seldom, so that its messages wait longest.
    let shared = Shared::new(carrier, 2, 4);
    let mut expected = Vec::new();
    let mut posted = 0;
    for round in 0..12u8 {
        while posted < 4 + 4 * u64::from(round) {
            shared.post(posted);
            posted += 1;
        }
        assert_eq!(shared.try_post(99), Err(Rejected::Full), "round {round}");
        for n in 0..4 {
            let connection = usize::from(n > 0 || round > 1);
            shared.send(connection, 0, 4 * round + n, 8);
            shared.pairs[connection].0.done(0);
            expected.push((connection, 4 * round + n));
        }
    }
    // Each has memory of its own, so that one which two messages had is seen.
    let seen: Vec<_> = expected.iter().map(|_| shared.take_any()).collect();
    assert_eq!(poll(&shared.cq), None);
    // Each connection's in its order.
    for connection in 0..2 {
        let of = |all: &[(usize, u8)]| -> Vec<_> {
            all.iter().filter(|(other, _)| *other == connection).map(|(_, fill)| *fill).collect()
        };
        assert_eq!(of(&seen), of(&expected));
    }
}

pub fn a_queue_is_resized_while_messages_wait(carrier: Carrier) {
    let shared = Shared::new(carrier, 2, 8);
    (0..8).for_each(|n| shared.post(n));
    let send = |connection, fill| {
        shared.send(connection, 0, fill, 8);
        shared.pairs[connection].0.done(0);
    };
    (0..5).for_each(|n| send(usize::from(n % 2), n));
    shared.srq.modify(None, Some(3)).unwrap();
    assert_eq!(shared.try_post(99), Err(Rejected::Full));
    (5..8).for_each(|n| send(usize::from(n % 2), n));
    shared.srq.modify(None, Some(40)).unwrap();
    (8..40).for_each(|n| shared.post(n));
    (8..12).for_each(|n| send(usize::from(n % 2), n));
    let mut seen: Vec<_> = (0..12)
        .map(|_| {
            let found = poll_soon(&shared.cq);
            let fill = shared.pairs[0].1.memory.bytes(found.wr_id as usize % 64 * LONG, 8)[0];
            assert_eq!(shared.pairs[usize::from(fill % 2)].1.qp.qp_num(), found.qp_num);
            (fill, found.wr_id)
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..12).map(|n| (n as u8, n)).collect::<Vec<_>>());
    assert_eq!(poll(&shared.cq), None);
}

pub fn a_reset_takes_its_messages_and_no_request_of_others(carrier: Carrier) {
    let shared = Shared::new(carrier, 2, 8);
    let mut posted = 0;
    let mut post = |count: u64| {
        for _ in 0..count {
            shared.post(posted);
            posted += 1;
        }
    };
    post(8);
    for round in 0..5u8 {
        for n in 0..3 {
            let connection = usize::from(n == 1);
            shared.send(connection, 0, 3 * round + n, 8);
            shared.pairs[connection].0.done(0);
        }
        let (sender, receiver) = &shared.pairs[0];
        for end in [sender, receiver] {
            set_state(&end.qp, QpState::Reset);
        }
        connect_ends(sender, receiver);
        shared.take(1, 3 * round + 1, 8);
        assert_eq!(poll(&shared.cq), None);
        // What went with the reset is used up.
        assert_eq!(shared.srq.max_wr(), 8);
        post(3);
        assert_eq!(shared.try_post(99), Err(Rejected::Full));
    }
}

pub fn what_came_before_an_error_is_delivered(carrier: Carrier) {
    let shared = Shared::new(carrier, 2, 8);
    (0..8).for_each(|n| shared.post(n));
    for n in 0..3 {
        shared.send(0, n, n as u8, 8);
        shared.pairs[0].0.done(n);
    }
    let (_, receiver) = &shared.pairs[0];
    set_state(&receiver.qp, QpState::Err);
    assert_eq!(shared.nodes[1].event(), Event::QpLastWqeReached);
    (0..3).for_each(|n| {
        shared.take(0, n as u8, 8);
    });
    assert_eq!(poll(&shared.cq), None);
    // The others have what is left.
    for n in 0..5 {
        shared.send(1, n, n as u8, 8);
        shared.pairs[1].0.done(n);
        shared.take(1, n as u8, 8);
    }
    assert_eq!(shared.srq.destroy(), Err(softrdma::device::Error::Busy));
}
