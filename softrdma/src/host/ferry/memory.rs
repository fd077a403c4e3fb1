//! Copies between a ring and the process's own memory.
//!
//! The ring is part of a file in memory, the segment, and so the kernel copies: `pwritev` takes the program's bytes into the
//! ring, `preadv` brings them out. A bad address of the program is `EFAULT` and no signal, no permission is needed that
//! the process has not got, and no filter refuses these calls. `process_vm_readv` on oneself, which would do the same,
//! is refused exactly where the ferry is needed, and takes longer.

use super::super::error::errno;
use super::super::sys::uncancelled;

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
    /// Takes bytes from `from` into the file at `at`: how many, at least one.
    pub(super) fn take_in(self, at: u64, from: &[libc::iovec]) -> Result<u64, Stop> {
        // SAFETY: the list has as many entries as told; bad addresses in it are errors.
        retry(|| unsafe { libc::pwritev(self.0, from.as_ptr(), from.len() as i32, at as libc::off_t) })
    }

    /// Brings bytes of the file at `at` out into `to`: how many, at least one.
    ///
    /// # Safety
    /// The ranges are memory that a program gave away for this: no Rust reference to them may be live.
    pub(super) unsafe fn bring_out(self, at: u64, to: &[libc::iovec]) -> Result<u64, Stop> {
        // SAFETY: the list has as many entries as told; bad addresses in it are errors. The rest is the caller's promise.
        retry(|| unsafe { libc::preadv(self.0, to.as_ptr(), to.len() as i32, at as libc::off_t) })
    }
}

fn retry(call: impl Fn() -> isize) -> Result<u64, Stop> {
    loop {
        match uncancelled(&call) {
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

/// One range for the kernel.
pub(super) fn range(addr: u64, len: u64) -> [libc::iovec; 1] {
    [libc::iovec { iov_base: std::ptr::without_provenance_mut(addr as usize), iov_len: len as usize }]
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::super::testing::memory_of;
    use super::*;

    /// Eight aligned bytes are one access of the kernel's, both ways: an atomic operation never shows half a value.
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
                assert_eq!(file.take_in(128, &memory), Ok(8));
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
