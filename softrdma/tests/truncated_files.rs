//! Whoever may enter the folder cuts, fills and replaces what is in it, and opens what he can of other
//! processes: nobody ends by a signal, and who knows each other goes on.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use softrdma::shm::Error;
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::child::in_child;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/ironverbs-test-cut-{name}-{}", std::process::id()));
        Dir(path)
    }

    fn folder(&self, group: Option<u32>) -> Arc<Folder> {
        Arc::new(Folder::open(&Config { path: self.0.clone(), group }).unwrap())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Cuts every file of the folder, and every one that a process has open, to this length.
fn cut(dir: &Dir, pid: libc::pid_t, len: u64) -> usize {
    let mut tried = 0;
    for folder in [dir.0.clone(), PathBuf::from(format!("/proc/{pid}/fd"))] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let target = std::fs::canonicalize(&path).unwrap_or_default();
            let text = std::fs::read_link(&path).unwrap_or_default();
            let is_memory = text.to_string_lossy().starts_with("/memfd:ironverbs");
            if (target.starts_with(&dir.0) || is_memory)
                && std::fs::metadata(&path).is_ok_and(|stat| stat.is_file())
                && let Ok(file) = OpenOptions::new().read(true).write(true).open(&path)
            {
                let _ = file.set_len(len);
                tried += 1;
            }
        }
    }
    tried
}

/// Makes holes of all memory that a process has open and that others may write.
fn punch(pid: libc::pid_t) -> usize {
    let memory = |path: &PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|text| text.to_string_lossy().starts_with("/memfd:ironverbs-segment"))
    };
    let paths = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|entry| entry.unwrap().path());
    let files =
        paths.filter(memory).map(|path| OpenOptions::new().read(true).write(true).open(path).unwrap());
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: plain system call on an open descriptor.
    files.filter(|file| unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, 1 << 30) } == 0).count()
}

fn nobody_ends(group: Option<u32>, name: &str) {
    let dir = Dir::new(name);
    let status = in_child(|| {
        let folder = dir.folder(group);
        let me = Segment::create(folder.clone()).unwrap();
        let block = me.alloc(1 << 20, 64).unwrap();
        let peer = Peer::open(&folder, 0).unwrap();
        // SAFETY: reads a number of the process.
        let pid = unsafe { libc::getpid() };
        for len in [4096, 64, 0] {
            assert_eq!(in_child(|| assert!(cut(&dir, pid, len) > 1)), 0);
            for at in (block.offset..block.offset + block.len).step_by(4096) {
                me.memory().u64(at).unwrap().store(at ^ len, Ordering::Relaxed);
                assert_eq!(peer.memory().u64(at).unwrap().load(Ordering::Relaxed), at ^ len);
            }
            // What has lost its beginning is no slot any more, and there is nothing else to see of it.
            assert_eq!(Peer::open(&folder, 0).is_err(), len < 40);
        }
        // Holes are all that others can make: zeroes.
        assert_eq!(in_child(|| assert!(punch(pid) > 0)), 0);
        for at in (block.offset..block.offset + block.len).step_by(4096) {
            assert_eq!(peer.memory().u64(at).unwrap().load(Ordering::Relaxed), 0);
            me.memory().u64(at).unwrap().store(at, Ordering::Relaxed);
        }
        assert!(peer.lives());
        assert!(me.alloc(4 << 20, 64).is_ok());
    });
    assert_eq!(status, 0, "ended so");
}

#[test]
fn nobody_ends_when_all_is_cut() {
    nobody_ends(None, "own");
}

#[test]
fn nobody_ends_when_all_is_cut_in_the_folder_of_a_group() {
    // SAFETY: reads a number of the process.
    nobody_ends(Some(unsafe { libc::getegid() }), "group");
}

#[test]
fn rubbish_under_a_slots_name_is_nobody() {
    let dir = Dir::new("rubbish");
    let status = in_child(|| {
        let folder = dir.folder(None);
        let _me = Segment::create(folder.clone()).unwrap();
        assert!(Peer::open(&folder, 0).is_ok());
        let path = dir.0.join("s0000");
        assert_eq!(
            in_child(|| {
                let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
                let mut honest = [0; 40];
                file.read_exact_at(&mut honest, 0).unwrap();
                for at in (0..32).filter(|at| !(12..16).contains(at)) {
                    let mut bytes = honest;
                    bytes[at] ^= 0x10;
                    file.write_all_at(&bytes, 0).unwrap();
                    assert!(Peer::open(&folder, 0).is_err(), "byte {at}");
                }
                file.write_all_at(&honest, 0).unwrap();
                assert!(Peer::open(&folder, 0).is_ok());
                // Nobody maps it, however long it is.
                file.set_len(1 << 40).unwrap();
                assert!(Peer::open(&folder, 0).is_ok());
            }),
            0
        );
    });
    assert_eq!(status, 0);
}

/// One that declares a file of its own under a slot's name, and has no sealed memory: nobody maps what it
/// offers.
#[test]
fn a_slot_without_sealed_memory_is_nobody() {
    let dir = Dir::new("unsealed");
    let status = in_child(|| {
        let folder = dir.folder(None);
        let me = Segment::create(folder.clone()).unwrap();
        let (mut wait, go) = std::io::pipe().unwrap();
        let (mut ready, say) = std::io::pipe().unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                in_child(|| {
                    use std::io::{Read, Write};
                    // SAFETY: the name is a C string constant.
                    let fd =
                        unsafe { libc::memfd_create(c"ironverbs-segment".as_ptr(), libc::MFD_ALLOW_SEALING) };
                    let pages = vec![0u8; 8192];
                    // SAFETY: `pages` is readable for its length.
                    assert_eq!(unsafe { libc::pwrite(fd, pages.as_ptr().cast(), 8192, 0) }, 8192);
                    let mut words = std::fs::read(dir.0.join("s0000")).unwrap();
                    words[24..32].copy_from_slice(&(fd as u64 + 1).to_ne_bytes());
                    let slot = softrdma::shm::lock::Owner::new(3, 99).unwrap();
                    words[16..24].copy_from_slice(&slot.word().to_ne_bytes());
                    std::fs::write(dir.0.join("s0003"), &words).unwrap();
                    let file = OpenOptions::new().read(true).write(true).open(dir.0.join("s0003")).unwrap();
                    // SAFETY: flock is a struct of integers; F_SETLK reads it.
                    unsafe {
                        let mut lock: libc::flock = std::mem::zeroed();
                        (lock.l_type, lock.l_len) = (libc::F_WRLCK as i16, 1);
                        assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock), 0);
                        assert_eq!(libc::fcntl(fd, libc::F_SETLK, &lock), 0);
                    }
                    (&say).write_all(&[1]).unwrap();
                    let _ = wait.read(&mut [0]);
                })
            });
            std::io::Read::read_exact(&mut ready, &mut [0]).unwrap();
            assert_eq!(Peer::open(&folder, 3).err(), Some(Error::Gone));
            std::io::Write::write_all(&mut &go, &[1]).unwrap();
        });
        drop(me);
    });
    assert_eq!(status, 0);
}
