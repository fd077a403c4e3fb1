//! A trace that begins while the program runs: with `IRONVERBS_TRACE=on-demand` the process keeps a page, as a
//! memory file among its descriptors, into which `ironverbs trace -p PID` writes the trace's folder.
//!
//! Who can open that file by `/proc/PID/fd` may look into the process anyway. It can be neither shortened nor
//! grown. A forked child shares it, and is observed with its parent.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{OFF, WAITS};

/// The value of the variable.
pub const ASKED: &str = "on-demand";
/// The name of the memory file.
pub const FILE: &str = "ironverbs-trace";
/// Bytes of the page.
pub const SIZE: usize = 4096;
/// Where the folder's path stands, behind a word that is its length once it is whole.
pub const PATH: usize = 8;

/// The page; null where there is none.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Makes the page. What the process is then: waiting, or not observed where there is no memory.
pub(super) fn offer() -> u8 {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: a constant C string; a new file, and a new mapping of it at an address of the kernel's choice.
    unsafe {
        let fd = libc::memfd_create(c"ironverbs-trace".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if fd < 0 {
            return OFF;
        }
        let page = if libc::ftruncate(fd, SIZE as i64) == 0 && libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0
        {
            libc::mmap(core::ptr::null_mut(), SIZE, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        } else {
            libc::MAP_FAILED
        };
        if page == libc::MAP_FAILED {
            libc::close(fd);
            return OFF;
        }
        let before =
            PAGE.compare_exchange(core::ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire);
        if before.is_err() {
            libc::munmap(page, SIZE);
            libc::close(fd);
        }
    }
    WAITS
}

/// The folder, once somebody has named one.
pub(super) fn begin() -> Option<OsString> {
    // SAFETY: null, or the page, which stays.
    let word = unsafe { PAGE.load(Ordering::Acquire).as_ref() }?;
    let length = word.load(Ordering::Acquire) as usize;
    if length == 0 || length > SIZE - PATH {
        return None;
    }
    let mut path = ironverbs_os::growth::try_room(length).ok()?;
    for at in 0..length {
        // SAFETY: within the page; another process may write it, so each byte is read once.
        path.push_reserved(unsafe { (&raw const *word).cast::<u8>().add(PATH + at).read_volatile() });
    }
    use ironverbs_os::growth::TryPush;
    (path.first() == Some(&b'/')).then(|| OsString::from_vec(path))
}
