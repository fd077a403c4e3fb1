//! Who has no processor is not silent: neither the target nor the initiator.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use softrdma::shm::bounce::{CopyService, Failure, Origin, Piece, Purpose, Registered};
use softrdma::shm::copy::Span;
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::thread::{Task, until};

use super::stage::{
    KEY, Shared, Stage, Target, bounce_within, child, has_ended, signal, sleep_for_ever, status_of, stop,
};

/// As long as a target may be silent.
const SILENCE: Duration = Duration::from_secs(2);
const LEN: u64 = 300_000;

/// The words by which the test and a target's service meet: whether this came to a piece, and may go on.
const AT_PIECE: u64 = 0;
const GOES_ON: u64 = 8;

/// Keys of a target whose service comes to no end with a piece, as if it had lost its processor there.
struct Kept {
    words: Shared,
}

impl Registered for Kept {
    fn with(&self, _: Purpose, _: &Origin, _: &Piece, access: &mut dyn FnMut()) -> bool {
        self.words.word(AT_PIECE).store(1, Ordering::Release);
        until(|| self.words.word(GOES_ON).load(Ordering::Acquire) == 1);
        access();
        true
    }
}

/// A target whose service is kept, and whose program does `work` meanwhile.
fn kept_target(stage: &Stage, words: Shared, work: fn() -> !) -> Target {
    let ready = Shared::new(4096);
    let pid = child(|| {
        let service = CopyService::new(Arc::new(Segment::create(stage.folder.clone()).unwrap()));
        service.serve(Arc::new(Kept { words })).unwrap();
        ready.word(0).store(1, Ordering::Release);
        work();
    });
    until(|| ready.word(0).load(Ordering::Acquire) != 0);
    Target { pid, peer: Peer::open(&stage.folder, 0).unwrap() }
}

/// Wants to run all the time, when nobody else does.
fn spin() -> ! {
    // SAFETY: changes the priority of this thread, which is the test's.
    unsafe { libc::nice(19) };
    loop {
        std::hint::spin_loop();
    }
}

fn write(stage: &Stage, peer: &Peer, there: Shared) -> Result<(), Failure> {
    let me = stage.segment();
    let mine = vec![7u8; LEN as usize];
    let local = [Span { addr: mine.as_ptr() as u64, len: LEN }];
    bounce_within(
        SILENCE,
        &me,
        peer,
        Purpose::Write,
        &[Piece { key: KEY, addr: there.addr, len: LEN }],
        &local,
    )
}

#[test]
fn a_target_that_waits_for_a_processor_is_waited_for() {
    let stage = Stage::new("busy-target");
    let (there, words) = (Shared::new(LEN), Shared::new(4096));
    let target = kept_target(&stage, words, spin);
    std::thread::scope(|s| {
        let writer = s.spawn(|| write(&stage, &target.peer, there));
        until(|| words.word(AT_PIECE).load(Ordering::Acquire) == 1);
        let kept = Instant::now();
        until(|| kept.elapsed() > SILENCE * 3 / 2 || writer.is_finished());
        words.word(GOES_ON).store(1, Ordering::Release);
        assert_eq!(writer.join().unwrap(), Ok(()));
    });
    assert!(there.bytes(0, LEN).iter().all(|b| *b == 7));
}

/// As after Ctrl-Z and `fg`, when the initiator comes first.
#[test]
fn while_the_initiator_is_stopped_it_waits_for_nobody() {
    let stage = Stage::new("busy-initiator");
    let (there, words) = (Shared::new(LEN), Shared::new(4096));
    let target = kept_target(&stage, words, || sleep_for_ever());
    let initiator = child(|| {
        let peer = Peer::open(&stage.folder, 0).unwrap();
        assert_eq!(write(&stage, &peer, there), Ok(()));
    });
    until(|| words.word(AT_PIECE).load(Ordering::Acquire) == 1);
    stop(initiator);
    std::thread::sleep(SILENCE * 3 / 2);
    let task = Task::first_of(initiator);
    let before = task.sleeps();
    signal(initiator, libc::SIGCONT);
    // It has looked, and waits again.
    until(|| task.sleeps() >= before + 2 || has_ended(initiator));
    words.word(GOES_ON).store(1, Ordering::Release);
    assert_eq!(status_of(initiator), 0);
    assert!(there.bytes(0, LEN).iter().all(|b| *b == 7));
    drop(target);
}
