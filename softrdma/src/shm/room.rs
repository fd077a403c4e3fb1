//! Room for files: allocated before it is used, so that no access finds the file system full.

use std::os::fd::RawFd;

use ironverbs_os::sys::{borrowed, uncancelled};
use nix::fcntl::FallocateFlags;
use nix::sys::resource::Resource;

use super::error::{Error, Result, errno};

/// How long a file may be that this process writes. At a longer one the kernel sends SIGXFSZ besides the error.
pub(crate) fn file_limit() -> u64 {
    nix::sys::resource::getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Extends the file with allocated pages, so that no later access finds the file system full.
pub(crate) fn allocate(fd: RawFd, from: u64, len: u64) -> Result<()> {
    if from.checked_add(len).is_none_or(|end| end > file_limit()) {
        return Err(Error::NoMemory);
    }
    let (fd, from, len) = (borrowed(fd)?, from as libc::off_t, len as libc::off_t);
    loop {
        if uncancelled(|| nix::fcntl::fallocate(fd, FallocateFlags::empty(), from, len)).is_ok() {
            return Ok(());
        }
        match errno() {
            libc::EINTR => {}
            libc::ENOSPC | libc::ENOMEM | libc::EFBIG | libc::EDQUOT => return Err(Error::NoMemory),
            _ => return Err(Error::last("fallocate")),
        }
    }
}
