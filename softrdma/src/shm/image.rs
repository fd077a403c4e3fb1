//! Whose memory payload is copied to or from, and where that program's identity page is
//! ([`copy`](super::copy)).

/// One program's memory: what a transfer is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    pub(super) pid: libc::pid_t,
    /// Address of its identity page, and the word there; 0 for this process.
    pub(super) at: u64,
    pub(super) word: u64,
    /// `pid` is the number of a thread.
    pub(super) by_thread: bool,
}

impl Image {
    /// That of this process, which needs no proof.
    pub fn own() -> Self {
        // SAFETY: reads a number of the process and cannot fail.
        Image { pid: unsafe { libc::getpid() }, at: 0, word: 0, by_thread: false }
    }

    /// That of the process `pid` which has `word` at `at`, and there room for another one.
    pub(super) fn of_peer(pid: libc::pid_t, at: u64, word: u64) -> Self {
        Image { pid, at, word, by_thread: false }
    }

    /// The same, reached by the number of this thread of it.
    pub(crate) fn by(self, thread: libc::pid_t) -> Self {
        Image { pid: thread, by_thread: true, ..self }
    }
}
