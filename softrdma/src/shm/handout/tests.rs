//! Who gets the memory, who does not, and who waits.

use super::super::announcement;
use super::super::folder::Config;
use super::super::liveness::{self, OwnFiles};
use super::super::room;
use super::super::segment::{Peer, Segment};
use super::super::testing::{TestDir, in_child, memory_of};
use super::*;
use ironverbs_os::sys;
use softrdma_testing::thread::{Task, until};

fn group(dir: &TestDir) -> Arc<Folder> {
    // SAFETY: reads a number of the process.
    let group = Some(unsafe { libc::getegid() });
    Arc::new(Folder::open(&Config { path: dir.path().join("g"), group }).unwrap())
}

fn me() -> libc::pid_t {
    // SAFETY: reads a number of the process.
    unsafe { libc::getpid() }
}

/// Asks somebody who answers: on a busy machine its thread may need longer than one asks, now and then.
fn patiently<T>(ask: impl Fn() -> Result<T>) -> Result<T> {
    (0..60).map(|_| ask()).find(|answer| !matches!(answer, Err(Error::Gone))).unwrap_or(Err(Error::Gone))
}

fn size(fd: RawFd) -> i64 {
    sys::stat(fd).unwrap().st_size
}

#[test]
fn who_asks_gets_memory_that_nobody_shortens() {
    let dir = TestDir::new("handout");
    let folder = group(&dir);
    let a = Segment::create(folder.clone()).unwrap();
    let (owner, parent) = (a.owner(), me());
    let status = in_child(|| {
        let file = patiently(|| ask(&folder, owner, parent)).unwrap();
        let (fd, len) = (file.raw(), size(file.raw()));
        // SAFETY: plain system calls on an open descriptor.
        let refused = unsafe {
            libc::ftruncate(fd, 0) != 0 && libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_GROW) != 0
        };
        refused && size(fd) == len && file.owner() == Ok(Some(parent))
    });
    assert_eq!(status, 0);
    // The owner may still need more.
    assert!(a.alloc(1 << 20, 64).is_ok());
    drop(a);
    assert!(matches!(ask(&folder, owner, parent), Err(Error::Gone)));
    assert!(folder.names().unwrap().is_empty());
}

/// Under a path that is longer than the address of a socket.
#[test]
fn folders_far_down() {
    let dir = TestDir::new("handout");
    let path = dir.path().join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let folder = Arc::new(Folder::open(&Config { path, group: None }).unwrap());
    let a = Segment::create(folder.clone()).unwrap();
    let (owner, parent) = (a.owner(), me());
    assert!(matches!(ask(&folder, owner, parent), Err(Error::Gone)), "nobody needs it here");
    a.hand_out().unwrap();
    a.hand_out().unwrap();
    assert_eq!(in_child(|| patiently(|| ask(&folder, owner, parent)).is_ok()), 0);
}

/// Connections without end that nobody reads from: the next one is answered.
#[test]
fn who_only_connects_stops_nobody() {
    let dir = TestDir::new("handout");
    let folder = group(&dir);
    let a = Segment::create(folder.clone()).unwrap();
    let (owner, parent) = (a.owner(), me());
    let status = in_child(|| {
        let found = folder.look(&slot::socket_name(owner)).unwrap().0;
        let address = address(&folder, found.as_raw_fd(), c"").unwrap();
        let mut connected = Vec::new();
        for _ in 0..400 {
            let socket = socket().unwrap();
            if connect(socket.as_raw_fd(), &address).is_ok() {
                connected.push(socket);
            }
        }
        connected.len() > 10 && patiently(|| ask(&folder, owner, parent)).is_ok()
    });
    assert_eq!(status, 0);
}

/// Another user of the group who takes none of the answers: few descriptors are under way for him, and a third
/// user gets his.
#[test]
#[ignore = "needs root, to be three users"]
fn what_another_user_does_not_take_is_little() {
    use std::io::{Read, Write};
    const GROUP: u32 = 61_000;
    let dir = TestDir::new("handout");
    let path = CString::new(dir.path().to_str().unwrap()).unwrap();
    // SAFETY: the path is a C string; as in /dev/shm everybody may make a folder there.
    assert_eq!(unsafe { libc::chmod(path.as_ptr(), 0o1777) }, 0);
    let config = Config { path: dir.path().join("g"), group: Some(GROUP) };
    let folder_as = |uid: u32| {
        // SAFETY: plain system calls.
        let become_user =
            unsafe { libc::setgroups(0, std::ptr::null()) | libc::setgid(GROUP) | libc::setuid(uid) };
        assert_eq!(become_user, 0);
        Arc::new(Folder::open(&config).unwrap())
    };
    let pair = || std::os::unix::net::UnixStream::pair().unwrap();
    let ((mut owner_here, mut owner_there), (mut silent_here, mut silent_there)) = (pair(), pair());
    let statuses = std::thread::scope(|s| {
        let owner_process = s.spawn(move || {
            in_child(|| {
                let a = Segment::create(folder_as(61_001)).unwrap();
                owner_there.write_all(&a.owner().word().to_ne_bytes()).unwrap();
                owner_there.write_all(&me().to_ne_bytes()).unwrap();
                owner_there.read_exact(&mut [0]).is_ok()
            })
        });
        let (mut word, mut pid) = ([0; 8], [0; 4]);
        owner_here.read_exact(&mut word).unwrap();
        owner_here.read_exact(&mut pid).unwrap();
        let (owner, pid) = (Owner::from_word(u64::from_ne_bytes(word)).unwrap(), i32::from_ne_bytes(pid));
        let silent = s.spawn(move || {
            in_child(|| {
                let folder = folder_as(61_002);
                let found = folder.look(&slot::socket_name(owner)).unwrap().0;
                let address = address(&folder, found.as_raw_fd(), c"").unwrap();
                let clients = [(); 4 * UNTAKEN].map(|()| {
                    let client = socket().unwrap();
                    connect(client.as_raw_fd(), &address).unwrap();
                    client
                });
                silent_there.write_all(&[1]).unwrap();
                silent_there.read_exact(&mut [0]).unwrap();
                let answered = clients.iter().filter(|client| {
                    let fd = client.as_raw_fd();
                    let mut place = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                    // SAFETY: `place` is one writable entry.
                    assert_eq!(unsafe { libc::poll(&raw mut place, 1, -1) }, 1);
                    receive(fd).is_ok_and(|file| file.is_some())
                });
                // Once they are taken there are others.
                answered.count() == UNTAKEN && patiently(|| ask(&folder, owner, pid)).is_ok()
            })
        });
        silent_here.read_exact(&mut [0]).unwrap();
        let third = in_child(|| {
            let folder = folder_as(61_003);
            patiently(|| ask(&folder, owner, pid)).is_ok()
        });
        silent_here.write_all(&[1]).unwrap();
        let silent = silent.join().unwrap();
        owner_here.write_all(&[1]).unwrap();
        [third, silent, owner_process.join().unwrap()]
    });
    assert_eq!(statuses, [0; 3]);
}

/// Stops every thread of a process. Each sees the signal for itself, some after `kill` has returned.
fn stop(pid: libc::pid_t) {
    // SAFETY: the process is this test's.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(is_stopped) {
        std::thread::yield_now();
    }
}

/// One that is stopped gives no answer, and gives it when it goes on.
#[test]
fn who_is_stopped_lets_nobody_wait_for_ever() {
    let dir = TestDir::new("handout");
    let folder = group(&dir);
    let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    let (stopped, at_work) = std::thread::scope(|s| {
        s.spawn(|| {
            in_child(|| {
                use std::io::{Read, Write};
                let a = Segment::create(folder.clone()).unwrap();
                there.write_all(&a.owner().word().to_ne_bytes()).unwrap();
                there.write_all(&me().to_ne_bytes()).unwrap();
                there.read_exact(&mut [0]).is_ok()
            })
        });
        use std::io::{Read, Write};
        let (mut word, mut pid) = ([0; 8], [0; 4]);
        here.read_exact(&mut word).unwrap();
        here.read_exact(&mut pid).unwrap();
        let (owner, pid) = (Owner::from_word(u64::from_ne_bytes(word)).unwrap(), i32::from_ne_bytes(pid));
        stop(pid);
        let stopped = [ask(&folder, owner, pid).err(), Peer::open(&folder, owner.slot()).err()];
        // SAFETY: the process is this test's.
        unsafe { libc::kill(pid, libc::SIGCONT) };
        let at_work = patiently(|| ask(&folder, owner, pid)).is_ok();
        here.write_all(&[1]).unwrap();
        (stopped, at_work)
    });
    // Of the same user nobody has to ask.
    assert_eq!(stopped, [Some(Error::Gone), None]);
    assert!(at_work);
}

/// What answers in the owner's place, in a thread, with this.
fn answered(folder: &Folder, owner: Owner, pid: libc::pid_t, fds: &[RawFd]) -> Result<PeerFile> {
    let socket = listen(folder, &slot::socket_name(owner)).unwrap();
    let result = std::thread::scope(|s| {
        s.spawn(|| {
            let mut place = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: `place` is one writable entry; accept asks for no address; the descriptor is new.
            let client = unsafe {
                assert_eq!(libc::poll(&raw mut place, 1, -1), 1);
                let null = std::ptr::null_mut();
                OwnedFd::from_raw_fd(libc::accept(socket.as_raw_fd(), null, null.cast()))
            };
            fds.iter().for_each(|fd| send(client.as_raw_fd(), *fd));
        });
        ask(folder, owner, pid)
    });
    folder.remove(&slot::socket_name(owner)).unwrap();
    result
}

#[test]
fn what_is_not_the_owners_sealed_memory_is_refused() {
    let dir = TestDir::new("handout");
    let folder = dir.folder();
    let owner = Owner::new(5, 77).unwrap();
    let status = in_child(|| {
        let declared = |seals| {
            let file = memfd::create(c"test").unwrap();
            room::allocate(file.as_raw_fd(), 0, 8192).unwrap();
            if seals != 0 {
                memfd::seal(&file, seals).unwrap();
            }
            OwnFiles::add(file.as_raw_fd()).unwrap();
            liveness::declare(file.as_raw_fd()).unwrap();
            file
        };
        let good = declared(memfd::LASTING);
        let open = || {
            // What is no memory is closed by threads, of which nobody knows when they have come so far.
            until(|| Task::all_of(me()).len() == 1);
            std::fs::read_dir("/proc/thread-self/fd").unwrap().count()
        };
        let answer = |fds: &[RawFd]| patiently(|| answered(&folder, owner, me(), fds)).err();
        assert_eq!(answer(&[good.as_raw_fd()]), None);
        let pipe = std::io::pipe().unwrap();
        let lies = [
            declared(0),
            declared(libc::F_SEAL_SHRINK),
            declared(libc::F_SEAL_GROW | libc::F_SEAL_SEAL),
            memory_of(&[0; 8192]).1,
            pipe.0.into(),
            std::fs::File::open(dir.path()).unwrap().into(),
        ];
        for lie in &lies {
            assert!(matches!(answer(&[lie.as_raw_fd()]), Some(Error::Corrupt(_))));
        }
        // Sealed well, and nobody's.
        let nobodys = memfd::create(c"test").unwrap();
        memfd::seal(&nobodys, memfd::LASTING).unwrap();
        assert!(matches!(answer(&[nobodys.as_raw_fd()]), Some(Error::Corrupt(_))));
        assert_eq!(answered(&folder, owner, me(), &[]).err(), Some(Error::Gone));
        // Another process in its place.
        let other = patiently(|| answered(&folder, owner, me() + 1, &[good.as_raw_fd()])).err();
        assert!(matches!(other, Some(Error::Corrupt(_))));
        // More than one: nothing is left open that nobody closes.
        let before = open();
        for _ in 0..20 {
            assert_eq!(answer(&[nobodys.as_raw_fd(); 5]).map(Error::errno), Some(libc::EPROTO));
        }
        // The own files that came back are still this process's.
        open() == before && liveness::owner(good.as_raw_fd()).is_ok()
    });
    assert_eq!(status, 0);
    for kind in ["file", "folder", "link"] {
        let path = folder.path().join(slot::socket_name(owner).to_str().unwrap());
        match kind {
            "file" => std::fs::write(&path, "x").unwrap(),
            "folder" => std::fs::create_dir(&path).unwrap(),
            _ => std::os::unix::fs::symlink("/dev/null", &path).unwrap(),
        }
        assert!(matches!(ask(&folder, owner, me()), Err(Error::Corrupt(_))), "{kind}");
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
    }
}

/// The number in the slot's file may be anybody's.
#[test]
fn a_hint_that_lies_leads_nowhere_and_to_the_socket() {
    for shared in [false, true] {
        let dir = TestDir::new("handout");
        let folder = if shared { group(&dir) } else { dir.folder() };
        let a = Segment::create(folder.clone()).unwrap();
        let (foreign, pipe) = (memory_of(&[0; 8192]).1, std::io::pipe().unwrap());
        let unsealed = memfd::create(c"test").unwrap();
        let sealed = a.sealed().map_or(-1, |sealed| sealed.number());
        let lies = [foreign.as_raw_fd(), pipe.0.as_raw_fd(), unsealed.as_raw_fd(), sealed, 0, i32::MAX];
        let status = in_child(|| {
            let name = slot::file_name(a.owner().slot());
            let file = folder.open_file(&name, 0).unwrap();
            let honest = announcement::read(file.as_raw_fd()).unwrap();
            let lied = lies.iter().all(|lie| {
                announcement::write(file.as_raw_fd(), *lie, honest.domain).unwrap();
                announcement::sign(file.as_raw_fd(), a.owner()).unwrap();
                let open = || Peer::open(&folder, a.owner().slot());
                if shared { patiently(open).is_ok() } else { open().err() == Some(Error::Gone) }
            });
            let number = honest.number.unwrap();
            announcement::write(file.as_raw_fd(), number, honest.domain).unwrap();
            announcement::sign(file.as_raw_fd(), a.owner()).unwrap();
            lied && Peer::open(&folder, a.owner().slot()).is_ok()
        });
        assert_eq!(status, 0, "{shared}");
    }
}
