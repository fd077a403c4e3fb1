//! Rules and queues under a deterministic scheduler: processes that die at any step, and the invariants
//! afterwards.
//!
//! Each run follows from one number. `SEEDS=100000 cargo test -p softrdma --release --test sim` runs that many;
//! `FIRST_SEED=5000` begins there, `SEED=17 …` runs that one alone. A run that breaks an invariant prints its
//! seed and what happened last.

mod burst;
mod check;
mod config;
mod direct;
mod execute;
mod fault;
mod ledger;
mod plan;
mod process;
mod random;
mod reset;
mod rings;
mod world;

use std::rc::Rc;

use softrdma::queues::shared::{Memory, Object, SrqWord, Word};

use check::check;
use fault::Fault;
use ledger::{Ledger, Posted};
use plan::{connect, is_scarce, new_death, new_process, new_stop, plan};
use process::post_receive;
use random::Random;
use rings::Counts;
use world::{Process, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn invariants_hold() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("FIRST_SEED").unwrap_or(0);
            first..first + number("SEEDS").unwrap_or(3000)
        }
    };
    let begun = std::time::Instant::now();
    let mut totals = Totals::default();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        run(seed, &mut totals, None);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{count} seeds in {seconds:.1} s: {totals:?}");
    if count >= 1000 {
        totals.check(count);
    }
}

/// Each fault breaks an invariant sooner or later.
#[test]
fn faults_are_found() {
    for fault in Fault::ALL {
        let found = (0..20_000).find(|seed| {
            let run = || run(*seed, &mut Totals::default(), Some(fault));
            std::panic::catch_unwind(run).is_err()
        });
        assert!(found.is_some(), "{fault:?} is not found");
        println!("{fault:?} is found by seed {}", found.unwrap_or(0));
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
    rings: Counts,
    /// Messages in direct rings whose senders died before they could ring.
    unheard: u64,
}

impl Totals {
    fn check(&self, seeds: u64) {
        let mut rings = self.rings;
        // A death between two stores, seen by another process in that moment.
        rings.unknown += u64::from(seeds < 50_000);
        let rings = rings.all_mut().map(|count| *count);
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
        let all = all.iter().chain(&self.found).chain(&rings);
        assert!(all.into_iter().all(|&count| count > 0), "something never happened: {self:?}");
    }
}

fn run(seed: u64, totals: &mut Totals, fault: Option<Fault>) {
    let random = Random::new(seed);
    let small_queues = random.once_in(12);
    // Connections that send, so that much goes by direct rings.
    let sends = !small_queues && random.once_in(3);
    let count = 2 + random.below(3) as usize;
    let mut processes: Vec<_> = (0..count).map(|_| new_process(&random, small_queues)).collect();
    for _ in 0..1 + random.below(if sends { 2 } else { 5 }) {
        connect(&random, &mut processes, small_queues, sends);
    }
    let mut ledger = Ledger::default();
    // Everything at once, or with pauses.
    let span = random.pick(&[2_000, 20_000, 200_000]);
    for _ in 0..random.below(if sends { 100 } else { 60 }) {
        plan(&random, &processes, &mut ledger, span, sends);
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

    let mut world = World::new(seed, random, processes, ledger, small_queues);
    (world.sends, world.fault) = (sends, fault);
    let world = Rc::new(world);
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
            if let Object::Qp(qp) = object
                && !world.random.once_in(8)
            {
                direct::open(world, (place, qp));
            }
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
