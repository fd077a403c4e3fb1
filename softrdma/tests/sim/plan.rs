//! What a run consists of: processes, connections, requests, deaths and stops.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use softrdma::queues::shared::{Memory, Object, QpWord, Word};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{Datagram, Operands, Request};
use softrdma::rules::requester::{RNR_FOR_EVER, Retry, SendQueue};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, SendFlags};
use softrdma_testing::segment::Segment;

use crate::config::Direct;
use crate::ledger::{End, Ledger, Sent};
use crate::process::{BAD_KEY, BUFFER_WORDS, GOOD_KEY, qp_num};
use crate::random::Random;
use crate::world::{Act, Config, Death, Process, When};

pub fn new_death(random: &Random, process: usize) -> Death {
    let when = random.pick(&[When::Now, When::Within, When::Within, When::Closing]);
    Death { process, stop: None, after: random.below(1500), when }
}

pub fn new_stop(random: &Random, process: usize) -> Death {
    let time = random.pick(&[1_000, 20_000, 400_000]);
    let when = if random.once_in(8) { When::Now } else { When::Within };
    Death { process, stop: Some(time), after: random.below(1500), when }
}

pub fn new_process(random: &Random, small_queues: bool) -> Process {
    let mut segment = Segment::default();
    let threads = 1 + random.below(2) as usize;
    let mut pollers = Vec::new();
    for thread in 0..threads {
        // Every send and receive of a run fits into a large queue.
        segment.add_cq(if small_queues { 2 } else { 256 });
        pollers.push(thread);
    }
    Process {
        segment,
        configs: Vec::new(),
        sends: Vec::new(),
        direct: Vec::new(),
        resting: RefCell::default(),
        pollers,
        acts: (0..threads).map(|_| RefCell::default()).collect(),
        alive: Cell::new(true),
        stopped_until: Cell::new(0),
        asked: Cell::new(false),
        bells: (0..threads).map(|_| Cell::new(false)).collect(),
        alerts: RefCell::default(),
        polled: RefCell::default(),
        written: RefCell::new(HashMap::new()),
        results: RefCell::new(HashMap::new()),
        invalidated: RefCell::default(),
        routes: RefCell::default(),
        counter: Cell::new(0),
        swapped: Cell::new(0),
    }
}

/// Adds a queue pair that is ready.
fn add_qp(random: &Random, processes: &mut [Process], place: usize, config: Config, state: QpState) -> u32 {
    let process = &mut processes[place];
    let owns_ring = config.srq.is_none() && config.qp_type != QpType::XrcSend;
    let capacity = if owns_ring { random.pick(&[2, 4, 8]) } else { 0 };
    let qp = process.segment.add_qp(capacity);
    process.segment.store(Word::Qp(qp, QpWord::State), state as u64);
    let mut queue = SendQueue::new(qp_num((place, qp)), config.qp_type, config.sq_sig_all);
    queue.set_state(state);
    queue.set_retry(config.retry);
    process.sends.push(RefCell::new(queue));
    process.direct.push(Direct::default());
    process.segment.set_ring(qp, None);
    process.configs.push(config);
    qp
}

fn new_config(
    random: &Random,
    process: &mut Process,
    qp_type: QpType,
    small_queues: bool,
    sends: bool,
) -> Config {
    let cqs = process.pollers.len() as u64;
    let shared = qp_type == QpType::XrcRecv || qp_type != QpType::XrcSend && !sends && random.once_in(3);
    let srq = shared.then(|| {
        let srqs = process.segment.objects().iter().filter(|object| matches!(object, Object::Srq(_))).count();
        if srqs > 0 && !random.once_in(3) {
            random.below(srqs as u64) as u32
        } else {
            process.segment.add_srq(16)
        }
    });
    let thread = random.below(process.acts.len() as u64) as usize;
    Config {
        qp_type,
        peer: (0, 0),
        access: Access(0xe),
        retry: Retry {
            timeout: random.pick(&[0, 3, 4, 5, 6]),
            retry_cnt: random.below(8) as u8,
            // Without completions nothing is reposted, and a patient sender would wait for ever.
            rnr_retry: random.below(if small_queues { 7 } else { 8 }) as u8,
        },
        min_rnr_timer: 1 + random.below(8) as u8,
        send_cq: random.below(cqs) as u32,
        recv_cq: random.below(cqs) as u32,
        srq,
        sq_sig_all: random.once_in(2),
        starved: srq.is_none() && random.once_in(10),
        thread,
    }
}

/// Whether a shared receive queue may run dry because queue pairs hold its requests for senders that died. A
/// patient sender then waits for ever, as it does on hardware.
pub fn is_scarce(srq: u32) -> bool {
    srq % 2 == 1
}

pub fn connect(random: &Random, processes: &mut [Process], small_queues: bool, sends: bool) {
    let one = random.below(processes.len() as u64) as usize;
    let other = random.below(processes.len() as u64) as usize;
    let (from, to) = match random.below(8) {
        _ if sends => (QpType::Rc, QpType::Rc),
        0..=3 => (QpType::Rc, QpType::Rc),
        4 => (QpType::Uc, QpType::Uc),
        5 => (QpType::XrcSend, QpType::XrcRecv),
        _ => (QpType::Ud, QpType::Ud),
    };
    let mut config = new_config(random, &mut processes[one], from, small_queues, sends);
    let state = if to == QpType::XrcRecv || random.once_in(4) { QpState::Rtr } else { QpState::Rts };
    let mut peer_config = new_config(random, &mut processes[other], to, small_queues, sends);
    if peer_config.starved || peer_config.srq.is_some_and(is_scarce) {
        config.retry.rnr_retry = config.retry.rnr_retry.min(RNR_FOR_EVER - 1);
    }
    if config.starved || config.srq.is_some_and(is_scarce) {
        peer_config.retry.rnr_retry = peer_config.retry.rnr_retry.min(RNR_FOR_EVER - 1);
    }
    let qp = add_qp(random, processes, one, config, QpState::Rts);
    let peer = add_qp(random, processes, other, peer_config, state);
    processes[one].configs[qp as usize].peer = (other, peer);
    processes[other].configs[peer as usize].peer = (one, qp);
}

/// Plans one act of some process.
pub fn plan(random: &Random, processes: &[Process], ledger: &mut Ledger, span: u64, all_send: bool) {
    let ends: Vec<End> = processes
        .iter()
        .enumerate()
        .flat_map(|(place, process)| (0..process.configs.len() as u32).map(move |qp| (place, qp)))
        .collect();
    let from = random.pick(&ends);
    let config = &processes[from.0].configs[from.1 as usize];
    let sends = processes[from.0].sends[from.1 as usize].borrow().work(0);
    let ready = processes[from.0].segment.load(Word::Qp(from.1, QpWord::State)) == QpState::Rts as u64;
    assert_eq!(sends, softrdma::rules::requester::Work::Nothing);
    let at = random.below(span);
    let push = |act| processes[from.0].acts[config.thread].borrow_mut().push_back((at, act));
    push(match random.below(if all_send { 80 } else { 40 }) {
        0 => Act::Break(from.1),
        1 if ready => Act::Drain(from.1),
        2 if matches!(config.qp_type, QpType::Ud | QpType::Rc) && ready => {
            let ends = config.qp_type == QpType::Rc && random.once_in(3);
            if ends { Act::Destroy(from.1) } else { Act::Reset(from.1) }
        }
        3 | 4 => Act::Resize(match config.srq.filter(|_| random.once_in(2)) {
            Some(srq) => Object::Srq(srq),
            None => Object::Cq(config.recv_cq),
        }),
        _ if ready && config.qp_type != QpType::XrcRecv => {
            let to = if config.qp_type == QpType::Ud {
                let datagrams: Vec<_> = ends
                    .iter()
                    .copied()
                    .filter(|end| processes[end.0].configs[end.1 as usize].qp_type == QpType::Ud)
                    .collect();
                random.pick(&datagrams)
            } else {
                config.peer
            };
            // Alone, or a list, more often than not of sends.
            let (more, sends) =
                if random.once_in(3) { (1 + random.below(3), random.below(4) > 0) } else { (0, false) };
            let sends = sends || all_send && !random.once_in(4);
            for _ in 0..more {
                push(Act::Post(from.1, new_request(random, config, from, to, sends, ledger)));
            }
            Act::Post(from.1, new_request(random, config, from, to, sends, ledger))
        }
        _ => return,
    });
}

fn new_request(
    random: &Random,
    config: &Config,
    from: End,
    to: End,
    sends: bool,
    ledger: &mut Ledger,
) -> Request {
    let message = ledger.sent.len() as u64;
    let opcode = match config.qp_type {
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
    // Most of a connection's end it.
    let bad = random.below(if sends { 600 } else { 60 });
    let words = match opcode {
        Opcode::CmpAndSwp | Opcode::FetchAndAdd | Opcode::AtomicWrite => 1,
        // Longer than any receive buffer.
        _ if bad == 0 => BUFFER_WORDS + 1,
        // Two slots of a direct ring.
        Opcode::Send | Opcode::SendWithImm if random.once_in(6) => 7 + random.below(3),
        _ => 1 + random.below(5),
    };
    let rkey = if bad == 1 { BAD_KEY } else { GOOD_KEY };
    let operands = match opcode {
        Opcode::CmpAndSwp | Opcode::FetchAndAdd => {
            Operands::Atomic { addr: 0, rkey, compare_add: 0, swap: message + 1 }
        }
        Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::RdmaRead | Opcode::AtomicWrite => {
            Operands::Remote { addr: 0, rkey, length: 0 }
        }
        _ => Operands::None,
    };
    let signalled = config.sq_sig_all || random.once_in(2);
    ledger.sent.push(Sent {
        from,
        to,
        opcode,
        signalled,
        words,
        dropped: false,
        status: None,
        received: 0,
        not_ready: 0,
        unanswered_since: None,
        unanswered: 0,
        unknown: false,
        life: 0,
        begun: 0,
        waits: None,
    });
    Request {
        wr_id: message,
        opcode,
        flags: if signalled { SendFlags::SIGNALED } else { SendFlags::NONE },
        sges: vec![Sge {
            addr: 0,
            length: words as u32 * 8,
            lkey: if bad == 2 { BAD_KEY } else { GOOD_KEY },
        }],
        inline: Vec::new(),
        operands,
        imm_or_key: message as u32,
        srq_num: 0,
        datagram: (config.qp_type == QpType::Ud)
            .then(|| Datagram { qp_num: qp_num(to), qkey: if bad == 3 { 0x12 } else { 0x11 } }),
    }
}
