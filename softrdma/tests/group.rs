//! The opt-in for a group: its users meet in a folder, and others are kept out whatever they try. Needs root,
//! who can become all of them.

use std::fs::{DirBuilder, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use softrdma::shm::Error;
use softrdma::shm::bell::{Bell, BellHandle};
use softrdma::shm::copy::{Way, probe};
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::lock::{Acquired, Lock};
use softrdma::shm::segment::{Peer, Segment};

const GROUP: u32 = 54_321;
const LIMIT: Duration = Duration::from_secs(20);

/// Runs `work` in a child that has become the user, with a primary group of the same number and one more.
/// Children of the tests beside this one inherit its pipes, so a child waits for a byte: the end of a pipe
/// would come only with the end of all of them, two of which could wait for each other.
fn child_of_user(uid: u32, group: u32, work: impl FnOnce()) -> libc::pid_t {
    child_in_groups(uid, uid, group, work)
}

/// As [`child_of_user`], with another primary group.
fn child_in_groups(uid: u32, primary: u32, group: u32, work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child uses nothing of the other threads, and never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system calls that only change this child, and end it.
        unsafe {
            libc::alarm(300);
            assert_eq!(libc::setgroups(1, &group), 0);
            assert_eq!(libc::setresgid(primary, primary, primary), 0);
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

fn open(path: &Path) -> softrdma::shm::Result<Arc<Folder>> {
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
        BellHandle::find(me.folder(), peer.owner(), u32::from_ne_bytes(number)).unwrap().ring();
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

/// A folder for the folders of a test, with this mode and group.
struct Parent(PathBuf);

impl Parent {
    fn new(name: &str, mode: u32, group: u32) -> Self {
        let path = PathBuf::from(format!("/dev/shm/ironverbs-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        chown(&path, None, Some(group)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Parent(path)
    }

    fn names(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A primary group that members and outsiders have in common, as on many machines.
const USERS: u32 = 54_322;
const ROUNDS: usize = 2000;

/// An outsider who waits for a folder to be made never holds a descriptor of it, with which a slot could be
/// kept.
#[test]
#[ignore = "needs root"]
fn nobody_slips_in_while_the_folder_is_made() {
    let parent = Parent::new("race", 0o1777, 0);
    let path = |round: usize| parent.0.join(format!("folder-{round}"));
    let (stop, outsider_ends) = (parent.0.join("stop"), Instant::now() + Duration::from_secs(40));
    let (mut ready, mut say_ready) = std::io::pipe().unwrap();
    let outsider = child_in_groups(10_003, USERS, USERS, || {
        let (mut round, mut won) = (0, 0);
        say_ready.write_all(&[1]).unwrap();
        while (round == 0 || !stop.exists()) && Instant::now() < outsider_ends {
            for _ in 0..2000 {
                // Any name that stands for a folder now, made or half made.
                match std::fs::File::open(path(round)) {
                    Ok(_) => {
                        won += 1;
                        round += 1;
                    }
                    Err(e) if e.raw_os_error() == Some(libc::EACCES) => round += 1,
                    Err(_) => {}
                }
            }
        }
        assert!(round > 0, "the outsider saw no folder at all");
        assert_eq!(won, 0, "folders that the outsider got into");
    });
    ready.read_exact(&mut [0]).unwrap();
    let member = child_in_groups(10_001, USERS, GROUP, || {
        for round in 0..ROUNDS {
            drop(open(&path(round)).unwrap());
        }
    });
    let made = succeeded(member);
    std::fs::write(&stop, "").unwrap();
    assert!(succeeded(outsider) & made);
    assert_eq!(parent.names(), ROUNDS + 1);
}

/// Who may not give the folder to the group leaves nothing behind that locks out its members.
#[test]
#[ignore = "needs root"]
fn who_is_not_in_the_group_leaves_nothing_behind() {
    let parent = Parent::new("outsider", 0o1777, 0);
    let path = parent.0.join("folder");
    assert!(succeeded(child_of_user(10_003, USERS, || {
        assert!(matches!(open(&path), Err(Error::Os { call: "fchown", errno: libc::EPERM })));
    })));
    assert_eq!(parent.names(), 0);
    assert!(succeeded(child_of_user(10_001, GROUP, || drop(Segment::create(open(&path).unwrap()).unwrap()))));
}

/// Members that all make the folder at once find themselves in one.
#[test]
#[ignore = "needs root"]
fn members_that_make_the_folder_at_once_meet() {
    let parent = Parent::new("at-once", 0o1777, 0);
    for round in 0..20 {
        let path = parent.0.join(format!("folder-{round}"));
        let ((mut slots, mut say), (mut end, mut go)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let members = [10_001, 10_002, 10_004, 10_005].map(|uid| {
            child_of_user(uid, GROUP, || {
                let me = Segment::create(open(&path).unwrap()).unwrap();
                say.write_all(&me.owner().slot().to_ne_bytes()).unwrap();
                end.read_exact(&mut [0]).unwrap();
            })
        });
        // A member that fails says nothing.
        drop(say);
        let mut found = [0; 8];
        slots.read_exact(&mut found).unwrap();
        go.write_all(&[1; 4]).unwrap();
        assert!(members.map(succeeded).iter().all(|well| *well));
        let mut found: Vec<_> = found.chunks(2).map(|slot| u16::from_ne_bytes([slot[0], slot[1]])).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3]);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o770);
    }
    assert_eq!(parent.names(), 20);
}

/// In a set-group-id folder that everybody may write to, an outsider's folder belongs to the group, too.
#[test]
#[ignore = "needs root"]
fn a_group_that_the_parent_gave_proves_nothing() {
    let parent = Parent::new("setgid", 0o3777, GROUP);
    let path = parent.0.join("folder");
    assert!(succeeded(child_of_user(10_003, USERS, || {
        DirBuilder::new().mode(0o770).create(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
    })));
    let made = std::fs::metadata(&path).unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (10_003, GROUP, 0o770), "as a member's");
    assert!(succeeded(child_of_user(10_001, GROUP, || {
        assert!(matches!(open(&path), Err(Error::Folder(_))));
    })));
    // Where only members may write, the group proves it again.
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::set_permissions(&parent.0, Permissions::from_mode(0o2770)).unwrap();
    for uid in [10_001, 10_002] {
        assert!(succeeded(child_of_user(uid, GROUP, || drop(open(&path).unwrap()))));
    }
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o770);
}

/// Where everybody may rename everything, another user could decide in which of the victim's folders its
/// processes meet: only what was made for that serves there.
#[test]
#[ignore = "needs root"]
fn a_folder_that_others_may_replace_is_refused() {
    let parent = Parent::new("replaced", 0o777, 0);
    let own = |name: &str| Config { path: parent.0.join(name), group: None };
    let is_refused = |refused: bool| {
        succeeded(child_of_user(10_001, 10_001, || {
            assert_eq!(matches!(Folder::open(&own("folder")), Err(Error::Folder(_))), refused);
        }))
    };
    assert!(succeeded(child_of_user(10_001, 10_001, || {
        for name in ["folder", "private"] {
            DirBuilder::new().mode(0o700).create(parent.0.join(name)).unwrap();
        }
    })));
    assert!(succeeded(child_of_user(10_003, 10_003, || {
        std::fs::rename(parent.0.join("folder"), parent.0.join("away")).unwrap();
        std::fs::rename(parent.0.join("private"), parent.0.join("folder")).unwrap();
    })));
    assert!(is_refused(true));
    std::fs::set_permissions(&parent.0, Permissions::from_mode(0o1777)).unwrap();
    assert!(is_refused(false));
}

/// A private folder serves also where everybody may rename everything, as in an emptyDir of Kubernetes:
/// whatever others do to its name, its processes meet in no other folder, and theirs is closed.
#[test]
#[ignore = "needs root"]
fn a_private_folder_meets_where_everybody_may_rename() {
    const VICTIM: u32 = 10_001;
    const OUTSIDER: u32 = 10_003;
    let parent = Parent::new("renamed", 0o777, 0);
    let at = |name: &str| parent.0.join(name);
    let opened = |name: &str, group: Option<u32>| Folder::open(&Config { path: at(name), group });
    let as_user = |uid: u32, work: &dyn Fn()| assert!(succeeded(child_of_user(uid, uid, work)));
    let is_refused = |name: &str| {
        as_user(VICTIM, &|| assert!(matches!(opened(name, None), Err(Error::Folder(_))), "{name}"));
    };
    as_user(VICTIM, &|| drop(opened("other", None).unwrap()));
    let (mut ready, mut say_ready) = std::io::pipe().unwrap();
    let (mut end, mut go) = std::io::pipe().unwrap();
    let first = child_of_user(VICTIM, VICTIM, || {
        let me = Segment::create(Arc::new(opened("folder", None).unwrap())).unwrap();
        say_ready.write_all(&me.owner().slot().to_ne_bytes()).unwrap();
        end.read_exact(&mut [0]).unwrap();
    });
    ready.read_exact(&mut [0; 2]).unwrap();
    let meets = || {
        as_user(VICTIM, &|| {
            let me = Segment::create(Arc::new(opened("folder", None).unwrap())).unwrap();
            assert!(me.owner().slot() == 1 && Peer::open(me.folder(), 0).unwrap().lives());
        });
    };
    meets();
    as_user(OUTSIDER, &|| {
        let refused = std::fs::read_dir(at("folder")).map_err(|e| e.raw_os_error());
        assert_eq!(refused.err(), Some(Some(libc::EACCES)));
        std::fs::rename(at("folder"), at("away")).unwrap();
        std::fs::rename(at("other"), at("folder")).unwrap();
    });
    is_refused("folder");
    is_refused("away");
    as_user(OUTSIDER, &|| {
        std::fs::rename(at("folder"), at("other")).unwrap();
        DirBuilder::new().mode(0o700).create(at("folder")).unwrap();
        std::os::unix::fs::symlink("folder", at("folder").join(".name")).unwrap();
    });
    is_refused("folder");
    as_user(OUTSIDER, &|| {
        std::fs::remove_dir_all(at("folder")).unwrap();
        std::os::unix::fs::symlink(at("away"), at("folder")).unwrap();
    });
    is_refused("folder");
    as_user(OUTSIDER, &|| {
        std::fs::remove_file(at("folder")).unwrap();
        std::fs::rename(at("away"), at("folder")).unwrap();
    });
    meets();
    // The group of a folder proves nothing where folders are exchanged.
    assert!(succeeded(child_of_user(VICTIM, GROUP, || {
        assert!(matches!(opened("shared", Some(GROUP)), Err(Error::Folder(_))));
    })));
    go.write_all(&[1]).unwrap();
    assert!(succeeded(first));
    assert_eq!(parent.names(), 2);
}

/// Whoever exchanges the folder while it is made gets nothing done to another folder of its maker.
#[test]
#[ignore = "needs root"]
fn no_other_folder_is_changed_while_one_is_made() {
    const ROUNDS: usize = 300;
    const ENOUGH: usize = 5;
    let parent = Parent::new("exchanged", 0o777, 0);
    let (precious, stop) = (parent.0.join("precious"), parent.0.join("stop"));
    let enough = parent.0.join("enough");
    assert!(succeeded(child_of_user(10_001, 10_001, || {
        std::fs::create_dir(&precious).unwrap();
        std::fs::set_permissions(&precious, Permissions::from_mode(0o755)).unwrap();
        std::fs::write(precious.join("file"), "x").unwrap();
    })));
    let precious = std::fs::metadata(&precious).unwrap().ino();
    let ends = Instant::now() + Duration::from_secs(40);
    let outsider = child_of_user(10_003, 10_003, || {
        let c_path = |path: &Path| std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let mut exchanged = 0;
        while !stop.exists() && Instant::now() < ends {
            let mut names = Vec::new();
            let mut victims = PathBuf::new();
            for entry in std::fs::read_dir(&parent.0).unwrap().flatten() {
                if entry.ino() == precious {
                    victims = entry.path();
                } else if entry.file_name().as_encoded_bytes().starts_with(b".ironverbs-") {
                    names.push(entry.path());
                }
            }
            for name in names {
                let (one, other, at) = (c_path(&victims), c_path(&name), libc::AT_FDCWD);
                // SAFETY: both are C strings that live across the call.
                let done =
                    unsafe { libc::renameat2(at, one.as_ptr(), at, other.as_ptr(), libc::RENAME_EXCHANGE) };
                exchanged += usize::from(done == 0);
                if exchanged == ENOUGH {
                    std::fs::write(&enough, "").unwrap();
                }
                victims = if done == 0 { name } else { victims };
            }
        }
        assert!(exchanged >= ENOUGH, "only {exchanged} were exchanged");
    });
    assert!(succeeded(child_of_user(10_001, 10_001, || {
        let mut round = 0;
        while round < ROUNDS || (!enough.exists() && Instant::now() < ends) {
            let path = parent.0.join(format!("folder-{round}"));
            round += 1;
            // It may be refused, since it may not be what it should be.
            if Folder::open(&Config { path: path.clone(), group: None }).is_ok() {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    })));
    std::fs::write(&stop, "").unwrap();
    let attacked = succeeded(outsider);
    let entry =
        std::fs::read_dir(&parent.0).unwrap().flatten().find(|entry| entry.ino() == precious).unwrap();
    assert_eq!(entry.metadata().unwrap().mode() & 0o7777, 0o755, "after it was exchanged: {attacked}");
    assert_eq!(std::fs::read_dir(entry.path()).unwrap().count(), 1);
    assert!(attacked);
}
