//! Threads of a process, by which its memory is found: a process lives on when its first thread ends
//! (`pthread_exit`), but the kernel does not find its memory by the process's number any more, which is that
//! thread's. Any other thread's number does.

use ironverbs_os::sys;

use super::copy;
use super::segment::Peer;
use super::tasks;

pub use super::tasks::own;

/// A thread of the peer by whose number the kernel reaches the peer's memory; `None` when there is none, or
/// none that can be seen from here.
pub fn of(peer: &Peer) -> Option<libc::pid_t> {
    let pid = peer.pid().ok()??;
    // The numbers may be those of another namespace: what is found there proves whose memory it is.
    tasks::others(pid).find(|thread| copy::reaches(peer, *thread))
}

/// Whether a thread of the peer runs or waits for a processor. Without descriptors to look, it may; `false`
/// where the peer cannot be seen.
pub(super) fn want_to_run(peer: &Peer) -> bool {
    let Ok(Some(pid)) = peer.pid() else { return false };
    sys::uncancelled(|| tasks::runs(pid))
}
