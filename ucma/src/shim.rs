//! What the preloaded shim offers (`cli/preload/ucma.h`), and descriptors that the program shall not close.

use core::ffi::{c_int, c_uint};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit};

use crate::sys::made;

/// `struct ironverbs_shim`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Shim {
    /// [`VERSION`].
    pub version: c_uint,
    keep: extern "C" fn(fd: c_int) -> c_int,
    release: extern "C" fn(fd: c_int),
}

/// `IRONVERBS_UCMA_VERSION`.
pub const VERSION: c_uint = 3;

static SHIM: OnceLock<Shim> = OnceLock::new();

/// The shim that loaded this library.
pub fn set(shim: Shim) {
    SHIM.get_or_init(|| shim);
}

/// Closes a descriptor of this library's own: of a value that goes, or of the parent's in a child of `fork`.
pub fn close(fd: RawFd) {
    match SHIM.get() {
        Some(shim) => (shim.release)(fd),
        // SAFETY: by what the caller knows nobody uses it after this.
        None => unsafe {
            libc::syscall(libc::SYS_close, fd);
        },
    }
}

/// A descriptor of this library's own: for the program its number is not open.
///
/// Closed with the value. In a child of `fork` the shim does that, with the last channel that the child
/// inherited.
#[derive(Debug)]
pub struct Kept(RawFd);

impl Kept {
    /// Takes over a descriptor that was just made.
    ///
    /// # Errors
    /// EMFILE where the number is too high.
    pub fn new(fd: OwnedFd) -> Result<Kept, i32> {
        let fd = out_of_the_way(fd);
        if let Some(shim) = SHIM.get() {
            let failure = (shim.keep)(fd.as_raw_fd());
            if failure != 0 {
                return Err(failure);
            }
        }
        Ok(Kept(fd.into_raw_fd()))
    }
}

/// The lowest number that this library's own descriptors have where there are enough.
const FLOOR: libc::rlim_t = 1024;

/// The lowest number for this library's own descriptors.
pub fn floor() -> RawFd {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    RawFd::try_from(FLOOR.min(limit / 2)).unwrap_or(0)
}

/// Gives a descriptor a high number, where one is free: the kernel's device takes no number of the program's
/// but the channel's, and programs choose some for `dup2`, or have `FD_SETSIZE` of them for `select`.
fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    let floor = floor();
    if fd.as_raw_fd() >= floor {
        return fd;
    }
    made(fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(floor)).unwrap_or(-1)).unwrap_or(fd)
}

impl AsRawFd for Kept {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as this value.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        close(self.0);
    }
}
