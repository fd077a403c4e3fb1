//! Random calls: whatever is posted completes once, unless its queue pair forgets it.

use std::collections::HashMap;
use std::sync::Arc;

use softrdma::device::{
    Attributes, Capabilities, CompletionQueue, Data, Datagram, QpInit, QueuePair, SharedReceiveQueue,
    SrqInit, SrqType, Wr,
};
use softrdma::rules::qp::attributes as table;
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{Attr, Opcode, QpState, QpType, SendFlags, Status, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, Fabric};

super::suite! {
    random:
    whatever_is_posted_completes_once,
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What was posted and is to complete.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Posted {
    /// The queue pair; none for a request of the shared queue.
    qp: Option<usize>,
    send: bool,
    signaled: bool,
}

/// Leaves a state that the queue pair was seen in. The thread that retries may have broken it since, and only
/// then is the change refused.
fn leave(qp: &QueuePair, seen: QpState, next: QpState) {
    let left = qp.modify(Attr::STATE, &Attributes { state: next, ..Attributes::default() });
    assert!(left.is_ok() || qp.state() != seen, "{left:?} from {seen:?}");
}

/// What the queue pairs of a device share.
struct Side {
    node: Node,
    cqs: Vec<Arc<CompletionQueue>>,
    srq: Arc<SharedReceiveQueue>,
    memory: End,
}

/// Completion queues of a device.
const CQS: usize = 3;

struct World {
    /// One or two. Neighbours, of which each talks to the other, belong to both in turn.
    sides: Vec<Side>,
    random: Random,
    qps: Vec<(Arc<QueuePair>, QpInit)>,
    posted: HashMap<u64, Posted>,
    next: u64,
    done: u64,
}

impl Side {
    fn new(node: Node) -> Self {
        let cqs = (0..CQS).map(|n| node.cq(4096, None, n)).collect();
        let init = SrqInit {
            pd: node.pd,
            srq_type: SrqType::Basic,
            max_wr: 20,
            max_sge: 1,
            xrcd: None,
            cq: None,
            events: node.events.clone(),
            cookie: 99,
        };
        let srq = SharedReceiveQueue::new(&node.device, &init).unwrap();
        let memory = node.end(QpType::Ud);
        set_nonblocking(node.events.fd());
        Side { node, cqs, srq, memory }
    }
}

impl World {
    fn new(nodes: [Node; 2], seed: u64) -> Self {
        let devices = if Arc::ptr_eq(&nodes[0].device, &nodes[1].device) { 1 } else { 2 };
        let mut world = World {
            sides: nodes.into_iter().take(devices).map(Side::new).collect(),
            random: Random(seed),
            qps: Vec::new(),
            posted: HashMap::new(),
            next: 1,
            done: 0,
        };
        // Pairs: each with its neighbour.
        for n in 0..8 {
            let made = world.make(n);
            world.qps.push(made);
        }
        world
    }

    fn side(&self, n: usize) -> &Side {
        &self.sides[n % self.sides.len()]
    }

    /// A completion queue of any side, by its number.
    fn any_cq(&mut self) -> Arc<CompletionQueue> {
        let number = self.random.below((CQS * self.sides.len()) as u64) as usize;
        self.sides[number / CQS].cqs[number % CQS].clone()
    }

    fn make(&mut self, n: usize) -> (Arc<QueuePair>, QpInit) {
        let qp_type = [QpType::Rc, QpType::Rc, QpType::Uc, QpType::Ud][n / 2];
        let side = &self.sides[n % self.sides.len()];
        let cq = |random: &mut Random| Some(side.cqs[random.below(CQS as u64) as usize].clone());
        let init = QpInit {
            send_cq: cq(&mut self.random),
            recv_cq: cq(&mut self.random),
            srq: self.random.once_in(3).then(|| side.srq.clone()),
            sq_sig_all: self.random.once_in(4),
            cap: Capabilities {
                max_send_wr: 1 + self.random.below(10) as u32,
                max_recv_wr: 1 + self.random.below(10) as u32,
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: 32,
            },
            ..side.node.init(qp_type, &side.cqs[0])
        };
        (QueuePair::new(&side.node.device, &init).unwrap(), init)
    }

    /// A queue pair is forgotten: what it had posted does not complete any more.
    fn forget(&mut self, n: usize) {
        self.posted.retain(|_, posted| posted.qp != Some(n));
    }

    fn act(&mut self) {
        let n = self.random.below(8) as usize;
        let (qp, init) = (self.qps[n].0.clone(), self.qps[n].1.clone());
        let peer = self.qps[n ^ 1].0.clone();
        let state = qp.state();
        match self.random.below(100) {
            0 => {
                qp.destroy().unwrap();
                self.forget(n);
                self.qps[n] = self.make(n);
            }
            1 => set_state(&qp, QpState::Reset),
            2 if state != QpState::Reset => set_state(&qp, QpState::Err),
            3 if state == QpState::Rts => leave(&qp, state, QpState::Sqd),
            4..15 if state == QpState::Sqd && !qp.query().sq_draining => leave(&qp, state, QpState::Rts),
            4..15 if state == QpState::Sqe => leave(&qp, state, QpState::Rts),
            4..15 if matches!(state, QpState::Reset | QpState::Err) => {
                if state == QpState::Err {
                    set_state(&qp, QpState::Reset);
                    self.forget(n);
                }
                let retry_cnt = self.random.below(3) as u8;
                let rnr_retry = if self.random.once_in(3) { 2 } else { 7 };
                let timeout = 5;
                let to = Attributes {
                    timeout,
                    retry_cnt,
                    rnr_retry,
                    ..attributes_at(self.side(n ^ 1).node.gid, peer.qp_num())
                };
                bring_up(&qp, &to, QpState::Rtr);
                // The peer's requests arrive from here on.
                let (required, _) = table(qp.qp_type(), QpState::Rtr, QpState::Rts).unwrap();
                let risen = qp.modify(required.union(Attr::STATE), &Attributes { state: QpState::Rts, ..to });
                assert!(risen.is_ok() || qp.state() == QpState::Err, "{risen:?}");
            }
            5..25 => self.post_shared(n),
            25..45 if init.srq.is_none() => self.post_receive(n, &qp),
            45..80 => self.post_send(n, &qp, &init, &peer),
            _ => self.poll(),
        }
        if qp.state() == QpState::Reset {
            self.forget(n);
        }
        if self.random.once_in(50) {
            self.sides.iter().for_each(|side| while side.node.events.next().is_ok() {});
        }
        if self.random.once_in(200) {
            let cq = self.any_cq();
            let _ = cq.resize(4096 + self.random.below(4096) as u32);
        }
    }

    fn post_shared(&mut self, n: usize) {
        let side = self.side(n);
        if side.srq.post(self.next, &[side.memory.sge(0, 64)]).is_ok() {
            self.posted.insert(self.next, Posted { qp: None, send: false, signaled: true });
            self.next += 1;
        }
    }

    fn post_receive(&mut self, n: usize, qp: &QueuePair) {
        let mut sge = self.side(n).memory.sge(0, 64);
        if self.random.once_in(100) {
            sge.lkey = 1;
        }
        match qp.post_receive(self.next, &[sge]) {
            Ok(()) => {
                self.posted.insert(self.next, Posted { qp: Some(n), send: false, signaled: true });
                self.next += 1;
            }
            Err(Rejected::State) => assert_eq!(qp.state(), QpState::Reset),
            Err(other) => assert_eq!(other, Rejected::Full),
        }
    }

    fn post_send(&mut self, n: usize, qp: &QueuePair, init: &QpInit, peer: &QueuePair) {
        let flags = if self.random.once_in(2) { SendFlags::SIGNALED } else { SendFlags::NONE };
        let longest = if self.random.once_in(50) { 100 } else { 20 };
        let length = self.random.below(longest) as usize;
        let memory = &self.sides[n % self.sides.len()].memory;
        let sges = [memory.sge(100, length), memory.sge(0, 1)];
        let bytes = [7; 20];
        let inline = self.random.once_in(3) && length <= 20;
        let data = if inline { Data::Inline(&bytes[..length]) } else { Data::Sges(&sges) };
        let datagram = (qp.qp_type() == QpType::Ud).then_some(Datagram {
            qp_num: peer.qp_num(),
            qkey: QKEY,
            grh: &[0; 40],
            dgid: self.side(n ^ 1).node.gid,
            route: None,
        });
        let wr = Wr { flags, data, datagram, ..wr(self.next, Opcode::Send, &[]) };
        let signaled = init.sq_sig_all || flags == SendFlags::SIGNALED;
        match qp.post_send(&wr) {
            Ok(()) => {
                self.posted.insert(self.next, Posted { qp: Some(n), send: true, signaled });
                self.next += 1;
            }
            Err(Rejected::State) => {
                assert!(matches!(qp.state(), QpState::Reset | QpState::Init | QpState::Rtr))
            }
            Err(other) => assert_eq!(other, Rejected::Full),
        }
    }

    fn poll(&mut self) {
        let cq = self.any_cq();
        let mut found = Vec::new();
        cq.poll(1 + self.random.below(8) as u32, &mut |completion| found.push(*completion));
        for completion in found {
            let posted = self.posted.remove(&completion.wr_id);
            let posted = posted.unwrap_or_else(|| panic!("nobody posted {completion:?}"));
            assert_eq!(posted.send, completion.opcode < WcOpcode::Recv);
            assert!(posted.signaled || completion.status != Status::Success);
            let owner = posted.qp.map(|n| self.qps[n].0.qp_num());
            assert!(owner.is_none_or(|number| number == completion.qp_num));
            if completion.status == Status::Success {
                self.done += 1;
            }
        }
    }

    /// Everything that was posted and not forgotten completes.
    fn finish(&mut self, fabric: &dyn Fabric) {
        for (qp, _) in &self.qps {
            if qp.state() != QpState::Reset {
                qp.modify(Attr::STATE, &Attributes { state: QpState::Err, ..Attributes::default() }).unwrap();
            }
        }
        fabric.settle();
        for _ in 0..4000 * self.sides.len() {
            self.poll();
        }
        for (qp, _) in &self.qps {
            qp.destroy().unwrap();
        }
        self.posted.retain(|_, posted| posted.signaled || !posted.send);
        // But requests of the shared queue: nobody took them, or the queue pair was forgotten whose completion
        // they had.
        self.posted.retain(|_, posted| posted.qp.is_some());
        assert!(self.posted.is_empty(), "{:?}", self.posted);
        for side in &self.sides {
            assert!(side.cqs.iter().all(|cq| poll(cq).is_none()));
            side.srq.destroy().unwrap();
        }
    }
}

pub fn whatever_is_posted_completes_once(carrier: Carrier) {
    let fabric = carrier();
    for seed in 0..10 {
        let mut world = World::new(fabric.pair(), seed);
        for _ in 0..3000 {
            world.act();
        }
        let done = world.done;
        world.finish(&*fabric);
        assert!(done > 50, "{done} messages with seed {seed}");
    }
}
