//! Payload through shared memory between processes, as if the kernel refused every other way, and once where it
//! really does.

mod busy;
mod hostile;
mod kill;
mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softrdma::shm::atomics::Operation;
use softrdma::shm::bounce::{CopyService, Failure, Local, Origin, Piece, Purpose, atomic, needed, transfer};
use softrdma::shm::copy::{Span, Way, probe};
use softrdma::shm::error::Error;
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::content::segment_of;
use softrdma_testing::filter::forbid_direct_copies;
use softrdma_testing::thread::{Task, until};

use stage::{KEY, LIMIT, OpenRange, READ_KEY, Random, Shared, Stage, bounce, child, signal, status_of, stop};

fn span(bytes: &mut [u8]) -> Span {
    Span { addr: bytes.as_mut_ptr() as u64, len: bytes.len() as u64 }
}

fn piece(addr: u64, len: u64) -> Piece {
    Piece { key: KEY, addr, len }
}

/// Cuts a range at random places into at most `parts` parts.
fn cut(random: &mut Random, mut addr: u64, mut len: u64, parts: u64) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for _ in 1..parts {
        let n = random.below(len + 1);
        all.push((addr, n));
        (addr, len) = (addr + n, len - n);
    }
    all.push((addr, len));
    all
}

#[test]
fn what_is_moved_arrives() {
    let stage = Stage::new("data");
    let there = Shared::new(4 << 20);
    let target = stage.target(0, Span { addr: there.addr, len: there.len });
    let me = stage.segment();
    let mut random = Random(88172645463325252);
    for round in 0..300u64 {
        // Lengths around those of a step and of the ring, and small ones.
        let len = match round % 6 {
            0 => random.below(64),
            1 => random.below(20_000),
            2 => (16 << 10) + random.below(5) - 2,
            3 => (128 << 10) + random.below(5) - 2,
            4 => random.below(1 << 20),
            _ => 8,
        };
        let at = random.below(4096);
        let mut mine = random.bytes(len);
        let (a, b) = (1 + random.below(70), 1 + random.below(70));
        let pieces: Vec<_> = cut(&mut random, there.addr + at, len, a)
            .into_iter()
            .map(|(addr, len)| piece(addr, len))
            .collect();
        let local: Vec<_> = cut(&mut random, mine.as_mut_ptr() as u64, len, b)
            .into_iter()
            .map(|(addr, len)| Span { addr, len })
            .collect();
        if random.below(2) == 0 {
            there.fill(at, &vec![0; len as usize + 1]);
            let purpose = if round % 2 == 0 { Purpose::Write } else { Purpose::Receive };
            assert_eq!(bounce(&me, &target.peer, purpose, &pieces, &local), Ok(()));
            assert!(there.bytes(at, len) == mine, "{len} bytes were written");
            assert_eq!(there.bytes(at + len, 1), [0]);
        } else {
            let theirs = random.bytes(len);
            there.fill(at, &theirs);
            assert_eq!(bounce(&me, &target.peer, Purpose::Read, &pieces, &local), Ok(()));
            assert!(mine == theirs, "{len} bytes were read");
        }
    }
}

#[test]
fn the_shorter_list_ends_it() {
    let stage = Stage::new("short");
    let there = Shared::new(4096);
    let target = stage.target(0, Span { addr: there.addr, len: there.len });
    let me = stage.segment();
    let mut mine = vec![7u8; 100];
    let local = [span(&mut mine)];
    for (piece_len, moved) in [(60, 60), (200, 100)] {
        there.fill(0, &[0; 256]);
        assert_eq!(
            bounce(&me, &target.peer, Purpose::Write, &[piece(there.addr, piece_len)], &local),
            Ok(())
        );
        let seen = there.bytes(0, 256);
        assert!(seen[..moved] == vec![7; moved] && seen[moved..] == vec![0; 256 - moved]);
    }
    // Nothing to move asks nobody: neither the key nor the address matters.
    let nothing = [Piece { key: 9, addr: 1, len: 0 }];
    assert_eq!(bounce(&me, &target.peer, Purpose::Write, &nothing, &local), Ok(()));
    assert_eq!(bounce(&me, &target.peer, Purpose::Read, &[], &local), Ok(()));
    // Bytes of the library's own.
    let long: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
    // SAFETY: nothing of this process is written.
    let bytes = |purpose| unsafe {
        transfer(
            &me,
            &target.peer,
            Origin::NONE,
            purpose,
            &[piece(there.addr + 3, 4000)],
            Local::Bytes(&long),
            LIMIT,
        )
    };
    assert_eq!(bytes(Purpose::Write), Ok(()));
    assert_eq!(there.bytes(3, 3000), long);
    assert_eq!(bytes(Purpose::Read), Err(Failure::Os(libc::EINVAL)));
}

#[test]
fn memory_that_is_not_there() {
    let stage = Stage::new("fault");
    let (there, here) = (Shared::new(1 << 20), Shared::new(1 << 20));
    // Registered, and closed from the middle on.
    let closed = Shared::new(4096);
    let target = stage.target_that(0, Span { addr: 0, len: 1 << 62 }, |_| {
        there.close(there.len / 2, there.len / 2);
        closed.word(0).store(1, Ordering::Release);
        stage::sleep_for_ever();
    });
    until(|| closed.word(0).load(Ordering::Acquire) == 1);
    here.close(here.len / 2, here.len / 2);
    let me = stage.segment();
    let run = |purpose, at: u64, mine: u64, len| {
        let local = [Span { addr: here.addr + mine, len }];
        bounce(&me, &target.peer, purpose, &[piece(there.addr + at, len)], &local)
    };
    let half = there.len / 2;
    for len in [200, 100_000, 400_000] {
        // The last 100 bytes are open.
        let edge = half - 100;
        for purpose in [Purpose::Write, Purpose::Receive] {
            there.fill(edge, &[0; 100]);
            here.fill(0, &[5; 200]);
            assert_eq!(run(purpose, edge, 0, len), Err(Failure::Remote));
            assert_eq!(there.bytes(edge, 100), [5; 100]);
            assert_eq!(run(purpose, 0, edge, len), Err(Failure::Local));
        }
        assert_eq!(run(Purpose::Read, edge, 0, len), Err(Failure::Remote));
        assert_eq!(run(Purpose::Read, 0, edge, len), Err(Failure::Local));
        // And the mailbox is as good as before.
        there.fill(0, &[1, 2, 3]);
        assert_eq!(run(Purpose::Read, 0, 0, 3), Ok(()));
        assert_eq!(here.bytes(0, 3), [1, 2, 3]);
    }
    let mine = [Span { addr: here.addr, len: 8 }];
    for addr in [8, 1 << 61] {
        assert_eq!(bounce(&me, &target.peer, Purpose::Write, &[piece(addr, 8)], &mine), Err(Failure::Remote));
        let add = Operation::FetchAdd(1);
        assert_eq!(atomic(&me, &target.peer, Origin::NONE, piece(addr, 8), add, LIMIT), Err(Failure::Remote));
    }
    let beyond = [piece(u64::MAX - 3, 8)];
    assert_eq!(bounce(&me, &target.peer, Purpose::Write, &beyond, &mine), Err(Failure::Os(libc::EPROTO)));
}

#[test]
fn keys_open_what_they_stand_for() {
    let stage = Stage::new("keys");
    let there = Shared::new(1 << 20);
    let (start, len) = (there.addr + 4096, 8192);
    let target = stage.target(0, Span { addr: start, len });
    let me = stage.segment();
    let mut mine = vec![1u8; 1 << 19];
    let mut run = |purpose, key, addr, len| {
        bounce(&me, &target.peer, purpose, &[Piece { key, addr, len }], &[span(&mut mine)])
    };
    for purpose in [Purpose::Write, Purpose::Receive, Purpose::Read] {
        assert_eq!(run(purpose, KEY, start, len), Ok(()));
        assert_eq!(run(purpose, KEY, start, len + 1), Err(Failure::Refused));
        assert_eq!(run(purpose, KEY, start - 1, 1), Err(Failure::Refused));
        assert_eq!(run(purpose, KEY, start + len, 1), Err(Failure::Refused));
        assert_eq!(run(purpose, 7, start, 8), Err(Failure::Refused));
    }
    assert_eq!(run(Purpose::Read, READ_KEY, start, 8), Ok(()));
    assert_eq!(run(Purpose::Write, READ_KEY, start, 8), Err(Failure::Refused));
    assert_eq!(run(Purpose::Receive, READ_KEY, start, 8), Err(Failure::Refused));
    let operate = |key, addr, operation| {
        atomic(&me, &target.peer, Origin::NONE, Piece { key, addr, len: 8 }, operation, LIMIT)
    };
    assert_eq!(operate(READ_KEY, start, Operation::FetchAdd(1)), Err(Failure::Refused));
    assert_eq!(operate(READ_KEY, start, Operation::Write(1)), Err(Failure::Refused));
    assert_eq!(operate(KEY, start - 8, Operation::FetchAdd(1)), Err(Failure::Refused));
    assert_eq!(operate(KEY, start + 4, Operation::FetchAdd(1)), Err(Failure::Os(libc::EINVAL)));
    let outside = [there.bytes(0, 4096), there.bytes(4096 + len, 4096)].concat();
    assert!(outside.iter().all(|b| *b == 0));
}

#[test]
fn atomic_operations() {
    let stage = Stage::new("atomic");
    let there = Shared::new(4096);
    let target = stage.target(0, Span { addr: there.addr, len: there.len });
    let me = stage.segment();
    let run = |operation| atomic(&me, &target.peer, Origin::NONE, piece(there.addr, 8), operation, LIMIT);
    there.word(0).store(u64::MAX, Ordering::Relaxed);
    assert_eq!(run(Operation::FetchAdd(2)), Ok(u64::MAX));
    assert_eq!(run(Operation::CompareSwap { compare: 2, swap: 9 }), Ok(1));
    assert_eq!(run(Operation::CompareSwap { compare: 1, swap: 9 }), Ok(1));
    assert_eq!(run(Operation::Write(0)), Ok(9));
    assert_eq!(there.word(0).load(Ordering::Relaxed), 0);
    // More processes than mailboxes; some take the direct way, behind the same lock.
    let adders: Vec<_> = (0..6)
        .map(|i| {
            child(|| {
                let (me, peer) = (stage.segment(), Peer::open(&stage.folder, 0).unwrap());
                for _ in 0..1000 {
                    if i % 3 == 0
                        && let Ok(Way::Direct(image)) = probe(&peer)
                    {
                        let lock = peer.atomics_lock(there.addr).unwrap();
                        let add = Operation::FetchAdd(1);
                        // SAFETY: the bytes are an atomic of the test.
                        let direct = unsafe {
                            softrdma::shm::atomics::execute(
                                lock,
                                me.owner(),
                                &me,
                                LIMIT,
                                &image,
                                there.addr,
                                add,
                            )
                        };
                        direct.unwrap();
                    } else {
                        let add = Operation::FetchAdd(1);
                        let mut added = Err(Failure::Busy);
                        // Somebody who has the lock waits for a processor.
                        while added == Err(Failure::Busy) {
                            added = atomic(&me, &peer, Origin::NONE, piece(there.addr, 8), add, LIMIT);
                        }
                        added.unwrap();
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        assert_eq!(status_of(adder), 0);
    }
    assert_eq!(there.word(0).load(Ordering::Relaxed), 6000);
}

#[test]
fn many_initiators_at_once() {
    let stage = Stage::new("many");
    const EACH: u64 = 300_000;
    let there = Shared::new(12 * EACH);
    let target = stage.target(0, Span { addr: there.addr, len: there.len });
    let initiators: Vec<_> = (0..6u64)
        .map(|i| {
            child(|| {
                let (me, peer) = (stage.segment(), Peer::open(&stage.folder, 0).unwrap());
                // Two threads of one process, too.
                std::thread::scope(|s| {
                    for at in [2 * i * EACH, (2 * i + 1) * EACH] {
                        let (me, peer) = (&me, &peer);
                        s.spawn(move || {
                            let mut random = Random(at + 1);
                            for _ in 0..20 {
                                let len = random.below(EACH);
                                let mut out = random.bytes(len);
                                let pieces = [piece(there.addr + at, len)];
                                bounce(me, peer, Purpose::Write, &pieces, &[span(&mut out)]).unwrap();
                                let mut back = vec![0; len as usize];
                                bounce(me, peer, Purpose::Read, &pieces, &[span(&mut back)]).unwrap();
                                assert!(out == back);
                            }
                        });
                    }
                });
            })
        })
        .collect();
    for initiator in initiators {
        assert_eq!(status_of(initiator), 0);
    }
    drop(target);
}

#[test]
fn service_on_demand() {
    let stage = Stage::new("demand");
    let there = Shared::new(4096);
    let segment = Arc::new(stage.segment());
    let owner = CopyService::new(segment.clone());
    let me = stage.segment();
    let peer = Peer::open(&stage.folder, 0).unwrap();
    let mut mine = vec![3u8; 100];
    let mut run = || bounce(&me, &peer, Purpose::Write, &[piece(there.addr, 100)], &[span(&mut mine)]);
    assert!(!owner.wanted() && !owner.serving());
    let start = Instant::now();
    assert_eq!(run(), Err(Failure::NoAnswer));
    assert!(start.elapsed() < LIMIT / 2, "it was waited for as long as a service may take");
    assert!(owner.wanted());
    let open_range =
        || Arc::new(OpenRange { range: Span { addr: there.addr, len: 4096 }, asked: AtomicU64::new(0) });
    owner.serve(open_range()).unwrap();
    assert!(!owner.wanted() && owner.serving());
    assert_eq!(run(), Ok(()));
    assert_eq!(there.bytes(0, 100), [3; 100]);
    // An owner that looks while the first initiator waits.
    owner.stop();
    assert!(!owner.serving());
    std::thread::scope(|s| {
        s.spawn(|| {
            while !owner.wanted() {
                std::hint::spin_loop();
            }
            owner.serve(open_range()).unwrap();
        });
        while run() != Ok(()) {}
    });
    owner.serve(open_range()).unwrap();
    assert_eq!(run(), Ok(()));
    // The process lives, so it might serve again.
    drop((owner, segment));
    assert_eq!(run(), Err(Failure::NoAnswer));
}

#[test]
fn a_forked_child_serves_nobody() {
    let stage = Stage::new("fork");
    let there = Shared::new(4096);
    let segment = Arc::new(stage.segment());
    let open_range =
        Arc::new(OpenRange { range: Span { addr: there.addr, len: 4096 }, asked: AtomicU64::new(0) });
    let mut owner = Some(CopyService::new(segment.clone()));
    owner.as_ref().unwrap().serve(open_range.clone()).unwrap();
    let peer = Peer::open(&stage.folder, 0).unwrap();
    let inside = child(|| {
        let mine = owner.take().unwrap();
        assert!(!mine.serving() && !mine.wanted());
        assert_eq!(mine.serve(open_range.clone()), Err(Error::Forked));
        mine.stop();
        // Not with the parent's name.
        let mut byte = [0u8; 8];
        let refused = bounce(&segment, &peer, Purpose::Read, &[piece(there.addr, 8)], &[span(&mut byte)]);
        assert_eq!(refused, Err(Failure::Os(libc::EPERM)));
        drop(mine);
        // With its own, to its parent, whose thread is another process's.
        let own = stage.segment();
        let parent = Peer::open(&stage.folder, 0).unwrap();
        assert_eq!(
            atomic(&own, &parent, Origin::NONE, piece(there.addr, 8), Operation::FetchAdd(5), LIMIT),
            Ok(0)
        );
    });
    assert_eq!(status_of(inside), 0);
    assert_eq!(there.word(0).load(Ordering::Relaxed), 5);
    assert!(owner.unwrap().serving());
}

/// Loopback: initiator and target are one process.
#[test]
fn to_oneself() {
    let stage = Stage::new("self");
    let segment = Arc::new(stage.segment());
    let mut there = vec![0u8; 500_000];
    let range = span(&mut there);
    let owner = CopyService::new(segment.clone());
    owner.serve(Arc::new(OpenRange { range, asked: AtomicU64::new(0) })).unwrap();
    let peer = Peer::open(&stage.folder, 0).unwrap();
    let mut mine = Random(5).bytes(500_000);
    let pieces = [piece(range.addr, range.len)];
    assert_eq!(bounce(&segment, &peer, Purpose::Write, &pieces, &[span(&mut mine)]), Ok(()));
    assert!(there == mine);
}

fn cpu_time(pid: libc::pid_t) -> Duration {
    // SAFETY: both structures are integers and writable.
    unsafe {
        let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
        assert_eq!(libc::clock_getcpuclockid(pid, &mut clock), 0);
        assert_eq!(libc::clock_gettime(clock, &mut time), 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[test]
fn idle_service_costs_nothing() {
    let stage = Stage::new("idle");
    let there = Shared::new(4096);
    let target = stage.target(0, Span { addr: there.addr, len: 4096 });
    let me = stage.segment();
    let add = || atomic(&me, &target.peer, Origin::NONE, piece(there.addr, 8), Operation::FetchAdd(1), LIMIT);
    assert_eq!(add(), Ok(0));
    // It has answered before it goes to sleep, when it gets a processor.
    let state = || {
        let tasks = Task::all_of(target.pid);
        let sleeps = tasks.iter().map(Task::sleeps).collect::<Vec<_>>();
        (tasks.iter().all(Task::is_asleep), sleeps, cpu_time(target.pid))
    };
    let is_idle = |_| {
        let before = state();
        std::thread::sleep(Duration::from_millis(500));
        before.0 && state() == before
    };
    assert!((0..20).any(is_idle), "it is never idle");
    assert_eq!(add(), Ok(1));
}

/// A target that is stopped does not answer; what it was asked for does not happen afterwards either.
#[test]
fn a_stopped_target() {
    let stage = Stage::new("stop");
    let there = Shared::new(1 << 20);
    let target = stage.target(0, Span { addr: there.addr, len: there.len });
    let me = stage.segment();
    let mut mine = vec![9u8; 500_000];
    let short = Duration::from_millis(60);
    for _ in 0..3 {
        stop(target.pid);
        for _ in 0..3 {
            let pieces = [piece(there.addr + 8, 500_000)];
            // SAFETY: `mine` is only read.
            let written = unsafe {
                transfer(
                    &me,
                    &target.peer,
                    Origin::NONE,
                    Purpose::Write,
                    &pieces,
                    Local::Memory(&[span(&mut mine)]),
                    short,
                )
            };
            assert_eq!(written, Err(Failure::NoAnswer));
            let added =
                atomic(&me, &target.peer, Origin::NONE, piece(there.addr, 8), Operation::FetchAdd(1), short);
            assert_eq!(added, Err(Failure::NoAnswer));
        }
        // It is stopped still: no call has waited for it.
        let is_untouched = || there.bytes(8, 500_000).iter().all(|b| *b == 0);
        assert!(is_untouched());
        signal(target.pid, libc::SIGCONT);
        // It works on all mailboxes in turn, and has slept when it found nothing in any.
        assert_eq!(
            atomic(&me, &target.peer, Origin::NONE, piece(there.addr, 8), Operation::FetchAdd(1), LIMIT),
            Ok(0)
        );
        until(|| Task::all_of(target.pid).iter().all(Task::is_asleep));
        assert!(is_untouched() && there.word(0).load(Ordering::Relaxed) == 1);
        there.word(0).store(0, Ordering::Relaxed);
    }
}

/// The number by which a process knows its segment.
fn segment_number() -> i32 {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("ironverbs-segment"))
    };
    numbers.filter(is_segment).last().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// A program closes all descriptors while a peer is about to read a region, and opens a file of its own, which
/// gets the segment's number.
#[test]
fn what_a_program_opens_while_a_job_is_under_way_is_not_written_to() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    let stage = Stage::new("closed");
    let (there, step) = (Shared::new(1 << 20), Shared::new(4096));
    let path = stage.path.join("data");
    let target = stage.target_that(0, Span { addr: there.addr, len: there.len }, |_| {
        until(|| step.word(0).load(Ordering::Acquire) != 0);
        let file = std::fs::File::create(&path).unwrap();
        // SAFETY: the process plays a program that closes what is not its own.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), segment_number()) } >= 0);
        step.word(0).store(2, Ordering::Release);
        stage::sleep_for_ever();
    });
    // The initiator's part by hand, to have it wait in the middle.
    let file = segment_of(&stage.path, 0);
    let get = |at: u64| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at).unwrap();
        u64::from_ne_bytes(word)
    };
    let block = get(200);
    let mailbox = block + 128;
    let put = |at: u64, word: u64| file.write_all_at(&word.to_ne_bytes(), at).unwrap();
    let ring = |n: u32| {
        file.write_all_at(&n.to_ne_bytes(), block).unwrap();
        // SAFETY: waking by a mapping of the word.
        unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                block as i64,
            );
            libc::syscall(libc::SYS_futex, page, libc::FUTEX_WAKE, 1);
            libc::munmap(page, 4096);
        }
    };
    let head = [3, there.len, 1, 0, 0, 0, 0, 0, there.addr, there.len, u64::from(KEY)];
    head.iter().zip(0..).for_each(|(word, n)| put(mailbox + 384 + 8 * n, *word));
    put(mailbox + 64, 5 << 8 | 1);
    ring(1);
    // The ring is full.
    until(|| get(mailbox + 128) == 128 << 10);
    step.word(0).store(1, Ordering::Release);
    until(|| step.word(0).load(Ordering::Acquire) == 2);
    put(mailbox + 192, 128 << 10);
    ring(2);
    // It goes on, or has ended, and has nothing more to do.
    until(|| get(mailbox + 128) > 128 << 10 || get(mailbox + 64) & 0xff == 3);
    until(|| Task::all_of(target.pid).iter().all(Task::is_asleep));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "the program's file was written to");
    drop(target);
}

#[test]
fn behind_a_filter() {
    let stage = Stage::new("filter");
    let there = Shared::new(1 << 20);
    let range = Span { addr: there.addr, len: there.len };
    // Both behind the filter, as two containers are.
    let ready = Shared::new(4096);
    let target = child(|| {
        forbid_direct_copies();
        assert!(needed(true));
        let segment: Arc<Segment> = Arc::new(stage.segment());
        let service = CopyService::new(segment);
        service.serve(Arc::new(OpenRange { range, asked: AtomicU64::new(0) })).unwrap();
        ready.word(0).store(1, Ordering::Release);
        stage::sleep_for_ever();
    });
    until(|| ready.word(0).load(Ordering::Acquire) != 0);
    let initiator = child(|| {
        forbid_direct_copies();
        let (me, peer) = (stage.segment(), Peer::open(&stage.folder, 0).unwrap());
        assert_eq!(probe(&peer), Ok(Way::Closed(libc::EPERM)));
        let mut out = Random(99).bytes(700_000);
        let pieces = [piece(there.addr, 700_000)];
        assert_eq!(bounce(&me, &peer, Purpose::Write, &pieces, &[span(&mut out)]), Ok(()));
        assert!(there.bytes(0, 700_000) == out);
        let mut back = vec![0; 700_000];
        assert_eq!(bounce(&me, &peer, Purpose::Read, &pieces, &[span(&mut back)]), Ok(()));
        assert!(back == out);
        // A bad address is an error here too.
        assert_eq!(
            bounce(&me, &peer, Purpose::Read, &pieces, &[Span { addr: 8, len: 8 }]),
            Err(Failure::Local)
        );
        there.word(0).store(4, Ordering::Relaxed);
        assert_eq!(
            atomic(&me, &peer, Origin::NONE, piece(there.addr, 8), Operation::FetchAdd(1), LIMIT),
            Ok(4)
        );
    });
    assert_eq!(status_of(initiator), 0);
    signal(target, libc::SIGKILL);
    assert_eq!(status_of(target), -libc::SIGKILL);
}
