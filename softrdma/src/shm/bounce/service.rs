//! The target's side: one thread that works on all mailboxes in turn, a step at a time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ironverbs_os::growth::try_arc;
use ironverbs_os::thread::{self, Thread};

use super::super::atomics::Operation;
use super::super::error::{Error, Result};
use super::super::segment::Segment;
use super::mailbox::{
    Action, Ending, Job, MAILBOXES, Mailbox, Mailboxes, Phase, RING, STEP, in_phase, is_in, say_ended,
};
use super::memory::{File, Stop, range};
use super::{Origin, Piece, Registered, after};

/// How long the lock of an atomic operation is waited for, which a living owner has for microseconds: others
/// wait for the service meanwhile.
const ATOMICS: Duration = Duration::from_millis(20);

/// A running service thread.
pub(super) struct Service {
    thread: Thread,
    shared: Arc<Shared>,
}

struct Shared {
    segment: Arc<Segment>,
    offset: u64,
    registered: Arc<dyn Registered>,
    stop: AtomicBool,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    pub(super) fn start(segment: Arc<Segment>, offset: u64, registered: Arc<dyn Registered>) -> Result<Self> {
        let shared = try_arc(Shared { segment, offset, registered, stop: AtomicBool::new(false) })?;
        let work = shared.clone();
        let thread = thread::start(c"ironverbs-serve", move || work.run()).map_err(|_| Error::NoMemory)?;
        Ok(Service { thread, shared })
    }

    /// Tells the thread to end.
    pub(super) fn ask_to_stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Ok(mailboxes) = Mailboxes::at(self.shared.segment.memory(), self.shared.offset) {
            mailboxes.bell.raise();
            mailboxes.bell.wake();
        }
    }

    pub(super) fn stop(self) {
        self.ask_to_stop();
        // It may be the last to know what holds this.
        if self.thread.is_current() {
            return;
        }
        self.thread.join();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    /// In a forked child, where the thread does not exist.
    pub(super) fn forget(self) {
        std::mem::forget(self.thread);
    }
}

/// A job under way.
struct Active {
    /// Its number, in phase active.
    state: u64,
    job: Job,
    /// Bytes done; the piece where the next one is, and how far in it.
    done: u64,
    piece: usize,
    skip: u64,
}

impl Shared {
    fn run(&self) {
        /// Says so also when `Registered` panics.
        struct Leave<'a>(&'a Segment);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                if let Ok(word) = self.0.service_state() {
                    say_ended(word);
                }
            }
        }
        let _leave = Leave(&self.segment);
        let Ok(mailboxes) = Mailboxes::at(self.segment.memory(), self.offset) else { return };
        let mut active = [const { None }; MAILBOXES];
        for mailbox in &mailboxes.all {
            // What a service before this one left.
            let state = mailbox.state.load(Ordering::Acquire);
            if is_in(state, Phase::Active) {
                Worker { shared: self, mailbox }.finish(state, Ending::Cancelled);
            }
        }
        loop {
            let seen = mailboxes.bell.seen();
            let stop = self.stop.load(Ordering::Acquire);
            let mut busy = false;
            for (mailbox, active) in mailboxes.all.iter().zip(&mut active) {
                let worker = Worker { shared: self, mailbox };
                if stop {
                    worker.leave(active);
                } else {
                    busy |= worker.step(active);
                }
            }
            if stop {
                return;
            }
            if !busy {
                mailboxes.bell.wait(seen, None);
            }
        }
    }
}

/// One mailbox, as the service works on it.
struct Worker<'a> {
    shared: &'a Shared,
    mailbox: &'a Mailbox<'a>,
}

impl Worker<'_> {
    /// Does one step; `false` when there is nothing to do now.
    fn step(&self, active: &mut Option<Active>) -> bool {
        let Some(work) = active else {
            let posted = self.mailbox.state.load(Ordering::Acquire);
            let state = in_phase(posted, Phase::Active);
            if !is_in(posted, Phase::Posted) {
                return false;
            }
            if self.mailbox.state.compare_exchange(posted, state, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                match self.begin(state) {
                    Ok(work) => *active = Some(work),
                    Err(errno) => self.finish(state, Ending::Errno(errno)),
                }
            }
            return true;
        };
        if self.mailbox.cancel.load(Ordering::Acquire) == work.state {
            self.finish(work.state, Ending::Cancelled);
            *active = None;
            return true;
        }
        match self.advance(work) {
            None => false,
            Some(None) => true,
            Some(Some(ending)) => {
                self.finish(work.state, ending);
                *active = None;
                true
            }
        }
    }

    fn begin(&self, state: u64) -> std::result::Result<Active, i32> {
        let job = self.mailbox.read_job().ok_or(libc::EPROTO)?;
        Ok(Active { state, job, done: 0, piece: 0, skip: 0 })
    }

    /// Ends what is under way, because the service ends.
    fn leave(&self, active: &mut Option<Active>) {
        if let Some(work) = active.take() {
            self.finish(work.state, Ending::Cancelled);
        }
    }

    fn finish(&self, state: u64, ending: Ending) {
        self.mailbox.ending.store(ending.to_word(), Ordering::Relaxed);
        let done = in_phase(state, Phase::Done);
        // Another word than ours was written by nobody honest: then nobody gets an answer.
        let _ = self.mailbox.state.compare_exchange(state, done, Ordering::Release, Ordering::Relaxed);
        self.mailbox.turn.raise();
    }

    /// Goes on with a job: `None` when it must wait for the initiator, the ending when it has ended.
    fn advance(&self, work: &mut Active) -> Option<Option<Ending>> {
        if let Action::Atomic(operation) = work.job.action {
            return Some(Some(self.execute(&work.job.origin, &work.job.pieces()[0], operation)));
        }
        let left = work.job.len - work.done;
        if left == 0 {
            return Some(Some(Ending::Done));
        }
        let puts = matches!(work.job.action, Action::Put(_));
        let (mine, theirs) = (work.done, if puts { self.mailbox.filled } else { self.mailbox.emptied });
        let theirs = theirs.load(Ordering::Acquire);
        // Bytes in the ring; a distance that cannot be is the initiator's lie.
        let (within, true) = (if puts {
            let within = theirs.wrapping_sub(mine);
            (within, within <= RING)
        } else {
            let within = mine.wrapping_sub(theirs);
            (RING.wrapping_sub(within), within <= RING)
        }) else {
            return Some(Some(Ending::Errno(libc::EPROTO)));
        };
        if within == 0 {
            return None;
        }
        let pieces = work.job.pieces();
        while pieces.get(work.piece).is_some_and(|p| work.skip == p.len) {
            (work.piece, work.skip) = (work.piece + 1, 0);
        }
        let Some(piece) = pieces.get(work.piece) else { return Some(Some(Ending::Done)) };
        let (at, straight) = self.mailbox.place(mine);
        let len = (piece.len - work.skip).min(within).min(left).min(straight).min(STEP);
        let here = Piece { addr: piece.addr + work.skip, len, key: piece.key };
        let before = work.done;
        match self.copy(&work.job, at, &here) {
            Ok(n) => {
                work.done += n;
                work.skip += n;
            }
            Err(ending) => return Some(Some(ending)),
        }
        let counter = if puts { self.mailbox.emptied } else { self.mailbox.filled };
        counter.store(work.done, Ordering::Release);
        if work.done == work.job.len {
            return Some(Some(Ending::Done));
        }
        self.mailbox.turn.moved(before, work.done);
        Some(None)
    }

    /// The segment's file. Looked for at each step: between two of them the initiator decides how much time
    /// passes, and the program may close it and have another file in its place.
    fn file(&self, writes: bool) -> std::result::Result<File, Ending> {
        self.shared.segment.descriptor(writes).map(File).ok_or(Ending::Errno(libc::EBADF))
    }

    /// Copies between the ring and one piece of memory.
    fn copy(&self, job: &Job, at: u64, piece: &Piece) -> std::result::Result<u64, Ending> {
        let Job { action, origin, .. } = job;
        let puts = matches!(action, Action::Put(_));
        let file = self.file(!puts)?;
        let memory = range(piece.addr, piece.len);
        let mut moved = Err(Ending::Refused);
        let allowed = self.shared.registered.with(action.purpose(), origin, piece, &mut || {
            let result = if puts {
                // SAFETY: the memory is registered for being written by peers, so the program gave it away.
                unsafe { file.bring_out(at, &memory) }
            } else {
                file.take_in(self.shared.segment.memory(), at, &memory)
            };
            moved = result.map_err(|stop| match stop {
                Stop::Fault => Ending::Fault,
                Stop::Errno(e) => Ending::Errno(e),
            });
        });
        if allowed { moved } else { Err(Ending::Refused) }
    }

    /// An atomic operation: by way of the ring, behind the lock that the direct ones take.
    fn execute(&self, origin: &Origin, piece: &Piece, operation: Operation) -> Ending {
        let segment = &self.shared.segment;
        let Ok(word) = segment.memory().u64(self.mailbox.ring) else { return Ending::Errno(libc::EIO) };
        // Taken over from the dead it needs no repair.
        let Ok(lock) = segment.atomics_lock(piece.addr) else { return Ending::Errno(libc::EIO) };
        if lock.lock(segment.owner(), &**segment, ATOMICS).is_none() {
            return Ending::Busy;
        }
        let file = match self.file(true) {
            Ok(file) => file,
            Err(ending) => {
                lock.unlock(segment.owner());
                return ending;
            }
        };
        let memory = range(piece.addr, piece.len);
        let mut moved = Err(Stop::Fault);
        let purpose = Action::Atomic(operation).purpose();
        let allowed = self.shared.registered.with(purpose, origin, piece, &mut || {
            moved = (|| {
                file.take_in(segment.memory(), self.mailbox.ring, &memory)?;
                let before = word.load(Ordering::Acquire);
                self.mailbox.value.store(before, Ordering::Relaxed);
                let Some(after) = after(before, operation) else { return Ok(()) };
                word.store(after, Ordering::Release);
                // SAFETY: the memory is registered for being written by peers, so the program gave it away.
                unsafe { file.bring_out(self.mailbox.ring, &memory) }?;
                Ok(())
            })();
        });
        lock.unlock(segment.owner());
        match moved {
            _ if !allowed => Ending::Refused,
            Ok(()) => Ending::Done,
            Err(Stop::Fault) => Ending::Fault,
            Err(Stop::Errno(e)) => Ending::Errno(e),
        }
    }
}
