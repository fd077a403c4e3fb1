//! Whether payload can go straight to a sibling process, against what the table in `softrdma::shm::copy` says
//! about the running kernel, and that it goes through shared memory where it cannot: `tests/yama/run` runs this
//! under each setting of `kernel.yama.ptrace_scope`.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use softrdma::shm::bounce::{CopyService, Local, Origin, Piece, Purpose, Registered, needed, transfer};
use softrdma::shm::copy::{Span, Way, admit_peers, probe};
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::child::begin;

fn status_of(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "a child was killed");
    libc::WEXITSTATUS(status)
}

/// What every target has at one address, since they are forked from the process that knows it.
static PAYLOAD: u64 = 0x1122_3344_5566_7788;

/// Opens everything, which is one word.
struct All;

impl Registered for All {
    fn with(&self, _: Purpose, _: &Origin, _: &Piece, access: &mut dyn FnMut()) -> bool {
        access();
        true
    }
}

/// A process in the next slot, which admits its peers or not, and helps them when it finds that they will need
/// it.
fn target(folder: &Arc<Folder>, slot: u16, admit: bool) -> libc::pid_t {
    let (mut told, mut tell) = std::io::pipe().unwrap();
    let pid = begin(|| {
        let admitted = admit && admit_peers();
        let mine = Arc::new(Segment::create(folder.clone()).unwrap());
        let service = CopyService::new(mine);
        if needed(admitted) {
            service.serve(Arc::new(All)).unwrap();
        }
        tell.write_all(&[0]).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    drop(tell);
    told.read_exact(&mut [0]).unwrap();
    assert!(Peer::open(folder, slot).is_ok());
    pid
}

fn way(folder: &Arc<Folder>, slot: u16) -> i32 {
    let peer = Peer::open(folder, slot).unwrap();
    match probe(&peer).unwrap() {
        Way::Direct(_) => 0,
        Way::Closed(errno) => {
            let me = Segment::create(folder.clone()).unwrap();
            let mut word = 0u64;
            let here = [Span { addr: (&raw mut word) as u64, len: 8 }];
            let there = [Piece { key: 1, addr: (&raw const PAYLOAD) as u64, len: 8 }];
            let limit = Duration::from_secs(300);
            // SAFETY: the only bytes written are `word`.
            let moved = unsafe {
                transfer(&me, &peer, Origin::NONE, Purpose::Read, &there, Local::Memory(&here), limit)
            };
            assert_eq!((moved, word), (Ok(()), PAYLOAD), "neither way is open");
            errno
        }
    }
}

/// Answers of parent and sibling, to targets that admit nobody and that admit all: 0 or an `errno` value.
fn answers(folder: &Arc<Folder>) -> [i32; 4] {
    let targets = [target(folder, 0, false), target(folder, 1, true)];
    let from_parent = [0, 1].map(|slot| way(folder, slot));
    let from_sibling = [0, 1].map(|slot| status_of(begin(|| way(folder, slot))));
    for pid in targets {
        // SAFETY: the process is our child; its status is not wanted.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
    [from_parent[0], from_parent[1], from_sibling[0], from_sibling[1]]
}

#[test]
fn the_kernel_allows_what_the_table_says() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let scope: Option<u8> = scope.map(|s| s.trim().parse().unwrap());
    let (open, closed) = (0, libc::EPERM);
    let expected = match scope {
        None | Some(0) => [open; 4],
        Some(1) => [open, open, closed, open],
        Some(_) => [closed; 4],
    };
    let path = PathBuf::from(format!("/dev/shm/ironverbs-test-copies-{}", std::process::id()));
    let config = Config { path: path.clone(), group: None };
    // In a child, which can become an unprivileged user: root may do anything under scopes 0 to 2.
    let stage = begin(|| {
        // SAFETY: plain system calls that only change this process.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
                assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
                assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
            }
        }
        let seen = answers(&Arc::new(Folder::open(&config).unwrap()));
        println!("ptrace_scope {scope:?}: parent {:?}, sibling {:?}", &seen[..2], &seen[2..]);
        assert_eq!(seen, expected);
        0
    });
    let status = status_of(stage);
    let _ = std::fs::remove_dir_all(&path);
    assert_eq!(status, 0);
}
