//! What a call costs, as the benches measure it.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call.
pub fn passed() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as f64
}

/// Nanoseconds per turn, by a clock: median and best of so many rounds. `work` is told the number of the turn.
pub fn timed(rounds: usize, clock: fn() -> f64, turns: u32, mut work: impl FnMut(u32)) -> (f64, f64) {
    let mut all: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = clock();
            for turn in 0..turns {
                work(turn);
            }
            (clock() - start) / f64::from(turns)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[rounds / 2], all[0])
}

/// Median nanoseconds per turn, of nine rounds.
pub fn median(turns: u32, mut work: impl FnMut()) -> f64 {
    timed(9, passed, turns, |_| work()).0
}
