//! Whether others can exchange what a path leads by.
//!
//! Who may write to a folder can rename what is in it, unless the folder is sticky: then its owner and that of
//! the thing alone can. `preload/folder.c` judges the folder of the view by the same rule, in every program.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path};

use nix::fcntl::{OFlag, open, openat};
use nix::libc::{S_ISVTX, S_IWGRP, S_IWOTH, stat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::geteuid;

/// Whether nobody but root and the user can put another folder in the place of the one that a full path leads
/// to, and a descriptor stands for. The path has no links: one is an error, as is another folder by now.
pub fn is_safe(path: &Path, folder: &impl AsRawFd) -> io::Result<bool> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY;
    let mut at = open("/", flags, Mode::empty())?;
    let mut safe = is_only_ours(&fstat(&at)?);
    for part in path.components() {
        let name: &OsStr = match part {
            Component::RootDir | Component::CurDir => continue,
            part => part.as_os_str(),
        };
        at = openat(at.as_fd(), name, flags, Mode::empty())?;
        safe &= is_only_ours(&fstat(&at)?);
    }
    // SAFETY: fstat alone looks at the number, and takes any.
    let wanted = fstat(unsafe { std::os::fd::BorrowedFd::borrow_raw(folder.as_raw_fd()) })?;
    let found = fstat(&at)?;
    if (found.st_dev, found.st_ino) != (wanted.st_dev, wanted.st_ino) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(safe)
}

fn is_only_ours(folder: &stat) -> bool {
    let is_ours = folder.st_uid == 0 || folder.st_uid == geteuid().as_raw();
    is_ours && (folder.st_mode & (S_IWGRP | S_IWOTH) == 0 || folder.st_mode & S_ISVTX != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn every_level_counts() {
        let top = fs::canonicalize(std::env::temp_dir())
            .unwrap()
            .join(format!("ironverbs-way-{}", std::process::id()));
        let (middle, end) = (top.join("middle"), top.join("middle/end"));
        fs::create_dir_all(&end).unwrap();
        let is_safe = |path: &Path| is_safe(path, &File::open(&end).unwrap());
        for (mode, expected) in [(0o755, true), (0o700, true), (0o775, false), (0o777, false), (0o1777, true)]
        {
            for level in [&top, &middle, &end] {
                fs::set_permissions(level, Permissions::from_mode(mode)).unwrap();
                assert_eq!(is_safe(&end).unwrap(), expected, "{} {mode:o}", level.display());
                fs::set_permissions(level, Permissions::from_mode(0o755)).unwrap();
            }
        }
        symlink(&middle, top.join("link")).unwrap();
        assert!(is_safe(&top.join("link/end")).is_err());
        assert!(is_safe(&middle).is_err());
        fs::remove_dir_all(&top).unwrap();
    }
}
