//! Files in memory that nobody can shorten: made by one process, verified by the others before they map them.
//!
//! A mapping of a file is worth as much as the file is long: an access behind its end is SIGBUS, and whoever
//! may write an ordinary file may shorten it. A memfd with `F_SEAL_SHRINK` stays as long as it is, whoever has
//! it open, and `F_SEAL_SEAL` keeps others from adding seals that hinder the owner.
//!
//! It has no name. A peer that may look at the owner opens it as `/proc/PID/fd/N` ([`of_process`]); others get
//! it from the owner ([`super::handout`]). The process id is that of the record lock on the file that has a
//! name (`liveness`), so it comes from the kernel; N stands in that file, so anybody may have written it.
//! Either way the owner has a record lock on the memfd, too, and nothing is mapped before the seals and that
//! lock were looked at.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::error::{Error, Result, errno};
use super::liveness::{OwnFiles, PeerFile};
use super::sys;
use super::threads;

/// Nobody can shorten it, or add seals.
pub(super) const LASTING: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// Linux 6.3: the file cannot be made executable. Where the system asks for it, others are refused.
const MFD_NOEXEC_SEAL: libc::c_uint = 8;

/// What it is told apart by from a file that no memory is behind: a full file system, or a pool of huge pages
/// that is empty, is SIGBUS as well.
const TMPFS_MAGIC: u64 = 0x0102_1994;

const OTHER: Error = Error::Corrupt("not a sealed file");

/// A new one, empty, to be [sealed](seal) later.
pub(super) fn create(name: &CStr) -> Result<OwnedFd> {
    let create = |flags| {
        // SAFETY: `name` is a C string that lives across the call.
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | flags) }
    };
    let mut fd = create(MFD_NOEXEC_SEAL);
    if fd < 0 && errno() == libc::EINVAL {
        fd = create(0);
    }
    if fd < 0 {
        return Err(Error::last("memfd_create"));
    }
    // SAFETY: memfd_create returned this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds seals, for ever.
pub(super) fn seal(fd: &OwnedFd, seals: libc::c_int) -> Result<()> {
    // SAFETY: F_ADD_SEALS takes a number.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(Error::last("fcntl")),
    }
}

/// Whether the descriptor means a file in memory with these seals. Asks nobody but the kernel, whatever the
/// file is.
pub(super) fn is_sealed(fd: RawFd, seals: libc::c_int) -> bool {
    // SAFETY: F_GET_SEALS takes no argument.
    let there = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    if there < 0 || there & seals != seals {
        return false;
    }
    // SAFETY: statfs is a struct of integers, for which all zeroes is a value.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `system` is writable and as large as the kernel's answer.
    let known = unsafe { libc::fstatfs(fd, &mut system) } == 0;
    known && system.f_type as u64 == TMPFS_MAGIC
}

/// Opens the memfd that a process has under this number and declared its own, after a look that opens nothing:
/// it may be anything by now. `access` is `O_RDONLY` or `O_RDWR`.
///
/// Errors: those of the system calls; [`Error::Corrupt`] when it is not sealed so, or not this process's.
pub(super) fn of_process(
    pid: libc::pid_t,
    number: RawFd,
    access: libc::c_int,
    seals: libc::c_int,
) -> Result<PeerFile> {
    let path = |name: &str| open(&format!("/proc/{name}/fd/{number}"), libc::O_PATH);
    // A first thread that has ended shows no files; the others still do.
    let by_thread = || threads::others(pid).find_map(|thread| path(&format!("{pid}/task/{thread}")).ok());
    let place = path(&pid.to_string()).or_else(|e| by_thread().ok_or(e))?;
    let stat = sys::stat(place.as_raw_fd())?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG || stat.st_nlink != 0 {
        return Err(OTHER);
    }
    let file = if OwnFiles::has(&stat) {
        // To close another descriptor of it would end the declaration.
        PeerFile::own(stat)
    } else {
        // The process's first thread may have ended, and shows no files then.
        let path = format!("/proc/thread-self/fd/{}", place.as_raw_fd());
        PeerFile::new(open(&path, access | libc::O_NONBLOCK | libc::O_NOCTTY)?)?
    };
    verified(file, pid, seals)
}

/// The file, when it is sealed so and the process declared it. The number is that of the record lock on the
/// file that has a name: not positive where the process cannot be seen from this PID namespace.
pub(super) fn verified(file: PeerFile, pid: libc::pid_t, seals: libc::c_int) -> Result<PeerFile> {
    let holder = file.owner()?.ok_or(OTHER)?;
    if holder.max(0) != pid.max(0) || !is_sealed(file.raw(), seals) {
        return Err(OTHER);
    }
    Ok(file)
}

fn open(path: &str, flags: libc::c_int) -> Result<OwnedFd> {
    let path = std::ffi::CString::new(path).map_err(|_| Error::OutOfBounds)?;
    // SAFETY: `path` is a C string that lives across the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(Error::last("open"));
    }
    // SAFETY: open returned this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
