//! Copies between a ring and the process's own memory.
//!
//! The ring is part of a file in memory, the segment, and so the kernel copies: `pwritev` takes the program's bytes into the
//! ring, `preadv` brings them out. A bad address of the program is `EFAULT` and no signal, no permission is needed that
//! the process has not got, and no filter refuses these calls. `process_vm_readv` on oneself, which would do the same,
//! is refused exactly where the ferry is needed, and takes longer.

use super::super::error::errno;

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
        match call() {
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
