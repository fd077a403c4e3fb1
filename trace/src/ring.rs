//! A ring of records in shared memory that one thread writes and the command reads ([`record`](super::record)).
//!
//! What has no room waits until the command has taken something. Where the command is gone, writing ends.

use core::mem::size_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU32 as Counter;
use std::time::Duration;

use ironverbs_os::guard::uncancelled;

use super::record::{
    DATA, EMPTIES, EMPTY_PLACES, ENDED, Empty, Head, Header, LOST, MAGIC, NAME, READER, RING, ROOM, TAKEN,
    WRITTEN, kind,
};

/// Rings that this process has made, so that two of one thread's differ.
static MADE: Counter = Counter::new(0);
/// How long a writer sleeps that waits for room.
const NAP: Duration = Duration::from_micros(50);
/// How often it looks before it asks whether the command is there.
const LOOKS: u32 = 200;

/// The writing side.
pub struct Ring {
    memory: NonNull<u8>,
    written: u64,
    taken: u64,
}

impl Ring {
    /// Makes a ring in the trace's folder, by a name with that of the library, whose copy of this counts alone.
    ///
    /// # Errors
    /// Those of the system: the folder is gone, or there is no memory.
    pub fn create(folder: &OsStr, library: &str) -> io::Result<Self> {
        let folder = Path::new(folder);
        // SAFETY: asks for the thread's number.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let pid = std::process::id();
        let name = format!("{pid}-{tid}-{library}-{}", MADE.fetch_add(1, Ordering::Relaxed));
        let (fresh, whole) = (folder.join(format!("new-{name}")), folder.join(format!("{NAME}{name}")));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&fresh)?;
        let ring = Self::over(&file).inspect_err(|_| {
            let _ = fs::remove_file(&fresh);
        })?;
        let mut thread_name = [0_u8; 16];
        // SAFETY: the name has at most 16 bytes, for which there is room.
        unsafe { libc::prctl(libc::PR_GET_NAME, thread_name.as_mut_ptr()) };
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |file| {
            use std::os::unix::fs::MetadataExt;
            file.ino()
        });
        let head = Head { magic: MAGIC, pid, tid, namespace, name: thread_name };
        // SAFETY: the page is mapped, and nobody else knows the file yet.
        unsafe { ring.memory.cast::<Head>().write(head) };
        ring.publish(WRITTEN, 0);
        ring.publish(TAKEN, 0);
        fs::rename(&fresh, &whole)?;
        Ok(ring)
    }

    fn over(file: &File) -> io::Result<Self> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: there is room for the limit. Beyond it, a file that grows ends the process.
        if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } != 0 || limit.rlim_cur < RING as u64
        {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        // Room that is there now: a page that cannot be had later would end the process.
        // SAFETY: asks for room in a file.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, RING as i64) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                RING,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, written: 0, taken: 0 })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: aligned, and within the page that is mapped as long as this lives.
        unsafe { &*self.memory.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// A position, twice.
    fn publish(&self, at: usize, position: u64) {
        self.word(at).store(position, Ordering::Release);
        self.word(at + 8).store(!position, Ordering::Release);
    }

    /// How far the command has taken records, where that is whole and can be.
    fn look(&mut self) {
        let (position, inverted) =
            (self.word(TAKEN).load(Ordering::Acquire), self.word(TAKEN + 8).load(Ordering::Acquire));
        if position == !inverted && (self.taken..=self.written).contains(&position) {
            self.taken = position;
        }
    }

    /// Writes a record: its header, and the rest behind it in parts. `false` where the command is gone.
    ///
    /// The whole has at most [`LARGEST`](super::record::LARGEST) bytes.
    pub fn write(&mut self, folder: &OsStr, header: Header, parts: &[&[u8]]) -> bool {
        let bytes = size_of::<Header>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let size = bytes.next_multiple_of(8);
        let mut at = self.written as usize % ROOM;
        let skipped = if at + size > ROOM { ROOM - at } else { 0 };
        if !self.wait_for(folder, size + skipped) {
            return false;
        }
        if skipped > 0 {
            let pad = u64::from(skipped as u32) | u64::from(kind::PAD) << 32;
            // SAFETY: positions are multiples of 8 and within the room.
            unsafe { self.memory.as_ptr().add(DATA + at).cast::<u64>().write(pad) };
            at = 0;
        }
        let header = Header { size: size as u32, ..header };
        // SAFETY: there is room for `size` bytes, which the command does not read yet.
        unsafe {
            let mut to = self.memory.as_ptr().add(DATA + at);
            to.cast::<Header>().write(header);
            to = to.add(size_of::<Header>());
            for part in parts {
                to.copy_from_nonoverlapping(part.as_ptr(), part.len());
                to = to.add(part.len());
            }
        }
        self.written += (skipped + size) as u64;
        self.publish(WRITTEN, self.written);
        true
    }

    #[inline]
    fn wait_for(&mut self, folder: &OsStr, size: usize) -> bool {
        self.written - self.taken + size as u64 <= ROOM as u64 || uncancelled(|| self.wait(folder, size))
    }

    #[cold]
    fn wait(&mut self, folder: &OsStr, size: usize) -> bool {
        for looked in 1_u32.. {
            self.look();
            if self.written - self.taken + size as u64 <= ROOM as u64 {
                fence(Ordering::Acquire);
                return true;
            }
            if looked.is_multiple_of(LOOKS) && !is_read(folder) {
                return false;
            }
            std::thread::sleep(NAP);
        }
        false
    }

    /// Where polls that found nothing are counted.
    pub fn empties(&mut self) -> &mut [Empty; EMPTY_PLACES] {
        // SAFETY: within the page, aligned; the command only reads it, by system calls.
        unsafe { &mut *self.memory.as_ptr().add(EMPTIES).cast() }
    }

    /// Says that the thread has ended.
    pub fn end(&self) {
        // SAFETY: aligned, and within the page.
        let ended = unsafe { &*self.memory.as_ptr().add(ENDED).cast::<AtomicU32>() };
        ended.store(1, Ordering::Release);
    }

    /// Unmaps it. In a forked child, the parent's stays as it is.
    pub fn unmap(&mut self) {
        // SAFETY: the mapping made in `over`; its owner forgets it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), RING) };
    }
}

/// Has the command know that a thread's calls are not recorded.
pub fn say_lost(folder: &OsStr) {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let path = Path::new(folder).join(LOST);
    let _ = OpenOptions::new().write(true).create(true).mode(0o600).custom_flags(flags).open(path);
}

/// Whether the command that made the folder reads it: it holds a file there locked.
pub fn is_read(folder: &OsStr) -> bool {
    let Ok(file) = File::open(Path::new(folder).join(READER)) else { return false };
    // SAFETY: asks for a lock, which ends with the descriptor.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) != 0 }
}
