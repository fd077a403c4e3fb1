//! Small files, such as those of sysfs, read at once, and folders listed.

use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_int};
use core::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::errno::{Errno, Result};

/// The descriptor that a libc call returned, or the error that it left.
pub fn owned(fd: RawFd) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: a call that makes a descriptor returned it just now, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a number stands for that a program named, to be asked at once; EBADF, also in `errno`, where it stands
/// for nothing. Where it is closed by then, the kernel says so.
pub fn borrowed<'a>(fd: RawFd) -> Result<BorrowedFd<'a>> {
    if fd < 0 && fd != libc::AT_FDCWD {
        return Err(Errno::EBADF.also_set());
    }
    // SAFETY: not -1. Nobody closes by a borrowed descriptor, and the kernel checks the number.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Opens `path`, relative to `dir_fd`, for reading.
pub fn open_at(dir_fd: RawFd, path: &CStr) -> Result<OwnedFd> {
    openat(borrowed(dir_fd)?, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|_| Errno::last())
}

/// Reads once from `file` into `buf`; how many bytes came.
pub fn read_once(file: &OwnedFd, buf: &mut [u8]) -> Result<usize> {
    nix::unistd::read(file, buf).map_err(|_| Errno::last())
}

/// Files that were read and are still open, so that one system call closes those whose numbers follow each
/// other. Sysfs is read in runs of dozens of files, where closing each is a third of all system calls.
pub struct Leftovers {
    fds: RefCell<[RawFd; Self::MOST]>,
    count: Cell<usize>,
}

impl Leftovers {
    /// Most files that are kept, so that a program near its limit of descriptors is not pushed over it for
    /// long.
    const MOST: usize = 64;

    /// Closes `file` with those that come before or after it.
    pub fn close(&self, file: OwnedFd) {
        if self.count.get() == Self::MOST {
            self.close_all();
        }
        let fd = file.into_raw_fd();
        let count = self.count.get();
        self.fds.borrow_mut()[count] = fd;
        self.count.set(count + 1);
    }

    /// Closes what is still open; whether there was something. `errno` stays as it is.
    pub fn close_all(&self) -> bool {
        let count = self.count.replace(0);
        let before = Errno::last();
        let mut fds = self.fds.borrow_mut();
        let fds = &mut fds[..count];
        fds.sort_unstable();
        for run in fds.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            // Every number of the run is a descriptor that was given up to `close`, so no other thread's.
            if first == last || !close_range(first, last) {
                for fd in run {
                    // SAFETY: nobody else has the descriptor.
                    unsafe { libc::close(*fd) };
                }
            }
        }
        before.set();
        count > 0
    }

    /// What `open` opens; where the program has no descriptor left, after the files that were read are closed.
    pub fn opened(&self, open: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
        open().or_else(|errno| if errno.0 == libc::EMFILE && self.close_all() { open() } else { Err(errno) })
    }
}

impl Default for Leftovers {
    fn default() -> Self {
        Self { fds: RefCell::new([-1; Self::MOST]), count: Cell::new(0) }
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// Linux 5.9; a sandbox may refuse it with any error.
fn close_range(first: RawFd, last: RawFd) -> bool {
    // SAFETY: the caller owns all descriptors of the range.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
}

/// Names of a folder's entries, without `.` and `..`, in the folder's order.
#[derive(Default)]
pub struct Names {
    /// The names, each with its NUL.
    text: Vec<u8>,
    /// Where each begins.
    starts: Vec<u32>,
}

impl Names {
    /// Bytes asked of the kernel at a time.
    const AT_A_TIME: usize = 8192;

    /// The entries of the open folder that `wanted` takes. ENOMEM where there is no memory for them.
    pub fn list(folder: &OwnedFd, mut wanted: impl FnMut(&CStr) -> bool) -> Result<Self> {
        #[repr(C, align(8))]
        struct Buffer([u8; Names::AT_A_TIME]);
        let mut buffer = Buffer([0; Self::AT_A_TIME]);
        let mut names = Self::default();
        loop {
            // SAFETY: the kernel writes at most the stated number of bytes into exclusively held memory.
            let got = unsafe {
                libc::syscall(
                    libc::SYS_getdents64,
                    folder.as_raw_fd(),
                    buffer.0.as_mut_ptr(),
                    Self::AT_A_TIME,
                )
            };
            let got = usize::try_from(got).map_err(|_| Errno::last())?;
            if got == 0 {
                return Ok(names);
            }
            let mut rest = buffer.0.get(..got).ok_or(Errno::EIO)?;
            while let Some((name, behind)) = entry(rest) {
                rest = behind;
                if name != c"." && name != c".." && wanted(name) {
                    names.push(name)?;
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "room was reserved")]
    fn push(&mut self, name: &CStr) -> Result<()> {
        let name = name.to_bytes_with_nul();
        let start = u32::try_from(self.text.len()).map_err(|_| Errno::ENOMEM)?;
        self.text.try_reserve(name.len()).map_err(|_| Errno::ENOMEM)?;
        self.starts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.text.extend_from_slice(name);
        self.starts.push(start);
        Ok(())
    }

    /// In the order of the program's locale, as `alphasort` has it.
    pub fn sort(&mut self) {
        let text = &self.text;
        self.starts.sort_unstable_by(|a, b| {
            let (a, b) = (at(text, *a), at(text, *b));
            // SAFETY: both are NUL-terminated.
            unsafe { strcoll(a.as_ptr(), b.as_ptr()) }.cmp(&0)
        });
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Each name.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.starts.iter().map(|start| at(&self.text, *start))
    }
}

unsafe extern "C" {
    fn strcoll(a: *const core::ffi::c_char, b: *const core::ffi::c_char) -> c_int;
}

fn at(text: &[u8], start: u32) -> &CStr {
    text.get(start as usize..).and_then(|text| CStr::from_bytes_until_nul(text).ok()).unwrap_or_default()
}

/// The name of the first entry that the kernel wrote, and what follows the entry. None at the end, and where
/// the entry does not lie within the bytes.
fn entry(bytes: &[u8]) -> Option<(&CStr, &[u8])> {
    const LENGTH: usize = offset_of!(libc::dirent64, d_reclen);
    const NAME: usize = offset_of!(libc::dirent64, d_name);
    let length = usize::from(u16::from_ne_bytes([*bytes.get(LENGTH)?, *bytes.get(LENGTH + 1)?]));
    let name = CStr::from_bytes_until_nul(bytes.get(NAME..length)?).ok()?;
    Some((name, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::FcntlArg;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    fn folder(name: &str) -> (std::path::PathBuf, OwnedFd) {
        let path = std::env::temp_dir().join(format!("ironverbs-os-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        let c_path = CString::new(path.as_os_str().as_bytes()).expect("no NUL in the path");
        let fd = open_at(libc::AT_FDCWD, &c_path).expect("the folder was just made");
        (path, fd)
    }

    #[test]
    fn a_folder_is_listed_without_its_dots() {
        let (path, fd) = folder("list");
        for number in 0..1000 {
            std::fs::write(path.join(format!("file{number}")), "x").expect("a file of our own");
        }
        let mut names = Names::list(&fd, |name| name != c"file7").expect("a folder of our own");
        names.sort();
        assert_eq!((names.len(), names.is_empty()), (999, false));
        assert_eq!(names.iter().next(), Some(c"file0"));
        assert!(names.iter().all(|name| name != c"file7"));
        std::fs::remove_dir_all(path).expect("remove the temporary folder");
    }

    #[test]
    fn entries_that_lie_about_their_length_end_the_list() {
        let mut bytes = [0u8; 24];
        for length in [0u16, 5, 18, 25, u16::MAX] {
            bytes[16..18].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(entry(&bytes), None, "{length}");
        }
        bytes[16..18].copy_from_slice(&24u16.to_ne_bytes());
        bytes[19..].fill(b'a');
        assert_eq!(entry(&bytes), None, "no NUL");
        bytes[20] = 0;
        assert_eq!(entry(&bytes), Some((c"a", &[][..])));
        assert_eq!(entry(&bytes[..3]), None);
    }

    #[test]
    fn files_that_were_read_are_closed_together_and_no_others() {
        let (path, dir) = folder("close");
        std::fs::write(path.join("file"), "x").expect("a file of our own");
        let open = |fd| borrowed(fd).is_ok_and(|fd| nix::fcntl::fcntl(fd, FcntlArg::F_GETFD).is_ok());
        let leftovers = Leftovers::default();
        let files: Vec<_> = (0..150).map(|_| open_at(dir.as_raw_fd(), c"file").expect("there")).collect();
        let (mut numbers, mut kept) = (Vec::new(), Vec::new());
        for (place, file) in files.into_iter().enumerate() {
            assert_eq!(read_once(&file, &mut [0; 8]), Ok(1));
            if place % 40 == 3 {
                kept.push(file);
            } else {
                numbers.push(file.as_raw_fd());
                leftovers.close(file);
            }
        }
        assert!(open(numbers[numbers.len() - 1]), "it waits for more");
        Errno::EBUSY.set();
        drop(leftovers);
        assert_eq!(Errno::last(), Errno::EBUSY);
        assert!(kept.iter().all(|file| open(file.as_raw_fd())));
        // Other tests open files meanwhile, which may get some of these numbers.
        assert!(numbers.iter().filter(|fd| open(**fd)).count() < 20);
        std::fs::remove_dir_all(path).expect("remove the temporary folder");
    }
}
