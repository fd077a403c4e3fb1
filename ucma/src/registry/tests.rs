//! Ports and listeners between processes, each of which is an open file here; and names of any content.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use ironverbs_cm::address::{Address, PortSpace};
use ironverbs_cm::network::Peer;
use ironverbs_cm::ports::{Binding, NoPort};
use nix::sys::resource::{Resource, setrlimit};
use softrdma::shm::folder::{Config, Folder};

use crate::mail::Letter;
use crate::registry::letters::To;
use crate::registry::port::{Port, Record};
use crate::registry::search::Search;
use crate::registry::{Registry, living, room};
use crate::sockets::{Received, Socket};
use crate::sys;

/// A forked child has the locks of all processes that other tests play, which then live on: so those that fork
/// run alone.
static FORKS: RwLock<()> = RwLock::new(());

/// A folder of its own, gone with the test.
struct Place(PathBuf, Option<RwLockReadGuard<'static, ()>>);

impl Place {
    fn new() -> (Place, Folder) {
        let (mut place, folder) = Place::for_one_that_forks();
        place.1 = Some(FORKS.read().unwrap_or_else(PoisonError::into_inner));
        (place, folder)
    }

    /// For a test that has seen to it that no other runs.
    fn for_one_that_forks() -> (Place, Folder) {
        let path = std::env::temp_dir().join(format!("ironverbs-ucma-{:x}", sys::random()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let folder = Folder::open(&Config { path: path.clone(), group: None }).unwrap();
        (Place(path, None), folder)
    }

    /// The same for the members of a group.
    fn of_a_group() -> (Place, Folder) {
        let (place, _) = Place::new();
        let group = Some(nix::unistd::getegid().as_raw());
        // Another one in its place, of the mode that a group's has.
        std::fs::remove_dir(&place.0).unwrap();
        let folder = Folder::open(&Config { path: place.0.clone(), group }).unwrap();
        (place, folder)
    }

    /// The names in the folder.
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }

    /// The folder of the network namespace.
    fn inner(&self) -> PathBuf {
        self.0.join(&self.names()[0])
    }

    /// The names there that begin with this.
    fn with(&self, prefix: &str) -> Vec<String> {
        names(&self.inner()).into_iter().filter(|name| name.starts_with(prefix)).collect()
    }
}

fn names(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn at(address: &str, port: u16) -> Binding {
    Binding {
        space: PortSpace::Tcp,
        source: Address::ip(address.parse().unwrap(), port),
        destination: Address::Unspecified,
        reuse: false,
        family_only: true,
    }
}

fn at_any(port: u16) -> Binding {
    at("0.0.0.0", port)
}

const SERVICE: u64 = 0x0106 << 16 | 7471;

#[test]
fn ports_are_everybodys_until_their_process_ends() {
    let (_place, folder) = Place::new();
    let mut one = Registry::open(&folder).unwrap();
    let mut two = Registry::open(&folder).unwrap();
    assert_eq!(one.reserve(1, &at("192.0.2.2", 7471), true), Ok(7471));
    assert_eq!(two.reserve(1, &at("192.0.2.2", 7471), true), Err(NoPort::SameHost));
    assert_eq!(two.reserve(1, &at("0.0.0.0", 7471), true), Err(NoPort::AnyHost));
    assert_eq!(two.reserve(1, &at("192.0.2.3", 7471), true), Ok(7471));
    assert_eq!(two.reserve(2, &at("192.0.2.3", 80), false), Err(NoPort::Privileged));
    let any = two.reserve(2, &at("0.0.0.0", 0), true).unwrap();
    assert!(any != 0 && any != 7471);
    one.release(1);
    two.release(1);
    assert_eq!(two.reserve(3, &at("0.0.0.0", 7471), true), Ok(7471));
    assert!(one.reserve(1, &at("0.0.0.0", 7471), true).is_err());
    drop(two);
    assert_eq!(one.reserve(1, &at("0.0.0.0", 7471), true), Ok(7471));
}

#[test]
fn a_record_that_was_taken_away_is_nobodys() {
    let (place, folder) = Place::new();
    let mut one = Registry::open(&folder).unwrap();
    let mut two = Registry::open(&folder).unwrap();
    assert_eq!(one.reserve(1, &at("0.0.0.0", 7471), true), Ok(7471));
    // Somebody took its process for dead.
    std::fs::remove_dir_all(place.inner().join("p0106-1d2f")).unwrap();
    assert_eq!(two.reserve(1, &at("0.0.0.0", 7471), true), Ok(7471));
    one.release(1);
    assert!(one.reserve(1, &at("0.0.0.0", 7471), true).is_err());
}

#[test]
fn nothing_stays_of_who_ends_and_of_who_is_met_dead() {
    let (place, folder) = Place::new();
    let mut one = Registry::open(&folder).unwrap();
    one.reserve(1, &at("0.0.0.0", 7471), true).unwrap();
    one.reserve(2, &at("0.0.0.0", 7472), true).unwrap();
    assert_eq!(place.with("p").len(), 2);
    one.release(1);
    assert_eq!(place.with("p"), ["p0106-1d30"]);
    assert!(one.reserve(1, &at("0.0.0.0", 7472), true).is_err());
    assert_eq!(place.with("p").len(), 1);
    drop(one);
    let mut two = Registry::open(&folder).unwrap();
    assert_eq!((place.with("o").len(), place.with("p").len()), (1, 0));
    two.reserve(1, &at("0.0.0.0", 7471), true).unwrap();
    two.end(&folder);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_private_file_under_the_name_of_the_namespace_stays_as_it_is() {
    let (place, folder) = Place::new();
    let registry = Registry::open(&folder).unwrap();
    let inner = place.inner();
    registry.end(&folder);
    // Whoever may write to the folder may give this name to any file of this user.
    std::fs::write(&inner, "secret").unwrap();
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Registry::open(&folder).is_err());
    assert_eq!(std::fs::read(&inner).unwrap(), b"secret");
    assert_eq!(std::fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o640);
    std::fs::remove_file(&inner).unwrap();
    // Or to a folder, by a link, whose own names are then not looked at.
    let outside = place.0.join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, &inner).unwrap();
    assert!(Registry::open(&folder).is_err());
    assert_eq!(names(&outside), [""; 0]);
}

/// Two threads stand for two processes that want the same ports at the same time, again and again.
#[test]
fn of_all_who_want_a_port_at_once_one_gets_it() {
    const THREADS: usize = 4;
    let (_place, folder) = Place::new();
    let (folder, barrier) = (&folder, &std::sync::Barrier::new(THREADS));
    let wins = std::thread::scope(|scope| {
        let bind = |nth: usize| {
            move || {
                let mut registry = Registry::open(folder).unwrap();
                // One of them wants any address, the others one that is no other's.
                let address = if nth == 0 { "0.0.0.0".to_owned() } else { format!("192.0.2.{nth}") };
                let rounds = (0..200).map(|round| {
                    barrier.wait();
                    let taken = registry.reserve(1, &at(&address, 7000 + round), true).is_ok();
                    barrier.wait();
                    registry.release(1);
                    taken
                });
                rounds.collect::<Vec<bool>>()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|nth| scope.spawn(bind(nth))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for round in 0..200 {
        let others = wins[1..].iter().filter(|wins| wins[round]).count();
        assert!(if wins[0][round] { others == 0 } else { others > 0 }, "round {round}: {others}");
    }
}

/// Two threads stand for two processes, of which one has a port and changes all the time what stands for it.
#[test]
fn a_port_is_taken_also_while_its_record_is_replaced() {
    let (_place, folder) = Place::new();
    let (one, other) = (at("0.0.0.0", 7471), at("0.0.0.0", 7471));
    let mut owner = Registry::open(&folder).unwrap();
    owner.reserve(1, &one, true).unwrap();
    let mut wants = Registry::open(&folder).unwrap();
    let ended = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(move || {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                owner.update(1, &one);
            }
            owner
        });
        let taken = (0..2_000).filter(|_| {
            let taken = wants.reserve(1, &other, true).is_ok();
            wants.release(1);
            taken
        });
        let duplicates = taken.count();
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(changes.join());
        assert_eq!(duplicates, 0);
    });
}

/// What is no process's file under a process's name: who put it there has perhaps ended long ago.
#[test]
fn only_a_file_with_the_lock_of_a_process_is_alive() {
    let (place, folder) = Place::of_a_group();
    let mut registry = Registry::open(&folder).unwrap();
    let at = |owner: u64| place.inner().join(format!("o{owner:016x}"));
    drop(std::os::unix::net::UnixListener::bind(at(7)).unwrap());
    std::fs::write(at(8), "").unwrap();
    std::fs::set_permissions(at(8), std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::create_dir(at(9)).unwrap();
    std::os::unix::fs::symlink("/", at(10)).unwrap();
    nix::unistd::mkfifo(&at(11), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // One that has a lock and is not for the group, so that others cannot look whether it has.
    let closed = std::fs::File::create(at(12)).unwrap();
    closed.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    let lock = libc::flock { l_type: libc::F_WRLCK as _, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
    nix::fcntl::fcntl(&closed, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    for owner in 7..13 {
        let binding = at_any(7000 + owner as u16);
        let port = Port { space: PortSpace::Tcp, number: binding.source.port() };
        let room = port.make(&registry.folder).unwrap();
        Record::new(owner, &binding).publish(&room).unwrap();
        assert_eq!(registry.reserve(owner as u32, &binding, true), Ok(port.number), "{owner}");
    }
    drop(Registry::open(&folder).unwrap());
    assert_eq!(place.with("o0000"), [""; 0], "nor do they stay");
}

/// A member of the group gives the name of a process to the file by whose lock another one lives.
#[test]
fn looking_at_processes_ends_nobodys_declaration_of_life() {
    let (place, folder) = Place::of_a_group();
    let mut registry = Registry::open(&folder).unwrap();
    let inner = place.inner();
    let slot = folder.create(c"s0000").unwrap();
    let lock = libc::flock { l_type: libc::F_WRLCK as _, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
    nix::fcntl::fcntl(&slot, nix::fcntl::FcntlArg::F_SETLK(&lock)).unwrap();
    let is_alive = || {
        let mut asked = lock;
        nix::fcntl::fcntl(&slot, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut asked)).unwrap();
        i32::from(asked.l_type) != libc::F_UNLCK
    };
    std::fs::hard_link(place.0.join("s0000"), inner.join(format!("o{:016x}", 7))).unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let binding = at_any(7471);
    let port = Port { space: PortSpace::Tcp, number: 7471 };
    let mut before = None;
    for _ in 0..50 {
        let room = port.make(&registry.folder).unwrap();
        Record::new(7, &binding).publish(&room).unwrap();
        let _ = registry.reserve(1, &binding, true);
        registry.release(1);
        let _ = registry.find(&folder, SERVICE, &binding.source, true, &|_| true);
        assert!(is_alive());
        // Other tests have some, too.
        assert!(descriptors() <= *before.get_or_insert_with(descriptors) + 40);
    }
}

/// Somebody takes a port that may be shared while it is made one of a listener.
#[test]
fn who_may_not_listen_has_what_it_had() {
    let (place, folder) = Place::new();
    let (mut one, mut other) = (Registry::open(&folder).unwrap(), Registry::open(&folder).unwrap());
    let binding = Binding { reuse: true, ..at_any(7471) };
    one.reserve(1, &binding, true).unwrap();
    let records = || names(&place.inner().join("p0106-1d2f"));
    let before = records();
    let listens = one.listen(1, &binding, |folder, name| {
        drop(folder.create(name));
        other.reserve(1, &binding, true).unwrap();
        Ok(())
    });
    assert_eq!(listens, Err(NoPort::AnyHost));
    assert!(records().contains(&before[0]), "it need not be made again, for which there may be no room");
    assert_eq!((records().len(), place.with("l")), (2, Vec::new()));
    other.release(1);
    assert!(one.listen(1, &binding, |_, _| Ok(())).is_ok());
    assert_eq!(records().len(), 1);
}

/// What a child may, in which `body` runs, as it has a limit.
fn with_limit(resource: Resource, limit: u64, body: impl FnOnce() -> bool) {
    // SAFETY: the child ends without what the parent would do at its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = setrlimit(resource, limit, limit).is_ok() && body();
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_program_that_may_write_no_files_is_not_ended_by_the_signal() {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    let (_place, folder) = Place::for_one_that_forks();
    let mut before = Registry::open(&folder).unwrap();
    with_limit(Resource::RLIMIT_FSIZE, 0, || {
        let opened = Registry::open(&folder).err() == Some(libc::ENOMEM);
        let published = before.publish(&[[1; 16]]) == Err(libc::ENOMEM);
        let binding = Binding { destination: at("192.0.2.9", 1).source, ..at_any(7471) };
        opened && published && before.reserve(1, &binding, true) == Ok(7471)
    });
}

#[test]
fn the_kernels_settings_are_read_where_no_descriptor_is_free() {
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    let text = room::setting(RANGE).unwrap();
    assert_eq!(room::setting("/none").err(), Some(libc::ENOENT));
    // Other tests of this process open and close some: a child has its own.
    with_limit(Resource::RLIMIT_NOFILE, 256, || {
        let opened: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let is_full = std::fs::File::open(RANGE).is_err_and(|why| why.raw_os_error() == Some(libc::EMFILE));
        !opened.is_empty() && is_full && room::setting(RANGE) == Ok(text)
    });
    with_limit(Resource::RLIMIT_NOFILE, 0, || super::port_range() == Err(libc::EMFILE));
}

/// Of processes that were killed, and of which nobody else removes what they left.
#[test]
#[ignore = "needs root"]
fn a_file_system_that_the_dead_have_filled_takes_the_living() {
    let (place, _) = Place::new();
    let at_path = CString::new(place.0.as_os_str().as_bytes()).unwrap();
    let (kind, options) = (c"tmpfs".as_ptr(), c"size=64k,nr_inodes=40,mode=0700".as_ptr());
    // SAFETY: all of them are strings.
    assert_eq!(unsafe { libc::mount(kind, at_path.as_ptr(), kind, 0, options.cast()) }, 0);
    let folder = Folder::open(&Config { path: place.0.clone(), group: None }).unwrap();
    let mut dead = Registry::open(&folder).unwrap();
    let full = (0..40).find_map(|id| dead.reserve(id, &at("0.0.0.0", 0), true).err());
    assert_eq!(full, Some(NoPort::System(libc::ENOSPC)));
    while std::fs::File::create(place.0.join(format!("{:x}", sys::random()))).is_ok() {}
    assert_eq!(Registry::open(&folder).err(), Some(libc::ENOSPC), "it lives");
    drop(dead);
    // A child of another test has its descriptors, too, until it executes a program.
    let is_full = || Registry::open(&folder).err() == Some(libc::ENOSPC);
    for _ in (0..60_000).take_while(|_| is_full()) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let opened = Registry::open(&folder).map(|mut registry| registry.reserve(1, &at_any(7471), true));
    drop(folder);
    // Other tests may have forked with descriptors of it.
    // SAFETY: a string.
    assert_eq!(unsafe { libc::umount2(at_path.as_ptr(), libc::MNT_DETACH) }, 0);
    assert_eq!(opened, Ok(Ok(7471)));
}

/// Names lead to what somebody else listens at for others.
#[test]
fn nobody_connects_through_a_link() {
    let (place, folder) = Place::of_a_group();
    let elsewhere = Socket::listen(&folder, c"elsewhere").unwrap();
    assert!(Socket::connect(&folder, c"elsewhere").is_ok());
    std::os::unix::fs::symlink("elsewhere", place.0.join("link")).unwrap();
    assert_eq!(Socket::connect(&folder, c"link").err(), Some(libc::ECONNREFUSED));
    assert_eq!(Socket::connect(&folder, c"none").err(), Some(libc::ENOENT));
    drop(elsewhere);
    assert_eq!(Socket::connect(&folder, c"elsewhere").err(), Some(libc::ECONNREFUSED));
}

/// Makers that were killed left theirs where the folders of namespaces get their names.
#[test]
fn folders_without_a_name_go_with_the_next_process() {
    let (place, folder) = Place::of_a_group();
    let left = place.0.join("w0123456789abcdef");
    std::fs::create_dir_all(left.join("cm-1-2")).unwrap();
    drop(Registry::open(&folder).unwrap());
    assert!(!left.exists());
}

/// Whoever may write to the folder may give a port's name to any other folder.
#[test]
fn what_a_dead_process_left_is_removed_from_no_other_folder() {
    let (place, folder) = Place::new();
    let registry = Registry::open(&folder).unwrap();
    let port = Port { space: PortSpace::Tcp, number: 7471 };
    let private = place.inner().join("private");
    std::fs::create_dir(&private).unwrap();
    let room = port.make(&registry.folder).unwrap();
    let dead = Record::new(7, &at("192.0.2.2", 7471));
    dead.publish(&room).unwrap();
    let at_port = place.inner().join("p0106-1d2f");
    let name = names(&at_port).remove(0);
    std::fs::write(private.join(&name), "secret").unwrap();
    std::fs::rename(&at_port, place.inner().join("moved")).unwrap();
    std::os::unix::fs::symlink(&private, &at_port).unwrap();
    assert_eq!(living(&registry.folder, &room, port, 1), Ok(Vec::new()));
    assert_eq!(names(&private), [name]);
    assert_eq!(names(&place.inner().join("moved")), [""; 0]);
}

#[test]
fn a_bind_costs_the_same_among_many() {
    let (_place, folder) = Place::new();
    let mut registry = Registry::open(&folder).unwrap();
    for id in 0..10_000 {
        registry.reserve(id, &at("0.0.0.0", 0), true).unwrap();
    }
    let (one, other) = (at("192.0.2.2", 7471), at("192.0.2.3", 7471));
    registry.reserve(10_000, &one, true).unwrap();
    registry.reserve(10_001, &other, true).unwrap();
    // What stands beside a record, and is read with it, is the port's alone.
    let port = registry.own[&10_000].port;
    assert_eq!(port.open(&registry.folder).unwrap().names().unwrap().len(), 2);
    registry.end(&folder);
}

#[test]
fn a_listener_is_found_and_talked_to_until_it_is_gone() {
    let (place, folder) = Place::new();
    let mut server = Registry::open(&folder).unwrap();
    let client = Registry::open(&folder).unwrap();
    let binding = at("192.0.2.2", 7471);
    server.reserve(5, &binding, true).unwrap();
    assert_eq!(client.find(&folder, SERVICE, &binding.source, true, &|_| true), Ok(Search::Soon));
    let mut socket = None;
    let listens = server.listen(5, &binding, |folder, name| {
        socket = Some(Socket::listen(folder, name)?);
        Ok(())
    });
    let (name, socket) = (listens.unwrap(), socket.unwrap());
    let other = Address::ip("192.0.2.3".parse().unwrap(), 7471);
    assert_eq!(client.find(&folder, SERVICE, &other, true, &|_| true), Ok(Search::OtherAddress));
    assert_eq!(client.find(&folder, SERVICE + 1, &binding.source, true, &|_| true), Ok(Search::Nobody));
    let Ok(Search::Listener(found)) = client.find(&folder, SERVICE, &binding.source, true, &|_| true) else {
        panic!()
    };

    assert!(socket.accept(&folder).unwrap().is_none());
    let near = client.reach(&folder, &found, Socket::connect).unwrap();
    let far = socket.accept(&folder).unwrap().unwrap();
    let mut place_for = [0; 8];
    assert_eq!(far.receive(&mut place_for), Received::Nothing);
    near.send(b"12345678");
    near.send(b"123456789");
    assert_eq!(far.receive(&mut place_for), Received::Message(8));
    assert_eq!(far.receive(&mut place_for), Received::End, "too long");
    // What was sent before an end is read before it, also where the other side left something unread.
    near.send(b"unread");
    far.send(b"last");
    drop(far);
    assert_eq!(near.receive(&mut place_for), Received::Message(4));
    assert_eq!(near.receive(&mut place_for), Received::End);

    // The process dies: its name stays until somebody needs the ports.
    drop((server, socket));
    assert_eq!(client.reach(&folder, &found, Socket::connect).err(), Some(libc::ECONNREFUSED));
    assert_eq!(place.with("l").len(), 1);
    assert_eq!(client.find(&folder, SERVICE, &binding.source, true, &|_| true), Ok(Search::Nobody));
    assert_eq!(place.with("l"), [""; 0]);
    client.forget(name);
}

#[test]
fn who_is_at_work_is_not_waited_for() {
    let (_place, folder) = Place::new();
    let mut client = Registry::open(&folder).unwrap();
    let nowhere = at("192.0.2.9", 7471);
    client.reserve(9, &nowhere, true).unwrap();
    let find = || client.find(&folder, SERVICE, &nowhere.source, true, &|_| true).unwrap();
    assert_eq!(find(), Search::Nobody, "alone, with the port itself");
    let mut listener = Registry::open(&folder).unwrap();
    assert_eq!(find(), Search::Soon, "it may be about to listen");
    let own = at("192.0.2.2", 4420);
    listener.reserve(1, &own, true).unwrap();
    assert_eq!(find(), Search::Soon, "it has a port");
    listener.listen(1, &own, |_, _| Ok(())).unwrap();
    assert_eq!(find(), Search::Nobody, "it listens somewhere else");
    let mut other = Registry::open(&folder).unwrap();
    let own = at("192.0.2.2", 4421);
    other.reserve(1, &own, true).unwrap();
    assert_eq!(find(), Search::Soon);
    other.update(1, &Binding { destination: nowhere.source, ..own });
    assert_eq!(find(), Search::Nobody, "it is a client");
    listener.release(1);
    assert_eq!(find(), Search::Soon);
    drop(listener);
    assert_eq!(find(), Search::Nobody);
}

#[test]
fn other_networks_are_looked_at_and_swept() {
    let (place, folder) = Place::new();
    let gid = std::net::Ipv4Addr::new(10, 9, 0, 1).to_ipv6_mapped().octets();
    let mut server = Registry::open(&folder).unwrap();
    let binding = at("0.0.0.0", 7471);
    server.reserve(5, &binding, true).unwrap();
    server.publish(&[gid, [3; 16]]).unwrap();
    server.publish(&[gid]).unwrap();
    let name = server.listen(5, &binding, |_, _| Ok(())).unwrap();
    // As if its process were in another one.
    let own = place.names().remove(0);
    std::fs::rename(place.0.join(own), place.0.join("cm-77-99")).unwrap();
    let client = Registry::open(&folder).unwrap();
    let to = |text: &str| Address::ip(text.parse().unwrap(), 7471);
    assert!(client.knows(&folder, &gid) && !client.knows(&folder, &[3; 16]));
    assert!(matches!(
        client.find(&folder, SERVICE, &to("10.9.0.1"), true, &|_| true),
        Ok(Search::Listener(_))
    ));
    assert_eq!(client.find(&folder, SERVICE, &to("10.9.0.1"), false, &|_| true), Ok(Search::Nobody));
    assert_eq!(client.find(&folder, SERVICE, &to("10.9.0.2"), true, &|_| true), Ok(Search::Nobody));
    server.release(5);
    let find = |text| client.find(&folder, SERVICE, &to(text), true, &|_| true);
    assert_eq!(find("10.9.0.1"), Ok(Search::Soon), "it may be about to listen again");
    assert_eq!(find("10.9.0.2"), Ok(Search::Nobody), "that is another host");
    drop(Registry::open(&folder).unwrap());
    assert!(place.names().contains(&"cm-77-99".to_owned()), "it lives");
    drop(server);
    drop(Registry::open(&folder).unwrap());
    assert!(!place.names().contains(&"cm-77-99".to_owned()));
    client.forget(name);
}

#[test]
fn fuzz_cm_ports() {
    let (place, folder) = Place::new();
    let mut registry = Registry::open(&folder).unwrap();
    let mut living = Registry::open(&folder).unwrap();
    living.reserve(1, &at("192.0.2.9", 7471), true).unwrap();
    let port = place.inner().join("p0106-1d2f");
    let owner = living.owner.number();
    let wanted = at("192.0.2.2", 7471);
    corpus::check!().for_each(|bytes: &[u8]| {
        // A record of these bytes, of a process that lives; and what that process shows.
        let text: Vec<u8> =
            bytes.iter().take(4000).map(|byte| if *byte == 0 { b'.' } else { *byte }).collect();
        let name = port.join(format!("{owner:016x}-{:016x}", 1));
        let _ = std::fs::remove_file(&name);
        let _ = std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&text), &name);
        std::fs::write(place.inner().join(format!("o{owner:016x}")), bytes).unwrap();
        let _ = registry.find(&folder, SERVICE, &wanted.source, true, &|_| true);
        if registry.reserve(1, &wanted, true).is_ok() {
            registry.update(1, &wanted);
            let _ = registry.publish(&[[1; 16]]);
            registry.release(1);
        }
    });
}

#[test]
fn a_mailbox_is_found_until_its_process_ends() {
    let (place, folder) = Place::new();
    let (mut one, mut two) = (Registry::open(&folder).unwrap(), Registry::open(&folder).unwrap());
    let (bits, here) = one.open_mailbox().unwrap();
    let (_, there) = two.open_mailbox().unwrap();
    let peer = Peer { address: [1; 16], own: [2; 16], interface: 3 };
    let letter = Letter { listener: 4, peer, mad: [5; 256] };
    for to in [To::Connections(bits), To::Owner(one.owner())] {
        assert!(two.send(&there, to, &letter));
        assert_eq!(here.receive(2), [letter], "{to:?}");
    }
    assert!(!two.send(&there, To::Connections(0), &letter));
    assert!(!two.send(&there, To::Owner(one.owner() ^ 2), &letter));
    // One that is gone leaves nothing, and one that was killed what the next one removes.
    two.end(&folder);
    assert_eq!((place.with("m").len(), place.with("c").len()), (1, 1));
    drop((here, one));
    drop((there, two));
    assert_eq!((place.with("m").len(), place.with("c").len()), (1, 1));
    let _three = Registry::open(&folder).unwrap();
    assert_eq!((place.with("m").len(), place.with("c").len()), (0, 0));
}
