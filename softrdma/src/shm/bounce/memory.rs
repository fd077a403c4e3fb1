//! Copies between a ring and the process's own memory.
//!
//! The ring is part of a file in memory, the segment, and so the kernel copies: `pwritev` takes the program's
//! bytes into the ring, `preadv` brings them out. A bad address of the program is `EFAULT` and no signal, no
//! permission is needed that the process has not got, and no filter refuses these calls. `process_vm_readv` on
//! oneself, which would do the same, is refused exactly where the copy service is needed, and takes longer.
//!
//! A program may limit the length of the files it writes (`RLIMIT_FSIZE`) at any time, and means no memory by
//! that. Where the kernel refuses to write the ring for this, the bytes take another way, and the signal that
//! comes with the refusal is held back ([`HeldBack`]).

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ironverbs_os::sys::uncancelled;

use super::super::error::errno;
use super::super::memory::Memory;

/// Why a copy stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The program's memory is not mapped, or not with the access needed.
    Fault,
    Errno(i32),
}

/// The file of a segment.
#[derive(Clone, Copy)]
pub(super) struct File(pub(super) libc::c_int);

impl File {
    /// Takes bytes from `from` into the file, which `ring` is a mapping of, at `at`: how many, at least one.
    /// For the library's own threads, which get no signals; for others [`HeldBack::take_in`].
    pub(super) fn take_in(self, ring: &Memory, at: u64, from: &[libc::iovec]) -> Result<u64, Stop> {
        match self.write(at, from) {
            // Closing the pipe is a place where cancellation acts, too.
            Err(Stop::Errno(libc::EFBIG)) => uncancelled(|| take_in_by_pipe(ring, at, from)),
            result => result,
        }
    }

    fn write(self, at: u64, from: &[libc::iovec]) -> Result<u64, Stop> {
        // SAFETY: the list has as many entries as told; bad addresses in it are errors.
        retry(|| unsafe { libc::pwritev(self.0, from.as_ptr(), from.len() as i32, at as libc::off_t) })
    }

    /// Brings bytes of the file at `at` out into `to`: how many, at least one.
    ///
    /// # Safety
    /// The ranges are memory that a program gave away for this: no Rust reference to them may be live.
    pub(super) unsafe fn bring_out(self, at: u64, to: &[libc::iovec]) -> Result<u64, Stop> {
        // SAFETY: the list has as many entries as told; bad addresses in it are errors. The rest is the
        // caller's promise.
        retry(|| unsafe { libc::preadv(self.0, to.as_ptr(), to.len() as i32, at as libc::off_t) })
    }
}

fn retry(mut call: impl FnMut() -> isize) -> Result<u64, Stop> {
    loop {
        match uncancelled(&mut call) {
            n if n > 0 => return Ok(n as u64),
            // The file ends here, which it does not for who is honest.
            0 => return Err(Stop::Errno(libc::EIO)),
            _ => match errno() {
                libc::EINTR => {}
                libc::EFAULT => return Err(Stop::Fault),
                other => return Err(Stop::Errno(other)),
            },
        }
    }
}

/// As [`File::take_in`] where the file must not be written so far: by way of a pipe, which no limit of files
/// counts for.
#[cold]
fn take_in_by_pipe(ring: &Memory, mut at: u64, from: &[libc::iovec]) -> Result<u64, Stop> {
    let mut ends = [-1; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(Stop::Errno(errno()));
    }
    // SAFETY: pipe2 returned these descriptors, and nobody else owns them.
    let [reader, writer] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // SAFETY: as for `File::take_in`. As much as the pipe holds.
    let taken = retry(|| unsafe { libc::writev(writer.as_raw_fd(), from.as_ptr(), from.len() as i32) })?;
    let mut bytes = [0u8; 4096];
    let mut left = taken;
    while left > 0 {
        // SAFETY: `bytes` is writable for its length.
        let n = retry(|| unsafe { libc::read(reader.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) })?;
        let now = bytes.get(..n as usize).ok_or(Stop::Errno(libc::EIO))?;
        ring.write(at, now).map_err(|e| Stop::Errno(e.errno()))?;
        (at, left) = (at + n, left.saturating_sub(n));
    }
    Ok(taken)
}

/// Holds the signal back that comes where `RLIMIT_FSIZE` is met, for the calling thread and as long as this
/// lives.
pub(super) struct HeldBack {
    signal: libc::sigset_t,
    before: libc::sigset_t,
    /// One waited already, because the program itself holds it back.
    programs: bool,
    /// A write was refused, and one came that is not the program's.
    came: Cell<bool>,
    /// It is about the thread that made it.
    _of_thread: PhantomData<*const ()>,
}

impl HeldBack {
    pub(super) fn new() -> Self {
        // SAFETY: a signal set is plain memory; these calls write only to what they are given, and refuse
        // nothing of it.
        unsafe {
            let [mut signal, mut before, mut waiting]: [libc::sigset_t; 3] = std::mem::zeroed();
            libc::sigemptyset(&raw mut signal);
            libc::sigaddset(&raw mut signal, libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signal, &raw mut before);
            let is_in = |set: *const libc::sigset_t| libc::sigismember(set, libc::SIGXFSZ) == 1;
            let programs = is_in(&raw const before) && {
                libc::sigpending(&raw mut waiting);
                is_in(&raw const waiting)
            };
            HeldBack { signal, before, programs, came: Cell::new(false), _of_thread: PhantomData }
        }
    }

    /// As [`File::take_in`], on this thread.
    pub(super) fn take_in(
        &self,
        file: File,
        ring: &Memory,
        at: u64,
        from: &[libc::iovec],
    ) -> Result<u64, Stop> {
        match file.write(at, from) {
            Err(Stop::Errno(libc::EFBIG)) => {
                self.came.set(true);
                uncancelled(|| take_in_by_pipe(ring, at, from))
            }
            result => result,
        }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: reads what `new` filled in, and changes the mask of the thread that it was taken from.
        unsafe {
            if self.came.get() && !self.programs {
                let signal = &raw const self.signal;
                uncancelled(|| libc::sigtimedwait(signal, std::ptr::null_mut(), &raw const at_once));
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

/// One range for the kernel.
pub(super) fn range(addr: u64, len: u64) -> [libc::iovec; 1] {
    [libc::iovec { iov_base: std::ptr::without_provenance_mut(addr as usize), iov_len: len as usize }]
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::super::testing::{in_child, memory_of};
    use super::*;

    fn is_waiting() -> bool {
        // SAFETY: a signal set is plain memory, which sigpending writes.
        unsafe {
            let mut waiting: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut waiting);
            libc::sigismember(&raw const waiting, libc::SIGXFSZ) == 1
        }
    }

    /// The program's limit counts for its files alone, and it gets no signal for this one.
    #[test]
    fn a_limit_of_files_is_none_of_memory() {
        let (ring, fd) = memory_of(&[0; 128 << 10]);
        let file = File(fd.as_raw_fd());
        let bytes: Vec<u8> = (0..100_000u32).map(|i| ((i * 7) >> 2) as u8).collect();
        let status = in_child(|| {
            let limit = libc::rlimit { rlim_cur: 5000, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: reads the struct given.
            unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
            let fill = || {
                let held = HeldBack::new();
                let mut done = 0;
                while done < bytes.len() {
                    let from = range(bytes[done..].as_ptr() as u64, (bytes.len() - done) as u64);
                    done += held.take_in(file, &ring, 100 + done as u64, &from).unwrap() as usize;
                }
                let nowhere = held.take_in(file, &ring, 8192, &range(8, 100));
                assert_eq!(nowhere, Err(Stop::Fault));
            };
            // SIGXFSZ ends the process where it is not held back.
            fill();
            let mut there = vec![0; bytes.len()];
            ring.read(100, &mut there).unwrap();
            let right = there == bytes && !is_waiting();
            // A program that holds it back itself, without one and with one that waits.
            std::mem::forget(HeldBack::new());
            fill();
            let none = !is_waiting();
            // SAFETY: sends this thread a signal that it holds back.
            unsafe { libc::raise(libc::SIGXFSZ) };
            fill();
            right && none && is_waiting()
        });
        assert_eq!(status, 0);
    }

    /// Eight aligned bytes are one access of the kernel's, both ways: an atomic operation never shows half a
    /// value.
    #[test]
    fn aligned_words_do_not_tear() {
        let (ring, fd) = memory_of(&[0; 4096]);
        let file = File(fd.as_raw_fd());
        let cell = AtomicU64::new(0);
        let memory = range(cell.as_ptr() as u64, 8);
        let word = ring.u64(64).unwrap();
        std::thread::scope(|s| {
            let writer = s.spawn(|| {
                let memory = range(cell.as_ptr() as u64, 8);
                for n in 0..100_000u64 {
                    word.store(if n % 2 == 0 { u64::MAX } else { 0 }, Ordering::Relaxed);
                    // SAFETY: the bytes are an atomic of this test.
                    assert_eq!(unsafe { file.bring_out(64, &memory) }, Ok(8));
                }
            });
            while !writer.is_finished() {
                let seen = cell.load(Ordering::Relaxed);
                assert!(seen == 0 || seen == u64::MAX, "{seen:#x}");
            }
            let writer = s.spawn(|| {
                for n in 0..100_000u64 {
                    cell.store(if n % 2 == 0 { u64::MAX } else { 0 }, Ordering::Relaxed);
                }
            });
            while !writer.is_finished() {
                assert_eq!(file.take_in(&ring, 128, &memory), Ok(8));
                let seen = ring.u64(128).unwrap().load(Ordering::Relaxed);
                assert!(seen == 0 || seen == u64::MAX, "{seen:#x}");
            }
        });
    }

    #[test]
    fn a_file_that_ends_is_an_error() {
        let (_ring, fd) = memory_of(&[0; 4096]);
        let mut byte = [0u8; 4];
        let to = range(byte.as_mut_ptr() as u64, 4);
        // SAFETY: `byte` is only looked at afterwards.
        let beyond = unsafe { File(fd.as_raw_fd()).bring_out(4096, &to) };
        assert_eq!(beyond, Err(Stop::Errno(libc::EIO)));
        // SAFETY: as above.
        assert_eq!(unsafe { File(-1).bring_out(0, &to) }, Err(Stop::Errno(libc::EBADF)));
    }
}
