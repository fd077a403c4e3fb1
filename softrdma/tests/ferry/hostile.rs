//! A peer that writes anything into the mailboxes: nothing that is not registered changes, the service lives, and who is
//! honest is served again as soon as it stops.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use softrdma::host::atomics::Operation;
use softrdma::host::copy::Span;
use softrdma::host::ferry::{Failure, Local, Origin, Piece, Purpose, atomic, transfer};
use softrdma::host::lock::Owner;

use super::stage::{KEY, LIMIT, READ_KEY, Random, Shared, Stage, ferry};

/// Words before the rings, from the start of the block.
const WORDS: u64 = 1024;

#[test]
fn lies_in_mailboxes() {
    let stage = Stage::new("hostile");
    let there = Shared::new(64 << 10);
    // Around the registered part stands a pattern.
    let (at, len) = (16 << 10, 16 << 10);
    let pattern: Vec<u8> = (0..there.len).map(|i| (i % 251) as u8).collect();
    there.fill(0, &pattern);
    let target = stage.target(0, Span { addr: there.addr + at, len });
    let me = stage.segment();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(stage.path.join("s0000")).unwrap();
    let word = |at: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let block = word(200);
    assert!(block != 0 && Owner::from_word(me.owner().word()).is_some());
    let mut random = Random(0x1234_5678_9abc_def1);
    let lie = |random: &mut Random| -> u64 {
        match random.below(14) {
            0 => 0,
            1 => random.below(8),
            2 => u64::MAX,
            3 => there.addr + random.below(there.len),
            4 => there.addr + at + random.below(len),
            5 => u64::from(KEY),
            6 => u64::from(READ_KEY),
            7 => random.below(there.len),
            8 => (128 << 10) - 1 + random.below(3),
            // A job in any phase.
            9..=11 => random.below(100) << 8 | random.below(6),
            12 => me.owner().word(),
            _ => random.next(),
        }
    };
    let started = Instant::now();
    let mut mine = vec![0u8; len as usize];
    for round in 0..3000u64 {
        for _ in 0..1 + random.below(40) {
            let at = random.below(WORDS) * 8;
            let value = lie(&mut random);
            file.write_all_at(&value.to_ne_bytes(), block + at).unwrap();
        }
        if round % 3 == 0 {
            // A job of plausible parts, posted.
            let mailbox = block + 128 + 1280 * random.below(4);
            let mut job =
                vec![1 + random.below(6), 0, 1 + random.below(3), random.next(), random.next(), 0, 0, 0];
            let mut sum = 0u64;
            for _ in 0..job[2] {
                let n = if random.below(2) == 0 { 8 } else { random.below(40_000) };
                let place = there.addr + random.below(there.len) / 8 * 8;
                job.extend([place, n, u64::from(if random.below(3) == 0 { READ_KEY } else { KEY })]);
                sum += n;
            }
            job[1] = sum;
            for (i, value) in job.iter().enumerate() {
                file.write_all_at(&value.to_ne_bytes(), mailbox + 384 + 8 * i as u64).unwrap();
            }
            let filled = random.below(130 << 10).min(sum);
            file.write_all_at(&filled.to_ne_bytes(), mailbox + 128).unwrap();
            file.write_all_at(&0u64.to_ne_bytes(), mailbox + 192).unwrap();
            let state = random.below(1 << 40) << 8 | 1;
            file.write_all_at(&state.to_ne_bytes(), mailbox + 64).unwrap();
            file.write_all_at(&(round as u32).to_ne_bytes(), block).unwrap();
        }
        if round % 10 == 0 {
            // Honest work among the lies ends, one way or the other.
            let purpose = [Purpose::Write, Purpose::Read][random.below(2) as usize];
            let pieces = [Piece { key: KEY, addr: there.addr + at, len }];
            let local = [Span { addr: mine.as_mut_ptr() as u64, len }];
            let limit = Duration::from_millis(15);
            // SAFETY: nobody looks at `mine`.
            let _ = unsafe {
                transfer(&me, &target.peer, Origin::NONE, purpose, &pieces, Local::Memory(&local), limit)
            };
        }
    }
    assert!(started.elapsed() < Duration::from_secs(120));
    // The lies stop: only what was posted meanwhile is still there.
    file.write_all_at(&vec![0; WORDS as usize * 8], block).unwrap();
    let mut out = random.bytes(len);
    let local = [Span { addr: out.as_mut_ptr() as u64, len }];
    let pieces = [Piece { key: KEY, addr: there.addr + at, len }];
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        match ferry(&me, &target.peer, Purpose::Write, &pieces, &local) {
            Ok(()) => break,
            Err(failure) => assert!(Instant::now() < limit, "{failure:?}"),
        }
    }
    assert!(there.bytes(at, len) == out);
    let add = Operation::FetchAdd(1);
    assert!(
        atomic(
            &me,
            &target.peer,
            Origin::NONE,
            Piece { key: KEY, addr: there.addr + at, len: 8 },
            add,
            LIMIT
        )
        .is_ok()
    );
    assert_ne!(add, Operation::FetchAdd(2));
    let outside = |bytes: &[u8]| [&bytes[..at as usize], &bytes[(at + len) as usize..]].concat();
    assert!(outside(&there.bytes(0, there.len)) == outside(&pattern), "memory outside was written");
    let wrong = [Piece { key: KEY, addr: there.addr, len: 8 }];
    assert_eq!(ferry(&me, &target.peer, Purpose::Write, &wrong, &local), Err(Failure::Refused));
}
