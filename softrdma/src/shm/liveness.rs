//! Which processes live: the kernel's answer, which no death can falsify.
//!
//! A process holds a record lock (`F_SETLK`) on byte 0 of its slot's file as long as it lives, and on that of
//! its segment's memory, which peers that have it ask instead. The kernel drops them at any death, and a forked
//! child does not inherit them. The lock is taken before the file gets its name and nobody else ever locks that
//! byte, so a file with a free byte 0 is dead for ever.
//!
//! POSIX gives record locks one trap: they are lost when the process closes *any* descriptor of the file. A
//! process therefore must not close a second descriptor of its own file: [`OwnFiles`] knows them,
//! [`PeerFile::own`] does without one, and [`PeerFile`] keeps it open where there is one after all. A program
//! that closes descriptors it does not own loses the lock and counts as dead.
//!
//! A process may hold several copies of this library (`dlmopen`, or the same file under two names), each with
//! its own statics and its own segment. To the kernel they are one holder of record locks, so `F_GETLK` would
//! call another copy's segment dead, and closing a descriptor of it would make that true. `F_OFD_GETLK` asks
//! in the name of the open file instead, to which the locks of the asking process are those of another. What
//! it finds held by this very process stays open.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use ironverbs_os::fork::{self, ProcessMutex};
use ironverbs_os::growth::TryPush;
use ironverbs_os::sys;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::getpid;

use super::error::{Error, Result, errno};

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
    fcntl(sys::borrowed(fd)?, FcntlArg::F_SETLK(&byte(ALIVE))).map(drop).map_err(|_| Error::last("fcntl"))
}

/// The process that declared the file its own, or `None` when it is dead.
///
/// The number is the process id in the caller's PID namespace; 0 or less when it cannot be seen from there.
pub(crate) fn owner(fd: RawFd) -> Result<Option<libc::pid_t>> {
    let mut lock = byte(ALIVE);
    // Kernels that others wrote may have record locks alone: then another copy's segment is not known for
    // what it is.
    let fd = sys::borrowed(fd)?;
    fcntl(fd, FcntlArg::F_OFD_GETLK(&mut lock))
        .or_else(|why| match errno() {
            libc::EINVAL => fcntl(fd, FcntlArg::F_GETLK(&mut lock)),
            _ => Err(why),
        })
        .map_err(|_| Error::last("fcntl"))?;
    Ok((lock.l_type != libc::F_UNLCK as i16).then_some(lock.l_pid))
}

/// Takes the right to remove a dead file, until `fd` is closed; `false` when another remover is at work.
///
/// An open file description lock, so that another thread's closing of the same file does not drop it. A child
/// that is forked meanwhile inherits it: of a remover that is killed the file stays, and its slot, until the
/// child ends, too. Nobody waits for that.
pub(crate) fn become_reaper(fd: RawFd) -> bool {
    sys::borrowed(fd).is_ok_and(|fd| fcntl(fd, FcntlArg::F_OFD_SETLK(&byte(REAPER))).is_ok())
}

/// A file that this process declared, or another copy of the library in it.
struct OwnFile {
    dev: u64,
    ino: u64,
    /// Of the process that remembered it.
    token: u64,
    fd: RawFd,
    /// Nobody uses the descriptor: it must only not be closed.
    kept: bool,
}

impl OwnFile {
    fn new(fd: RawFd, kept: bool) -> Result<Self> {
        let st = sys::stat(fd)?;
        Ok(OwnFile { dev: st.st_dev, ino: st.st_ino, token: fork::token()?, fd, kept })
    }

    fn is(&self, st: &libc::stat) -> bool {
        (self.dev, self.ino) == (st.st_dev, st.st_ino)
    }

    /// Whether the descriptor is there for nothing: the copy of the library that declared the file has given
    /// it up.
    fn is_over(&self, token: u64) -> bool {
        self.kept
            && self.token == token
            && sys::stat(self.fd).is_ok_and(|st| self.is(&st) && st.st_nlink == 0)
            && matches!(owner(self.fd), Ok(None))
    }
}

static OWN_FILES: ProcessMutex<Vec<OwnFile>> = ProcessMutex::new(Vec::new());

/// The files this process declared its own.
pub(crate) struct OwnFiles;

impl OwnFiles {
    /// Remembers a file, before it is declared.
    pub(crate) fn add(fd: RawFd) -> Result<()> {
        Ok(OWN_FILES.lock()?.try_push(OwnFile::new(fd, false)?)?)
    }

    /// Forgets a file.
    pub(crate) fn remove(fd: RawFd) {
        if let Ok(st) = sys::stat(fd)
            && let Ok(mut list) = OWN_FILES.lock()
        {
            list.retain(|file| !file.is(&st));
        }
    }

    /// The same where the process is about to end, unless the list is not to be had then.
    pub(crate) fn remove_in_time(fd: RawFd) {
        if let Ok(st) = sys::stat(fd)
            && let Some(mut list) = OWN_FILES.lock_in_time()
        {
            list.retain(|file| !file.is(&st));
        }
    }

    /// Keeps open a descriptor whose closing would drop a declaration of this process, and closes those that
    /// were kept for what is over by now.
    fn keep(fd: OwnedFd) {
        // Whatever fails, it is not closed.
        let file = OwnFile::new(fd.into_raw_fd(), true);
        let (Ok(file), Ok(mut list)) = (file, OWN_FILES.lock()) else { return };
        list.retain(|old| {
            let over = old.is_over(file.token);
            if over {
                // SAFETY: the descriptor still means the file that was kept, and only this list knows it.
                drop(unsafe { OwnedFd::from_raw_fd(old.fd) });
            }
            !over
        });
        let _ = list.try_push(file);
    }

    /// Whether the file is this process's own.
    pub(crate) fn has(st: &libc::stat) -> bool {
        let (Ok(list), Ok(token)) = (OWN_FILES.lock(), fork::token()) else { return true };
        list.iter().any(|file| file.is(st) && file.token == token)
    }

    /// The descriptor by which this process declared the file, as long as it means it.
    pub(crate) fn descriptor(st: &libc::stat) -> Option<RawFd> {
        let (list, token) = (OWN_FILES.lock().ok()?, fork::token().ok()?);
        let own = list.iter().find(|file| file.is(st) && file.token == token)?;
        sys::stat(own.fd).is_ok_and(|now| own.is(&now)).then_some(own.fd)
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
                return Err(e.into());
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
            return Ok(Some(getpid().as_raw()));
        }
        owner(self.raw())
    }
}

impl Drop for PeerFile {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        let file = (self.stat.st_dev, self.stat.st_ino);
        // Asked now: until its file has a name, another copy of the library may declare it after it was
        // opened here.
        let is_own = || self.own || owner(fd.as_raw_fd()) == Ok(Some(getpid().as_raw()));
        if sys::stat(fd.as_raw_fd()).is_ok_and(|now| (now.st_dev, now.st_ino) != file) {
            // The program closed it and has another file there.
            let _ = fd.into_raw_fd();
        } else if is_own() {
            OwnFiles::keep(fd);
        } else {
            sys::uncancelled(|| drop(fd));
        }
    }
}
