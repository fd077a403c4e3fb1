//! Sends of one packet, and what each of them meets: most take a short way, which leaves the others to the
//! common one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use softrdma::device::{Attributes, CompletionQueue, CqFlags, QpInit, QueuePair};
use softrdma::device::{SharedReceiveQueue, SrqInit, SrqType};
use softrdma::rules::completion::Completion;
use softrdma::rules::qp;
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Access, Attr, Event, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma::wire::opcode::{Extra, Operation, Position};
use softrdma::wire::packet::Headers;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer};

/// Without a shared receive queue, and with one.
const BOTH: [bool; 2] = [false, true];
/// The peer's queue pair.
const PEER: u32 = 0x4001;
/// Syndromes of negative acknowledgements.
const NOT_READY: u8 = 0x21;
const INVALID: u8 = 0x61;
const NO_ACCESS: u8 = 0x62;
const OPERATIONAL: u8 = 0x63;

/// A queue pair whose peer is the test.
struct Receiver<'h> {
    host: &'h Host,
    peer: &'h RawPeer,
    node: Node,
    end: End,
    srq: Option<Arc<SharedReceiveQueue>>,
}

impl<'h> Receiver<'h> {
    /// In this state, with a shared receive queue if it `shares` one.
    fn new(host: &'h Host, peer: &'h RawPeer, state: QpState, shares: bool) -> Self {
        let node = host.node();
        let srq = shares.then(|| {
            let init = SrqInit {
                pd: node.pd,
                srq_type: SrqType::Basic,
                max_wr: 8,
                max_sge: 4,
                xrcd: None,
                cq: None,
                events: node.events.clone(),
                cookie: 3,
            };
            SharedReceiveQueue::new(&node.device, &init).unwrap()
        });
        let cq = node.cq(64, None, 1);
        let init = QpInit { srq: srq.clone(), ..node.init(QpType::Rc, &cq) };
        let end = node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq);
        bring_up(&end.qp, &host.attributes(PEER), state);
        Self { host, peer, node, end, srq }
    }

    /// The same with another completion queue.
    fn with(&mut self, cq: &Arc<CompletionQueue>) {
        let init = QpInit { srq: self.srq.clone(), ..self.node.init(QpType::Rc, cq) };
        let qp = QueuePair::new(&self.node.device, &init).unwrap();
        bring_up(&qp, &self.host.attributes(PEER), QpState::Rts);
        self.end = self.node.end_of(qp, cq.clone());
    }

    fn post(&self, wr_id: u32, sges: &[Sge]) {
        match &self.srq {
            Some(srq) => srq.post(wr_id.into(), sges).unwrap(),
            None => self.end.qp.post_receive(wr_id.into(), sges).unwrap(),
        }
    }

    /// Posts a request for eight bytes.
    fn post_8(&self, wr_id: u32) {
        self.post(wr_id, &[self.end.sge(0, 8)]);
    }

    /// Sends a message with this PSN; the syndrome of the answer.
    fn answer(&self, psn: u32, extra: Extra, payload: &[u8]) -> u8 {
        let imm = (extra == Extra::Immediate).then_some(7);
        let ieth = (extra == Extra::Invalidate).then_some(0xdead_0000);
        let what = (Operation::Send, Position::Only, extra);
        let headers = Headers { imm, ieth, ..Headers::NONE };
        self.peer.request((self.end.qp.qp_num(), psn), what, headers, payload);
        let (head, _) = self.peer.next();
        assert_eq!((head.bth.dest_qp, head.bth.psn.number()), (PEER, psn));
        head.headers.aeth.unwrap().syndrome
    }

    /// The message arrives in the receive request with its number.
    fn arrives(&self, psn: u32, extra: Extra, payload: &[u8]) {
        assert_eq!(self.answer(psn, extra, payload), ACKNOWLEDGED);
        let completion = self.end.done(u64::from(psn));
        let (imm, flags) =
            if extra == Extra::Immediate { (7, WcFlags::WITH_IMM) } else { (0, WcFlags::NONE) };
        assert_eq!((completion.opcode, completion.byte_len), (WcOpcode::Recv, payload.len() as u32));
        assert_eq!((completion.src_qp, completion.qp_num), (PEER, self.end.qp.qp_num()));
        assert_eq!((completion.imm_or_key, completion.flags), (imm, flags));
    }

    /// It is refused so, and the receive request with this number ends so, if one does.
    fn breaks(&self, extra: Extra, payload: &[u8], syndrome: u8, ends: Option<Status>) {
        assert_eq!(self.answer(1, extra, payload), syndrome);
        if let Some(status) = ends {
            let completion = self.end.poll();
            assert_eq!((completion.wr_id, completion.status), (1, status));
        }
        assert_eq!(self.end.qp.state(), QpState::Err);
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (1..=count).map(|n| n as u8).collect()
}

#[test]
fn a_message_fills_the_pieces_of_its_receive_request() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        let pieces: [&[usize]; 8] =
            [&[8], &[1000], &[3, 997], &[0, 1000], &[8, 0], &[], &[2, 3, 3, 992], &[0]];
        let receivers = BOTH.map(|shares| Receiver::new(&hosts[0], &peer, QpState::Rts, shares));
        let all = receivers.iter().flat_map(|receiver| pieces.map(|lengths| (receiver, lengths)));
        // A number that is not the next would not be taken.
        let mut psns = [0; 2];
        for (receiver, lengths) in all {
            let (end, psn) = (&receiver.end, &mut psns[usize::from(receiver.srq.is_some())]);
            let room: usize = lengths.iter().sum();
            for (count, extra) in [0, 8, 1000]
                .into_iter()
                .flat_map(|count| [(count, Extra::Nothing), (count, Extra::Immediate)])
            {
                if count > room {
                    continue;
                }
                *psn += 1;
                let place = |n: usize| 2000 * n;
                let sges: Vec<Sge> = lengths.iter().enumerate().map(|(n, l)| end.sge(place(n), *l)).collect();
                end.memory.fill(0, &[0; 10_000]);
                receiver.post(*psn, &sges);
                receiver.arrives(*psn, extra, &bytes(count));
                let came = lengths.iter().enumerate().flat_map(|(n, l)| end.memory.bytes(place(n), *l));
                let came: Vec<u8> = came.collect();
                assert_eq!(came[..count], bytes(count), "{lengths:?} {count}");
                assert!(came[count..].iter().all(|byte| *byte == 0), "{lengths:?} {count}");
            }
        }
    });
}

#[test]
fn a_message_that_meets_no_receive_request_is_taken_later() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for shares in BOTH {
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, shares);
            for psn in 1..=2 {
                assert_eq!(receiver.answer(psn, Extra::Nothing, &bytes(8)), NOT_READY);
                receiver.post_8(psn);
                receiver.arrives(psn, Extra::Nothing, &bytes(8));
            }
        }
    });
}

#[test]
fn what_does_not_fit_breaks_the_queue_pair() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for shares in BOTH {
            for (length, count) in [(7, 8), (0, 1), (999, 1000)] {
                let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, shares);
                receiver.post(1, &[receiver.end.sge(0, length)]);
                receiver.breaks(Extra::Nothing, &bytes(count), INVALID, Some(Status::LocLenErr));
            }
            // Nor has it a key to invalidate.
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, shares);
            receiver.post_8(1);
            receiver.breaks(Extra::Invalidate, &bytes(8), NO_ACCESS, None);
        }
    });
}

#[test]
fn memory_that_may_not_be_written_breaks_the_queue_pair() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for (shares, case) in BOTH.into_iter().flat_map(|shares| (0..4).map(move |case| (shares, case))) {
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, shares);
            let (node, end) = (&receiver.node, &receiver.end);
            let register = |pd, access| {
                let (addr, length) = (end.memory.addr(0), end.memory.len() as u64);
                node.device.register(pd, addr, length, addr, access).unwrap().lkey
            };
            let sge = match case {
                0 => Sge { lkey: end.region.lkey ^ 1, ..end.sge(0, 8) },
                1 => Sge { lkey: register(node.pd, Access::REMOTE_READ), ..end.sge(0, 8) },
                2 => Sge { lkey: register(node.device.alloc_pd().unwrap(), ALL), ..end.sge(0, 8) },
                // The message would be within it.
                _ => Sge { length: 16, ..end.sge(end.memory.len() - 8, 0) },
            };
            receiver.post(1, &[sge]);
            receiver.breaks(Extra::Nothing, &bytes(8), OPERATIONAL, Some(Status::LocProtErr));
            let place = (sge.addr - end.memory.addr(0)) as usize;
            assert_eq!(end.memory.bytes(place, 8), [0; 8], "{case}");
        }
        // A message without bytes writes none.
        for shares in BOTH {
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, shares);
            receiver.post(1, &[Sge { lkey: receiver.end.region.lkey ^ 1, ..receiver.end.sge(0, 8) }]);
            receiver.arrives(1, Extra::Nothing, &[]);
        }
    });
}

#[test]
fn a_completion_queue_that_overruns_breaks_the_queue_pair() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for (shares, ignores) in BOTH.into_iter().flat_map(|shares| [(shares, false), (shares, true)]) {
            let mut receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, shares);
            let node = receiver.node.clone();
            let flags = CqFlags { ignore_overrun: ignores, ..CqFlags::default() };
            let cq = CompletionQueue::new(&node.device, 1, None, &node.events, 1, flags).unwrap();
            receiver.with(&cq);
            let last = 4;
            (1..=last).for_each(|n| receiver.post_8(n));
            let mut psn = 0;
            let broken = loop {
                psn += 1;
                let syndrome = receiver.answer(psn, Extra::Nothing, &bytes(8));
                if syndrome != ACKNOWLEDGED || psn == last {
                    break syndrome;
                }
            };
            if ignores {
                assert_eq!((broken, psn), (ACKNOWLEDGED, last));
                assert_eq!(receiver.end.qp.state(), QpState::Rts);
                continue;
            }
            assert_eq!(broken, OPERATIONAL);
            assert_eq!(receiver.end.qp.state(), QpState::Err);
            assert_eq!([node.event(), node.event()], [Event::CqErr, Event::QpFatal]);
        }
    });
}

#[test]
fn a_message_arrives_in_each_state_that_receives_and_after_each_change() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for shares in BOTH {
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rtr, shares);
            let arrives = |psn: u32| {
                receiver.post_8(psn);
                receiver.arrives(psn, Extra::Nothing, &bytes(8));
            };
            arrives(1);
            assert_eq!(receiver.node.event(), Event::CommEst);
            arrives(2);
            let (needed, _) = qp::attributes(QpType::Rc, QpState::Rtr, QpState::Rts).unwrap();
            let attributes = Attributes { state: QpState::Rts, ..hosts[0].attributes(PEER) };
            receiver.end.qp.modify(needed.union(Attr::STATE), &attributes).unwrap();
            arrives(3);
            let timer = Attributes { min_rnr_timer: 9, ..Attributes::default() };
            receiver.end.qp.modify(Attr::MIN_RNR_TIMER, &timer).unwrap();
            arrives(4);
            receiver.end.cq.resize(1000).unwrap();
            arrives(5);
            if let Some(srq) = &receiver.srq {
                srq.modify(None, Some(100)).unwrap();
            }
            arrives(6);
            set_state(&receiver.end.qp, QpState::Sqd);
            arrives(7);
            assert!(!receiver.node.has_event());
        }
    });
}

#[test]
fn the_limit_of_a_shared_queue_is_told_once() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, true);
        let srq = receiver.srq.as_ref().unwrap();
        (1..=5).for_each(|psn| receiver.post_8(psn));
        srq.modify(Some(3), None).unwrap();
        for psn in 1..=5 {
            receiver.arrives(psn, Extra::Nothing, &bytes(8));
            assert_eq!(receiver.node.has_event(), psn == 3);
            if psn == 3 {
                assert_eq!(receiver.node.event(), Event::SrqLimitReached);
                assert_eq!(srq.limit(), 0);
            }
        }
    });
}

/// Says so, also where an assertion fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Messages of the own host take requests of the same queue by a ring, without its lock.
#[test]
fn a_request_of_a_shared_queue_is_one_messages_whichever_way_that_comes() {
    const MESSAGES: u32 = 2000;
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts, true);
        let (node, end) = (&receiver.node, &receiver.end);
        let cq = node.cq(64, None, 1);
        let init = QpInit { srq: receiver.srq.clone(), ..node.init(QpType::Rc, &cq) };
        let near = node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq);
        let other = hosts[0].node();
        let sender = other.end(QpType::Rc);
        connect_ends(&sender, &near);
        sender.memory.fill(0, &[1; 8]);

        let next = AtomicU32::new(0);
        // Eight places, each of one request at a time.
        let place = |wr_id: u64| wr_id as usize % 8 * 8;
        let post = |at: u64| {
            let wr_id = 8 * next.fetch_add(1, Ordering::Relaxed) + at as u32 % 8;
            receiver.post(wr_id, &[end.sge(place(at), 8)]);
        };
        // A message's request, in place of which there is another then.
        let take = |found: Completion, byte: u8| {
            assert_eq!((found.status, found.byte_len), (Status::Success, 8));
            assert_eq!(end.memory.bytes(place(found.wr_id), 8), [byte; 8]);
            post(found.wr_id);
            found.wr_id
        };
        (0..8).for_each(post);
        let is_over = AtomicBool::new(false);
        let mut all = std::thread::scope(|scope| {
            let by_ring = scope.spawn(|| {
                let mut taken = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    sender.send(1, 0, 8);
                    taken.push(take(near.poll(), 1));
                    sender.done(1);
                }
                taken
            });
            let _over = SetAtEnd(&is_over);
            let mut taken = Vec::new();
            for psn in 1..=MESSAGES {
                assert_eq!(receiver.answer(psn, Extra::Nothing, &[2; 8]), ACKNOWLEDGED);
                taken.push(take(end.poll(), 2));
            }
            is_over.store(true, Ordering::Relaxed);
            let others = by_ring.join().unwrap();
            assert!(!others.is_empty());
            taken.extend(others);
            taken
        });
        all.sort_unstable();
        let count = all.len() as u64;
        all.dedup();
        assert_eq!(all.len() as u64, count, "a request was two messages'");
        assert_eq!(u64::from(next.into_inner()), count + 8);
    });
}
