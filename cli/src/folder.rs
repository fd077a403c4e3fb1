//! The folder in which processes write what the command reads: traced ones their rings, checked ones what was
//! found.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ironverbs_trace::record::{LOST, NAME, READER};

/// Rings that are open at a time; a program with more threads waits for some to end.
pub const MOST_RINGS: usize = 4096;

/// The folder; it goes with this.
pub struct Folder {
    path: PathBuf,
    /// Locked as long as rings are read: writers look.
    _reader: File,
}

/// Whether a file is locked by another process.
fn lock(file: &File) -> bool {
    // SAFETY: asks for a lock, which ends with the descriptor.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

impl Folder {
    /// Makes one, of memory where that can be. Those of one kind have a name in front of a number.
    pub fn make(prefix: &str) -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_left(&above, prefix);
        for number in 0_u32.. {
            let path = above.join(format!("{prefix}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 1000 => continue,
                Err(why) => return Err(why),
            }
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(READER));
            let reader = match made {
                Ok(reader) if lock(&reader) => reader,
                other => {
                    let _ = fs::remove_dir_all(&path);
                    return Err(other.err().unwrap_or_else(io::Error::last_os_error));
                }
            };
            return Ok(Self { path, _reader: reader });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Its full path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a thread could not write its calls.
    pub fn has_lost(&self) -> bool {
        self.path.join(LOST).exists()
    }

    /// Takes rings that are new out of the folder, at most so many.
    pub fn take(&self, most: usize) -> Vec<File> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let mut taken = Vec::new();
        for entry in entries.flatten() {
            if taken.len() >= most {
                break;
            }
            if !entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes()) {
                continue;
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(entry.path());
            match file {
                Ok(file) => taken.push(file),
                // No room for more: later.
                Err(why) if why.raw_os_error() == Some(libc::EMFILE) => break,
                Err(_) => {}
            }
            let _ = fs::remove_file(entry.path());
        }
        taken
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders of this user's whose command was killed.
fn remove_left(above: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(above) else { return };
    let mine = nix::unistd::geteuid().as_raw();
    let left: HashMap<OsString, PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()))
        .filter(|entry| entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == mine))
        .map(|entry| (entry.file_name(), entry.path()))
        .collect();
    for path in left.values() {
        let reader = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path.join(READER));
        if reader.is_ok_and(|reader| lock(&reader)) {
            let _ = fs::remove_dir_all(path);
        }
    }
}
