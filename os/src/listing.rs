//! The names in a folder, read without asking for memory: also where the process ends within the allocator.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::{Error, Result};

/// Bytes of names that are read at once.
const ROOM: usize = 2048;
/// Where an entry's length and its name begin (`struct linux_dirent64`).
const AT_LENGTH: usize = 16;
const AT_NAME: usize = 19;

/// Tells all names in a folder but `.` and `..`, of which there may be more than there is memory for. Ends at
/// the first error. The folder was opened for this, since reading moves its position.
///
/// # Errors
/// Those of the system, and of `tell`.
pub fn each_name<E: From<Error>>(
    folder: BorrowedFd<'_>,
    mut tell: impl FnMut(&CStr) -> Result<(), E>,
) -> Result<(), E> {
    let mut room = [0u8; ROOM];
    loop {
        let mut entries = read(folder, &mut room)?;
        if entries.is_empty() {
            return Ok(());
        }
        while let Some((name, rest)) = next(entries) {
            if name != c"." && name != c".." {
                tell(name)?;
            }
            entries = rest;
        }
    }
}

/// The entries that follow; none at the end.
fn read<'a>(folder: BorrowedFd<'_>, room: &'a mut [u8]) -> Result<&'a [u8]> {
    // SAFETY: the kernel writes as many bytes as there is room for.
    let length =
        unsafe { libc::syscall(libc::SYS_getdents64, folder.as_raw_fd(), room.as_mut_ptr(), room.len()) };
    let length = usize::try_from(length).map_err(|_| Error::last("getdents64"))?;
    Ok(room.get(..length).unwrap_or_default())
}

/// The name of the first entry, and what is behind it.
fn next(entries: &[u8]) -> Option<(&CStr, &[u8])> {
    let length = entries.get(AT_LENGTH..)?.first_chunk().map(|two| usize::from(u16::from_ne_bytes(*two)))?;
    let (entry, rest) = entries.split_at_checked(length)?;
    Some((CStr::from_bytes_until_nul(entry.get(AT_NAME..)?).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::CString;
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn all_names_of_several_reads_are_told() {
        let folder = std::env::temp_dir().join(format!("ironverbs-os-listing-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let wanted: BTreeSet<_> = (0..200).map(|n| format!("{n}{}", "x".repeat(n))).collect();
        for name in &wanted {
            File::create(folder.join(name)).unwrap();
        }
        let mut told = BTreeSet::new();
        let open = File::open(&folder).unwrap();
        each_name(open.as_fd(), |name| {
            assert!(told.insert(CString::from(name).into_string().unwrap()), "once");
            Ok::<_, Error>(())
        })
        .unwrap();
        assert_eq!(told, wanted);
        std::fs::remove_dir_all(folder).unwrap();
        let none = File::open("/dev/null").unwrap();
        assert_eq!(
            each_name(none.as_fd(), |_| Ok(())),
            Err(Error { call: "getdents64", errno: libc::ENOTDIR })
        );
    }
}
