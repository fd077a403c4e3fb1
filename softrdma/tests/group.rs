//! The opt-in for a group: two of its users meet in a folder, a third is kept out. Needs root, who can become all of them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use softrdma::host::Error;
use softrdma::host::bell::{Bell, Rope};
use softrdma::host::copy::{Way, probe};
use softrdma::host::folder::{Config, Folder};
use softrdma::host::lock::{Acquired, Lock};
use softrdma::host::segment::{Peer, Segment};

const GROUP: u32 = 54_321;
const LIMIT: Duration = Duration::from_secs(20);

/// Runs `work` in a child that has become the user.
fn child_of_user(uid: u32, group: u32, work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child uses nothing of the other threads, and never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system calls that only change this child, and end it.
        unsafe {
            libc::alarm(60);
            assert_eq!(libc::setgroups(1, &group), 0);
            assert_eq!(libc::setresgid(uid, uid, uid), 0);
            assert_eq!(libc::setresuid(uid, uid, uid), 0);
            libc::prctl(libc::PR_SET_DUMPABLE, 1);
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err();
            libc::_exit(i32::from(failed));
        }
    }
    pid
}

fn succeeded(pid: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status == 0
}

fn open(path: &Path) -> softrdma::host::Result<Arc<Folder>> {
    Folder::open(&Config { path: path.to_path_buf(), group: Some(GROUP) }).map(Arc::new)
}

#[test]
#[ignore = "needs root"]
fn users_of_a_group_meet_and_others_do_not() {
    let path = PathBuf::from(format!("/dev/shm/ironverbs-test-group-{}", std::process::id()));
    let (mut ready, mut say_ready) = std::io::pipe().unwrap();
    let first = child_of_user(10_001, GROUP, || {
        let me = Segment::create(open(&path).unwrap()).unwrap();
        let (word, bell) = (me.alloc(64, 64).unwrap(), Bell::new(&me).unwrap());
        me.root(7).unwrap().store(word.offset, std::sync::atomic::Ordering::Release);
        say_ready.write_all(&bell.number().to_ne_bytes()).unwrap();
        let mut p = libc::pollfd { fd: bell.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `p` is one writable entry.
        assert_eq!(unsafe { libc::poll(&mut p, 1, 20_000) }, 1, "nobody rang");
        // The ringer dies with the lock, and is found dead.
        let lock = Lock::at(me.memory().u64(word.offset).unwrap());
        assert_eq!(lock.lock(me.owner(), &me, LIMIT), Some(Acquired::Recovered));
    });
    let mut number = [0; 4];
    ready.read_exact(&mut number).unwrap();
    let second = child_of_user(10_002, GROUP, || {
        let me = Segment::create(open(&path).unwrap()).unwrap();
        assert_eq!(me.owner().slot(), 1);
        let peer = Peer::open(me.folder(), 0).unwrap();
        assert!(peer.lives());
        // Another user's memory stays closed.
        assert_eq!(probe(&peer), Ok(Way::Closed(libc::EPERM)));
        let lock = Lock::at(peer.memory().u64(peer.root(7).unwrap()).unwrap());
        assert_eq!(lock.lock(me.owner(), &me, LIMIT), Some(Acquired::Clean));
        Rope::find(me.folder(), peer.owner(), u32::from_ne_bytes(number)).unwrap().ring();
        std::mem::forget(me);
    });
    assert!(succeeded(second) & succeeded(first));
    assert!(succeeded(child_of_user(10_003, 10_003, || {
        assert!(matches!(open(&path), Err(Error::Folder(_))));
    })));
    // The second user's leftover is the next one's to remove.
    assert!(succeeded(child_of_user(10_001, GROUP, || drop(Segment::create(open(&path).unwrap()).unwrap()))));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    std::fs::remove_dir_all(&path).unwrap();
}
