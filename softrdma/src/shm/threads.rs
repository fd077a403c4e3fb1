//! Threads of a process, by which its memory is found: a process lives on when its first thread ends
//! (`pthread_exit`), but the kernel does not find its memory by the process's number any more, which is that
//! thread's. Any other thread's number does.

use super::copy;
use super::segment::Peer;

/// The calling thread's number.
#[inline]
pub fn own() -> libc::pid_t {
    nix::unistd::gettid().as_raw()
}

/// A thread of the peer by whose number the kernel reaches the peer's memory; `None` when there is none, or
/// none that can be seen from here.
pub fn of(peer: &Peer) -> Option<libc::pid_t> {
    let pid = peer.pid().ok()??;
    // The numbers may be those of another namespace: what is found there proves whose memory it is.
    others(pid).find(|thread| copy::reaches(peer, *thread))
}

/// The threads of a process but for its first, by their numbers in the namespace that `/proc` shows.
pub(super) fn others(pid: libc::pid_t) -> impl Iterator<Item = libc::pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let numbers = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(move |thread| *thread != pid)
}
