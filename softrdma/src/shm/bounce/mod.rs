//! Payload where the kernel refuses [`copy`](super::copy): through shared memory, with the target's help.
//!
//! Two processes that may map each other's segments may still be forbidden to reach each other's memory: by
//! Yama, a seccomp filter, another user's identity, a namespace. Then the target's part of a copy is the
//! target's to do. A process that serves ([`CopyService::serve`]) has a thread for this, which sleeps in the
//! kernel while there is nothing to do, and a few mailboxes in its segment, each with a ring of bytes. An
//! initiator locks a mailbox, writes a job into it and moves the payload through the ring, in pieces, so that
//! both copies run at the same time.
//!
//! | file | what |
//! |---|---|
//! | `mailbox` | what stands where in the segment, and who writes it; waiting and waking |
//! | `memory` | copies between a ring and the process's own memory that answer a bad address with an error |
//! | `service` | the target's side |
//! | `transfer` | the initiator's side |
//! | `within` | both sides in one process, where even that is refused |
//! | `registered` | a process's keys as its service looks at them |
//!
//! # What the target believes
//! Nothing but its own records. A job names keys, and each piece of memory is looked up ([`Registered`]) right
//! before it is touched, with the right that the job's [`Purpose`] needs: a job that lies reaches no more
//! than one that does not. Whether the initiator may use a key on this queue pair is checked by the
//! initiator, as everywhere in this transport. In a folder that is shared with other users the target looks
//! at that, too ([`Origin`]), by records of its queue pairs and of the receive requests that are posted:
//! without them a job could say that it is a send, and write where only those may.
//!
//! # Deaths
//! A dead initiator leaves a locked mailbox ([`super::lock`]); the next one to lock it ends the job first. The
//! service thread never waits for an initiator: a job that does not go on costs nothing. An initiator that
//! waits for a target notices its death. The service thread takes no lock but that of the atomic operations, so
//! a thread may wait for it with any other lock held.
//!
//! # Atomic operations
//! are carried out by the target's thread behind the same lock that direct ones take ([`super::atomics`]), so
//! both kinds are atomic among each other, and the promise is the same: `IBV_ATOMIC_HCA`. The processor's own
//! atomic instructions would promise more, but their fault on memory that the program unmapped is a signal that
//! nothing could answer.

mod mailbox;
mod memory;
mod registered;
mod service;
mod transfer;
mod within;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use ironverbs_os::fork::in_time;

use crate::rules::verbs::Access;

use super::atomics::Operation;
use super::error::{Error, Result};
use super::segment::{Block, Peer, Segment};

pub use registered::with_keys;
pub use transfer::{Local, atomic, transfer};
pub use within::{Scratch, direct_to_oneself};

/// What the target's memory is used for, which says what right is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The payload of a send goes into a receive buffer.
    Receive,
    /// RDMA write, atomic write.
    Write,
    /// RDMA read.
    Read,
    /// Compare and swap, fetch and add.
    Atomic,
}

impl Purpose {
    /// The right that the key must have.
    pub fn access(self) -> Access {
        match self {
            Purpose::Receive => Access::LOCAL_WRITE,
            Purpose::Write => Access::REMOTE_WRITE,
            Purpose::Read => Access::REMOTE_READ,
            Purpose::Atomic => Access::REMOTE_ATOMIC,
        }
    }
}

/// What a job is part of, by its initiator's word. A target that does not trust its initiators looks in its
/// own records whether that can be ([`Registered`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Number of the target's queue pair.
    pub qp_num: u32,
    /// Number of the initiator's.
    pub src_qp: u32,
    /// XRC: number of the shared receive queue that the message names.
    pub srq_num: u32,
    /// For [`Purpose::Receive`]: the receive request, by the number that it has in the target's ring.
    pub wr_id: u64,
}

impl Origin {
    /// That of a job which is part of nothing: for targets that ask for keys alone.
    pub const NONE: Self = Origin { qp_num: 0, src_qp: 0, srq_num: 0, wr_id: 0 };
}

/// A range of the target's memory and the key that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Key of a region or window of the target.
    pub key: u32,
    /// First byte as the target's program addresses it, whatever address users of the key give to it: see
    /// [`Entry::translate`](super::keys::Entry::translate).
    pub addr: u64,
    /// Number of bytes.
    pub len: u64,
}

/// The target's own knowledge of its keys, which no other process can write.
pub trait Registered: Send + Sync {
    /// Runs `access` when the whole piece lies in memory that its key opens for [`Purpose::access`], and when
    /// what the job is part of may use it for that; answers whether it did. The memory must stay registered
    /// until `access` returns, which takes microseconds.
    ///
    /// Where the keys are in a [`Keys`](super::keys::Keys), [`with_keys`] does it.
    ///
    /// Called by the service thread. A lock that this takes must not be held by a thread that waits for a pin
    /// of a key or for the service.
    fn with(&self, purpose: Purpose, origin: &Origin, piece: &Piece, access: &mut dyn FnMut()) -> bool;
}

/// Why a transfer or an atomic operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// This process's range is not mapped, or not with the access needed.
    Local,
    /// The target's range is not mapped, or not with the access needed.
    Remote,
    /// The target's own records do not open the memory to this purpose.
    Refused,
    /// The target is dead.
    Gone,
    /// The target does not serve, or did not begin within the limit. An atomic operation was not carried out
    /// and never will be. A transfer may have moved a beginning of its bytes and moves no more.
    NoAnswer,
    /// Another process keeps the lock that an atomic operation takes. It was not carried out.
    Busy,
    /// The target stopped in the middle: an atomic operation may have been carried out, or may still be.
    Unclear,
    /// Another `errno` value.
    Os(i32),
}

/// Whether the peer was asked for help and does not give it yet: something must make it look
/// ([`CopyService::wanted`]).
pub fn waits_for(peer: &Peer) -> bool {
    peer.service_state().is_ok_and(|word| word.load(Ordering::Relaxed) == mailbox::WANTED)
}

/// The owner's side: whether this process serves.
#[derive(Debug)]
pub struct CopyService {
    segment: Arc<Segment>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the mailboxes are. Kept until the segment goes: initiators may still write there.
    block: Option<Block>,
    service: Option<service::Service>,
}

impl CopyService {
    /// Does not serve yet, and costs nothing.
    pub fn new(segment: Arc<Segment>) -> Self {
        CopyService { segment, state: Mutex::default() }
    }

    /// Whether a peer asked for service that is not there: one load, for the owner's polls.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.segment.service_state().is_ok_and(|word| word.load(Ordering::Relaxed) == mailbox::WANTED)
            && self.segment.is_mine()
    }

    /// Whether the service thread is there.
    pub fn serving(&self) -> bool {
        self.segment.is_mine() && self.state().service.as_ref().is_some_and(|s| !s.has_ended())
    }

    /// Starts the service thread, when there is none yet.
    ///
    /// Errors: [`Error::NoMemory`] for mailboxes or a thread, [`Error::Forked`].
    pub fn serve(&self, registered: Arc<dyn Registered>) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let mut state = self.state();
        // It ends by itself only when `Registered` panics.
        if state.service.as_ref().is_none_or(service::Service::has_ended) {
            let block = match state.block {
                Some(block) => block,
                None => self.segment.alloc(mailbox::BYTES, 4096)?,
            };
            state.block = Some(block);
            state.service = Some(service::Service::start(self.segment.clone(), block.offset, registered)?);
            self.segment.service_offset()?.store(block.offset, Ordering::Release);
        }
        mailbox::say_serving(self.segment.service_state()?);
        Ok(())
    }

    /// Ends the service; what was under way gets no answer.
    pub fn stop(&self) {
        // A forked child has neither the thread nor a say in its parent's segment.
        if self.segment.is_mine()
            && let Some(service) = self.state().service.take()
        {
            service.stop();
        }
    }

    /// The same, as the process is about to end; whether it has ended. Neither gives memory back nor waits for
    /// anything for ever: a signal handler that ends the process may have interrupted what has a lock.
    pub fn stop_in_time(&self) -> bool {
        if !self.segment.is_mine() {
            return true;
        }
        in_time(|| {
            let state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            let Some(service) = &state.service else { return Some(()) };
            service.ask_to_stop();
            service.has_ended().then_some(())
        })
        .is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for CopyService {
    fn drop(&mut self) {
        if self.segment.is_mine() {
            self.stop();
            return;
        }
        // Not by its lock, which a thread of the parent may have held at the fork.
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        if let Some(service) = state.service.take() {
            service.forget();
        }
    }
}

/// What an atomic operation leaves where it found `before`; `None` when it leaves that.
fn after(before: u64, operation: Operation) -> Option<u64> {
    match operation {
        Operation::FetchAdd(n) => Some(before.wrapping_add(n)),
        Operation::CompareSwap { compare, swap } => (compare == before).then_some(swap),
        Operation::Write(value) => Some(value),
    }
}

/// How payload travels between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copying {
    /// Straight where the kernel allows it, else with the target's help. This process consents where Yama makes
    /// others ask ([`admit_peers`](super::copy::admit_peers)), and so do debuggers of the same user get in.
    #[default]
    Auto,
    /// The same without consent.
    NoConsent,
    /// With the target's help always, and without consent.
    Bounce,
}

impl Copying {
    /// What the environment variable `IRONVERBS_SOFT_COPY` says: nothing or `auto`, or `bounce`, which was
    /// `ferry` once; `None` for anything else.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "" | "auto" => Some(Copying::Auto),
            "bounce" | "ferry" => Some(Copying::Bounce),
            _ => None,
        }
    }

    /// Makes this process as reachable as its user wants it, and tells whether it should serve from the start.
    pub fn prepare(self) -> bool {
        match self {
            Copying::Auto => needed(super::copy::admit_peers()),
            Copying::NoConsent => needed(false),
            Copying::Bounce => true,
        }
    }
}

/// Whether peers of this process will need its copy service, as far as it can tell: the kernel refuses the
/// direct way even to one's own memory, or to whoever is not a debugger. `admitted` is the answer of
/// [`admit_peers`](super::copy::admit_peers), which repairs Yama's `ptrace_scope` 1.
///
/// A `false` may be wrong: a filter on the peer is the peer's to know, which then asks
/// ([`CopyService::wanted`]).
pub fn needed(admitted: bool) -> bool {
    // SAFETY: the call only answers a number.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) == 1 };
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.ok().and_then(|s| s.trim().parse::<u8>().ok()).unwrap_or(0);
    !direct_to_oneself() || !dumpable || scope >= 2 || (scope == 1 && !admitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_names_and_one_an_older_name() {
        for name in ["", "auto"] {
            assert_eq!(Copying::from_name(name), Some(Copying::Auto));
        }
        for name in ["bounce", "ferry"] {
            assert_eq!(Copying::from_name(name), Some(Copying::Bounce));
        }
        assert_eq!(Copying::from_name("Bounce"), None);
    }
}
