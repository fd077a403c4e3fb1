//! Processes that meet in a folder: a target whose memory the test sees too, and initiators.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use softrdma::shm::bounce::{CopyService, Failure, Local, Origin, Piece, Purpose, Registered, transfer};
use softrdma::shm::copy::Span;
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::thread::until;

/// As long as an honest target that lives may take: nobody here waits for so long.
pub const LIMIT: Duration = Duration::from_secs(300);
/// Key of the target's memory for every purpose.
pub const KEY: u32 = 0x101;
/// Key of the same memory that only opens it for being read.
pub const READ_KEY: u32 = 0x202;

/// Memory that this process and the children it makes later share, at one address.
#[derive(Clone, Copy)]
pub struct Shared {
    pub addr: u64,
    pub len: u64,
}

impl Shared {
    pub fn new(len: u64) -> Self {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let p = libc::mmap(std::ptr::null_mut(), len as usize, access, flags, -1, 0);
            assert_ne!(p, libc::MAP_FAILED);
            Shared { addr: p as u64, len }
        }
    }

    /// The eight bytes at `at`, which must be a multiple of eight.
    pub fn word(&self, at: u64) -> &'static AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.len);
        // SAFETY: inside of a mapping that is never unmapped; any bits are an atomic.
        unsafe { &*((self.addr + at) as *const AtomicU64) }
    }

    pub fn bytes(&self, at: u64, len: u64) -> Vec<u8> {
        assert!(at + len <= self.len);
        // SAFETY: inside of the mapping; processes that write meanwhile are not waited for, which bytes
        // survive.
        (at..at + len).map(|i| unsafe { ((self.addr + i) as *const u8).read_volatile() }).collect()
    }

    pub fn fill(&self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.len);
        for (i, b) in bytes.iter().enumerate() {
            // SAFETY: inside of the mapping.
            unsafe { ((self.addr + at + i as u64) as *mut u8).write_volatile(*b) };
        }
    }

    pub fn close(&self, at: u64, len: u64) {
        // SAFETY: the pages are the test's own, and it expects them to be closed from now on.
        let done =
            unsafe { libc::mprotect((self.addr + at) as *mut libc::c_void, len as usize, libc::PROT_NONE) };
        assert_eq!(done, 0);
    }
}

/// The target's keys: both open one range.
pub struct OpenRange {
    pub range: Span,
    /// Pieces that were looked up.
    pub asked: AtomicU64,
}

impl Registered for OpenRange {
    fn with(&self, purpose: Purpose, _: &Origin, piece: &Piece, access: &mut dyn FnMut()) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let key = piece.key == KEY || piece.key == READ_KEY && purpose == Purpose::Read;
        let inside = piece
            .addr
            .checked_sub(self.range.addr)
            .is_some_and(|at| at <= self.range.len && piece.len <= self.range.len - at);
        if key && inside {
            access();
        }
        key && inside
    }
}

/// Begins `work` in a child; its status is 0, or 99 after a panic.
pub fn child(work: impl FnOnce()) -> libc::pid_t {
    softrdma_testing::child::begin(|| {
        work();
        0
    })
}

/// Waits for a child: its exit status, or the negative number of the signal that ended it.
pub fn status_of(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

pub fn signal(pid: libc::pid_t, signal: i32) {
    // SAFETY: the process is our child, which was not waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Whether a child has ended, which somebody else waits for.
pub fn has_ended(pid: libc::pid_t) -> bool {
    // SAFETY: all zeros are a `siginfo_t`, and there is room for one.
    unsafe {
        let mut info = std::mem::zeroed::<libc::siginfo_t>();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        assert_eq!(libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, flags), 0);
        info.si_pid() != 0
    }
}

/// Stops every thread of a child: the first that sees the signal stops the others, after `kill` has returned.
pub fn stop(pid: libc::pid_t) {
    signal(pid, libc::SIGSTOP);
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) }, pid);
    assert!(libc::WIFSTOPPED(status));
}

pub fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

pub struct Stage {
    pub path: PathBuf,
    pub folder: Arc<Folder>,
}

impl Stage {
    pub fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/ironverbs-test-bounce-{name}-{}", std::process::id()));
        let folder = Arc::new(Folder::open(&Config { path: path.clone(), group: None }).unwrap());
        Stage { path, folder }
    }

    /// A process in the next slot that serves `range`, and otherwise sleeps.
    pub fn target(&self, slot: u16, range: Span) -> Target {
        self.target_that(slot, range, |_| sleep_for_ever())
    }

    /// A process in the next slot that serves `range` and does `then`.
    pub fn target_that(&self, slot: u16, range: Span, then: impl FnOnce(&CopyService)) -> Target {
        let ready = Shared::new(4096);
        let pid = child(|| {
            let service = CopyService::new(Arc::new(Segment::create(self.folder.clone()).unwrap()));
            service.serve(Arc::new(OpenRange { range, asked: AtomicU64::new(0) })).unwrap();
            ready.word(0).store(1, Ordering::Release);
            then(&service);
        });
        until(|| ready.word(0).load(Ordering::Acquire) != 0);
        Target { pid, peer: Peer::open(&self.folder, slot).unwrap() }
    }

    pub fn segment(&self) -> Segment {
        Segment::create(self.folder.clone()).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A target's process and its segment as the test sees it.
pub struct Target {
    pub pid: libc::pid_t,
    pub peer: Peer,
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: the process is our child, and is not waited for elsewhere.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// A transfer between the test's memory and pieces of a target.
pub fn bounce(
    me: &Segment,
    peer: &Peer,
    purpose: Purpose,
    pieces: &[Piece],
    local: &[Span],
) -> Result<(), Failure> {
    bounce_within(LIMIT, me, peer, purpose, pieces, local)
}

/// As [`bounce`], with this limit.
pub fn bounce_within(
    limit: Duration,
    me: &Segment,
    peer: &Peer,
    purpose: Purpose,
    pieces: &[Piece],
    local: &[Span],
) -> Result<(), Failure> {
    // SAFETY: the tests give memory to transfers that they look at through volatile accesses or afterwards.
    unsafe { transfer(me, peer, Origin::NONE, purpose, pieces, Local::Memory(local), limit) }
}

/// Small random numbers (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn bytes(&mut self, n: u64) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}
