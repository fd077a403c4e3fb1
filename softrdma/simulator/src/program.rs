//! What a process of a run does: it makes its objects, posts, polls, sleeps, resets and ends them.

use std::cell::Cell;
use std::sync::Arc;

use softrdma::device::{
    Attributes, Capabilities, Channel, CompletionQueue, CqFlags, Device, QpInit, QueuePair, Region, Rejected,
    Settings, SharedReceiveQueue, SrqInit, SrqType, XrcDomain,
};
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{QpState, QpType};
use softrdma::shm::bounce::Copying;
use softrdma::shm::folder::Config;
use softrdma_schedule::turn::{happened, listen_until, sleep_until};
use softrdma_schedule::{Board, NEVER};
use softrdma_testing::device::{ALL, GID, Node, attributes, bring_up, set_nonblocking};

use crate::ledger::{Ledger, RECEIVES};
use crate::plan::{BUFFER_WORDS, Plan, QpPlan, is_scarce, size_of};
use crate::thread::Thread;

/// Marks the number of a receive request.
pub const RECEIVE: u64 = 1 << 63;
/// Marks the number of a request that binds a window.
pub const BIND: u64 = 1 << 62;
/// Room of a send queue.
const MAX_SEND_WR: u32 = 4;

/// A process of a run.
pub struct Program<'a> {
    pub board: &'a Board,
    pub ledger: &'a Ledger,
    pub plan: &'a Plan,
    pub me: usize,
    pub node: Node,
    pub region: Region,
    pub channels: Vec<Arc<Channel>>,
    pub cqs: Vec<Arc<CompletionQueue>>,
    /// Those of the XRC domain come last.
    pub srqs: Vec<Arc<SharedReceiveQueue>>,
    pub qps: Vec<Arc<QueuePair>>,
    /// Queue pairs that were destroyed before the end.
    pub ended_early: Vec<Cell<bool>>,
    /// A thread posts a receive request.
    posts: Vec<Cell<bool>>,
    /// The buffer of all receive requests of a queue pair that has one.
    first_buffers: Vec<Cell<Option<usize>>>,
}

// SAFETY: one thread of all processes runs at a time; the ledger's and the board's cells are read and written
// in between.
unsafe impl Sync for Program<'_> {}

/// Waits until so many processes are ready.
fn await_stage(ledger: &Ledger, stage: usize) {
    while ledger.stage.get() < stage {
        listen_until(NEVER);
    }
}

/// The next process goes on.
fn next_stage(ledger: &Ledger) {
    ledger.stage.set(ledger.stage.get() + 1);
    happened();
}

/// Runs the process with this number.
pub fn run(board: &'static Board, ledger: &Ledger, plan: &Plan, me: usize, folder: &std::path::Path) {
    std::panic::set_hook(Box::new(|panic| board.violated(&panic.to_string())));
    let count = plan.processes.len();
    await_stage(ledger, me);
    let program = Program::new(board, ledger, plan, me, folder);
    next_stage(ledger);
    await_stage(ledger, count + me);
    program.connect();
    next_stage(ledger);
    await_stage(ledger, 2 * count);
    if me == 0 {
        softrdma_schedule::turn::mix(board, plan.mean, plan.counted);
    }
    std::thread::scope(|scope| {
        for thread in 1..plan.processes[me].threads {
            let program = &program;
            scope.spawn(move || Thread { program, number: thread, spins: 0 }.run());
        }
        Thread { program: &program, number: 0, spins: 0 }.run();
        while ledger.seen[me].ended.get() < plan.processes[me].threads {
            listen_until(NEVER);
        }
    });
    program.end();
}

impl<'a> Program<'a> {
    fn new(
        board: &'a Board,
        ledger: &'a Ledger,
        plan: &'a Plan,
        me: usize,
        folder: &std::path::Path,
    ) -> Self {
        let own = &plan.processes[me];
        let folder = Config { path: folder.to_owned(), group: None };
        let device =
            Device::open(&Settings { folder, copying: Copying::Auto, network: false }).expect("a device");
        device.set_gids(&[GID]);
        let node = Node::of(device);
        set_nonblocking(node.events.fd());
        let (addr, length) = (std::ptr::from_ref(ledger) as u64, std::mem::size_of::<Ledger>() as u64);
        let region = node.device.register(node.pd, addr, length, addr, ALL).expect("a region");
        ledger.seen[me].rkey.set(region.rkey);
        let channels: Vec<_> =
            (0..own.threads).map(|_| Channel::new(&node.device).expect("a channel")).collect();
        channels.iter().for_each(|channel| set_nonblocking(channel.fd()));
        let size = if plan.has_small_queues() { 2 } else { 512 };
        let cqs: Vec<_> = (0..own.threads)
            .map(|n| {
                let flags = CqFlags::default();
                CompletionQueue::new(&node.device, size, Some(&channels[n]), &node.events, n, flags)
                    .expect("a completion queue")
            })
            .collect();
        let basic = SrqInit {
            pd: node.pd,
            srq_type: SrqType::Basic,
            max_wr: 16,
            max_sge: 2,
            xrcd: None,
            cq: None,
            events: node.events.clone(),
            cookie: 0,
        };
        let new_srq =
            |init: &SrqInit| SharedReceiveQueue::new(&node.device, init).expect("a shared receive queue");
        let of_size = |n| new_srq(&SrqInit { max_wr: size_of(n), ..basic.clone() });
        let mut srqs: Vec<_> = (0..own.srqs).map(of_size).collect();
        let xrcd = XrcDomain::open(&node.device, None, true, false).expect("an XRC domain");
        for (cq, number) in own.xrc_srqs.iter().zip(&ledger.seen[me].xrc_srqs) {
            let (xrcd, cq) = (Some(xrcd.clone()), Some(cqs[*cq].clone()));
            let srq = new_srq(&SrqInit { srq_type: SrqType::Xrc, xrcd, cq, ..basic.clone() });
            number.set(srq.number());
            srqs.push(srq);
        }
        let qps = own
            .qps
            .iter()
            .enumerate()
            .map(|(n, qp)| {
                let init = QpInit {
                    send_cq: Some(cqs[qp.send_cq].clone()),
                    recv_cq: Some(cqs[qp.recv_cq].clone()),
                    srq: qp.srq.map(|srq| srqs[srq].clone()),
                    sq_sig_all: qp.sq_sig_all,
                    cap: Capabilities {
                        max_send_wr: MAX_SEND_WR,
                        max_recv_wr: qp.max_recv_wr,
                        max_send_sge: 2,
                        max_recv_sge: 2,
                        max_inline_data: 64,
                    },
                    cookie: n,
                    xrcd: (qp.qp_type == QpType::XrcRecv).then(|| xrcd.clone()),
                    ..node.init(qp.qp_type, &cqs[0])
                };
                let made = QueuePair::new(&node.device, &init).expect("a queue pair");
                ledger.pair((me, n)).number.set(made.qp_num());
                made
            })
            .collect();
        let [ended_early, posts] = [(); 2].map(|()| vec![Cell::new(false); own.qps.len()]);
        let first_buffers = vec![Cell::new(None); own.qps.len()];
        Self {
            board,
            ledger,
            plan,
            me,
            node,
            region,
            channels,
            cqs,
            srqs,
            qps,
            ended_early,
            posts,
            first_buffers,
        }
    }

    pub fn own(&self, qp: usize) -> &'a QpPlan {
        &self.plan.processes[self.me].qps[qp]
    }

    pub fn is_destroyed(&self, qp: usize) -> bool {
        self.ledger.pair((self.me, qp)).destroyed.get()
    }

    pub fn attributes(&self, qp: usize) -> Attributes {
        let own = self.own(qp);
        Attributes {
            timeout: own.timeout,
            retry_cnt: own.retry_cnt,
            rnr_retry: own.rnr_retry,
            min_rnr_timer: own.min_rnr_timer,
            ..attributes(self.ledger.pair(own.peer).number.get())
        }
    }

    fn connect(&self) {
        for (n, qp) in self.qps.iter().enumerate() {
            let last = if self.own(n).waits { QpState::Rtr } else { QpState::Rts };
            bring_up(qp, &self.attributes(n), last);
            self.prepost(n);
        }
        for (n, srq) in self.srqs.iter().enumerate() {
            let own = &self.plan.processes[self.me];
            let sharers = own.qps.iter().filter(|qp| qp.srq == Some(n)).count();
            let count = if n < own.srqs && is_scarce(n) {
                1
            } else {
                (1 + sharers as u64 + self.board.random.below(10)).min(srq.max_wr().into())
            };
            for _ in 0..count {
                let _ = self.post_receive((n, true));
            }
            // While that is armed, no message takes a request for a direct ring.
            if !own.qps.iter().any(|qp| qp.srq == Some(n)) || self.board.random.once_in(3) {
                srq.modify(Some(2), None).expect("a limit");
            }
        }
    }

    pub fn prepost(&self, qp: usize) {
        let own = self.own(qp);
        if own.srq.is_none() && !own.starved && !matches!(own.qp_type, QpType::XrcSend | QpType::XrcRecv) {
            for _ in 0..1 + self.board.random.below(u64::from(own.max_recv_wr)) {
                let _ = self.post_receive((qp, false));
            }
        }
    }

    /// Posts one receive request with a fresh buffer.
    pub fn post_receive(&self, (queue, shared): (usize, bool)) -> Result<(), Rejected> {
        // Requests are numbered in the order of posting on each queue pair.
        while !shared && self.posts[queue].replace(true) {
            sleep_until(self.board.now() + 100);
        }
        let posted = self.post_next(queue, shared);
        if !shared {
            self.posts[queue].set(false);
        }
        posted
    }

    /// The buffer of all requests of a queue pair: that of the first one.
    fn first_buffer(&self, queue: usize, index: usize) -> usize {
        let first = self.first_buffers[queue].get().unwrap_or(index);
        self.first_buffers[queue].set(Some(first));
        first
    }

    fn post_next(&self, queue: usize, shared: bool) -> Result<(), Rejected> {
        let index = self.ledger.posted.get();
        if index == RECEIVES {
            self.board.violated("too many receive requests for the ledger");
        }
        let random = &self.board.random;
        let one_buffer = !shared && self.plan.processes[self.me].qps[queue].one_buffer;
        let place = if one_buffer { self.first_buffer(queue, index) } else { index };
        self.ledger.receives[index].buffer.set(place);
        let buffer = std::ptr::from_ref(&self.ledger.buffers[place]) as u64;
        let split = if random.once_in(if one_buffer { 20 } else { 3 }) {
            random.below(BUFFER_WORDS)
        } else {
            BUFFER_WORDS
        } as u32
            * 8;
        let sge = |from: u32, to: u32| Sge {
            addr: buffer + u64::from(from),
            length: to - from,
            lkey: self.region.lkey,
        };
        let sges = [sge(0, split), sge(split, BUFFER_WORDS as u32 * 8)];
        // It may complete before the call returns.
        self.ledger.receives[index].queue.set((self.me, queue, shared));
        self.ledger.posted.set(index + 1);
        let wr_id = RECEIVE | index as u64;
        let posted = if shared {
            self.srqs[queue].post(wr_id, &sges)
        } else {
            self.qps[queue].post_receive(wr_id, &sges)
        };
        self.board.note(&format!("receive {index} to {queue}: {posted:?}"));
        if posted.is_err() {
            self.ledger.receives[index].forgotten.set(true);
        }
        posted
    }
}
