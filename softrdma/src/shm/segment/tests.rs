use super::super::testing::{TestDir, in_child};
use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn claim_and_release() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let a = Segment::create(folder.clone()).unwrap();
    let b = Segment::create(folder.clone()).unwrap();
    assert_eq!((a.owner().slot(), b.owner().slot()), (0, 1));
    assert!(a.is_listed() && b.is_listed() && a.is_mine());
    let seen = Peer::open(&folder, 0).unwrap();
    assert_eq!(seen.owner(), a.owner());
    assert!(seen.lives());
    assert!(b.lives(a.owner()) && a.lives(b.owner()) && a.lives(a.owner()));
    let before = a.owner();
    drop(a);
    assert!(!b.lives(before));
    assert!(matches!(Peer::open(&folder, 0), Err(Error::Gone)));
    let again = Segment::create(folder.clone()).unwrap();
    assert_eq!(again.owner().slot(), 0);
    assert_ne!(again.owner(), before);
    assert!(!b.lives(before) && b.lives(again.owner()));
    drop((again, b));
    assert!(folder.names().unwrap().is_empty());
}

/// It may have all that the folder's file system takes.
#[test]
fn what_the_dead_left_goes_before_anything_is_made() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let left = slot::bell_name(Owner::new(7, 77).unwrap(), 0);
    nix::unistd::mkfifoat(folder.fd().unwrap(), left.as_c_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = in_child(|| {
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE, 0, 0).unwrap();
        matches!(Segment::create(folder.clone()), Err(Error::NoMemory))
    });
    assert_eq!(refused, 0);
    assert!(folder.names().unwrap().is_empty());
}

/// Two processes of one user connect, as their queue pairs do: first the process that `closes` itself to
/// its like, then the other one, which `lacks` what it takes to look at it. Whether both find each other.
fn meet(user: Option<u32>, closes: fn(), lacks: fn()) -> bool {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    in_child(|| {
        if let Some(user) = user {
            // SAFETY: the child gives up rights.
            unsafe {
                assert_eq!(libc::setresuid(user, user, user), 0);
                assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
            }
        }
        let dir = TestDir::new("meet");
        let folder = dir.folder();
        let status = in_child(|| {
            let me = Segment::create(folder.clone()).unwrap();
            closes();
            // SAFETY: the child does nothing but this test.
            let other = unsafe { libc::fork() };
            if other == 0 {
                drop(me);
                lacks();
                let me = Segment::create(folder.clone()).unwrap();
                theirs.write_all(&[me.owner().slot() as u8]).unwrap();
                theirs.read_exact(&mut [0]).unwrap();
                let found = Peer::open_for(&me, 0);
                theirs.write_all(&[u8::from(found.is_ok())]).unwrap();
                // SAFETY: ends the process without running what belongs to the parent.
                unsafe { libc::_exit(0) };
            }
            let mut byte = [0];
            ours.read_exact(&mut byte).unwrap();
            let seen = Peer::open_for(&me, byte[0].into()).is_ok();
            ours.write_all(&[0]).unwrap();
            ours.read_exact(&mut byte).unwrap();
            seen && byte[0] == 1
        });
        status == 0
    }) == 0
}

/// No user of the system, where the test is run by root, who may look at everything.
fn nobody() -> Option<u32> {
    // SAFETY: reads a number of the process.
    (unsafe { libc::geteuid() } == 0).then_some(54321)
}

#[test]
fn who_closes_itself_after_it_came_is_found() {
    // SAFETY: the call changes a flag of the process.
    let closes = || assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
    assert!(meet(nobody(), || (), || ()));
    assert!(meet(nobody(), closes, || ()));
}

#[test]
#[ignore = "needs root"]
fn who_has_more_capabilities_is_found() {
    fn lacks() {
        let header = [0x2008_0522u32, 0];
        // SAFETY: the process gives up all capabilities; both structs are as large as this version's.
        let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), [0u32; 6].as_ptr()) };
        assert_eq!(done, 0);
    }
    assert!(meet(None, || (), || ()));
    assert!(meet(None, || (), lacks));
}

/// Looking at the own segment as a peer does must not end the declaration of life.
#[test]
fn looking_at_oneself_is_not_deadly() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let a = Segment::create(folder.clone()).unwrap();
    drop(Peer::open(&folder, a.owner().slot()).unwrap());
    assert!(slot::standing(&folder, a.owner()) == Standing::Alive);
    for _ in 0..2000 {
        // Costs no descriptor either.
        slot::sweep(&folder).unwrap();
    }
    let owner = a.owner();
    let status = in_child(|| {
        slot::standing(&folder, owner) == Standing::Alive
            && Peer::open(&folder, owner.slot()).unwrap().lives()
    });
    assert_eq!(status, 0);
}

#[test]
fn a_child_has_not_its_parents_segment() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let mut a = Some(Segment::create(folder.clone()).unwrap());
    let owner = a.as_ref().unwrap().owner();
    let status = in_child(|| {
        let Some(mine) = a.take() else { return false };
        let refused = !mine.is_mine() && mine.alloc(64, 64) == Err(Error::Forked);
        drop(mine);
        let own = Segment::create(folder.clone()).unwrap();
        let seen = Peer::open(&folder, owner.slot()).unwrap();
        // SAFETY: reads a number of the process.
        let parent = unsafe { libc::getppid() };
        refused && own.owner().slot() != owner.slot() && own.lives(owner) && seen.pid() == Ok(Some(parent))
    });
    assert_eq!(status, 0);
    let a = a.unwrap();
    assert!(a.is_listed() && slot::standing(&folder, owner) == Standing::Alive);
    drop(a);
    assert!(folder.names().unwrap().is_empty());
}

#[test]
fn a_dead_claim_is_taken_over_with_a_new_file() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let status = in_child(|| {
        std::mem::forget(Segment::create(folder.clone()).unwrap());
        true
    });
    assert_eq!(status, 0);
    assert_eq!(folder.names().unwrap().len(), 1);
    let old = folder.open_file(&slot::file_name(0), 0).unwrap();
    let a = Segment::create(folder.clone()).unwrap();
    assert_eq!(a.owner().slot(), 0);
    assert!(!slot::names(&folder, &slot::file_name(0), old.as_raw_fd()));
    assert_ne!(announcement::signature(old.as_raw_fd()), Some(a.owner().word()));
    assert_eq!(folder.names().unwrap().len(), 1);
}

#[test]
fn memory_grows_and_is_reused() {
    let dir = TestDir::new("segment");
    let a = Segment::create(dir.folder()).unwrap();
    let seen = Peer::open(a.folder(), 0).unwrap();
    let one = a.alloc(100, 64).unwrap();
    assert_eq!((one.offset, one.len), (4096, 128));
    a.memory().write(one.offset, &[0xff; 128]).unwrap();
    let big = a.alloc(3 << 20, 4096).unwrap();
    assert_eq!(big.offset % 4096, 0);
    assert!(seen.memory().u64(big.offset + big.len - 8).is_err());
    seen.refresh().unwrap();
    a.memory().u64(big.offset + big.len - 8).unwrap().store(7, Ordering::Relaxed);
    assert_eq!(seen.memory().u64(big.offset + big.len - 8).unwrap().load(Ordering::Relaxed), 7);
    a.free(one);
    let again = a.alloc(128, 64).unwrap();
    assert_eq!(again, one);
    assert_eq!(a.memory().u64(again.offset).unwrap().load(Ordering::Relaxed), 0);
    assert_eq!(a.alloc(64, 3), Err(Error::OutOfBounds));
    assert_eq!(a.alloc(1 << 60, 64), Err(Error::NoMemory));
    assert_eq!(a.alloc(u64::MAX, 64), Err(Error::NoMemory));
    assert!(a.alloc(64, 64).is_ok());
}

#[test]
fn a_folder_that_was_emptied_is_no_death() {
    for whole in [false, true] {
        let dir = TestDir::new("segment");
        let me = Segment::create(dir.folder()).unwrap();
        let other = Segment::create(me.folder().clone()).unwrap();
        let path = me.folder().path().to_owned();
        std::fs::remove_file(path.join("s0001")).unwrap();
        assert!(!me.lives(other.owner()), "given back, as far as can be seen");
        std::fs::remove_file(path.join("s0000")).unwrap();
        if whole {
            std::fs::remove_dir(&path).unwrap();
        }
        assert!(me.lives(other.owner()));
    }
}

/// A process that lost its slot by closing a descriptor of its file does not take the next one there for
/// dead.
#[test]
fn who_lost_its_slot_sees_its_successor_live() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let status = in_child(|| {
        let me = Segment::create(folder.clone()).unwrap();
        drop(std::fs::File::open(folder.path().join("s0000")).unwrap());
        let (mut here, mut there) = UnixStream::pair().unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                in_child(|| {
                    let next = Segment::create(folder.clone()).unwrap();
                    there.write_all(&next.owner().word().to_ne_bytes()).unwrap();
                    there.read_exact(&mut [0]).is_ok()
                })
            });
            let mut word = [0; 8];
            here.read_exact(&mut word).unwrap();
            let next = Owner::from_word(u64::from_ne_bytes(word)).unwrap();
            let seen = next.slot() == me.owner().slot() && !me.is_listed() && me.lives(next);
            here.write_all(&[1]).unwrap();
            seen
        })
    });
    assert_eq!(status, 0);
}

#[test]
fn a_signature_that_cannot_be_read_is_no_death() {
    let dir = TestDir::new("segment");
    let me = Segment::create(dir.folder()).unwrap();
    let other = Segment::create(me.folder().clone()).unwrap();
    let next = Owner::new(other.owner().slot(), other.owner().epoch() ^ 1).unwrap();
    assert!(me.lives(other.owner()) && !me.lives(next));
    let path = me.folder().path().join("s0001");
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `path` is a C string; nothing looks into the other segment any more.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), 8) }, 0);
    assert!(me.lives(other.owner()));
}

#[test]
fn a_block_that_begins_in_a_used_tail_is_zero() {
    let dir = TestDir::new("segment");
    let a = Segment::create(dir.folder()).unwrap();
    let tail = a.alloc(GROWTH - HEADER, 64).unwrap();
    assert_eq!(a.memory().len() as u64, GROWTH);
    a.memory().write(tail.offset, &vec![0xff; tail.len as usize]).unwrap();
    a.free(tail);
    let grown = a.alloc(2 * GROWTH, 64).unwrap();
    assert_eq!(grown.offset, tail.offset);
    let mut bytes = vec![1; grown.len as usize];
    a.memory().read(grown.offset, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_size_limit_is_no_memory_and_no_signal() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let status = in_child(|| {
        let limit = libc::rlimit { rlim_cur: 200 << 10, rlim_max: libc::RLIM_INFINITY };
        let a = Segment::create(folder.clone()).unwrap();
        // SAFETY: reads the struct given.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
        a.alloc(1 << 20, 64) == Err(Error::NoMemory) && a.alloc(64 << 10, 64).is_ok()
    });
    assert_eq!(status, 0);
}

#[test]
fn descriptors_that_run_out_close_no_way_for_good() {
    let dir = TestDir::new("segment");
    let a = Segment::create(dir.folder()).unwrap();
    let status = in_child(|| {
        let limit = libc::rlimit { rlim_cur: 128, rlim_max: 128 };
        // SAFETY: reads the struct given.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        let mut all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        // For the segment, for a look at the sealed memory, and for the sealed memory itself.
        for _ in 0..3 {
            let opened = Peer::open(a.folder(), 0);
            assert_eq!(opened.err().map(Error::errno), Some(libc::EMFILE));
            all.pop();
        }
        Peer::open(a.folder(), 0).is_ok_and(|peer| peer.image().is_some())
    });
    assert_eq!(status, 0);
}

/// A full file system is an error of the claim, never a signal later, and takes nothing from who has
/// claimed. Needs root, who can mount one.
#[test]
#[ignore = "needs root"]
fn a_full_file_system_is_no_memory() {
    let dir = TestDir::new("segment");
    let status = in_child(|| {
        let at = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
        // SAFETY: plain system calls with C strings that live across them; the mounts are this child's
        // alone.
        unsafe {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let none = std::ptr::null();
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            assert_eq!(libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()), 0);
            let size = c"size=64k".as_ptr().cast();
            assert_eq!(libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, size), 0);
        }
        let a = Segment::create(dir.folder()).unwrap();
        let mut others = Vec::new();
        let refused = loop {
            match Segment::create(a.folder().clone()) {
                Ok(other) => others.push(other),
                Err(e) => break e,
            }
        };
        assert_eq!(refused, Error::NoMemory);
        assert_eq!(a.folder().names().unwrap().len(), 1 + others.len(), "nothing is left behind");
        let block = a.alloc(1 << 20, 64).unwrap();
        a.memory().write(block.offset, &[1; 1 << 20]).unwrap();
        others.pop();
        Segment::create(a.folder().clone()).is_ok()
    });
    assert_eq!(status, 0);
}

/// Across PID namespaces peers see each other live, and know that a process id means nothing there.
#[test]
#[ignore = "needs root"]
fn pid_namespaces() {
    let dir = TestDir::new("segment");
    let folder = dir.folder();
    let a = Segment::create(folder.clone()).unwrap();
    // It does not see who comes.
    a.hand_out().unwrap();
    let owner = a.owner();
    let status = in_child(|| {
        // SAFETY: plain system call; only children of this child are in the new namespace.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
        let status = in_child(|| {
            let own = Segment::create(folder.clone()).unwrap();
            let outside = Peer::open(&folder, owner.slot()).unwrap();
            own.lives(owner)
                && outside.lives()
                && outside.pid() == Ok(None)
                && crate::shm::copy::probe(&outside) == Ok(crate::shm::copy::Way::Closed(0))
        });
        status == 0
    });
    assert_eq!(status, 0);
}
