//! The protocol under a deterministic scheduler: processes that die at any step, and the invariants afterwards.
//!
//! Each run follows from one number. `SEEDS=100000 cargo test -p softrdma --release --test sim` runs that many;
//! `SEED=17 …` runs that one alone. A run that breaks an invariant prints its seed and what happened last.

mod attempt;
mod burst;
mod ledger;
mod process;
mod random;
mod world;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use softrdma::core::completion::{Completion, overran};
use softrdma::core::receive::{Sge, next_in_claim};
use softrdma::core::request::{Datagram, Operands, Request};
use softrdma::core::requester::{RNR_FOR_EVER, Retry, SendQueue};
use softrdma::core::shared::{Events, Memory, Object, QpWord, SrqWord, Word, held};
use softrdma::core::timers::ack_timeout;
use softrdma::core::verbs::{Access, Event, Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::segment::Segment;

use ledger::{End, Ledger, Posted, Sent, word};
use process::{BAD_KEY, BUFFER_WORDS, GOOD_KEY, RECEIVE_ID, post_receive, qp_num};
use random::Random;
use world::{Act, Config, Death, Process, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn invariants_hold() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(3000),
    };
    let begun = std::time::Instant::now();
    let mut totals = Totals::default();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        run(seed, &mut totals);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{count} seeds in {seconds:.1} s: {totals:?}");
    if count >= 1000 {
        totals.check();
    }
}

/// What all runs together saw: a simulator that never gets somewhere proves nothing there.
#[derive(Default, Debug)]
struct Totals {
    sent: u64,
    succeeded: u64,
    received: u64,
    flushed: u64,
    not_ready_exceeded: u64,
    retry_exceeded: u64,
    refused: u64,
    local_errors: u64,
    deaths: u64,
    recoveries: u64,
    staged: u64,
    bursts: u64,
    in_bursts: u64,
    early: u64,
    claims_left: u64,
    overruns: u64,
    resized: u64,
    outdated: u64,
    invalidated: u64,
    stops: u64,
    moved: u64,
    /// Whole, deliveries undone and done, claims undone and done.
    found: [u64; 5],
    lost: u64,
    kept: u64,
}

impl Totals {
    fn check(&self) {
        let all = [
            self.succeeded,
            self.received,
            self.flushed,
            self.not_ready_exceeded,
            self.retry_exceeded,
            self.refused,
            self.local_errors,
            self.deaths,
            self.recoveries,
            self.staged,
            self.bursts,
            self.in_bursts.saturating_sub(self.bursts + self.bursts / 20),
            self.early,
            self.claims_left,
            self.overruns,
            self.resized,
            self.outdated,
            self.invalidated,
            self.stops,
            self.moved,
            self.lost,
            self.kept,
        ];
        let all = all.iter().chain(&self.found);
        assert!(all.into_iter().all(|&count| count > 0), "something never happened: {self:?}");
    }
}

fn run(seed: u64, totals: &mut Totals) {
    let random = Random::new(seed);
    let small_queues = random.once_in(12);
    let count = 2 + random.below(3) as usize;
    let mut processes: Vec<_> = (0..count).map(|_| new_process(&random, small_queues)).collect();
    for _ in 0..1 + random.below(5) {
        connect(&random, &mut processes, small_queues);
    }
    let mut ledger = Ledger::default();
    // Everything at once, or with pauses.
    let span = random.pick(&[2_000, 20_000, 200_000]);
    for _ in 0..random.below(60) {
        plan(&random, &processes, &mut ledger, span);
    }
    let mut deaths = match random.below(4) {
        0 => Vec::new(),
        _ => (1..count).filter(|_| !random.once_in(4)).map(|process| new_death(&random, process)).collect(),
    };
    if random.once_in(2) {
        deaths
            .extend((0..1 + random.below(4)).map(|_| new_stop(&random, random.below(count as u64) as usize)));
    }
    sort_acts(&processes);

    let world = Rc::new(World::new(seed, random, processes, ledger, small_queues));
    prepost(&world);
    for (index, process) in world.processes.iter().enumerate() {
        for thread in 0..process.acts.len() {
            world.spawn(index, thread, process::thread(world.clone(), (index, thread)));
        }
    }
    world.run(deaths);
    world.touch_everything();
    check(&world, totals);
    world.clear();
}

fn new_death(random: &Random, process: usize) -> Death {
    Death { process, stop: None, after: random.below(1500), within: !random.once_in(4) }
}

fn new_stop(random: &Random, process: usize) -> Death {
    let time = random.pick(&[1_000, 20_000, 400_000]);
    Death { process, stop: Some(time), after: random.below(1500), within: !random.once_in(8) }
}

fn new_process(random: &Random, small_queues: bool) -> Process {
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
    process.configs.push(config);
    qp
}

fn new_config(random: &Random, process: &mut Process, qp_type: QpType, small_queues: bool) -> Config {
    let cqs = process.pollers.len() as u64;
    let shared = qp_type == QpType::XrcRecv || qp_type != QpType::XrcSend && random.once_in(3);
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
fn is_scarce(srq: u32) -> bool {
    srq % 2 == 1
}

fn connect(random: &Random, processes: &mut [Process], small_queues: bool) {
    let one = random.below(processes.len() as u64) as usize;
    let other = random.below(processes.len() as u64) as usize;
    let (from, to) = match random.below(8) {
        0..=3 => (QpType::Rc, QpType::Rc),
        4 => (QpType::Uc, QpType::Uc),
        5 => (QpType::XrcSend, QpType::XrcRecv),
        _ => (QpType::Ud, QpType::Ud),
    };
    let mut config = new_config(random, &mut processes[one], from, small_queues);
    let state = if to == QpType::XrcRecv || random.once_in(4) { QpState::Rtr } else { QpState::Rts };
    let mut peer_config = new_config(random, &mut processes[other], to, small_queues);
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
fn plan(random: &Random, processes: &[Process], ledger: &mut Ledger, span: u64) {
    let ends: Vec<End> = processes
        .iter()
        .enumerate()
        .flat_map(|(place, process)| (0..process.configs.len() as u32).map(move |qp| (place, qp)))
        .collect();
    let from = random.pick(&ends);
    let config = &processes[from.0].configs[from.1 as usize];
    let sends = processes[from.0].sends[from.1 as usize].borrow().work(0);
    let ready = processes[from.0].segment.load(Word::Qp(from.1, QpWord::State)) == QpState::Rts as u64;
    assert_eq!(sends, softrdma::core::requester::Work::Nothing);
    let at = random.below(span);
    let push = |act| processes[from.0].acts[config.thread].borrow_mut().push_back((at, act));
    push(match random.below(40) {
        0 => Act::Break(from.1),
        1 if ready => Act::Drain(from.1),
        2 if config.qp_type == QpType::Ud => Act::Reset(from.1),
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
    let bad = random.below(60);
    let words = match opcode {
        Opcode::CmpAndSwp | Opcode::FetchAndAdd | Opcode::AtomicWrite => 1,
        // Longer than any receive buffer.
        _ if bad == 0 => BUFFER_WORDS + 1,
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

fn sort_acts(processes: &[Process]) {
    for acts in processes.iter().flat_map(|process| &process.acts) {
        let mut acts = acts.borrow_mut();
        // Messages are numbered in the order of posting on each queue pair.
        let mut times: Vec<_> = acts.iter().map(|(at, _)| *at).collect();
        times.sort_unstable();
        for (act, at) in acts.iter_mut().zip(times) {
            act.0 = at;
        }
    }
}

fn prepost(world: &World) {
    for (place, process) in world.processes.iter().enumerate() {
        for object in process.segment.objects() {
            let capacity = process.segment.capacity(object);
            let (queue, starved) = match object {
                Object::Qp(qp) => (Posted::Ring((place, qp)), process.configs[qp as usize].starved),
                Object::Srq(srq) => (Posted::Shared(place, srq), false),
                Object::Cq(_) => continue,
            };
            if capacity == 0 || starved {
                continue;
            }
            let least = match object {
                Object::Srq(srq) if is_scarce(srq) => 1,
                Object::Srq(srq) => {
                    1 + process.configs.iter().filter(|config| config.srq == Some(srq)).count()
                }
                _ => 1,
            };
            // One slot stays free: a completion is seen just before its request leaves the ring.
            for _ in 0..least as u64 + world.random.below(u64::from(capacity) - least as u64) {
                post_receive(world, place, queue);
            }
            if let Object::Srq(srq) = object {
                process.segment.store(Word::Srq(srq, SrqWord::Limit), 2);
            }
        }
    }
}

/// The invariants, once nobody has anything left to do.
fn check(world: &World, totals: &mut Totals) {
    totals.recoveries += world.recoveries.get();
    totals.staged += world.staged.get();
    totals.bursts += world.bursts.get();
    totals.in_bursts += world.in_bursts.get();
    totals.early += world.early.get();
    totals.resized += world.resized.get();
    totals.outdated += world.outdated.get();
    totals.stops += world.stops.get();
    totals.moved += world.moved.get();
    totals.lost += world.lost.get();
    totals.kept += world.kept.get();
    totals.found.iter_mut().zip(&world.found).for_each(|(total, found)| *total += found.get());
    for (lock, owner) in world.held() {
        if world.alive(owner) {
            world.violated(&format!("{lock:?} is still held by a process that lives"));
        }
        if world.alive(lock.0) {
            world.violated(&format!("{lock:?} is still held by the dead"));
        }
    }
    for place in 0..world.processes.len() {
        if world.alive(place) {
            check_queues(world, place, totals);
            check_order(world, place);
        } else {
            totals.deaths += 1;
        }
    }
    check_messages(world, totals);
}

fn check_queues(world: &World, place: usize, totals: &mut Totals) {
    let process = &world.processes[place];
    let segment = &process.segment;
    let ledger = world.ledger.borrow();
    let gone = |queue: Posted| {
        ledger
            .receives
            .iter()
            .filter(|receive| receive.queue == queue && (receive.status.is_some() || receive.forgotten))
            .count()
    };
    let posted = |queue: Posted| ledger.receives.iter().filter(|receive| receive.queue == queue).count();
    let mut claims = vec![0; segment.objects().len()];
    let overrun = (0..process.pollers.len() as u32).any(|cq| overran(segment, cq));
    totals.overruns += u64::from(overrun);
    for object in segment.objects() {
        match object {
            Object::Qp(qp) => {
                let journal = segment.load(Word::Qp(qp, QpWord::Journal));
                let waiting = held(
                    segment.load(Word::Qp(qp, QpWord::Head)),
                    segment.load(Word::Qp(qp, QpWord::Tail)),
                    segment.capacity(object),
                );
                let Some(waiting) = waiting else { world.violated("the counts of a receive ring are wrong") };
                let broken = segment.load(Word::Qp(qp, QpWord::State)) == QpState::Err as u64;
                let claim = next_in_claim(segment, qp);
                if let Some((claim, _)) = &claim {
                    claims[claim.srq as usize] += 1;
                    totals.claims_left += 1;
                }
                if journal != 0 {
                    world.violated("a journal is left");
                }
                if broken
                    && (waiting > 0 || claim.is_some() || !process.sends[qp as usize].borrow().is_empty())
                {
                    world
                        .violated(&format!("queue pair {qp} of process {place} is in error and not flushed"));
                }
                let queue = Posted::Ring((place, qp));
                if !overrun && gone(queue) + waiting as usize != posted(queue) {
                    world.violated(&format!(
                        "receive requests of queue pair {qp} of process {place} are lost"
                    ));
                }
                let received = ledger.sent.iter().any(|sent| sent.to == (place, qp) && sent.received > 0);
                let events = Events(segment.load(Word::Qp(qp, QpWord::Events)));
                let waits = segment.load(Word::Qp(qp, QpWord::State)) == QpState::Rtr as u64
                    && process.configs[qp as usize].qp_type != QpType::Ud;
                if received && waits && !events.was_raised(Event::CommEst) {
                    world.violated("a message arrived in RTR and nobody was told");
                }
                if broken
                    && process.configs[qp as usize].srq.is_some()
                    && !events.was_raised(Event::QpLastWqeReached)
                {
                    world.violated("the last request was reached and nobody was told");
                }
            }
            Object::Cq(cq) => {
                let head = segment.load(Word::Cq(cq, softrdma::core::shared::CqWord::Head));
                let tail = segment.load(Word::Cq(cq, softrdma::core::shared::CqWord::Tail));
                if head != tail {
                    world.violated(&format!("process {place} sleeps beside completions: a bell was lost"));
                }
            }
            Object::Srq(_) => {}
        }
    }
    for object in segment.objects() {
        let Object::Srq(srq) = object else { continue };
        let head = segment.load(Word::Srq(srq, SrqWord::Head));
        let tail = segment.load(Word::Srq(srq, SrqWord::Tail));
        let Some(waiting) = held(head, tail, segment.capacity(object)) else {
            world.violated("the counts of a shared receive queue are wrong")
        };
        let limit = segment.load(Word::Srq(srq, SrqWord::Limit));
        let told = Events(segment.load(Word::Srq(srq, SrqWord::Events))).was_raised(Event::SrqLimitReached);
        if told != (limit == 0) {
            world.violated("a limit is reached and nobody was told, or told and still set");
        }
        let queue = Posted::Shared(place, srq);
        if !overrun && gone(queue) + waiting as usize + claims[srq as usize] != posted(queue) {
            world.violated(&format!("requests of shared receive queue {srq} of process {place} are lost"));
        }
    }
}

/// Completions of each queue pair came in the order of its requests, messages in the order they were sent.
fn check_order(world: &World, place: usize) {
    let process = &world.processes[place];
    let ledger = world.ledger.borrow();
    let polled = process.polled.borrow();
    for (qp, config) in (0u32..).zip(&process.configs) {
        let mine = polled.iter().filter(|completion| completion.qp_num == qp_num((place, qp)));
        let (receives, sends): (Vec<&Completion>, Vec<&Completion>) =
            mine.partition(|completion| completion.wr_id & RECEIVE_ID != 0);
        if !sends.is_sorted_by_key(|completion| completion.wr_id) {
            world.violated(&format!(
                "send completions of queue pair {qp} of process {place} are out of order"
            ));
        }
        if config.srq.is_none() && !receives.is_sorted_by_key(|completion| completion.wr_id) {
            world.violated(&format!(
                "receive completions of queue pair {qp} of process {place} are out of order"
            ));
        }
        let failed = receives.iter().any(|completion| completion.status != Status::Success);
        let state = process.segment.load(Word::Qp(qp, QpWord::State));
        // Datagram queue pairs are reset.
        if failed && config.qp_type != QpType::Ud && state != QpState::Err as u64 {
            world.violated(&format!(
                "queue pair {qp} of process {place} has failed receives and is not in error"
            ));
        }
        let mut broken = false;
        for completion in &sends {
            if broken && completion.status == Status::Success && config.qp_type.is_reliable() {
                world.violated("a request succeeds after one that failed");
            }
            broken |= completion.status != Status::Success;
        }
        let mut last = HashMap::new();
        for completion in receives.iter().filter(|completion| completion.status == Status::Success) {
            let message = message_of(&ledger, completion);
            let before = last.insert(completion.src_qp, message);
            if before.is_some_and(|before| before > message) {
                world.violated(&format!("message {message} overtakes another"));
            }
            // A reliable queue pair loses none in between.
            let missed = ledger.sent.iter().zip(0..).any(|(sent, number)| {
                qp_num(sent.from) == completion.src_qp
                    && sent.receives()
                    && before.is_none_or(|before| number > before)
                    && number < message
            });
            if config.qp_type.is_reliable() && missed && !overran(&process.segment, config.recv_cq) {
                world.violated(&format!("a message before {message} is missing"));
            }
        }
    }
}

fn message_of(ledger: &Ledger, completion: &Completion) -> u64 {
    use softrdma::core::verbs::WcFlags;
    if completion.flags.has(WcFlags::WITH_IMM) {
        return u64::from(completion.imm_or_key);
    }
    let skipped = if completion.flags.has(WcFlags::GRH) { 5 } else { 0 };
    ledger.receives[(completion.wr_id & !RECEIVE_ID) as usize].buffer[skipped]
}

/// Every request ended as its attributes and its peer say, and what succeeded left its data.
fn check_messages(world: &World, totals: &mut Totals) {
    let ledger = world.ledger.borrow();
    let mut added = Vec::new();
    let mut swaps = vec![0; world.processes.len()];
    for (sent, message) in ledger.sent.iter().zip(0..) {
        totals.sent += 1;
        totals.received += u64::from(sent.received);
        let config = &world.processes[sent.from.0].configs[sent.from.1 as usize];
        let target = &world.processes[sent.to.0];
        let fail = |what: &str| world.violated(&format!("message {message}: {what}"));
        let overrun = |place: usize| {
            let process = &world.processes[place];
            (0..process.pollers.len() as u32).any(|cq| overran(&process.segment, cq))
        };
        let invalidated = target.invalidated.borrow().contains(&message);
        totals.invalidated += u64::from(invalidated);
        // Its process was stopped between the key and the delivery, and nobody waited for it.
        let undone = world.undone.borrow().contains(&message);
        if invalidated
            && sent.received == 0
            && world.alive(sent.from.0)
            && world.alive(sent.to.0)
            && !overrun(sent.to.0)
            && !undone
        {
            fail("invalidated its key and was never received");
        }
        let Some(status) = sent.status else {
            check_unseen(world, sent, message, overrun(sent.from.0));
            let failed = |before: &Sent| {
                before.from == sent.from && before.status.is_some_and(|status| status != Status::Success)
            };
            // Whatever was posted after a request that failed is flushed, signalled or not.
            if world.alive(sent.from.0)
                && !overrun(sent.from.0)
                && !sent.dropped
                && config.qp_type.is_reliable()
                && ledger.sent[..message as usize].iter().any(failed)
            {
                fail("was posted after one that failed, and is not flushed");
            }
            continue;
        };
        match status {
            Status::Success => totals.succeeded += 1,
            Status::WrFlushErr => totals.flushed += 1,
            Status::RnrRetryExcErr => {
                totals.not_ready_exceeded += 1;
                if sent.not_ready != u32::from(config.retry.rnr_retry) + 1 {
                    fail("gave up after the wrong number of tries");
                }
            }
            Status::RetryExcErr => totals.retry_exceeded += 1,
            Status::LocProtErr => totals.local_errors += 1,
            Status::RemAccessErr if sent.opcode == Opcode::SendWithInv && !undone => {
                fail("found its key invalid")
            }
            Status::RemInvReqErr | Status::RemAccessErr | Status::RemOpErr => totals.refused += 1,
            other => fail(&format!("ends with {other:?}")),
        }
        if status == Status::RetryExcErr && ack_timeout(config.retry.timeout).is_none() {
            fail("gave up without a timeout");
        }
        if status == Status::Success && !sent.signalled {
            fail("completes without being asked to");
        }
        let receives = sent.receives();
        let reliable = config.qp_type.is_reliable();
        if status != Status::Success && sent.received > 0 {
            fail("failed and was received");
        }
        if status == Status::Success
            && reliable
            && receives
            && world.alive(sent.to.0)
            && sent.received != 1
            && !overrun(sent.to.0)
        {
            fail("succeeded and was never received");
        }
        if status != Status::Success || !reliable {
            continue;
        }
        let results = world.processes[sent.from.0].results.borrow();
        let content = |of: u64| (0..sent.words).map(|at| word(of, at)).collect::<Vec<_>>();
        match sent.opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::AtomicWrite
                if target.written.borrow().get(&message) != Some(&content(message)) =>
            {
                fail("wrote other data")
            }
            Opcode::RdmaRead if results.get(&message) != Some(&content(sent.to.0 as u64)) => {
                fail("read other data")
            }
            Opcode::FetchAndAdd => added.push((sent.to.0, results[&message][0])),
            Opcode::CmpAndSwp => swaps[sent.to.0] += u32::from(results[&message][0] == 0),
            _ => {}
        }
    }
    let count = added.len();
    added.sort_unstable();
    added.dedup();
    if added.len() != count || added.iter().any(|&(place, old)| old >= world.processes[place].counter.get()) {
        world.violated("additions are lost");
    }
    if swaps.iter().any(|&swapped| swapped > 1) {
        world.violated("two swaps found the same value");
    }
}

/// A request without a completion: unsignalled, never posted, its process dead, or waiting where waiting has no
/// end.
fn check_unseen(world: &World, sent: &Sent, message: u64, overrun: bool) {
    if !world.alive(sent.from.0) || overrun || sent.dropped {
        return;
    }
    let process = &world.processes[sent.from.0];
    let config = &process.configs[sent.from.1 as usize];
    let waits = !process.sends[sent.from.1 as usize].borrow().is_empty();
    let posted = !process.acts[config.thread]
        .borrow()
        .iter()
        .any(|(_, act)| matches!(act, Act::Post(_, request) if request.wr_id == message));
    if waits && config.retry.timeout == 0 {
        return;
    }
    if waits || !posted {
        world.violated(&format!("message {message} never comes to an end"));
    }
    if sent.signalled {
        world.violated(&format!("the completion of message {message} is lost"));
    }
}
