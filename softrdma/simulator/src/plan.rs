//! What a run consists of: processes, connections, what their programs do, deaths and stops.

use softrdma::rules::requester::RNR_FOR_EVER;
use softrdma::rules::verbs::{Opcode, QpType};
use softrdma_schedule::Steps;
use softrdma_schedule::play::Fate;
use softrdma_schedule::random::Random;

/// A queue pair: process and index.
pub type End = (usize, usize);

/// Words that a receive buffer has.
pub const BUFFER_WORDS: u64 = 60;

/// Fewest words of a message that travels in no ring and no completion entry.
const LONG: u64 = 26;

/// What a queue pair is made as, and connected.
#[derive(Clone, Debug)]
pub struct QpPlan {
    pub qp_type: QpType,
    pub peer: End,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub send_cq: usize,
    pub recv_cq: usize,
    pub srq: Option<usize>,
    /// The shared receive queue of the XRC domain that is its peer's, by number.
    pub xrc_srq: Option<usize>,
    pub sq_sig_all: bool,
    /// All of its receive requests have the same memory, and all messages to it are longer than what travels in
    /// a ring or a completion entry.
    pub one_buffer: bool,
    /// No receive request is ever posted for it.
    pub starved: bool,
    /// It stays in RTR.
    pub waits: bool,
    pub max_recv_wr: u32,
    /// The thread that posts to it.
    pub thread: usize,
}

/// Something a program does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Posts these requests as a list.
    Post(usize, Vec<usize>),
    /// Moves a queue pair into ERR.
    Break(usize),
    /// Resets a queue pair and makes it ready again.
    Reset(usize),
    /// Ends a queue pair.
    Destroy(usize),
    /// Drains a send queue, and has it go on.
    Drain(usize),
    Resume(usize),
    /// Does something else for so many nanoseconds, and looks at nothing meanwhile.
    Rest(u64),
    /// Binds the window that this request is to invalidate.
    Bind(usize),
    /// Gives a completion queue or a shared receive queue twice the room, or half.
    ResizeCq(usize),
    ResizeSrq(usize),
}

/// A process.
#[derive(Clone, Debug, Default)]
pub struct ProcessPlan {
    /// Each polls a completion queue of its own.
    pub threads: usize,
    pub srqs: usize,
    /// Shared receive queues of an XRC domain, and where each completes.
    pub xrc_srqs: Vec<usize>,
    pub qps: Vec<QpPlan>,
    /// By thread; each at its time.
    pub acts: Vec<Vec<(u64, Act)>>,
}

/// A send request.
#[derive(Clone, Debug)]
pub struct Message {
    pub from: End,
    pub to: End,
    pub opcode: Opcode,
    pub signalled: bool,
    pub inline: bool,
    pub words: u64,
    pub bad_rkey: bool,
    pub bad_lkey: bool,
    pub bad_qkey: bool,
}

impl Message {
    /// Whether it uses up a receive request.
    pub fn receives(&self) -> bool {
        use Opcode::{RdmaWriteWithImm, Send, SendWithImm, SendWithInv};
        matches!(self.opcode, Send | SendWithImm | SendWithInv | RdmaWriteWithImm)
    }
}

/// What a run is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything.
    Mixed,
    /// Completion queues that are small enough to overrun.
    Small,
    /// Connections that send, so that much goes by direct rings.
    Sends,
    /// One of them that breaks and begins anew all the time.
    Breaks,
    /// Datagrams that go from one queue pair to another all the time.
    Datagrams,
}

impl Kind {
    /// By its name in lower case.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Mixed, Self::Small, Self::Sends, Self::Breaks, Self::Datagrams];
        all.into_iter().find(|kind| format!("{kind:?}").to_lowercase() == name)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Plan {
    pub kind: Kind,
    pub processes: Vec<ProcessPlan>,
    pub messages: Vec<Message>,
    pub fates: Vec<(u64, u32, Fate)>,
    /// Steps in the mean until another thread has its turn.
    pub mean: u64,
    /// Which steps count.
    pub counted: Steps,
    /// When the last act is due.
    pub span: u64,
}

impl Plan {
    /// The plan of this seed.
    pub fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        let small_queues = random.once_in(12);
        let sends = !small_queues && random.once_in(3);
        // Into shared receive queues.
        let shares = sends && random.once_in(3);
        let datagrams = !small_queues && !sends && random.once_in(4);
        let breaks = sends && random.once_in(2);
        let kind = match () {
            () if small_queues => Kind::Small,
            () if breaks => Kind::Breaks,
            () if sends => Kind::Sends,
            () if datagrams => Kind::Datagrams,
            () => Kind::Mixed,
        };
        let count = if breaks { 2 } else { 2 + random.below(3) as usize };
        let mut processes: Vec<_> = (0..count)
            .map(|_| {
                let threads = 1 + random.below(2) as usize;
                ProcessPlan { threads, acts: vec![Vec::new(); threads], ..ProcessPlan::default() }
            })
            .collect();
        for _ in 0..1 + random.below(if breaks {
            1
        } else if sends || datagrams {
            2
        } else {
            5
        }) {
            connect(&random, &mut processes, small_queues, (sends, shares), datagrams);
        }
        let span = if breaks { 20_000 } else { random.pick(&[20_000, 200_000, 2_000_000]) };
        let mut messages = Vec::new();
        for _ in 0..random.below(if sends || datagrams { 100 } else { 60 }) {
            act(&random, &mut processes, &mut messages, span, (sends || datagrams, breaks));
        }
        for acts in processes.iter_mut().flat_map(|process| &mut process.acts) {
            in_order(acts);
        }
        let mut fates = Vec::new();
        let step = |random: &Random| 1 + random.below(random.pick(&[1_000, 10_000, 50_000]));
        if !random.once_in(4) {
            for process in (1..count as u32).filter(|_| !random.once_in(4)) {
                fates.push((step(&random), process, Fate::Dies));
            }
        }
        if random.once_in(2) {
            for _ in 0..1 + random.below(4) {
                let time = random.pick(&[20_000, 1_000_000, 150_000_000, 400_000_000]);
                fates.push((step(&random), random.below(count as u64) as u32, Fate::Stops(time)));
            }
        }
        let mean = random.pick(&[1, 3, 10, 10, 40, 40, 150]);
        let counted = random.pick(&[Steps::All, Steps::Shared, Steps::Written]);
        Self { kind, processes, messages, fates, mean, counted, span }
    }

    /// Whether completion queues are small enough to overrun.
    pub fn has_small_queues(&self) -> bool {
        self.kind == Kind::Small
    }
}

/// Messages are numbered in the order of posting on each queue pair.
fn in_order(acts: &mut [(u64, Act)]) {
    let mut times: Vec<_> = acts.iter().map(|(at, _)| *at).collect();
    times.sort_unstable();
    for (act, at) in acts.iter_mut().zip(times) {
        act.0 = at;
    }
}

/// Of these shared receive queues one request at a time is there.
pub fn is_scarce(srq: usize) -> bool {
    srq % 3 == 2
}

/// Requests that a shared receive queue holds: of some few, so that others have their places while messages
/// wait.
pub fn size_of(srq: usize) -> u32 {
    if srq.is_multiple_of(3) { 3 } else { 16 }
}

fn new_qp(
    random: &Random,
    process: &mut ProcessPlan,
    qp_type: QpType,
    small: bool,
    (sends, shares): (bool, bool),
) -> QpPlan {
    let shares = qp_type != QpType::XrcSend
        && qp_type != QpType::XrcRecv
        && if sends { shares } else { random.once_in(3) };
    let srq = shares.then(|| {
        if process.srqs == 0 || random.once_in(3) {
            process.srqs += 1;
        }
        random.below(process.srqs as u64) as usize
    });
    let threads = process.threads as u64;
    QpPlan {
        qp_type,
        peer: (0, 0),
        timeout: random.pick(&[0, 3, 4, 5, 6]),
        retry_cnt: random.below(8) as u8,
        // Without completions nothing is posted again, and a patient sender would wait for ever.
        rnr_retry: random.below(if small { 7 } else { 8 }) as u8,
        min_rnr_timer: 1 + random.below(8) as u8,
        send_cq: random.below(threads) as usize,
        recv_cq: random.below(threads) as usize,
        srq,
        xrc_srq: None,
        sq_sig_all: random.once_in(4),
        one_buffer: sends && random.once_in(3),
        starved: srq.is_none() && !matches!(qp_type, QpType::XrcRecv) && random.once_in(12),
        waits: false,
        max_recv_wr: random.pick(&[2, 4, 8]),
        thread: random.below(threads) as usize,
    }
}

fn connect(
    random: &Random,
    processes: &mut [ProcessPlan],
    small: bool,
    (sends, shares): (bool, bool),
    datagrams: bool,
) {
    let count = processes.len() as u64;
    let one = random.below(count) as usize;
    let other = if random.once_in(6) { one } else { random.below(count) as usize };
    let (qp_type, peer_type) = match random.below(7) {
        _ if datagrams => (QpType::Ud, QpType::Ud),
        _ if sends => (QpType::Rc, QpType::Rc),
        0 => (QpType::Uc, QpType::Uc),
        1 => (QpType::Ud, QpType::Ud),
        2 => (QpType::XrcSend, QpType::XrcRecv),
        _ => (QpType::Rc, QpType::Rc),
    };
    let mut here = new_qp(random, &mut processes[one], qp_type, small, (sends, shares));
    let mut there = new_qp(random, &mut processes[other], peer_type, small, (sends, shares));
    if peer_type == QpType::XrcRecv {
        let queues = &mut processes[other].xrc_srqs;
        if queues.is_empty() || random.once_in(3) {
            queues.push(there.recv_cq);
        }
        let queue = random.below(queues.len() as u64) as usize;
        here.xrc_srq = Some(queue);
    }
    there.waits = peer_type == QpType::XrcRecv || qp_type != QpType::Ud && random.once_in(8);
    let patient = |qp: &QpPlan| qp.starved || qp.srq.is_some_and(is_scarce);
    for (qp, peer) in [(&mut here, patient(&there)), (&mut there, false)] {
        if peer {
            qp.rnr_retry = qp.rnr_retry.min(RNR_FOR_EVER - 1);
        }
    }
    if patient(&here) {
        there.rnr_retry = there.rnr_retry.min(RNR_FOR_EVER - 1);
    }
    let here_at = processes[one].qps.len();
    let there_at = processes[other].qps.len() + usize::from(one == other);
    (here.peer, there.peer) = ((other, there_at), (one, here_at));
    processes[one].qps.push(here);
    processes[other].qps.push(there);
}

fn act(
    random: &Random,
    processes: &mut [ProcessPlan],
    messages: &mut Vec<Message>,
    span: u64,
    (all_send, breaks): (bool, bool),
) {
    let ends: Vec<End> = processes
        .iter()
        .enumerate()
        .flat_map(|(place, process)| (0..process.qps.len()).map(move |qp| (place, qp)))
        .collect();
    let from = random.pick(&ends);
    let qp = processes[from.0].qps[from.1].clone();
    let at = random.below(span);
    let goes_on = qp.qp_type == QpType::Rc && !qp.waits;
    let acts = match random.below(if breaks {
        10
    } else if all_send {
        24
    } else {
        40
    }) {
        0 if goes_on && !random.once_in(4) => vec![Act::Break(from.1), Act::Reset(from.1)],
        0 => vec![Act::Break(from.1)],
        1 if !qp.waits => vec![Act::Drain(from.1), Act::Resume(from.1)],
        2 if matches!(qp.qp_type, QpType::Ud | QpType::Rc) && !qp.waits => {
            let ends = goes_on && random.once_in(if all_send { 20 } else { 3 });
            vec![if ends { Act::Destroy(from.1) } else { Act::Reset(from.1) }]
        }
        3 | 4 if !breaks => vec![match qp.srq.filter(|_| random.once_in(2)) {
            Some(srq) => Act::ResizeSrq(srq),
            None => Act::ResizeCq(qp.recv_cq),
        }],
        _ if !qp.waits => {
            let to = if qp.qp_type == QpType::Ud && (!all_send || random.once_in(8)) {
                let is_ud = |end: &&End| processes[end.0].qps[end.1].qp_type == QpType::Ud;
                random.pick(&ends.iter().filter(is_ud).copied().collect::<Vec<_>>())
            } else {
                qp.peer
            };
            // Alone, or a list, more often than not of sends.
            let (more, sends) =
                if random.once_in(3) { (1 + random.below(3), random.below(4) > 0) } else { (0, false) };
            let sends = sends || all_send && !random.once_in(4);
            let list = (0..=more).map(|_| {
                let one_buffer = processes[to.0].qps[to.1].one_buffer;
                messages.push(new_message(random, &qp, from, to, sends, one_buffer));
                messages.len() - 1
            });
            let list: Vec<_> = list.collect();
            let invalidates = |message: &&usize| messages[**message].opcode == Opcode::SendWithInv;
            for message in list.iter().filter(invalidates) {
                let thread = processes[to.0].qps[to.1].thread;
                processes[to.0].acts[thread].push((random.below(at + 1), Act::Bind(*message)));
            }
            let mut acts = vec![Act::Post(from.1, list)];
            if all_send && random.once_in(3) {
                acts.push(Act::Rest(1_000 + random.below(30_000)));
            }
            acts
        }
        _ => return,
    };
    let later = random.below(span / 4);
    for (act, at) in acts.into_iter().zip([at, at + later]) {
        processes[from.0].acts[qp.thread].push((at, act));
    }
}

fn new_message(random: &Random, qp: &QpPlan, from: End, to: End, sends: bool, one_buffer: bool) -> Message {
    let opcode = match qp.qp_type {
        _ if sends => random.pick(&[Opcode::Send, Opcode::SendWithImm]),
        QpType::Ud => random.pick(&[Opcode::Send, Opcode::SendWithImm]),
        QpType::Uc => {
            random.pick(&[Opcode::Send, Opcode::SendWithImm, Opcode::RdmaWrite, Opcode::RdmaWriteWithImm])
        }
        QpType::Rc if random.once_in(8) => Opcode::SendWithInv,
        _ => random.pick(&[
            Opcode::Send,
            Opcode::Send,
            Opcode::SendWithImm,
            Opcode::RdmaWrite,
            Opcode::RdmaWriteWithImm,
            Opcode::RdmaRead,
            Opcode::CmpAndSwp,
            Opcode::FetchAndAdd,
            Opcode::AtomicWrite,
        ]),
    };
    let opcode = match opcode {
        // Its number is not in its memory alone, where another may have come since.
        Opcode::Send | Opcode::SendWithInv if one_buffer => Opcode::SendWithImm,
        opcode => opcode,
    };
    // Most of a connection's end it.
    let bad = random.below(if sends { 600 } else { 60 });
    let words = match opcode {
        Opcode::CmpAndSwp | Opcode::FetchAndAdd | Opcode::AtomicWrite => 1,
        // Longer than any receive buffer.
        _ if bad == 0 => BUFFER_WORDS + 1,
        Opcode::SendWithImm if one_buffer => LONG + random.below(BUFFER_WORDS - LONG),
        // Two slots of a direct ring.
        Opcode::Send | Opcode::SendWithImm if (qp.qp_type != QpType::Ud || sends) && random.once_in(6) => {
            7 + random.below(3)
        }
        // Many of them, and more than travels in a completion entry.
        Opcode::Send | Opcode::SendWithImm if (qp.qp_type != QpType::Ud || sends) && random.once_in(6) => {
            20 + random.below(BUFFER_WORDS - 20)
        }
        _ => 1 + random.below(5),
    };
    let takes_inline = matches!(
        opcode,
        Opcode::Send
            | Opcode::SendWithImm
            | Opcode::RdmaWrite
            | Opcode::RdmaWriteWithImm
            | Opcode::AtomicWrite
    );
    Message {
        from,
        to,
        opcode,
        signalled: qp.sq_sig_all || random.once_in(2),
        inline: takes_inline && words <= 5 && bad != 2 && random.once_in(4),
        words,
        bad_rkey: bad == 1,
        bad_lkey: bad == 2,
        bad_qkey: bad == 3,
    }
}
