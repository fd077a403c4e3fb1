//! Folders of sysfs and the texts and numbers in their files.

use core::ffi::{CStr, c_uint, c_ulong};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::{self, OFlag};
use nix::sys::stat::Mode;

use ironverbs_os::errno::{Errno, Result};
use ironverbs_os::file::{self, Leftovers, Names};

/// Room for a number with what stands behind it (bytes).
const NUMBER: usize = 32;
/// Room for a GID (bytes).
const GID: usize = 64;

/// How a folder is opened.
#[derive(Clone, Copy)]
pub enum For {
    /// To open what its entries are called; that takes no right to read the folder.
    Entries,
    /// To list its entries as well.
    Listing,
}

impl For {
    fn flags(self) -> OFlag {
        OFlag::O_DIRECTORY
            | OFlag::O_CLOEXEC
            | match self {
                Self::Entries => OFlag::O_PATH,
                Self::Listing => OFlag::O_RDONLY,
            }
    }
}

/// An open folder. It and the files that were read in it are closed with `leftovers`.
pub struct Folder<'a> {
    fd: Option<OwnedFd>,
    leftovers: &'a Leftovers,
}

impl<'a> Folder<'a> {
    /// Opens the folder of an absolute path, by the function `open`, which libraries that show a program
    /// another sysfs replace.
    pub fn open(path: &CStr, purpose: For, leftovers: &'a Leftovers) -> Result<Self> {
        let fd = leftovers.opened(|| open(path, purpose.flags()))?;
        Ok(Self { fd: Some(fd), leftovers })
    }

    /// Opens a folder in this one.
    pub fn folder(&self, name: &CStr, purpose: For) -> Result<Self> {
        let parent = self.fd.as_ref().ok_or(Errno::EBADF)?;
        let open = || fcntl::openat(parent, name, purpose.flags(), Mode::empty()).map_err(|_| Errno::last());
        Ok(Self { fd: Some(self.leftovers.opened(open)?), leftovers: self.leftovers })
    }

    fn number_of_fd(&self) -> i32 {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Names of the entries that `wanted` takes.
    pub fn names(&self, wanted: impl FnMut(&CStr) -> bool) -> Result<Names> {
        Names::list(self.fd.as_ref().ok_or(Errno::EBADF)?, wanted)
    }

    /// Reads a file once, as a text that ends before its last newline or where `buf` ends. What is behind the
    /// text in `buf` stays.
    pub fn text(&self, name: &CStr, buf: &mut [u8]) -> Result<()> {
        let file = self.leftovers.opened(|| file::open_at(self.number_of_fd(), name))?;
        let got = file::read_once(&file, buf);
        self.leftovers.close(file);
        finish(buf, got?);
        Ok(())
    }

    /// Reads the number at the start of a file, 0 where there is none. Too large a one leaves ERANGE in
    /// `errno`.
    pub fn number(&self, name: &CStr) -> Result<c_uint> {
        let mut buf = [0; NUMBER];
        self.text(name, &mut buf)?;
        Ok(number(&buf, 0) as c_uint)
    }

    /// Reads a GUID of four groups; it is returned in network byte order.
    pub fn guid(&self, name: &CStr) -> Result<u64> {
        let mut buf = [0; NUMBER];
        self.text(name, &mut buf)?;
        let mut guid = [0; 8];
        groups(&mut buf, &mut guid)?;
        Ok(u64::from_ne_bytes(guid))
    }

    /// Reads a GID of eight groups.
    pub fn gid(&self, name: &CStr) -> Result<[u8; 16]> {
        let mut buf = [0; GID];
        self.text(name, &mut buf)?;
        let mut gid = [0; 16];
        groups(&mut buf, &mut gid)?;
        Ok(gid)
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.leftovers.close(fd);
        }
    }
}

fn open(path: &CStr, flags: OFlag) -> Result<OwnedFd> {
    fcntl::open(path, flags, Mode::empty()).map_err(|_| Errno::last())
}

/// Reads the number at the start of the file of an absolute path, as [`Folder::number`] does.
pub fn number_at(path: &CStr) -> Result<c_uint> {
    let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC)?;
    let mut buf = [0; NUMBER];
    let got = file::read_once(&file, &mut buf)?;
    finish(&mut buf, got);
    Ok(number(&buf, 0) as c_uint)
}

/// Ends the `got` bytes in `buf` with a NUL, or the last byte of `buf` if they fill it, and takes the last
/// newline away with all that follows it.
fn finish(buf: &mut [u8], got: usize) {
    let Some(last) = buf.len().checked_sub(1) else { return };
    let end = got.min(last);
    buf[end] = 0;
    let text = buf.iter().position(|byte| *byte == 0).unwrap_or(last);
    if let Some(newline) = buf[..text].iter().rposition(|byte| *byte == b'\n') {
        buf[newline] = 0;
    }
}

/// The number at the start of a text that ends with a NUL.
fn number(text: &[u8], base: i32) -> c_ulong {
    debug_assert!(text.contains(&0));
    // SAFETY: the text has a NUL, at which the function stops.
    unsafe { libc::strtoul(text.as_ptr().cast(), core::ptr::null_mut(), base) }
}

/// Hexadecimal groups of 16 bits, in network byte order. EINVAL, not in `errno`, where they are too few.
fn groups(text: &mut [u8], result: &mut [u8]) -> Result<()> {
    let end = text.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
    let mut start = Some(0);
    for group in result.chunks_exact_mut(2) {
        let first = start.ok_or(Errno::EINVAL)?;
        let separator = text[first..end].iter().position(|byte| b": \t\n".contains(byte));
        start = separator.map(|at| {
            text[first + at] = 0;
            first + at + 1
        });
        group.copy_from_slice(&(number(&text[first..], 16) as u16).to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finished(text: &[u8], room: usize) -> Vec<u8> {
        let mut buf = vec![0x5a; room];
        let got = text.len().min(room);
        buf[..got].copy_from_slice(&text[..got]);
        finish(&mut buf, got);
        buf.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    }

    #[test]
    fn a_text_ends_before_its_last_newline_or_with_the_buffer() {
        assert_eq!(finished(b"4: ACTIVE\n", 32), b"4: ACTIVE");
        assert_eq!(finished(b"one\ntwo\nthree", 32), b"one\ntwo");
        assert_eq!(finished(b"longer", 4), b"lon");
        assert_eq!(finished(b"", 4), b"");
        assert_eq!(finished(b"a\0b\n", 8), b"a");
    }

    #[test]
    fn groups_read_what_the_kernel_writes_and_want_all() {
        let read = |text: &[u8]| {
            let mut buf = [0; GID];
            buf[..text.len()].copy_from_slice(text);
            let mut guid = [0; 8];
            groups(&mut buf, &mut guid).map(|()| guid)
        };
        assert_eq!(read(b"0002:c903:00fe:1"), Ok([0, 2, 0xc9, 3, 0, 0xfe, 0, 1]));
        assert_eq!(read(b"0002:c903:00fe"), Err(Errno::EINVAL));
        assert_eq!(read(b""), Err(Errno::EINVAL));
        assert_eq!(read(b":::"), Ok([0; 8]));
        assert_eq!(read(b"12345:x:0x7:-1"), Ok([0x23, 0x45, 0, 0, 0, 7, 0xff, 0xff]));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_readers(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            for room in [1, 20, NUMBER, GID] {
                let mut buf = vec![0x5a; room];
                let got = text.len().min(room);
                buf[..got].copy_from_slice(&text[..got]);
                finish(&mut buf, got);
                assert!(buf.contains(&0));
                let _ = number(&buf, 0);
                let _ = groups(&mut buf, &mut [0; 16]);
            }
        }
    }
}
