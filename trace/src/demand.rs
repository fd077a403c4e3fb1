//! A trace that begins while the program runs: with `IRONVERBS_TRACE=on-demand` the process keeps a page, as a
//! memory file among its descriptors, into which `ironverbs trace -p PID` writes the trace's folder.
//!
//! Who can open that file by `/proc/PID/fd` may look into the process anyway. It can be neither shortened nor
//! grown. A forked child shares it, and is observed with its parent. The libraries of a process share one: the
//! second finds that of the first.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use ironverbs_os::error::Error;
use ironverbs_os::listing;

/// The value of the variable.
pub const ASKED: &str = "on-demand";
/// The name of the memory file.
pub const FILE: &str = "ironverbs-trace";
/// Bytes of the page.
pub const SIZE: usize = 4096;
/// Where the folder's path stands, behind a word that is its length once it is whole.
pub const PATH: usize = 8;

/// What the memory file is called.
const NAME: &CStr = c"ironverbs-trace";
/// Where a link among a process's descriptors leads that is one to the memory file.
const LINK: &[u8] = b"/memfd:ironverbs-trace (deleted)";
/// What keeps it as large as it is.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The page; null where there is none.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Makes the page, or finds another library's; whether it is there.
pub(super) fn offer() -> bool {
    existing().is_some_and(map) || made()
}

/// The file of another library of this process.
fn existing() -> Option<c_int> {
    let folder = File::open("/proc/self/fd").ok()?;
    let mut found = None;
    let _ = listing::each_name(folder.as_fd(), |name| {
        let fd = name.to_str().ok().and_then(|name| name.parse::<c_int>().ok());
        if let Some(fd) = fd.filter(|fd| found.is_none() && is_page(folder.as_fd(), name, *fd)) {
            found = Some(fd);
        }
        Ok::<_, Error>(())
    });
    found
}

/// Whether this descriptor, of that name in the folder of all, is the memory file's, as large as it must be.
fn is_page(folder: impl AsFd, name: &CStr, fd: c_int) -> bool {
    use std::os::fd::AsRawFd;
    let mut link = [0_u8; LINK.len() + 1];
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a C string, and room for so many bytes, for the seals of a file, and for what it is.
    unsafe {
        let folder = folder.as_fd().as_raw_fd();
        let length = libc::readlinkat(folder, name.as_ptr(), link.as_mut_ptr().cast(), link.len());
        usize::try_from(length).is_ok_and(|length| link.get(..length) == Some(LINK))
            && libc::fcntl(fd, libc::F_GET_SEALS) & SEALS == SEALS
            && libc::fstat(fd, status.as_mut_ptr()) == 0
            && status.assume_init().st_size == SIZE as i64
    }
}

fn made() -> bool {
    // SAFETY: a constant C string, and a new file.
    unsafe {
        let fd = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if fd < 0 {
            return false;
        }
        let is_whole =
            libc::ftruncate(fd, SIZE as i64) == 0 && libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) == 0;
        if is_whole && map(fd) {
            return true;
        }
        libc::close(fd);
    }
    // Another thread's is as good.
    !PAGE.load(Ordering::Acquire).is_null()
}

/// Maps the page; whether this is the one that counts.
fn map(fd: c_int) -> bool {
    // SAFETY: a new mapping at an address of the kernel's choice, of a file that can be neither shortened nor
    // grown; what nobody else knows is unmapped.
    unsafe {
        let page = libc::mmap(core::ptr::null_mut(), SIZE, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
        if page == libc::MAP_FAILED {
            return false;
        }
        let none = core::ptr::null_mut();
        let is_first = PAGE.compare_exchange(none, page.cast(), Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !is_first {
            libc::munmap(page, SIZE);
        }
        is_first
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_process_is_found_again() {
        assert_eq!(existing(), None);
        assert!(made() && begin().is_none());
        let first = existing().unwrap();
        // What has the name alone may be shortened.
        // SAFETY: a constant C string.
        let other = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        assert!(other >= 0 && existing() == Some(first));
        // SAFETY: just made; the page stays mapped.
        unsafe { assert!(libc::close(first) == 0 && existing().is_none() && libc::close(other) == 0) };
    }
}
