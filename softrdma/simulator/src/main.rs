//! The engine of the software device, as it ships, in processes whose threads run one at a time in a chosen
//! order: random programs, processes that die or are stopped at any atomic operation, and the invariants
//! afterwards.
//!
//! Each run follows from one number. `scripts/simulate` builds this and runs it: `SEEDS=100000`,
//! `FIRST_SEED=5000`, or `SEED=17` for one alone; `KIND=breaks` leaves out those of another
//! [kind](plan::Kind). A run that breaks an invariant prints its seed and what happened last.

mod acts;
mod check;
mod end;
mod ledger;
mod plan;
mod polls;
mod program;
mod thread;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use softrdma_schedule::play::Play;
use softrdma_schedule::{Why, begin, shared};

use ledger::Ledger;
use plan::{Kind, Plan};

/// Steps of a run at most. A request that is tried again by the shortest timer until the end takes a hundred
/// million.
const MOST_STEPS: u64 = 400_000_000;
/// How long, after the last act, everything takes that waits for something, in nanoseconds.
const GRACE: u64 = 15_000_000_000;

/// What all runs together saw: a simulator that never gets somewhere proves nothing there.
#[derive(Default, Debug)]
pub struct Totals {
    runs: u64,
    steps: u64,
    switches: u64,
    sent: u64,
    succeeded: u64,
    received: u64,
    flushed: u64,
    not_ready_exceeded: u64,
    retry_exceeded: u64,
    refused: u64,
    local_errors: u64,
    deaths: u64,
    stops: u64,
    slept: u64,
    resized: u64,
    reset: u64,
    destroyed: u64,
    events: u64,
    full: u64,
    overran: u64,
    answered: u64,
}

impl Totals {
    fn all(&mut self) -> [&mut u64; 21] {
        let Self { runs, steps, switches, sent, succeeded, received, flushed, not_ready_exceeded, .. } = self;
        let Self { retry_exceeded, refused, local_errors, deaths, stops, slept, resized, reset, .. } = self;
        let Self { destroyed, events, full, overran, answered, .. } = self;
        [
            runs,
            steps,
            switches,
            sent,
            succeeded,
            received,
            flushed,
            not_ready_exceeded,
            retry_exceeded,
            refused,
            local_errors,
            deaths,
            stops,
            slept,
            resized,
            reset,
            destroyed,
            events,
            full,
            overran,
            answered,
        ]
    }

    fn add(&mut self, other: &mut Self) {
        self.all().into_iter().zip(other.all()).for_each(|(sum, more)| *sum += *more);
    }
}

/// What one of the processes that play has done.
#[derive(Default)]
struct Done {
    totals: Totals,
    failed: u64,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn main() {
    let (first, count) = match number("SEED") {
        Some(seed) => (seed, 1),
        None => (number("FIRST_SEED").unwrap_or(0), number("SEEDS").unwrap_or(1000)),
    };
    let kind = std::env::var("KIND").ok().map(|name| Kind::named(&name).expect("KIND is one"));
    // SAFETY: memory of a page, of which zeroes are a value.
    let stop = unsafe { &*shared(1).cast::<AtomicBool>() };
    let players = processors().min(count as usize);
    let done = shared(players * std::mem::size_of::<Done>()).cast::<Done>();
    for player in 0..players {
        // SAFETY: one thread; the child plays its runs and ends, and writes its own place alone, of zeroes.
        unsafe {
            if libc::fork() == 0 {
                pin(player);
                let done = &mut *done.add(player);
                let seeds = (first + player as u64..).step_by(players);
                let seeds = seeds.filter(|seed| kind.is_none_or(|kind| Plan::new(*seed).kind == kind));
                let share = (count as usize - player).div_ceil(players);
                play(seeds.take(share), count == 1, done, stop);
                libc::_exit(0);
            }
        }
    }
    let mut ended = 0;
    // SAFETY: plain system calls.
    while unsafe { libc::wait(&raw mut ended) } > 0 {}
    let (mut totals, mut failed) = (Totals::default(), 0);
    for player in 0..players {
        // SAFETY: who wrote there has ended.
        let done = unsafe { &mut *done.add(player) };
        totals.add(&mut done.totals);
        failed += done.failed;
    }
    println!("{totals:?}");
    let missing = if failed == 0 { count - totals.runs } else { 0 };
    let never = count >= 1000 && kind.is_none() && totals.all().into_iter().any(|count| *count == 0);
    if never {
        println!("something never happened");
    }
    println!("{} passed, {} failed", totals.runs - failed, failed + missing + u64::from(never));
    std::process::exit(i32::from(failed + missing > 0 || never));
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One thread runs at a time: on one processor its turn goes to the next without waking another.
fn pin(player: usize) {
    // SAFETY: sets of processors are numbers, for which zeroes are a value.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = std::mem::size_of_val(&allowed);
        libc::sched_getaffinity(0, size, &raw mut allowed);
        let all: Vec<_> =
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)).collect();
        if let Some(cpu) = all.get(player % all.len().max(1)) {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(*cpu, &mut one);
            libc::sched_setaffinity(0, size, &raw const one);
        }
    }
}

/// Plays these seeds, until one breaks an invariant, here or in another process that plays.
fn play(seeds: impl Iterator<Item = u64>, verbose: bool, done: &mut Done, stop: &AtomicBool) {
    // SAFETY: zeroes are a value of a ledger.
    let ledger = unsafe { &mut *shared(std::mem::size_of::<Ledger>()).cast::<Ledger>() };
    for seed in seeds {
        if !run(seed, ledger, &mut done.totals, verbose) {
            done.failed += 1;
            stop.store(number("KEEP_GOING").is_none(), Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

/// Whether a run of this seed breaks no invariant.
fn run(seed: u64, ledger: &mut Ledger, totals: &mut Totals, verbose: bool) -> bool {
    let plan = Plan::new(seed);
    // SAFETY: no process of an earlier run is left; zeroes are an empty ledger.
    unsafe { std::ptr::write_bytes(std::ptr::from_mut(ledger), 0, 1) };
    let ledger = &*ledger;
    ledger.fill(plan.messages.len());
    let board = begin(seed, MOST_STEPS);
    let folder = PathBuf::from(format!("/dev/shm/softrdma-simulator-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder");
    let mut play = Play::new(board, plan.fates.clone(), plan.span + GRACE);
    for process in 0..plan.processes.len() {
        play.fork(process as u32, || {
            program::run(board, ledger, &plan, process, &folder.join("f"));
        });
    }
    let mut why = play.run();
    if why == Why::Idle {
        play.all_go_on();
        ledger.over.set(true);
        play.dead.iter().for_each(|dead| ledger.seen[*dead as usize].dead.set(true));
        softrdma_schedule::turn::unmix(board);
        play.extend(board.now() + GRACE);
        why = play.run();
    }
    let mut wrong = board.wrong();
    if wrong.is_none() && (why != Why::Idle || !play.is_over()) {
        wrong = Some(match why {
            Why::Wrong => "a process crashed".into(),
            Why::Endless => "the run does not end".into(),
            _ => "a thread hangs".to_owned(),
        });
    }
    if wrong.is_none() {
        wrong = check::check(&plan, ledger, totals).err();
    }
    totals.runs += 1;
    let (steps, switches) = board.steps();
    totals.steps += steps;
    totals.switches += switches;
    totals.deaths += play.dead.len() as u64;
    totals.stops += play.stops;
    totals.overran += ledger.seen.iter().filter(|seen| seen.overran.get()).count() as u64;
    let seen = &ledger.totals;
    totals.slept += seen.slept.get();
    totals.resized += seen.resized.get();
    totals.reset += seen.reset.get();
    totals.destroyed += seen.destroyed.get();
    totals.events += seen.events.get();
    totals.full += seen.full.get();
    if number("WAIT").is_some() && wrong.is_some() {
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
    drop(play);
    let _ = std::fs::remove_dir_all(&folder);
    if wrong.is_some() || verbose {
        board.notes().iter().for_each(|note| println!("{note}"));
        println!("{:?}", board.threads());
        println!("{:?} processes, mean {}, fates {:?}", plan.processes.len(), plan.mean, plan.fates);
    }
    if let Some(wrong) = &wrong {
        println!("SEED={seed}: {wrong}");
    }
    wrong.is_none()
}
