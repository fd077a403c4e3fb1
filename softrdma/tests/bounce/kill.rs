//! Either side is killed at random points; the other goes on, within a bounded time, and nothing is moved twice
//! or half.
//!
//! `KILLS` sets the number of kills of each side (100).

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use softrdma::shm::atomics::Operation;
use softrdma::shm::bounce::{Failure, Origin, Piece, Purpose, atomic};
use softrdma::shm::copy::Span;
use softrdma::shm::lock::{Liveness, Owner};
use softrdma::shm::segment::Peer;
use softrdma_testing::content::segment_of;

use super::stage::{KEY, LIMIT, Random, Shared, Stage, bounce, child, signal, status_of};

const LEN: u64 = 400_000;

fn kills() -> u64 {
    std::env::var("KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

fn piece(addr: u64, len: u64) -> Piece {
    Piece { key: KEY, addr, len }
}

/// Transfers in both directions and atomic operations for ever, until one fails.
fn work(stage: &Stage, target: Owner, there: Shared, count: &Shared, seed: u64) -> Failure {
    // When it is dead already, its slot may be another initiator's.
    let Ok(peer) = Peer::open(&stage.folder, 0) else { return Failure::Gone };
    if peer.owner() != target {
        return Failure::Gone;
    }
    let me = stage.segment();
    let mut random = Random(seed * 2654435761 + 1);
    let mut mine = vec![0u8; LEN as usize];
    loop {
        let len = 1 + random.below(LEN);
        let local = [Span { addr: mine.as_mut_ptr() as u64, len }];
        let pieces = [piece(there.addr + 8, len)];
        let result = match random.below(3) {
            0 => bounce(&me, &peer, Purpose::Write, &pieces, &local),
            1 => bounce(&me, &peer, Purpose::Read, &pieces, &local),
            _ => {
                // Begun is counted before, carried out after: a death in between leaves one more at most.
                count.word(0).fetch_add(1, Ordering::SeqCst);
                let done =
                    atomic(&me, &peer, Origin::NONE, piece(there.addr, 8), Operation::FetchAdd(1), LIMIT);
                count.word(8).fetch_add(u64::from(done.is_ok()), Ordering::SeqCst);
                done.map(|_| ())
            }
        };
        if let Err(failure) = result {
            return failure;
        }
    }
}

#[test]
fn initiators_die() {
    let stage = Stage::new("kill-initiator");
    let (there, count) = (Shared::new(LEN + 8), Shared::new(4096));
    let target = stage.target(0, Span { addr: there.addr, len: there.len });
    let mut random = Random(424242);
    let start_one = |seed| child(|| panic!("{:?}", work(&stage, target.peer.owner(), there, &count, seed)));
    let mut running: Vec<_> = (0..3).map(&start_one).collect();
    let watcher = stage.segment();
    let file = segment_of(&stage.path, 0);
    let word = |at| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let mut left_behind = 0;
    for n in 0..kills() {
        std::thread::sleep(Duration::from_micros(random.below(8000)));
        let victim = random.below(3) as usize;
        signal(running[victim], libc::SIGKILL);
        assert_eq!(status_of(running[victim]), -libc::SIGKILL, "an initiator failed by itself");
        // Mailboxes that are locked by the dead.
        let owners = (0..4).filter_map(|i| Owner::from_word(word(word(200) + 128 + 1280 * i)));
        left_behind += u64::from(owners.filter(|owner| !watcher.lives(*owner)).count() > 0);
        running[victim] = start_one(n + 3);
    }
    for pid in running {
        signal(pid, libc::SIGKILL);
        assert_eq!(status_of(pid), -libc::SIGKILL);
    }
    assert!(left_behind >= kills() / 5, "only {left_behind} died with a mailbox");
    // Every mailbox works, whatever the dead left in it.
    let me = stage.segment();
    let mut out = Random(7).bytes(LEN);
    for _ in 0..8 {
        let start = Instant::now();
        let local = [Span { addr: out.as_mut_ptr() as u64, len: LEN }];
        assert_eq!(bounce(&me, &target.peer, Purpose::Write, &[piece(there.addr + 8, LEN)], &local), Ok(()));
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(there.bytes(8, LEN) == out);
    }
    let (begun, ended) = (count.word(0).load(Ordering::SeqCst), count.word(8).load(Ordering::SeqCst));
    let added = there.word(0).load(Ordering::SeqCst);
    assert!((ended..=begun).contains(&added), "{ended} <= {added} <= {begun}");
}

#[test]
fn targets_die() {
    let stage = Stage::new("kill-target");
    let (there, count) = (Shared::new(LEN + 8), Shared::new(4096));
    let mut random = Random(31337);
    for n in 0..kills() {
        let target = stage.target(0, Span { addr: there.addr, len: there.len });
        let initiators: Vec<_> = (0..2)
            .map(|i| {
                child(|| {
                    let failure = work(&stage, target.peer.owner(), there, &count, 2 * n + i);
                    assert_eq!(failure, Failure::Gone);
                })
            })
            .collect();
        std::thread::sleep(Duration::from_micros(random.below(8000)));
        let start = Instant::now();
        drop(target);
        for pid in initiators {
            assert_eq!(status_of(pid), 0);
        }
        assert!(start.elapsed() < Duration::from_secs(5), "an initiator waited for the dead");
    }
}
