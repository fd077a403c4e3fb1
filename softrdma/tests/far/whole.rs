//! Sends of one packet, and what each of them meets: most take a short way, which leaves the others to the
//! common one.

use softrdma::device::{Attributes, CompletionQueue, CqFlags, QpInit, QueuePair};
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Access, Attr, Event, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma::wire::opcode::{Extra, Operation, Position};
use softrdma::wire::packet::Headers;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer};

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
}

impl<'h> Receiver<'h> {
    /// In this state.
    fn new(host: &'h Host, peer: &'h RawPeer, state: QpState) -> Self {
        let node = host.node();
        let end = node.end(QpType::Rc);
        bring_up(&end.qp, &host.attributes(PEER), state);
        Self { host, peer, node, end }
    }

    /// The same with another queue pair, as `init` has it.
    fn with(&mut self, init: &QpInit) {
        let qp = QueuePair::new(&self.node.device, init).unwrap();
        bring_up(&qp, &self.host.attributes(PEER), QpState::Rts);
        self.end = self.node.end_of(qp, init.recv_cq.clone().unwrap());
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
        let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
        let end = &receiver.end;
        let pieces: [&[usize]; 8] =
            [&[8], &[1000], &[3, 997], &[0, 1000], &[8, 0], &[], &[2, 3, 3, 992], &[0]];
        let mut psn = 0;
        for lengths in pieces {
            let room: usize = lengths.iter().sum();
            for (count, extra) in [0, 8, 1000]
                .into_iter()
                .flat_map(|count| [(count, Extra::Nothing), (count, Extra::Immediate)])
            {
                if count > room {
                    continue;
                }
                psn += 1;
                let place = |n: usize| 2000 * n;
                let sges: Vec<Sge> = lengths.iter().enumerate().map(|(n, l)| end.sge(place(n), *l)).collect();
                end.memory.fill(0, &[0; 10_000]);
                end.qp.post_receive(u64::from(psn), &sges).unwrap();
                receiver.arrives(psn, extra, &bytes(count));
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
        let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
        for psn in 1..=2 {
            assert_eq!(receiver.answer(psn, Extra::Nothing, &bytes(8)), NOT_READY);
            receiver.end.receive(psn.into(), 0, 8);
            receiver.arrives(psn, Extra::Nothing, &bytes(8));
        }
    });
}

#[test]
fn what_does_not_fit_breaks_the_queue_pair() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for (length, count) in [(7, 8), (0, 1), (999, 1000)] {
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
            receiver.end.receive(1, 0, length);
            receiver.breaks(Extra::Nothing, &bytes(count), INVALID, Some(Status::LocLenErr));
        }
        // Nor has it a key to invalidate.
        let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
        receiver.end.receive(1, 0, 8);
        receiver.breaks(Extra::Invalidate, &bytes(8), NO_ACCESS, None);
    });
}

#[test]
fn memory_that_may_not_be_written_breaks_the_queue_pair() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for case in 0..4 {
            let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
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
            end.qp.post_receive(1, &[sge]).unwrap();
            receiver.breaks(Extra::Nothing, &bytes(8), OPERATIONAL, Some(Status::LocProtErr));
            let place = (sge.addr - end.memory.addr(0)) as usize;
            assert_eq!(end.memory.bytes(place, 8), [0; 8], "{case}");
        }
        // A message without bytes writes none.
        let receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
        let sge = Sge { lkey: receiver.end.region.lkey ^ 1, ..receiver.end.sge(0, 8) };
        receiver.end.qp.post_receive(1, &[sge]).unwrap();
        receiver.arrives(1, Extra::Nothing, &[]);
    });
}

#[test]
fn a_completion_queue_that_overruns_breaks_the_queue_pair() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        for ignores in [false, true] {
            let mut receiver = Receiver::new(&hosts[0], &peer, QpState::Rts);
            let node = receiver.node.clone();
            let flags = CqFlags { ignore_overrun: ignores, ..CqFlags::default() };
            let cq = CompletionQueue::new(&node.device, 1, None, &node.events, 1, flags).unwrap();
            receiver.with(&node.init(QpType::Rc, &cq));
            let last = 4;
            (1..=last).for_each(|n| receiver.end.receive(n, 0, 8));
            let mut psn = 0;
            let broken = loop {
                psn += 1;
                let syndrome = receiver.answer(psn, Extra::Nothing, &bytes(8));
                if syndrome != ACKNOWLEDGED || u64::from(psn) == last {
                    break syndrome;
                }
            };
            if ignores {
                assert_eq!((broken, u64::from(psn)), (ACKNOWLEDGED, last));
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
        let mut receiver = Receiver::new(&hosts[0], &peer, QpState::Rtr);
        let arrives = |receiver: &Receiver<'_>, psn: u32| {
            receiver.end.receive(psn.into(), 0, 8);
            receiver.arrives(psn, Extra::Nothing, &bytes(8));
        };
        arrives(&receiver, 1);
        assert_eq!(receiver.node.event(), Event::CommEst);
        arrives(&receiver, 2);
        receiver
            .end
            .qp
            .modify(
                softrdma::rules::qp::attributes(QpType::Rc, QpState::Rtr, QpState::Rts)
                    .unwrap()
                    .0
                    .union(Attr::STATE),
                &Attributes { state: QpState::Rts, ..hosts[0].attributes(PEER) },
            )
            .unwrap();
        arrives(&receiver, 3);
        let timer = Attributes { min_rnr_timer: 9, ..Attributes::default() };
        receiver.end.qp.modify(Attr::MIN_RNR_TIMER, &timer).unwrap();
        arrives(&receiver, 4);
        receiver.end.cq.resize(1000).unwrap();
        arrives(&receiver, 5);
        set_state(&receiver.end.qp, QpState::Sqd);
        arrives(&receiver, 6);
        assert!(!receiver.node.has_event());

        let (node, cq) = (receiver.node.clone(), receiver.end.cq.clone());
        let srq = node.shared_queue(4);
        receiver.with(&QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &cq) });
        for psn in 1..=2 {
            assert_eq!(receiver.answer(psn, Extra::Nothing, &bytes(8)), NOT_READY);
            post_shared(&srq, psn.into(), &receiver.end, 0, 8);
            receiver.arrives(psn, Extra::Immediate, &bytes(8));
        }
    });
}
