//! A peer that writes anything into the mailboxes: nothing that is not registered changes, the service lives,
//! and who is honest is served again as soon as it stops.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bolero::TypeGenerator;
use bolero::generator::produce;
use softrdma::shm::atomics::Operation;
use softrdma::shm::bounce::{Failure, Local, Origin, Piece, Purpose, atomic, transfer};
use softrdma::shm::copy::Span;
use softrdma::shm::lock::Owner;
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::content::segment_of;

use super::stage::{KEY, READ_KEY, Random, Shared, Stage, Target, bounce_within};

/// How long who is honest waits for a target of which nothing is certain, before it tries again.
const LIMIT: Duration = Duration::from_secs(10);
/// Ends a wait that never ends. Nothing takes that long on any machine.
const GUARD: Duration = Duration::from_secs(300);

/// Words before the rings, from the start of the block.
const WORDS: u64 = 1024;
/// The registered part of the memory, around which a pattern stands.
const AT: u64 = 16 << 10;
const LEN: u64 = 16 << 10;

/// A target, and its mailboxes as a peer that lies reaches them.
struct Scene {
    there: Shared,
    pattern: Vec<u8>,
    target: Target,
    me: Segment,
    file: File,
    /// Where the mailboxes are in the file.
    block: u64,
}

impl Scene {
    fn new(stage: &Stage) -> Self {
        let there = Shared::new(64 << 10);
        let pattern: Vec<u8> = (0..there.len).map(|i| (i % 251) as u8).collect();
        there.fill(0, &pattern);
        let target = stage.target(0, Span { addr: there.addr + AT, len: LEN });
        let me = stage.segment();
        let file = segment_of(&stage.path, 0);
        let mut block = [0; 8];
        file.read_exact_at(&mut block, 200).unwrap();
        let block = u64::from_ne_bytes(block);
        assert_ne!(block, 0);
        Scene { there, pattern, target, me, file, block }
    }

    /// Writes a word of the block.
    fn put(&self, at: u64, word: u64) {
        self.file.write_all_at(&word.to_ne_bytes(), self.block + at).unwrap();
    }

    fn ring(&self, n: u32) {
        self.file.write_all_at(&n.to_ne_bytes(), self.block).unwrap();
    }

    /// The lies stop: only what was posted meanwhile is still there.
    fn clear(&self) {
        self.file.write_all_at(&vec![0; WORDS as usize * 8], self.block).unwrap();
    }

    fn nothing_outside_changed(&self) -> bool {
        let outside = |bytes: &[u8]| [&bytes[..AT as usize], &bytes[(AT + LEN) as usize..]].concat();
        outside(&self.there.bytes(0, self.there.len)) == outside(&self.pattern)
    }
}

/// A transfer of who is honest.
fn bounce(
    me: &Segment,
    peer: &Peer,
    purpose: Purpose,
    pieces: &[Piece],
    local: &[Span],
) -> Result<(), Failure> {
    bounce_within(LIMIT, me, peer, purpose, pieces, local)
}

/// Who is honest is served soon.
fn served(work: impl Fn() -> Result<(), Failure>) {
    let begun = Instant::now();
    let mut tries = 0;
    while let Err(failure) = work() {
        tries += 1;
        assert!(tries < 1000 && begun.elapsed() < GUARD, "{failure:?} after {tries} tries");
    }
}

#[test]
fn lies_in_mailboxes() {
    let stage = Stage::new("hostile");
    let scene = Scene::new(&stage);
    let Scene { there, target, me, .. } = &scene;
    assert!(Owner::from_word(me.owner().word()).is_some());
    let mut random = Random(0x1234_5678_9abc_def1);
    let lie = |random: &mut Random| -> u64 {
        match random.below(14) {
            0 => 0,
            1 => random.below(8),
            2 => u64::MAX,
            3 => there.addr + random.below(there.len),
            4 => there.addr + AT + random.below(LEN),
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
    let mut mine = vec![0u8; LEN as usize];
    for round in 0..3000u64 {
        for _ in 0..1 + random.below(40) {
            let at = random.below(WORDS) * 8;
            let value = lie(&mut random);
            scene.put(at, value);
        }
        if round % 3 == 0 {
            // A job of plausible parts, posted.
            let mailbox = 128 + 1280 * random.below(4);
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
                scene.put(mailbox + 384 + 8 * i as u64, *value);
            }
            let filled = random.below(130 << 10).min(sum);
            scene.put(mailbox + 128, filled);
            scene.put(mailbox + 192, 0);
            scene.put(mailbox + 64, random.below(1 << 40) << 8 | 1);
            scene.ring(round as u32);
        }
        if round % 10 == 0 {
            // Honest work among the lies ends, one way or the other.
            let purpose = [Purpose::Write, Purpose::Read][random.below(2) as usize];
            let pieces = [Piece { key: KEY, addr: there.addr + AT, len: LEN }];
            let local = [Span { addr: mine.as_mut_ptr() as u64, len: LEN }];
            let limit = Duration::from_millis(15);
            // SAFETY: nobody looks at `mine`.
            let _ = unsafe {
                transfer(me, &target.peer, Origin::NONE, purpose, &pieces, Local::Memory(&local), limit)
            };
        }
    }
    assert!(started.elapsed() < GUARD);
    scene.clear();
    let mut out = random.bytes(LEN);
    let local = [Span { addr: out.as_mut_ptr() as u64, len: LEN }];
    let pieces = [Piece { key: KEY, addr: there.addr + AT, len: LEN }];
    served(|| bounce(me, &target.peer, Purpose::Write, &pieces, &local));
    assert!(there.bytes(AT, LEN) == out);
    let add = Operation::FetchAdd(1);
    assert!(
        atomic(me, &target.peer, Origin::NONE, Piece { key: KEY, addr: there.addr + AT, len: 8 }, add, LIMIT)
            .is_ok()
    );
    assert_ne!(add, Operation::FetchAdd(2));
    assert!(scene.nothing_outside_changed(), "memory outside was written");
    let wrong = [Piece { key: KEY, addr: there.addr, len: 8 }];
    assert_eq!(bounce(me, &target.peer, Purpose::Write, &wrong, &local), Err(Failure::Refused));
}

/// A target that does nothing and says all the time that it does: who waits for it gives up as with one that is
/// silent.
#[test]
fn a_target_that_pretends_to_get_on() {
    let stage = Stage::new("pretends");
    let scene = Scene::new(&stage);
    let Scene { there, target, me, .. } = &scene;
    super::stage::stop(target.pid);
    let (ended, limit) = (AtomicBool::new(false), Duration::from_millis(200));
    let mut mine = vec![7u8; 256 << 10];
    let local = [Span { addr: mine.as_mut_ptr() as u64, len: 256 << 10 }];
    let at = there.addr + AT;
    let late = std::thread::scope(|s| {
        let liar = s.spawn(|| {
            let started = Instant::now();
            let (mut step, mut late) = (1u32, false);
            while !ended.load(Ordering::Acquire) && !late {
                for mailbox in 0..4u64 {
                    let turn = scene.block + 128 + 1280 * mailbox + 256;
                    scene.file.write_all_at(&step.to_ne_bytes(), turn).unwrap();
                }
                step = step.wrapping_add(1);
                // More than the waits below take together, by far.
                late = started.elapsed() > GUARD;
            }
            late
        });
        for purpose in [Purpose::Write, Purpose::Read] {
            for len in [LEN, 256 << 10] {
                let pieces = [Piece { key: KEY, addr: at, len }];
                // SAFETY: nobody looks at `mine`.
                let moved = unsafe {
                    transfer(me, &target.peer, Origin::NONE, purpose, &pieces, Local::Memory(&local), limit)
                };
                assert_eq!(moved, Err(Failure::NoAnswer));
            }
        }
        let add = Operation::FetchAdd(1);
        let added = atomic(me, &target.peer, Origin::NONE, Piece { key: KEY, addr: at, len: 8 }, add, limit);
        assert_eq!(added, Err(Failure::NoAnswer));
        ended.store(true, Ordering::Release);
        liar.join().unwrap()
    });
    assert!(!late, "it was waited for as long as it pretended");
}

/// A job as nobody honest need have posted it.
#[derive(Clone, Debug, TypeGenerator)]
struct Posted {
    mailbox: u8,
    /// Purpose and operation.
    action: u8,
    /// Added to the length that the pieces make.
    length: Option<u64>,
    #[generator(produce::<Vec<Part>>().with().len(0usize..=4))]
    pieces: Vec<Part>,
    /// Added to the number of pieces.
    count: Option<u64>,
    operands: [u64; 2],
    /// Bytes put in and taken out, so far.
    filled: u64,
    emptied: u16,
    /// Any other words, by number.
    #[generator(produce::<Vec<(u16, u64)>>().with().len(0usize..=8))]
    words: Vec<(u16, u64)>,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Part {
    addr: u16,
    length: u16,
    read_only: bool,
    /// Added to address, length and key.
    lie: Option<(u64, u64, u32)>,
}

/// The jobs of the copy service: whatever is posted, only what is registered changes, and the service lives.
#[test]
fn fuzz_jobs() {
    let stage = Stage::new("fuzz-jobs");
    let scene = Scene::new(&stage);
    let Scene { there, target, me, .. } = &scene;
    let rounds = Cell::new(0u64);
    let read = |mine: &Cell<[u8; 8]>| {
        let pieces = [Piece { key: READ_KEY, addr: there.addr + AT, len: 8 }];
        let local = [Span { addr: mine.as_ptr() as u64, len: 8 }];
        bounce(me, &target.peer, Purpose::Read, &pieces, &local)
    };
    let run = AssertUnwindSafe(|posted: &Posted| {
        let number = rounds.replace(rounds.get() + 1) + 1;
        let mailbox = 128 + 1280 * u64::from(posted.mailbox % 4);
        for (word, value) in &posted.words {
            scene.put(u64::from(*word) % WORDS * 8, *value);
        }
        let mut total = 0u64;
        for (i, part) in (0..).zip(&posted.pieces) {
            let (addr, length, key) = part.lie.unwrap_or_default();
            let length = u64::from(part.length).wrapping_add(length);
            scene.put(mailbox + 448 + 24 * i, (there.addr + u64::from(part.addr)).wrapping_add(addr));
            scene.put(mailbox + 456 + 24 * i, length);
            let opens = if part.read_only { READ_KEY } else { KEY };
            scene.put(mailbox + 464 + 24 * i, opens.wrapping_add(key).into());
            total = total.wrapping_add(length);
        }
        let count = (posted.pieces.len() as u64).wrapping_add(posted.count.unwrap_or(0));
        let job = [
            posted.action.into(),
            total.wrapping_add(posted.length.unwrap_or(0)),
            count,
            posted.operands[0],
            posted.operands[1],
        ];
        for (i, word) in (0..).zip(job) {
            scene.put(mailbox + 384 + 8 * i, word);
        }
        scene.put(mailbox + 128, posted.filled);
        scene.put(mailbox + 192, posted.emptied.into());
        scene.put(mailbox + 64, number << 8 | 1);
        scene.ring(number as u32);
        if number.is_multiple_of(16) {
            scene.clear();
            scene.ring(number as u32 + 1);
            let mine = Cell::new([0u8; 8]);
            served(|| read(&mine));
            assert!(scene.nothing_outside_changed(), "memory outside was written");
        }
    });
    corpus::check!().with_type::<Posted>().for_each(move |posted| (*run)(posted));
}
