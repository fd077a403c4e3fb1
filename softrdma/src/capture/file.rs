//! A file of packets (pcapng, <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html>) that several
//! processes write at a time.
//!
//! Each call appends whole blocks by one system call, and the kernel puts them behind each other. Who opens a
//! file that is empty writes its first blocks, behind a lock. Of a ring, the file has its name while it is
//! written; when it is full, whoever sees that first renames the older ones, the oldest falls out, and the
//! others find that the name means another file.

use std::collections::TryReserveError;
use std::fs::{self, File as Open, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ironverbs_os::fork::ProcessMutex;
use ironverbs_os::growth::TryPush;
use ironverbs_os::sys;

use crate::shm::room::file_limit;

/// Bytes of a packet that are kept where nothing else is asked for: all.
const WHOLE: u32 = 262_144;
/// Bytes of a file of a ring.
pub const RING_BYTES: u64 = if cfg!(test) { 4096 } else { 16 << 20 };
/// Files that a ring may have.
pub const MOST_FILES: u32 = 1000;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Packets begin with the header of IP.
const LINK_RAW: u32 = 101;

/// The file that is written.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    snap: u32,
    ring: Option<u32>,
    /// None in a forked child, which opens it again.
    open: ProcessMutex<Option<Opened>>,
    failed: AtomicBool,
}

/// The file as it was opened.
#[derive(Debug)]
struct Opened {
    file: ManuallyDrop<Open>,
    /// Device and inode.
    identity: (u64, u64),
}

impl Opened {
    /// The lowest number that its descriptor has where there are enough: programs choose low ones.
    const FLOOR: libc::c_int = 1024;

    fn new(path: &Path, snap: u32) -> io::Result<Self> {
        let file = open(path, snap)?;
        // SAFETY: takes no pointer; the new descriptor is of the same open file, with its lock.
        let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, Self::FLOOR) };
        let file = match high {
            0.. => {
                // SAFETY: just made, and nobody else's.
                unsafe { Open::from_raw_fd(high) }
            }
            _ => file,
        };
        let identity = identity(&file.metadata()?);
        Ok(Self { file: ManuallyDrop::new(file), identity })
    }

    /// Bytes of the file; `None` where the program has closed the descriptor, or has another file there by now,
    /// which is left alone.
    fn length(&self) -> Option<u64> {
        let now = self.file.metadata().ok()?;
        (identity(&now) == self.identity).then_some(now.len())
    }

    fn close(mut self) {
        // SAFETY: the last use of it.
        unsafe { ManuallyDrop::drop(&mut self.file) };
    }
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Nanoseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// The blocks that a file begins with: one interface, whose packets have times in nanoseconds.
fn first_blocks(snap: u32) -> [u8; 76] {
    const fn option(code: u32, bytes: u32) -> u32 {
        bytes << 16 | code
    }
    let text = u32::from_le_bytes;
    let section = [SECTION, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let (name, resolution) = (option(2, 9), option(9, 1));
    let interface = [INTERFACE, 48, LINK_RAW, snap, name, text(*b"iron"), text(*b"verb"), text(*b"s\0\0\0")];
    let end = [resolution, 9, 0, 48];
    let mut blocks = [0; 76];
    let words = section.iter().chain(&interface).chain(&end);
    for (to, word) in blocks.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    blocks
}

fn locked<T>(open: &Open, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: takes no pointer; the descriptor is open.
    while unsafe { libc::flock(open.as_raw_fd(), libc::LOCK_EX) } != 0 {
        let why = io::Error::last_os_error();
        if why.raw_os_error() != Some(libc::EINTR) {
            return Err(why);
        }
    }
    let done = act();
    // SAFETY: as above.
    unsafe { libc::flock(open.as_raw_fd(), libc::LOCK_UN) };
    done
}

impl File {
    /// Opens the file to append to it, and makes it where it is missing.
    ///
    /// # Errors
    /// Those of the system; what is there and no ordinary file.
    pub fn open(path: &Path, snap: Option<u32>, ring: Option<u32>) -> io::Result<Self> {
        let snap = snap.filter(|snap| *snap > 0).map_or(WHOLE, |snap| snap.min(WHOLE));
        let ring = ring.filter(|ring| *ring > 0).map(|ring| ring.min(MOST_FILES));
        let open = ProcessMutex::new(Some(Opened::new(path, snap)?));
        Ok(File { path: path.to_owned(), snap, ring, open, failed: false.into() })
    }

    /// Empties the file for a capture that begins now, unless a process is writing to it: that one's goes on.
    ///
    /// # Errors
    /// As those of [`File::open`].
    pub fn begin(path: &Path, snap: Option<u32>, ring: Option<u32>) -> io::Result<()> {
        let file = Self::open(path, snap, ring)?;
        let opened = file.open.lock().map_err(|why| io::Error::from_raw_os_error(why.errno))?.take();
        opened.into_iter().for_each(Opened::close);
        let emptied = reach(path)?;
        if !mark(&emptied, libc::F_WRLCK) {
            return Ok(());
        }
        locked(&emptied, || {
            emptied.set_len(0)?;
            (&emptied).write_all(&first_blocks(file.snap))
        })?;
        for nth in 1..file.ring.unwrap_or(0) {
            match fs::remove_file(file.older(nth)) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }

    /// The name of the file that was full so many files ago.
    fn older(&self, nth: u32) -> PathBuf {
        let stem = self.path.file_stem().unwrap_or_default().to_owned();
        let mut name = stem;
        name.push(format!("-{nth}"));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        self.path.with_file_name(name)
    }

    /// Adds the block of a packet that stands in pieces.
    ///
    /// # Errors
    /// There is no memory; nothing was added.
    pub(super) fn block(&self, to: &mut Vec<u8>, time: u64, pieces: &[&[u8]]) -> Result<(), TryReserveError> {
        let whole: usize = pieces.iter().map(|piece| piece.len()).sum();
        let kept = whole.min(self.snap as usize);
        let length = 32 + kept.next_multiple_of(4);
        to.try_reserve(length)?;
        let mut put = |bytes: &[u8]| bytes.iter().for_each(|byte| to.push_reserved(*byte));
        let head = [PACKET, length as u32, 0, (time >> 32) as u32, time as u32, kept as u32, whole as u32];
        put(head.map(u32::to_le_bytes).as_flattened());
        let mut left = kept;
        for piece in pieces {
            let some = piece.len().min(left);
            put(&piece[..some]);
            left -= some;
        }
        put(&[0; 3][..kept.next_multiple_of(4) - kept]);
        put(&(length as u32).to_le_bytes());
        Ok(())
    }

    /// Appends blocks. What cannot be written is said once, and nothing is written afterwards.
    pub(super) fn append(&self, blocks: &[u8]) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut file) = self.open.lock() else { return };
        if let Err(why) = sys::uncancelled(|| self.write(&mut file, blocks))
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            eprintln!("ironverbs: the capture in {} ends: {why}", self.path.display());
        }
    }

    fn write(&self, opened: &mut Option<Opened>, blocks: &[u8]) -> io::Result<()> {
        let (file, mut length) = match opened.as_ref().and_then(Opened::length) {
            Some(length) => (opened.as_mut(), length),
            None => (None, 0),
        };
        let file = match file {
            Some(file) => file,
            None => {
                let fresh = opened.insert(Opened::new(&self.path, self.snap)?);
                length = fresh.length().unwrap_or(0);
                fresh
            }
        };
        if self.ring.is_some() && self.turn(file, length)? {
            length = file.length().unwrap_or(0);
        }
        // A longer file would end the process by a signal.
        if length.saturating_add(blocks.len() as u64) > file_limit() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        file.file.write_all(blocks)
    }

    /// Goes on with another file where this one is full, or is it no longer; whether it does.
    fn turn(&self, opened: &mut Opened, length: u64) -> io::Result<bool> {
        let now = opened.identity;
        let is = |path: &Path| fs::metadata(path).is_ok_and(|there| identity(&there) == now);
        let another = |opened: &mut Opened| {
            std::mem::replace(opened, Opened::new(&self.path, self.snap)?).close();
            Ok(true)
        };
        if !is(&self.path) {
            return another(opened);
        }
        if length < RING_BYTES {
            return Ok(false);
        }
        locked(&opened.file, || {
            // Another process may have done it while this one waited.
            if !is(&self.path) {
                return Ok(());
            }
            let last = self.ring.unwrap_or(1);
            if last == 1 {
                return fs::remove_file(&self.path);
            }
            for nth in (1..last).rev() {
                let from = if nth == 1 { self.path.clone() } else { self.older(nth - 1) };
                match fs::rename(from, self.older(nth)) {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                    _ => {}
                }
            }
            Ok(())
        })?;
        another(opened)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let opened = self.open.try_lock().and_then(|mut opened| opened.take());
        opened.filter(|opened| opened.length().is_some()).into_iter().for_each(Opened::close);
    }
}

/// Opens the file, or makes it.
fn reach(path: &Path) -> io::Result<Open> {
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(true).mode(0o600);
    let file = options.custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    Ok(file)
}

/// Says by a lock of its first byte that a process writes to the file (`F_RDLCK`), or asks whether none does
/// (`F_WRLCK`); whether the lock was had. It ends with the descriptor.
fn mark(file: &Open, kind: libc::c_int) -> bool {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the struct is whole, and the descriptor open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
}

fn open(path: &Path, snap: u32) -> io::Result<Open> {
    let file = reach(path)?;
    // Where the file system has no such locks, a later command empties the file.
    mark(&file, libc::F_RDLCK);
    locked(&file, || match file.metadata()?.len() {
        0 => (&file).write_all(&first_blocks(snap)),
        _ => Ok(()),
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::testing::TestDir;

    /// The lengths of the packets in a file, as they were and as they are kept.
    fn packets(path: &Path) -> Vec<(u32, u32)> {
        let bytes = fs::read(path).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut all) = (0, Vec::new());
        while at < bytes.len() {
            let length = word(at + 4) as usize;
            assert_eq!(word(at + length - 4) as usize, length);
            match (at, word(at)) {
                (0, SECTION) | (28, INTERFACE) => {}
                (_, kind) => {
                    assert_eq!(kind, PACKET);
                    all.push((word(at + 24), word(at + 20)));
                }
            }
            at += length;
        }
        all
    }

    fn append(file: &File, bytes: usize) {
        let mut blocks = Vec::new();
        file.block(&mut blocks, now(), &[&vec![1; bytes - 1], &[2]]).unwrap();
        file.append(&blocks);
    }

    #[test]
    fn several_write_to_one_file() {
        let dir = TestDir::new("capture");
        let path = dir.path().join("a.pcapng");
        File::begin(&path, Some(20), None).unwrap();
        let files = [(); 2].map(|()| File::open(&path, Some(20), None).unwrap());
        append(&files[0], 7);
        append(&files[1], 33);
        // Somebody writes: a capture that begins goes on with it.
        File::begin(&path, None, None).unwrap();
        append(&files[0], 20);
        assert_eq!(packets(&path), [(7, 7), (33, 20), (20, 20)]);
        drop(files);
        File::begin(&path, None, None).unwrap();
        assert_eq!(packets(&path), []);
    }

    #[test]
    fn a_ring_keeps_the_newest() {
        let dir = TestDir::new("capture");
        let path = dir.path().join("a.b.pcapng");
        let files = [(); 2].map(|()| File::open(&path, None, Some(3)).unwrap());
        for n in 0..40 {
            append(&files[n % 2], 1000 + n);
        }
        let named = |nth: u32| packets(&files[0].older(nth)).into_iter().map(|packet| packet.0);
        assert_eq!(files[0].older(1), dir.path().join("a.b-1.pcapng"));
        assert!(!files[0].older(3).exists());
        let kept: Vec<_> =
            named(2).chain(named(1)).chain(packets(&path).into_iter().map(|one| one.0)).collect();
        assert!(kept.len() >= 8, "{kept:?}");
        let expected: Vec<u32> = (1040 - kept.len() as u32..1040).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn a_descriptor_that_the_program_took_is_left_alone() {
        let dir = TestDir::new("capture");
        let path = dir.path().join("a.pcapng");
        let file = File::open(&path, None, None).unwrap();
        let fd = file.open.lock().unwrap().as_ref().unwrap().file.as_raw_fd();
        let other = Open::create_new(dir.path().join("other")).unwrap();
        // SAFETY: takes no pointer; what has the number is the capture's, which looks at it.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        append(&file, 7);
        append(&file, 8);
        assert_eq!(packets(&path), [(7, 7), (8, 8)]);
        assert_eq!(other.metadata().unwrap().len(), 0);
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(File::open(Path::new("/dev/null"), None, None).is_err());
        assert!(File::open(Path::new("/nowhere/a"), None, None).is_err());
    }
}
