//! The memory behind a slot of another process, as one that means harm opens it.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Opens the segment of the other process that has a slot, by what the slot's file says.
pub fn segment_of(folder: &Path, slot: u16) -> File {
    let file = File::open(folder.join(format!("s{slot:04}"))).unwrap();
    let mut number = [0; 8];
    // One more than the descriptor's number (softrdma/src/shm/announcement.rs).
    file.read_exact_at(&mut number, 24).unwrap();
    // SAFETY: flock is a struct of integers, for which all zeroes is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_len) = (libc::F_WRLCK as i16, 1);
    // SAFETY: F_GETLK reads and writes the struct given.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) }, 0);
    let path = format!("/proc/{}/fd/{}", lock.l_pid, u64::from_ne_bytes(number) - 1);
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}
