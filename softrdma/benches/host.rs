//! What the parts of the same-host transport cost, in nanoseconds: `cargo bench -p softrdma`.
//!
//! Every figure is the median of several rounds. Two processes take part where it says so; both need a
//! processor of their own for the figures to mean anything.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use softrdma::queues::deliver::Deliver;
use softrdma::queues::shared::{Object, QpWord, Take, Word};
use softrdma::queues::transport::{Operation, Transport};
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::ReceiveRequest;
use softrdma::rules::verbs::{Access, Status, WcOpcode};
use softrdma::shm::atomics;
use softrdma::shm::bell::{Bell, BellHandle};
use softrdma::shm::copy::{Direction, Span, transfer};
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::keys::{self, Entry, Keys};
use softrdma::shm::lock::{Liveness, Lock};
use softrdma::shm::objects::{Host, Objects, Shape};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::poll::{Staged, poll};
use softrdma_testing::post::post;
use softrdma_testing::timing::{passed, timed};

const LIMIT: Duration = Duration::from_secs(10);
fn median(turns: u32, work: impl FnMut(u32)) -> f64 {
    timed(9, passed, turns, work).0
}

fn say(what: &str, ns: f64) {
    println!("{what:<68} {ns:>10.1} ns");
}

/// A child that runs `work` and is killed when this is dropped.
struct Child(libc::pid_t);

impl Child {
    fn start(work: impl FnOnce()) -> Self {
        // SAFETY: this program has one thread; the child never returns.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system calls; the child ends without running what belongs to the parent.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                libc::_exit(0);
            }
        }
        Child(pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the process is our child; its status is not wanted.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn shared(len: usize) -> *mut u8 {
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let p = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        p.cast()
    }
}

fn wait_readable(fd: i32) {
    let mut p = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: `p` is one writable entry.
    while unsafe { libc::poll(&mut p, 1, -1) } != 1 {}
}

/// Half of a round trip between two processes that sleep in `poll` until the other wakes them.
fn wake(turns: u32, here: (impl Fn(), impl Fn()), there: (impl Fn(), impl Fn())) -> f64 {
    let _child = Child::start(|| {
        loop {
            there.0();
            there.1();
        }
    });
    median(turns, |_| {
        here.1();
        here.0();
    }) / 2.0
}

fn bells(dir: &Path, me: &Arc<Segment>) {
    let (a, b) = (Bell::new(me).unwrap(), Bell::new(me).unwrap());
    let handle = |bell: &Bell| BellHandle::find(me.folder(), me.owner(), bell.number()).unwrap();
    let (to_a, to_b) = (handle(&a), handle(&b));
    let wait = |bell: &Bell| {
        wait_readable(bell.fd());
        bell.silence();
    };
    say(
        "bell: wake a process in poll() (FIFO)",
        wake(5000, (|| wait(&a), || to_b.ring()), (|| wait(&b), || to_a.ring())),
    );
    say(
        "bell: ring and silence, nobody sleeps (FIFO)",
        median(20_000, |_| {
            to_a.ring();
            a.silence();
        }),
    );

    let socket = |name: &str| {
        let s = UnixDatagram::bind(dir.join(name)).unwrap();
        s.set_nonblocking(true).unwrap();
        s
    };
    let (a, b) = (socket("a"), socket("b"));
    let (to_a, to_b) = (UnixDatagram::unbound().unwrap(), UnixDatagram::unbound().unwrap());
    to_a.connect(dir.join("a")).unwrap();
    to_b.connect(dir.join("b")).unwrap();
    let wait = |s: &UnixDatagram| {
        wait_readable(s.as_raw_fd());
        while s.recv(&mut [0; 8]).is_ok() {}
    };
    let ring = |s: &UnixDatagram| assert_eq!(s.send(&[1]).unwrap(), 1);
    say(
        "bell: wake a process in poll() (datagram socket)",
        wake(5000, (|| wait(&a), || ring(&to_b)), (|| wait(&b), || ring(&to_a))),
    );
    say(
        "bell: ring and silence, nobody sleeps (datagram socket)",
        median(20_000, |_| {
            ring(&to_a);
            while a.recv(&mut [0; 8]).is_ok() {}
        }),
    );

    // SAFETY: eventfd returns new descriptors that nobody else owns.
    let event = || unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) };
    let (a, b) = (event(), event());
    let mut word = [0u8; 8];
    let read = |fd: &OwnedFd, word: &mut [u8; 8]| {
        // SAFETY: eight bytes are writable.
        unsafe { libc::read(fd.as_raw_fd(), word.as_mut_ptr().cast(), 8) };
    };
    let wait = |fd: &OwnedFd| {
        wait_readable(fd.as_raw_fd());
        read(fd, &mut [0; 8]);
    };
    // SAFETY: eight bytes are readable.
    let ring =
        |fd: &OwnedFd| unsafe { assert_eq!(libc::write(fd.as_raw_fd(), (&raw const ONE).cast(), 8), 8) };
    static ONE: u64 = 1;
    say(
        "bell: wake a process in poll() (eventfd)",
        wake(5000, (|| wait(&a), || ring(&b)), (|| wait(&b), || ring(&a))),
    );
    say(
        "bell: ring and silence, nobody sleeps (eventfd)",
        median(20_000, |_| {
            ring(&a);
            read(&a, &mut word);
        }),
    );
}

fn copies(me: &Arc<Segment>) {
    let len = 1 << 20;
    let target = shared(len) as u64;
    let _child = Child::start(|| {
        let _segment = Segment::create(me.folder().clone()).unwrap();
        loop {
            // SAFETY: sleeps until a signal.
            unsafe { libc::pause() };
        }
    });
    let peer = loop {
        match Peer::open(me.folder(), me.owner().slot() + 1) {
            Ok(peer) => break peer,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let image = peer.image().unwrap();
    let mut source = vec![1u8; len];
    let from = source.as_mut_ptr() as u64;
    for (bytes, turns) in [(8u64, 20_000), (4096, 20_000), (65536, 5000), (1 << 20, 300)] {
        for (direction, name) in [(Direction::Write, "write"), (Direction::Read, "read")] {
            let ns = median(turns, |_| {
                let (here, there) = ([Span { addr: from, len: bytes }], [Span { addr: target, len: bytes }]);
                // SAFETY: the ranges are `source` and the child's mapping, which nobody else uses.
                unsafe { transfer(&image, direction, &here, &there) }.unwrap();
            });
            say(&format!("copy: {name} {bytes} bytes, {:.1} GB/s", bytes as f64 / ns), ns);
        }
    }
    let lock = me.atomics_lock(target).unwrap();
    say(
        "atomics: fetch and add in another process",
        median(20_000, |_| {
            // SAFETY: the bytes are in the child's mapping, which nobody else uses.
            let r = unsafe {
                atomics::execute(
                    lock,
                    me.owner(),
                    &**me,
                    LIMIT,
                    &image,
                    target,
                    atomics::Operation::FetchAdd(1),
                )
            };
            r.unwrap();
        }),
    );
}

fn hops() {
    let words = shared(4096).cast::<AtomicU64>();
    // SAFETY: the words are in the mapping, on two cache lines, and only accessed as atomics.
    let (a, b) = unsafe { (&*words, &*words.add(16)) };
    let _child = Child::start(|| {
        for turn in 1.. {
            while a.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
            b.store(turn, Ordering::Release);
        }
    });
    let mut turn = 0;
    say(
        "cache line: one way between two processes",
        median(20_000, |_| {
            turn += 1;
            a.store(turn, Ordering::Release);
            while b.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
        }) / 2.0,
    );
}

fn keys(me: &Arc<Segment>) {
    let keys = Keys::new(me.clone()).unwrap();
    let key = Key {
        kind: Kind::Region,
        valid: true,
        pd: 1,
        start: 4096,
        length: 4096,
        access: Access::REMOTE_WRITE,
    };
    let all: Vec<u32> = (0..1000).map(|_| keys.add(&Entry { key, base: 4096 }).unwrap()).collect();
    let table = keys::Table::shared(me);
    say(
        "keys: lookup (1000 keys)",
        median(100_000, |n| {
            assert!(table.lookup(all[n as usize % 1000]).is_ok());
        }),
    );
    say(
        "keys: pin, lookup, unpin",
        median(100_000, |n| {
            drop(table.pin(all[n as usize % 1000], me.owner(), &**me).unwrap());
        }),
    );
    say(
        "keys: add and remove",
        median(10_000, |_| {
            let key = keys.add(&Entry { key, base: 4096 }).unwrap();
            keys.remove(key, &**me, LIMIT).unwrap();
        }),
    );
}

fn deliver(on: &impl Transport, completion: &Completion) {
    let qp = Object::Qp(0);
    post(on, qp, &ReceiveRequest { wr_id: 1, sges: Default::default() }).unwrap();
    let mut operation = Operation::new(on);
    operation.lock(qp).unwrap();
    let head = on.load(Word::Qp(0, QpWord::Head)) as u32;
    operation.run(Deliver::receive(0, Take::Head(head.wrapping_add(1)), 0, completion, false)).unwrap();
    operation.unlock(qp);
    assert!(poll(on, 0, &mut Staged::default()).unwrap().is_some());
}

fn deliveries(me: &Arc<Segment>) {
    let objects = Objects::new(me.clone()).unwrap();
    let shape = Shape { capacity: 64, receive_words: 4, bell: None, alert: None };
    let cq = objects.create(Object::Cq(0), Shape { receive_words: 0, ..shape }).unwrap();
    let qp = objects.create(Object::Qp(0), shape).unwrap();
    assert_eq!((qp, cq), (Object::Qp(0), Object::Cq(0)));
    let host = Host::own(me.clone());
    let completion = Completion { status: Status::Success, ..Completion::flushed(1, WcOpcode::Recv, 0) };
    let what = "queues: post a receive, deliver by the journal, poll";
    say(&format!("{what} (Host)"), median(20_000, |_| deliver(&host, &completion)));
    let of = [Some(qp), Some(cq), None];
    say(&format!("{what} (View)"), median(20_000, |_| deliver(&host.with(&host.find(of)), &completion)));
    let held = host.find(of);
    say(&format!("{what} (View, kept)"), median(20_000, |_| deliver(&host.with(&held), &completion)));
}

fn main() {
    let dir = PathBuf::from(format!("/dev/shm/ironverbs-bench-{}", std::process::id()));
    let folder = Arc::new(Folder::open(&Config { path: dir.clone(), group: None }).unwrap());
    let me = Arc::new(Segment::create(folder.clone()).unwrap());

    let word = me.alloc(64, 64).unwrap();
    let lock = Lock::at(me.memory().u64(word.offset).unwrap());
    say(
        "lock: lock and unlock, uncontended",
        median(200_000, |_| {
            assert!(lock.lock(me.owner(), &*me, LIMIT).is_some());
            lock.unlock(me.owner());
        }),
    );
    say("fork: is this still my process", median(200_000, |_| assert!(me.is_mine())));
    hops();
    keys(&me);
    deliveries(&me);

    let peer = {
        let _other = Child::start(|| {
            let _mine = Segment::create(folder.clone()).unwrap();
            loop {
                // SAFETY: sleeps until a signal.
                unsafe { libc::pause() };
            }
        });
        let peer = loop {
            match Peer::open(&folder, 1) {
                Ok(peer) => break peer,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        say("liveness: of an open peer (F_GETLK)", median(20_000, |_| assert!(peer.lives())));
        say("liveness: of the signature in a lock", median(20_000, |_| assert!(me.lives(peer.owner()))));
        say("peer: process id, believed", median(200_000, |_| assert!(peer.pid().is_ok())));
        say("peer: open and close", median(2000, |_| drop(Peer::open(&folder, 1).unwrap())));
        peer
    };
    assert!(!peer.lives());
    copies(&me);
    bells(&dir, &me);
    say(
        "claim: a slot and give it back, one other in the folder",
        median(500, |_| {
            drop(Segment::create(folder.clone()).unwrap());
        }),
    );
    let (mut sender, mut receiver) = std::io::pipe().map(|(r, w)| (w, r)).unwrap();
    let others = Child::start(|| {
        let _all: Vec<Segment> = (0..200).map(|_| Segment::create(folder.clone()).unwrap()).collect();
        sender.write_all(&[1]).unwrap();
        loop {
            // SAFETY: sleeps until a signal.
            unsafe { libc::pause() };
        }
    });
    receiver.read_exact(&mut [0]).unwrap();
    say(
        "claim: a slot and give it back, 201 others in the folder",
        median(50, |_| drop(Segment::create(folder.clone()).unwrap())),
    );
    drop(others);
    drop(me);
    let _ = std::fs::remove_dir_all(&dir);
}
