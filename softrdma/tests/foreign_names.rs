//! Names of the folder that a member gave to another file, and descriptors that the program gave to files of
//! its own.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softrdma::shm::Error;
use softrdma::shm::bell::{Bell, BellHandle};
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::child::in_child;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        Dir(PathBuf::from(format!("/dev/shm/ironverbs-test-names-{name}-{}", std::process::id())))
    }

    fn folder(&self) -> Arc<Folder> {
        Arc::new(Folder::open(&Config { path: self.0.clone(), group: None }).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names that begin so.
    fn names(&self, first: &str) -> Vec<String> {
        let names =
            std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(first)).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// It counts and closes descriptors, so it has a process to itself.
fn run_alone(test: impl FnOnce()) {
    assert_eq!(in_child(test), 0);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn exchange(one: &Path, other: &Path) {
    let name = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
    let (one, other) = (name(one), name(other));
    // SAFETY: both names are C strings that live across the call.
    let exchanged = unsafe {
        libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE)
    };
    assert_eq!(exchanged, 0);
}

/// Whether the process with this slot lives, as another process sees it.
fn seen_alive(folder: &Arc<Folder>, slot: u16) {
    run_alone(|| assert!(Peer::open(folder, slot).unwrap().lives()));
}

#[test]
fn a_second_name_of_the_own_segment_costs_no_descriptors() {
    run_alone(|| {
        let dir = Dir::new("link");
        let folder = dir.folder();
        let me = Segment::create(folder.clone()).unwrap();
        std::fs::hard_link(dir.path("s0000"), dir.path("s0005")).unwrap();
        let before = descriptors();
        for _ in 0..100 {
            // What a sender does each time that it tries a queue pair of slot 5.
            assert!(matches!(Peer::open(&folder, 5), Err(Error::Corrupt(_))));
        }
        assert_eq!(descriptors(), before);
        // Others do not take it for a peer either.
        run_alone(|| assert!(matches!(Peer::open(&folder, 5), Err(Error::Corrupt(_)))));
        std::fs::remove_file(dir.path("s0005")).unwrap();
        seen_alive(&folder, me.owner().slot());
    });
}

#[test]
fn looking_at_oneself_as_at_a_peer_costs_no_descriptors() {
    run_alone(|| {
        let dir = Dir::new("self");
        let folder = dir.folder();
        let me = Segment::create(folder.clone()).unwrap();
        let before = descriptors();
        for _ in 0..100 {
            assert!(Peer::open(&folder, 0).unwrap().lives());
        }
        assert_eq!(descriptors(), before);
        seen_alive(&folder, me.owner().slot());
    });
}

#[test]
fn a_bell_s_name_that_changes_its_meaning_all_the_time_costs_no_descriptors() {
    run_alone(|| {
        let dir = Dir::new("exchange");
        let folder = dir.folder();
        let me = Segment::create(folder.clone()).unwrap();
        let bell = Bell::new(&me).unwrap();
        let name = dir.path(&dir.names("b")[0]);
        // Under the other name a link to the segment, whose descriptors this process cannot close.
        std::fs::hard_link(dir.path("s0000"), dir.path("x")).unwrap();
        let (done, before) = (AtomicBool::new(false), descriptors());
        let (mut found, mut refused) = (0, 0);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    exchange(&name, &dir.path("x"));
                }
            });
            while found < 2000 || refused < 2000 {
                match BellHandle::find(&folder, me.owner(), bell.number()) {
                    Ok(_) => found += 1,
                    Err(e) => {
                        assert!(matches!(e, Error::Corrupt(_)), "{e}");
                        refused += 1;
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(descriptors(), before);
        std::fs::remove_file(dir.path("x")).unwrap();
    });
}

#[test]
fn what_has_the_name_of_a_bell_and_is_none_is_not_opened() {
    run_alone(|| {
        let dir = Dir::new("kinds");
        let folder = dir.folder();
        let me = Segment::create(folder.clone()).unwrap();
        let bell = Bell::new(&me).unwrap();
        let name = dir.path(&dir.names("b")[0]);
        let find = || BellHandle::find(&folder, me.owner(), bell.number());
        std::fs::hard_link(&name, dir.path("second")).unwrap();
        assert!(matches!(find(), Err(Error::Corrupt(_))), "a FIFO that has another name, too");
        std::fs::remove_file(dir.path("second")).unwrap();
        assert!(find().is_ok());
        std::fs::remove_file(&name).unwrap();
        std::os::unix::fs::symlink("/dev/null", &name).unwrap();
        assert!(matches!(find(), Err(Error::Corrupt(_))), "a link");
        std::fs::remove_file(&name).unwrap();
        std::fs::write(&name, "mine").unwrap();
        assert!(matches!(find(), Err(Error::Corrupt(_))), "a file");
        assert_eq!(std::fs::read(&name).unwrap(), b"mine");
    });
}

/// A program closes all descriptors, as daemons do, and opens files of its own: they stay as they are, and
/// stay open.
#[test]
fn a_descriptor_that_means_a_file_of_the_program_now_is_left_alone() {
    run_alone(|| {
        let dir = Dir::new("closed");
        let folder = dir.folder();
        let me = Segment::create(folder.clone()).unwrap();
        let (bell, number) = (Bell::new(&me).unwrap(), Bell::new(&me).unwrap().number());
        let handle = BellHandle::find(&folder, me.owner(), bell.number()).unwrap();
        bell.silence();
        // Everything from here on is the program's.
        // SAFETY: closes descriptors that belong to the values above, which is what is tested.
        assert_eq!(unsafe { libc::close_range(3, u32::MAX, 0) }, 0);
        let at = |n| dir.path(&format!("program-{n}"));
        let open = |n| {
            std::fs::write(at(n), "the program's").unwrap();
            OpenOptions::new().read(true).append(true).open(at(n)).unwrap()
        };
        let files: Vec<File> = (0..40).map(open).collect();
        assert!(files.iter().any(|file| file.as_raw_fd() == bell.fd()));
        handle.ring();
        bell.ring();
        bell.unring(1);
        // Taking rings, which a program does all the time, goes by a look that may be 100 ms old.
        std::thread::sleep(Duration::from_millis(200));
        bell.silence();
        assert_eq!(bell.waiting(), 0);
        assert!(BellHandle::find(&folder, me.owner(), number).is_err());
        assert_eq!(me.alloc(1 << 20, 64), Err(Error::Gone));
        drop((handle, bell, me, folder));
        for (n, mut file) in files.into_iter().enumerate() {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut file, &mut text).expect("it is open, and nobody closed it");
            assert_eq!(text, "the program's", "and nobody read from it, or wrote to it");
            assert_eq!(std::fs::read_to_string(at(n)).unwrap(), text);
        }
    });
}
