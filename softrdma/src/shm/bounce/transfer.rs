//! The initiator's side: a job in a mailbox of the target, and the payload through its ring.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::atomics::Operation;
use super::super::copy::{BATCH, Cursor, NO_RANGE, Span};
use super::super::lock::{Lock, PATIENCE};
use super::super::segment::{Peer, Segment};
use super::super::threads;
use super::mailbox::{
    Action, Ending, Job, MAILBOXES, Mailbox, Mailboxes, PIECES, Phase, RING, STEP, Signal, ask, in_phase,
    is_in, next_job,
};
use super::memory::{File, HeldBack, Stop};
use super::{Failure, Origin, Piece, Purpose};

/// How long a service that is not there yet is waited for; starting one takes less when its process looks.
const ASKING: Duration = Duration::from_millis(2);

/// How many times the limit a target is waited for that wants to run.
const LONGER: u32 = 10;

/// This process's end of a transfer.
#[derive(Debug, Clone, Copy)]
pub enum Local<'a> {
    /// Memory of the program, read or written.
    Memory(&'a [Span]),
    /// Bytes that are this process's own, such as an inline payload; they can only be read.
    Bytes(&'a [u8]),
}

/// Moves all bytes between this process's memory and pieces of the target's, in order; the shorter list ends
/// it. The bytes go to this process for [`Purpose::Read`], else to the target.
///
/// `limit` is how long the target may take without getting on, less what this process waits for a processor
/// meanwhile; ten times as long while the kernel says that it wants to run. When it fails, a beginning of the
/// bytes may have been moved, as with hardware. May be called with locks of the target's queues held.
///
/// # Safety
/// Bytes of this process that are overwritten must be memory that a program gave away for this: no Rust
/// reference to them may be live.
pub unsafe fn transfer(
    me: &Segment,
    peer: &Peer,
    origin: Origin,
    purpose: Purpose,
    pieces: &[Piece],
    local: Local<'_>,
    limit: Duration,
) -> Result<(), Failure> {
    let action = match purpose {
        Purpose::Read => Action::Get,
        Purpose::Receive | Purpose::Write => Action::Put(purpose),
        Purpose::Atomic => return Err(Failure::Os(libc::EINVAL)),
    };
    let mut here = match local {
        Local::Memory(spans) => Here::Memory(Cursor::new(spans)),
        Local::Bytes(_) if action == Action::Get => return Err(Failure::Os(libc::EINVAL)),
        Local::Bytes(bytes) => Here::Bytes(bytes),
    };
    let mut left = match local {
        Local::Memory(spans) => spans.iter().fold(0u64, |sum, span| sum.saturating_add(span.len)),
        Local::Bytes(bytes) => bytes.len() as u64,
    };
    for pieces in pieces.chunks(PIECES) {
        let job = Job::new(action, origin, pieces, left);
        if job.len == 0 {
            continue;
        }
        left -= job.len;
        let transfer = Transfer::begin(me, peer, &job, limit)?;
        match action {
            Action::Get => transfer.get(&job, &mut here)?,
            _ => transfer.put(&job, &mut here)?,
        }
    }
    Ok(())
}

/// Carries out an operation on eight bytes of the target; answers the value before. The piece's length does not
/// matter, its address must be a multiple of eight.
pub fn atomic(
    me: &Segment,
    peer: &Peer,
    origin: Origin,
    piece: Piece,
    operation: Operation,
    limit: Duration,
) -> Result<u64, Failure> {
    if !piece.addr.is_multiple_of(8) {
        return Err(Failure::Os(libc::EINVAL));
    }
    let job = Job::new(Action::Atomic(operation), origin, &[Piece { len: 8, ..piece }], 8);
    let transfer = Transfer::begin(me, peer, &job, limit)?;
    transfer.post();
    transfer.finish()?;
    Ok(transfer.mailbox.value.load(Ordering::Relaxed))
}

/// What is left of this process's end.
enum Here<'a> {
    Memory(Cursor<'a>),
    Bytes(&'a [u8]),
}

/// A mailbox that this process holds, with a job in it.
struct Transfer<'a> {
    me: &'a Segment,
    peer: &'a Peer,
    bell: Signal<'a>,
    mailbox: Mailbox<'a>,
    /// The job's state word when it is posted.
    posted: u64,
    limit: Duration,
    /// For how long the target is waited for; none as long as it gets on.
    waited: Cell<Waited>,
}

/// How long somebody is waited for by who looks every [`PATIENCE`]. Whoever looks later has waited for a
/// processor, or was stopped; on a busy machine the other one waits for a processor as well, so that this time
/// does not count.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    looked: Option<Instant>,
    time: Duration,
}

impl Waited {
    fn look(self, now: Instant) -> Self {
        let since = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        Waited { looked: Some(now), time: self.time + since.min(PATIENCE) }
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.mailbox.lock.unlock(self.me.owner());
    }
}

/// Why waiting ended without news.
enum Silence {
    Gone,
    Limit,
}

impl<'a> Transfer<'a> {
    /// Takes a mailbox and writes the job into it, which is not posted yet.
    fn begin(me: &'a Segment, peer: &'a Peer, job: &Job, limit: Duration) -> Result<Self, Failure> {
        if !me.is_mine() {
            return Err(Failure::Os(libc::EPERM));
        }
        let word = peer.service_state().map_err(|e| Failure::Os(e.errno()))?;
        if !ask(word, ASKING.min(limit)) {
            return Err(if peer.lives() { Failure::NoAnswer } else { Failure::Gone });
        }
        let mailboxes = Self::mailboxes(peer)?;
        // It takes a sleeper a while to wake up; the payload can be on its way meanwhile.
        mailboxes.bell.rouse();
        let first = usize::from(me.owner().slot()) % MAILBOXES;
        let mut order = (0..MAILBOXES).map(|i| &mailboxes.all[(first + i) % MAILBOXES]);
        let lock = |m: &Mailbox<'_>| Lock::lock(m.lock, me.owner(), me, limit).is_some();
        let mailbox = match order.find(|m| m.lock.try_lock(me.owner())) {
            Some(free) => *free,
            None if lock(&mailboxes.all[first]) => mailboxes.all[first],
            None => return Err(Failure::NoAnswer),
        };
        let mut transfer =
            Transfer { me, peer, bell: mailboxes.bell, mailbox, posted: 0, limit, waited: Cell::default() };
        mailbox.turn.nobody_sleeps();
        transfer.settle()?;
        transfer.posted = next_job(mailbox.state.load(Ordering::Relaxed));
        mailbox.cancel.store(0, Ordering::Relaxed);
        mailbox.filled.store(0, Ordering::Relaxed);
        mailbox.emptied.store(0, Ordering::Relaxed);
        mailbox.write_job(job);
        Ok(transfer)
    }

    fn mailboxes(peer: &'a Peer) -> Result<Mailboxes<'a>, Failure> {
        let offset = || peer.service_offset().map_err(|e| Failure::Os(e.errno()));
        if let Ok(mailboxes) = Mailboxes::at(peer.memory(), offset()?) {
            return Ok(mailboxes);
        }
        // The segment may have grown since it was mapped.
        let _ = peer.refresh();
        Mailboxes::at(peer.memory(), offset()?).map_err(|_| Failure::Os(libc::EPROTO))
    }

    /// Ends the job that an earlier holder left behind.
    fn settle(&self) -> Result<(), Failure> {
        loop {
            let seen = self.mailbox.turn.seen();
            let state = self.mailbox.state.load(Ordering::Acquire);
            if is_in(state, Phase::Posted) {
                self.withdraw(state);
            } else if is_in(state, Phase::Active) {
                self.mailbox.cancel.store(state, Ordering::Release);
                self.bell.raise();
                self.wait(seen).map_err(|silence| match silence {
                    Silence::Gone => Failure::Gone,
                    // Nothing of this operation was posted.
                    Silence::Limit => Failure::NoAnswer,
                })?;
            } else {
                return Ok(());
            }
        }
    }

    fn post(&self) {
        self.mailbox.state.store(self.posted, Ordering::Release);
        self.bell.raise();
    }

    /// Takes back a job that the service did not begin yet: `true` when it never will.
    fn withdraw(&self, posted: u64) -> bool {
        let cancelled = in_phase(posted, Phase::Cancelled);
        self.mailbox.state.compare_exchange(posted, cancelled, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn is_done(&self) -> bool {
        self.mailbox.state.load(Ordering::Acquire) == in_phase(self.posted, Phase::Done)
    }

    /// The target got on: waiting begins anew.
    fn got_on(&self) {
        self.waited.set(Waited::default());
    }

    /// Waits for a step of the service since `seen`. A step that moved nothing does not lengthen the wait,
    /// since any process that may write to the mailbox can pretend steps.
    fn wait(&self, seen: u32) -> Result<(), Silence> {
        if self.is_over() {
            return Err(Silence::Limit);
        }
        while !self.mailbox.turn.wait(seen, Some(PATIENCE.min(self.limit))) {
            if !self.peer.lives() {
                return Err(Silence::Gone);
            }
            if self.is_over() {
                return Err(Silence::Limit);
            }
            // Whatever the words said about its sleep.
            self.bell.wake();
        }
        Ok(())
    }

    /// Looks at the time: whether the target was waited for long enough. One that wants to run is waited for
    /// longer: its thread may have no processor, or wait for another one that has none.
    fn is_over(&self) -> bool {
        self.waited.set(self.waited.get().look(Instant::now()));
        let time = self.waited.get().time;
        time >= self.limit && (time >= LONGER * self.limit || !threads::want_to_run(self.peer))
    }

    /// Waits as [`Transfer::wait`] does, for a job that was posted.
    fn wait_posted(&self, seen: u32) -> Result<(), Failure> {
        self.wait(seen).map_err(|silence| match silence {
            Silence::Gone => Failure::Gone,
            Silence::Limit => self.give_up(),
        })
    }

    /// The target did not get on: what is known then.
    #[cold]
    fn give_up(&self) -> Failure {
        if self.withdraw(self.posted) {
            return Failure::NoAnswer;
        }
        self.cancel();
        match self.is_done() {
            true => self.outcome().err().unwrap_or(Failure::Unclear),
            false => Failure::Unclear,
        }
    }

    /// Tells the service not to go on, and waits a moment for it: the next holder waits longer when it must.
    #[cold]
    fn cancel(&self) {
        if self.withdraw(self.posted) {
            return;
        }
        let seen = self.mailbox.turn.seen();
        self.mailbox.cancel.store(in_phase(self.posted, Phase::Active), Ordering::Release);
        self.bell.raise();
        if !self.is_done() {
            self.mailbox.turn.wait(seen, Some(PATIENCE));
        }
    }

    /// How the job ended, which it has.
    fn outcome(&self) -> Result<(), Failure> {
        match Ending::from_word(self.mailbox.ending.load(Ordering::Relaxed)) {
            Ending::Done => Ok(()),
            Ending::Fault => Err(Failure::Remote),
            Ending::Refused => Err(Failure::Refused),
            Ending::Cancelled => Err(Failure::NoAnswer),
            Ending::Busy => Err(Failure::Busy),
            Ending::Errno(e) => Err(Failure::Os(e)),
        }
    }

    /// Waits for the end of a posted job, of which the target may have to take out what is in the ring.
    fn finish(&self) -> Result<(), Failure> {
        let mut taken = 0;
        loop {
            let seen = self.mailbox.turn.seen();
            if self.is_done() {
                return self.outcome();
            }
            let now =
                self.mailbox.emptied.load(Ordering::Relaxed).min(self.mailbox.filled.load(Ordering::Relaxed));
            if now >= STEP.saturating_add(taken) {
                taken = now;
                self.got_on();
            }
            self.wait_posted(seen)?;
        }
    }

    /// Fills the ring with the payload.
    fn put(&self, job: &Job, here: &mut Here<'_>) -> Result<(), Failure> {
        let held = OnceCell::new();
        let mut filled = 0;
        while filled < job.len {
            let seen = self.mailbox.turn.seen();
            if self.is_done() {
                break;
            }
            let within = filled.wrapping_sub(self.mailbox.emptied.load(Ordering::Acquire));
            if within > RING {
                self.cancel();
                return Err(Failure::Os(libc::EPROTO));
            }
            let (at, straight) = self.mailbox.place(filled);
            let len = (RING - within).min(straight).min(STEP).min(job.len - filled);
            if len == 0 {
                self.wait_posted(seen)?;
                continue;
            }
            let first = filled == 0;
            match self.fill(&held, at, len, here) {
                Ok(n) => filled += n,
                Err(failure) => {
                    if !first {
                        self.cancel();
                    }
                    return Err(failure);
                }
            }
            self.got_on();
            self.mailbox.filled.store(filled, Ordering::Release);
            if first { self.post() } else { self.bell.raise() }
        }
        self.finish()
    }

    fn fill(
        &self,
        held: &OnceCell<HeldBack>,
        at: u64,
        len: u64,
        here: &mut Here<'_>,
    ) -> Result<u64, Failure> {
        match here {
            Here::Memory(cursor) => {
                // At each step: the program may have closed it while the target was waited for.
                let file = File(self.peer.descriptor(true).ok_or(Failure::Os(libc::EBADF))?);
                let mut ranges = [NO_RANGE; BATCH];
                let (count, _) = cursor.fill(&mut ranges, len);
                let held = held.get_or_init(HeldBack::new);
                let n = held.take_in(file, self.peer.memory(), at, &ranges[..count]).map_err(local)?;
                cursor.advance(n);
                Ok(n)
            }
            Here::Bytes(bytes) => {
                let (now, rest) = bytes.split_at_checked(len as usize).ok_or(Failure::Local)?;
                self.peer.memory().write(at, now).map_err(|e| Failure::Os(e.errno()))?;
                *bytes = rest;
                Ok(len)
            }
        }
    }

    /// Empties the ring into this process's memory.
    fn get(&self, job: &Job, here: &mut Here<'_>) -> Result<(), Failure> {
        let Here::Memory(cursor) = here else { return Err(Failure::Local) };
        let file = || self.peer.descriptor(false).map(File);
        file().ok_or(Failure::Os(libc::EBADF))?;
        self.post();
        let mut emptied = 0;
        while emptied < job.len {
            let seen = self.mailbox.turn.seen();
            let done = self.is_done();
            let within = self.mailbox.filled.load(Ordering::Acquire).wrapping_sub(emptied);
            if within > RING || within > job.len - emptied {
                self.cancel();
                return Err(Failure::Os(libc::EPROTO));
            }
            if within == 0 {
                if done {
                    self.outcome()?;
                    return Err(Failure::Os(libc::EPROTO));
                }
                self.wait_posted(seen)?;
                continue;
            }
            let (at, straight) = self.mailbox.place(emptied);
            let before = emptied;
            let mut ranges = [NO_RANGE; BATCH];
            let (count, _) = cursor.fill(&mut ranges, within.min(straight).min(STEP));
            // SAFETY: the caller of `transfer` vouches for the ranges.
            let brought = file().map(|file| unsafe { file.bring_out(at, &ranges[..count]) });
            match brought.unwrap_or(Err(Stop::Errno(libc::EBADF))) {
                Ok(n) => {
                    cursor.advance(n);
                    emptied += n;
                }
                Err(stop) => {
                    self.cancel();
                    return Err(local(stop));
                }
            }
            self.got_on();
            self.mailbox.emptied.store(emptied, Ordering::Release);
            if !done {
                self.bell.moved(before, emptied);
            }
        }
        self.finish()
    }
}

fn local(stop: Stop) -> Failure {
    match stop {
        Stop::Fault => Failure::Local,
        Stop::Errno(e) => Failure::Os(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_processor_does_not_wait() {
        let begun = Instant::now();
        let (mut waited, mut now) = (Waited::default().look(begun), begun);
        // In time, at once, and after a minute.
        for (after, counts) in
            [(PATIENCE / 2, PATIENCE / 2), (Duration::ZERO, Duration::ZERO), (PATIENCE * 6000, PATIENCE)]
        {
            let before = waited.time;
            now += after;
            waited = waited.look(now);
            assert_eq!(waited.time - before, counts);
        }
        // A target that is silent is given up after the looks that the limit has room for.
        let looks = (1..).map(|count| begun + PATIENCE * count);
        let limit = PATIENCE * 100;
        let mut waited = Waited::default().look(begun);
        let given_up = looks.take_while(|now| {
            waited = waited.look(*now);
            waited.time < limit
        });
        assert_eq!(given_up.count(), 99);
    }
}
