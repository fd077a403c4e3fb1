//! Either side is killed at random points; the other goes on, without waiting for as long as one that lives may
//! take, and nothing is moved twice or half.
//!
//! `KILLS` sets the number of kills of each side (100).

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softrdma::shm::atomics::Operation;
use softrdma::shm::bounce::{Failure, Origin, Piece, Purpose, atomic};
use softrdma::shm::copy::Span;
use softrdma::shm::lock::Owner;
use softrdma::shm::segment::Peer;
use softrdma_testing::content::segment_of;
use softrdma_testing::thread::until;

use super::stage::{KEY, LIMIT, Random, Shared, Stage, bounce, child, has_ended, signal, status_of, stop};

const LEN: u64 = 400_000;

fn kills() -> u64 {
    std::env::var("KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

fn piece(addr: u64, len: u64) -> Piece {
    Piece { key: KEY, addr, len }
}

/// Where an initiator says as whom it works: one word for each of those that run at once.
fn name(count: &Shared, initiator: u64) -> &'static AtomicU64 {
    count.word(16 + 8 * initiator)
}

/// Transfers in both directions and atomic operations for ever, until one fails.
fn work(stage: &Stage, target: Owner, there: Shared, count: &Shared, initiator: u64, seed: u64) -> Failure {
    // When it is dead already, its slot may be another initiator's.
    let Ok(peer) = Peer::open(&stage.folder, 0) else { return Failure::Gone };
    if peer.owner() != target {
        return Failure::Gone;
    }
    let me = stage.segment();
    name(count, initiator).store(me.owner().word(), Ordering::Release);
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
    let start_one = |initiator, seed| {
        name(&count, initiator).store(0, Ordering::Relaxed);
        child(|| panic!("{:?}", work(&stage, target.peer.owner(), there, &count, initiator, seed)))
    };
    let mut running: Vec<_> = (0..3).map(|n| start_one(n, n)).collect();
    let file = segment_of(&stage.path, 0);
    let word = |at| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let block = word(200);
    // Whether a mailbox is locked by an initiator, of which nothing is known before it says so.
    let has_mailbox = |initiator| {
        let it = Owner::from_word(name(&count, initiator).load(Ordering::Acquire));
        it.is_some() && (0..4).any(|i| Owner::from_word(word(block + 128 + 1280 * i)) == it)
    };
    let mut left_behind = 0;
    for n in 0..kills() {
        std::thread::sleep(Duration::from_micros(random.below(8000)));
        let initiator = random.below(3);
        let victim = running[initiator as usize];
        // Every other one has a mailbox, at a random point of what it does with it.
        let mut is_met = n % 2 == 1;
        while !is_met {
            until(|| has_mailbox(initiator) || has_ended(victim));
            (0..random.below(4096)).for_each(|_| std::hint::spin_loop());
            stop(victim);
            is_met = has_mailbox(initiator);
            if !is_met {
                signal(victim, libc::SIGCONT);
            }
        }
        left_behind += u64::from(has_mailbox(initiator));
        signal(victim, libc::SIGKILL);
        assert_eq!(status_of(victim), -libc::SIGKILL, "an initiator failed by itself");
        running[initiator as usize] = start_one(initiator, n + 3);
    }
    println!("{left_behind} of {} died with a mailbox", kills());
    for pid in running {
        signal(pid, libc::SIGKILL);
        assert_eq!(status_of(pid), -libc::SIGKILL);
    }
    assert!(left_behind >= kills() / 2, "only {left_behind} died with a mailbox");
    // Every mailbox works, whatever the dead left in it.
    let me = stage.segment();
    let mut out = Random(7).bytes(LEN);
    for _ in 0..8 {
        let start = Instant::now();
        let local = [Span { addr: out.as_mut_ptr() as u64, len: LEN }];
        assert_eq!(bounce(&me, &target.peer, Purpose::Write, &[piece(there.addr + 8, LEN)], &local), Ok(()));
        assert!(start.elapsed() < LIMIT / 2);
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
                    let failure = work(&stage, target.peer.owner(), there, &count, i, 2 * n + i);
                    assert_eq!(failure, Failure::Gone);
                })
            })
            .collect();
        // Every other time they are at work for certain.
        let at_work =
            |(i, pid): (u64, &libc::pid_t)| name(&count, i).load(Ordering::Acquire) != 0 || has_ended(*pid);
        until(|| n % 2 == 1 || (0..).zip(&initiators).all(at_work));
        std::thread::sleep(Duration::from_micros(random.below(8000)));
        let start = Instant::now();
        drop(target);
        for (i, pid) in (0..).zip(initiators) {
            assert_eq!(status_of(pid), 0);
            name(&count, i).store(0, Ordering::Relaxed);
        }
        assert!(start.elapsed() < LIMIT / 2, "an initiator waited for the dead");
    }
}
