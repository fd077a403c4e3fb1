//! Processes that use the connection manager at random, die at random, and what must hold meanwhile.
//!
//! `SEEDS` says how many programs are tried (default 2000), `FIRST_SEED` from which on, `SEED` tries one alone.
#![allow(missing_docs)] // A test.

mod life;
mod play;

use std::time::Instant;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_programs() {
    if let Some(seed) = number("SEED") {
        println!("{:?}", play::run(seed));
        return;
    }
    let seeds = number("SEEDS").unwrap_or(2000);
    let start = Instant::now();
    let mut seen = play::Seen::default();
    let first = number("FIRST_SEED").unwrap_or(0);
    for seed in first..first + seeds {
        match std::panic::catch_unwind(|| play::run(seed)) {
            Ok(one) => seen.add(&one),
            Err(_) => panic!("SEED={seed} shows it alone"),
        }
    }
    let rate = seeds as f64 / start.elapsed().as_secs_f64();
    println!("{seeds} seeds, {rate:.0} a second: {seen:?}");
    // The programs get everywhere.
    let all = [
        seen.established,
        seen.rejected,
        seen.unreachable,
        seen.disconnected,
        seen.named,
        seen.killed,
        seen.lost,
    ];
    assert!(seeds < 500 || all.iter().all(|&count| count > 0), "{seen:?}");
}
