//! Files in memory that nobody can shorten: made by one process, verified by the others before they map them.
//!
//! An access to a mapped file behind the file's end is SIGBUS, and a process that may write an ordinary file
//! may shorten it. A memfd with `F_SEAL_SHRINK` keeps its length, whichever processes have it open, and
//! `F_SEAL_SEAL` keeps others from adding seals that hinder the owner.
//!
//! It has no name. A peer that may look at the owner opens it as `/proc/PID/fd/N` ([`of_process`]); others get
//! it from the owner ([`super::handout`]). The process id is that of the record lock on the file that has a
//! name (`liveness`), so it comes from the kernel; N stands in that file, so anybody may have written it.
//! Either way the owner has a record lock on the memfd, too, and nothing is mapped before the seals and that
//! lock were looked at.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ironverbs_os::sys;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};

use super::error::{Error, Result, errno};
use super::liveness::{OwnFiles, PeerFile};
use super::tasks;

/// Nobody can shorten it, or add seals.
pub(super) const LASTING: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// Linux 6.3: the file cannot be made executable. Where the system asks for it, others are refused.
const MFD_NOEXEC_SEAL: MFdFlags = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);

const OTHER: Error = Error::Corrupt("not a sealed file");

/// A new one, empty, to be [sealed](seal) later.
pub(super) fn create(name: &CStr) -> Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    memfd_create(name, flags | MFD_NOEXEC_SEAL)
        .or_else(|why| if errno() == libc::EINVAL { memfd_create(name, flags) } else { Err(why) })
        .map_err(|_| Error::last("memfd_create"))
}

/// Adds seals, for ever.
pub(super) fn seal(fd: &OwnedFd, seals: libc::c_int) -> Result<()> {
    let seals = SealFlag::from_bits_retain(seals);
    fcntl(fd, FcntlArg::F_ADD_SEALS(seals)).map(drop).map_err(|_| Error::last("fcntl"))
}

/// Whether the descriptor means a file in memory with these seals. Asks nobody but the kernel, whatever the
/// file is.
pub(super) fn is_sealed(fd: RawFd, seals: libc::c_int) -> bool {
    let Ok(fd) = sys::borrowed(fd) else { return false };
    // A file that no memory is behind is told apart by its file system: a full one, or a pool of huge pages
    // that is empty, is SIGBUS as well.
    fcntl(fd, FcntlArg::F_GET_SEALS).is_ok_and(|there| there & seals == seals)
        && fstatfs(fd).is_ok_and(|system| system.filesystem_type() == TMPFS_MAGIC)
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
    let by_thread = || tasks::others(pid).find_map(|thread| path(&format!("{pid}/task/{thread}")).ok());
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
    let flags = OFlag::from_bits_retain(flags | libc::O_CLOEXEC);
    nix::fcntl::open(path, flags, Mode::empty()).map_err(|_| Error::last("open"))
}
