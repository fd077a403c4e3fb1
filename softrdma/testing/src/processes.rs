//! Forked processes of a test, and what they tell each other.

use softrdma::device::{Attributes, QueuePair};
use softrdma::rules::verbs::QpState;

use crate::device::{End, attributes, attributes_at, bring_up};

/// A pipe between processes, for words.
pub struct Words([i32; 2]);

impl Words {
    pub fn new() -> Self {
        let mut fds = [0; 2];
        // SAFETY: `fds` has room for two descriptors.
        assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, fds.as_mut_ptr()) }, 0);
        Words(fds)
    }

    /// Sends words from this side: 0 for the parent, 1 for the child.
    pub fn put(&self, side: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: `bytes` is readable for its length.
        let n = unsafe { libc::write(self.0[side], bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(n, bytes.len() as isize);
    }

    /// Tells the other side the number of this side's queue pair, and connects this with the one that the other
    /// side tells.
    pub fn connect(&self, side: usize, qp: &QueuePair) -> u32 {
        self.put(side, &[u64::from(qp.qp_num())]);
        let [peer] = self.get(side);
        bring_up(qp, &attributes(peer as u32), QpState::Rts);
        peer as u32
    }

    /// Tells the other side where this end is, and waits to be told the same: attributes that connect a queue
    /// pair with the other side's end.
    pub fn exchange(&self, side: usize, end: &End) -> Attributes {
        let [first, last] = [0, 8].map(|at| u64::from_ne_bytes(end.gid[at..at + 8].try_into().unwrap()));
        self.put(side, &[u64::from(end.qp.qp_num()), first, last]);
        let [qp_num, first, last] = self.get(side);
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&first.to_ne_bytes());
        gid[8..].copy_from_slice(&last.to_ne_bytes());
        attributes_at(gid, qp_num as u32)
    }

    /// Connects this end with that of the other side, and returns when both are connected; the number of the
    /// other one.
    pub fn connect_ends(&self, side: usize, end: &End) -> u32 {
        let to = self.exchange(side, end);
        bring_up(&end.qp, &to, QpState::Rts);
        self.put(side, &[0]);
        self.get::<1>(side);
        to.dest_qp_num
    }

    /// The descriptor that becomes readable when words have come.
    pub fn fd(&self, side: usize) -> i32 {
        self.0[side]
    }

    pub fn get<const N: usize>(&self, side: usize) -> [u64; N] {
        let mut bytes = vec![0u8; 8 * N];
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            // SAFETY: `rest` is writable for its length.
            let n = unsafe { libc::read(self.0[side], rest.as_mut_ptr().cast(), rest.len()) };
            assert!(n > 0, "the other side is gone");
            filled += n as usize;
        }
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        words
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        for fd in self.0 {
            // SAFETY: the descriptors are the test's own.
            unsafe { libc::close(fd) };
        }
    }
}

/// A forked child.
pub struct Child(libc::pid_t);

impl Child {
    /// Runs `test` in a child, which ends at once afterwards.
    pub fn run(test: impl FnOnce()) -> Self {
        // SAFETY: the child runs `test` and ends. Other test threads are gone there; what the tests call takes
        // no lock that those could have held for long but the allocator's, which the C library keeps usable.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system call: a test that failed leaves no child behind.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_ok();
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(!ok)) };
        }
        Child(pid)
    }

    pub fn id(&self) -> i32 {
        self.0
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: as in [`Child::kill`].
        unsafe { libc::kill(self.0, signal) };
    }

    /// Waits until it is stopped by a signal.
    pub fn wait_stopped(&self) {
        let mut status = 0;
        // SAFETY: our own child; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, libc::WUNTRACED) }, self.0);
        assert!(libc::WIFSTOPPED(status));
    }

    pub fn kill(&self) {
        // SAFETY: our own child, which nobody has waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }

    /// Its process id.
    pub fn pid(&self) -> libc::pid_t {
        self.0
    }

    /// Waits for its end; the status that `waitpid` gives.
    pub fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        status
    }
}
