//! Requester and responder of RoCE v2 over a bad network, and what must hold meanwhile.
//!
//! `SEEDS` says how many runs are played (default 100), `FIRST_SEED` from which on, `SEED` plays one alone.
#![allow(missing_docs)] // A test.

mod end;
mod hostile;
mod message;
mod network;
mod play;
mod random;
mod scripts;
mod text;

use std::time::Instant;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_messages() {
    if let Some(seed) = setting("SEED") {
        println!("{:?}", play::run(seed));
        return;
    }
    let seeds = setting("SEEDS").unwrap_or(100);
    let first = setting("FIRST_SEED").unwrap_or(0);
    let start = Instant::now();
    let mut seen = play::Seen::default();
    for seed in first..first + seeds {
        match std::panic::catch_unwind(|| play::run(seed)) {
            Ok(one) => seen.add(&one),
            Err(_) => panic!("SEED={seed} cargo test -p softrdma --test wire shows it alone"),
        }
    }
    let rate = seeds as f64 / start.elapsed().as_secs_f64();
    println!("{seeds} seeds, {rate:.0} a second: {seen:?}");
    // The runs get everywhere.
    let ends = ["success", "flushed", "protection", "access", "retries", "not ready"];
    let mut all = ends.iter().map(|end| seen.statuses.get(end).copied().unwrap_or(0));
    let others = [
        seen.unreliable,
        seen.changed,
        seen.drained,
        seen.notified,
        seen.asked,
        seen.beyond,
        seen.lives - seen.runs,
    ];
    let everywhere = all.all(|count| count > 0) && others.iter().all(|&count| count > 0);
    assert!(seeds < 1000 || everywhere, "{seen:?}");
}
