//! Who lives: the kernel's answer, which no death can falsify.
//!
//! A process holds a record lock (`F_SETLK`) on byte 0 of its segment file as long as it lives. The kernel drops it
//! at any death, and a forked child does not inherit it. The lock is taken before the file gets its name and nobody
//! else ever locks that byte, so a file with a free byte 0 is dead for ever.
//!
//! POSIX gives record locks one trap: they are lost when the process closes *any* descriptor of the file. A
//! process therefore must not close a second descriptor of its own file: [`OwnFiles`] knows them,
//! [`PeerFile::own`] does without one, and [`PeerFile`] keeps it open where there is one after all. A program
//! that closes descriptors it does not own loses the lock and counts as dead.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use super::error::{Error, Result};
use super::fork::{self, ProcessMutex};
use super::sys;

const ALIVE: i64 = 0;
const REAPER: i64 = 1;

fn byte(at: i64) -> libc::flock {
    // SAFETY: flock is a struct of integers, for which all zeroes is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = at;
    lock.l_len = 1;
    lock
}

/// Declares the file as this living process's own.
pub(crate) fn declare(fd: RawFd) -> Result<()> {
    // SAFETY: F_SETLK reads the struct given.
    if unsafe { libc::fcntl(fd, libc::F_SETLK, &byte(ALIVE)) } != 0 {
        return Err(Error::last("fcntl"));
    }
    Ok(())
}

/// The process that declared the file its own, or `None` when it is dead.
///
/// The number is the process id in the caller's PID namespace; 0 or less when it cannot be seen from there.
/// A process's own declaration is not reported to itself: use [`PeerFile`].
pub(crate) fn owner(fd: RawFd) -> Result<Option<libc::pid_t>> {
    let mut lock = byte(ALIVE);
    // SAFETY: F_GETLK reads and writes the struct given.
    if unsafe { libc::fcntl(fd, libc::F_GETLK, &mut lock) } != 0 {
        return Err(Error::last("fcntl"));
    }
    Ok((lock.l_type != libc::F_UNLCK as i16).then_some(lock.l_pid))
}

/// Takes the right to remove a dead file, until `fd` is closed; `false` when another remover is at work.
///
/// An open file description lock, so that another thread's closing of the same file does not drop it.
pub(crate) fn become_reaper(fd: RawFd) -> bool {
    // SAFETY: F_OFD_SETLK reads the struct given.
    unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &byte(REAPER)) == 0 }
}

/// Device, inode, fork token and descriptor of the files that this process declared.
static OWN_FILES: ProcessMutex<Vec<(u64, u64, u64, RawFd)>> = ProcessMutex::new(Vec::new());

/// The files this process declared its own.
pub(crate) struct OwnFiles;

impl OwnFiles {
    /// Remembers a file, before it is declared.
    pub(crate) fn add(fd: RawFd) -> Result<()> {
        let st = sys::stat(fd)?;
        OWN_FILES.lock()?.push((st.st_dev, st.st_ino, fork::token()?, fd));
        Ok(())
    }

    /// Forgets a file.
    pub(crate) fn remove(fd: RawFd) {
        if let Ok(st) = sys::stat(fd)
            && let Ok(mut list) = OWN_FILES.lock()
        {
            list.retain(|f| (f.0, f.1) != (st.st_dev, st.st_ino));
        }
    }

    /// Whether the file is this process's own.
    pub(crate) fn has(st: &libc::stat) -> bool {
        let (Ok(list), Ok(token)) = (OWN_FILES.lock(), fork::token()) else { return true };
        list.iter().any(|f| (f.0, f.1, f.2) == (st.st_dev, st.st_ino, token))
    }

    /// The descriptor by which this process declared the file, as long as it means it.
    pub(crate) fn descriptor(st: &libc::stat) -> Option<RawFd> {
        let (list, token) = (OWN_FILES.lock().ok()?, fork::token().ok()?);
        let own = list.iter().find(|f| (f.0, f.1, f.2) == (st.st_dev, st.st_ino, token))?;
        sys::stat(own.3).is_ok_and(|now| (now.st_dev, now.st_ino) == (own.0, own.1)).then_some(own.3)
    }
}

/// Descriptor of a segment file that may turn out to be this process's own.
#[derive(Debug)]
pub(crate) struct PeerFile {
    fd: Option<OwnedFd>,
    /// `fstat` at the time it was opened.
    pub(crate) stat: libc::stat,
    own: bool,
}

impl PeerFile {
    pub(crate) fn new(fd: OwnedFd) -> Result<Self> {
        let stat = match sys::stat(fd.as_raw_fd()) {
            Ok(stat) => stat,
            Err(e) => {
                // It might be ours: keep it open.
                let _ = fd.into_raw_fd();
                return Err(e);
            }
        };
        let own = OwnFiles::has(&stat);
        Ok(PeerFile { fd: Some(fd), stat, own })
    }

    /// This process's own file, which `stat` tells: not opened again.
    pub(crate) fn own(stat: libc::stat) -> Self {
        PeerFile { fd: None, stat, own: true }
    }

    /// The descriptor; -1 for an own file that this process has no more.
    pub(crate) fn raw(&self) -> RawFd {
        match &self.fd {
            Some(fd) => fd.as_raw_fd(),
            None => OwnFiles::descriptor(&self.stat).unwrap_or(-1),
        }
    }

    /// The living process behind the file; this process's own id for its own file.
    pub(crate) fn owner(&self) -> Result<Option<libc::pid_t>> {
        if self.own {
            // SAFETY: getpid reads a number of the process and cannot fail.
            return Ok(Some(unsafe { libc::getpid() }));
        }
        owner(self.raw())
    }
}

impl Drop for PeerFile {
    fn drop(&mut self) {
        let file = (self.stat.st_dev, self.stat.st_ino);
        if let Some(fd) = self.fd.take()
            && (self.own || sys::stat(fd.as_raw_fd()).is_ok_and(|now| (now.st_dev, now.st_ino) != file))
        {
            // Closing it would drop the declaration of life, or the program closed it and has another file
            // there.
            let _ = fd.into_raw_fd();
        }
    }
}
