//! Processes that are killed anywhere: senders deliver into the queues of a receiver, are ended by SIGKILL at random
//! moments, and new ones take over what they left half done. The receiver must see every receive request completed
//! exactly once and in order, and the folder must be empty at the end.
//!
//! `KILLS` sets the number of kills (500).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softrdma::core::claim::{Claim, Claimed};
use softrdma::core::completion::{Arm, Completion, Staged, poll};
use softrdma::core::deliver::{Deliver, Delivered};
use softrdma::core::receive::{Next, ReceiveRequest, Sge, next_in_claim, next_in_ring, post};
use softrdma::core::shared::{Memory, Object, QpWord, Take, Word};
use softrdma::core::transport::{LockError, Locked, Operation, Transport, run};
use softrdma::core::verbs::{Status, WcFlags, WcOpcode};
use softrdma::host::bell::Bell;
use softrdma::host::folder::{Config, Folder};
use softrdma::host::objects::{Host, Objects, Shape};
use softrdma::host::segment::{Peer, Segment};
use softrdma::host::slot;

const RING: u32 = 64;
const SENDERS: usize = 3;

/// What all processes of the test count together.
#[repr(C)]
struct Counters {
    delivered: AtomicU64,
    recovered: AtomicU64,
    claims: AtomicU64,
}

fn counters() -> &'static Counters {
    // SAFETY: a new shared mapping at an address of the kernel's choice, whose zeroes are valid counters.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let p = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        &*p.cast::<Counters>()
    }
}

/// A transport that counts the locks it took over from the dead.
struct Counting<'a, T>(&'a T, &'a Counters);

impl<T: Memory> Memory for Counting<'_, T> {
    fn load(&self, word: Word) -> u64 {
        self.0.load(word)
    }
    fn store(&self, word: Word, value: u64) {
        self.0.store(word, value);
    }
    fn exists(&self, object: Object) -> bool {
        self.0.exists(object)
    }
    fn capacity(&self, object: Object) -> u32 {
        self.0.capacity(object)
    }
    fn receive_words(&self, queue: Object) -> u32 {
        self.0.receive_words(queue)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.0.entry_words(cq)
    }
}

impl<T: Transport> Transport for Counting<'_, T> {
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        let locked = self.0.lock(object);
        if locked == Ok(Locked::Recovered) {
            self.1.recovered.fetch_add(1, Ordering::Relaxed);
        }
        locked
    }
    fn unlock(&self, object: Object) {
        self.0.unlock(object);
    }
    fn abandon(&self, object: Object) {
        self.0.abandon(object);
    }
    fn bell(&self, cq: u32) -> bool {
        self.0.bell(cq)
    }
    fn alert(&self, object: Object) {
        self.0.alert(object);
    }
}

/// Small random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Queue pairs of the receiver, in the order they were made: the first two have rings, the others share a queue.
const QPS: u32 = 4;
const OWN_RINGS: u32 = 2;
const SRQ: u32 = 0;

fn cq_of(qp: u32) -> u32 {
    qp % 2
}

/// Delivers one message; `false` when the receiver is not ready.
fn send(to: &impl Transport, qp: u32, sender: u32) -> bool {
    let mut operation = Operation::new(to);
    operation.lock(Object::Qp(qp)).unwrap();
    let next = if qp < OWN_RINGS {
        let head = to.load(Word::Qp(qp, QpWord::Head)) as u32;
        Some((Take::Head(head), next_in_ring(to, qp)))
    } else {
        if next_in_claim(to, qp).is_none() {
            assert_ne!(operation.run(Claim::new(qp, SRQ)), Ok(Claimed::Broken));
        }
        next_in_claim(to, qp).map(|(_, next)| (Take::Claim, next))
    };
    let ready = match next {
        Some((take, Next::Request(request))) => {
            let completion = Completion {
                wr_id: request.wr_id,
                status: Status::Success,
                opcode: WcOpcode::Recv,
                vendor_err: 0,
                byte_len: request.length() as u32,
                imm_or_key: !(request.wr_id as u32),
                qp_num: qp,
                src_qp: sender,
                flags: WcFlags::NONE,
                timestamp: 0,
            };
            let done = operation.run(Deliver::receive(qp, take, cq_of(qp), &completion, false));
            assert_eq!(done, Ok(Delivered::Published));
            true
        }
        Some((_, Next::Broken)) => panic!("a damaged receive request"),
        _ => false,
    };
    operation.unlock(Object::Qp(qp));
    ready
}

/// A sender's life: claims a slot, uses its own segment, delivers, gives the slot back, and again.
fn sender(folder: &Arc<Folder>, receiver: u16, number: u32, counters: &Counters) -> ! {
    let mut random = Random(u64::from(number) * 2654435761 + 1);
    loop {
        let me = Arc::new(Segment::create(folder.clone()).unwrap());
        counters.claims.fetch_add(1, Ordering::Relaxed);
        let bell = Bell::new(&me).unwrap();
        let objects = Objects::new(me.clone()).unwrap();
        let peer = Arc::new(Peer::open(folder, receiver).unwrap());
        let host = Host::of_peer(me.clone(), peer);
        for round in 0..random.below(400) {
            let qp = random.below(u64::from(QPS)) as u32;
            // The two forms of the transport take turns.
            let delivered = if round % 2 == 0 {
                send(&Counting(&host, counters), qp, number)
            } else {
                let of = [Object::Qp(qp), Object::Srq(SRQ), Object::Cq(cq_of(qp))];
                send(&Counting(&host.with(&host.find(of.map(Some))), counters), qp, number)
            };
            counters.delivered.fetch_add(u64::from(delivered), Ordering::Relaxed);
            if round % 16 == 0 {
                let shape = Shape { capacity: 128, receive_words: 0, bell: Some(bell.number()), alert: None };
                let cq = objects.create(Object::Cq(0), shape).unwrap();
                let block = me.alloc(random.below(200_000), 64).unwrap();
                objects.destroy(cq).unwrap();
                me.free(block);
            }
        }
    }
}

struct Receiver {
    host: Arc<Host>,
    /// Number of the next receive request, of each own ring and of the shared queue.
    posted: [u64; OWN_RINGS as usize + 1],
    /// Number of the completion that must come next, of each own ring.
    expected: [u64; OWN_RINGS as usize],
    /// Last completion of each queue pair on the shared queue, plus one.
    last: [u64; QPS as usize],
    seen: HashSet<u64>,
    completions: u64,
}

impl Receiver {
    fn fill(&mut self) {
        for (ring, posted) in self.posted.iter_mut().enumerate() {
            let queue = if ring < OWN_RINGS as usize { Object::Qp(ring as u32) } else { Object::Srq(SRQ) };
            loop {
                let sge = Sge { addr: *posted, length: 3, lkey: 1 };
                let request = ReceiveRequest {
                    wr_id: *posted,
                    sges: std::iter::repeat_n(sge, (*posted % 3) as usize).collect(),
                };
                if post(&*self.host, queue, &request).is_err() {
                    break;
                }
                *posted += 1;
            }
        }
    }

    fn drain(&mut self) {
        for cq in 0..2 {
            run(&*self.host, Arm::new(cq, false)).unwrap();
            while let Some(c) =
                poll(&*self.host, cq, &mut Staged::default()).expect("a damaged completion queue")
            {
                assert_eq!(c.status, Status::Success);
                assert_eq!(cq_of(c.qp_num), cq);
                assert_eq!(c.imm_or_key, !(c.wr_id as u32));
                assert_eq!(u64::from(c.byte_len), c.wr_id % 3 * 3);
                let qp = c.qp_num as usize;
                if c.qp_num < OWN_RINGS {
                    assert_eq!(c.wr_id, self.expected[qp], "queue pair {qp}: lost, doubled or out of order");
                    self.expected[qp] += 1;
                } else {
                    assert!(c.wr_id >= self.last[qp], "queue pair {qp}: out of order");
                    self.last[qp] = c.wr_id + 1;
                    assert!(self.seen.insert(c.wr_id), "shared queue: request {} completed twice", c.wr_id);
                }
                self.completions += 1;
            }
        }
    }

    /// After the last sender died: everything is whole, and what was posted has completed or is still there.
    fn settle(&mut self, counters: &Counters) {
        let host = self.host.clone();
        let to = Counting(&*host, counters);
        for object in (0..QPS).map(Object::Qp).chain([Object::Srq(SRQ), Object::Cq(0), Object::Cq(1)]) {
            let mut operation = Operation::new(&to);
            operation.lock(object).unwrap();
            operation.unlock(object);
        }
        self.drain();
        for qp in 0..OWN_RINGS {
            let head = self.host.load(Word::Qp(qp, QpWord::Head));
            assert_eq!(head, self.expected[qp as usize] & 0xffff_ffff);
            assert_eq!(self.host.load(Word::Qp(qp, QpWord::Journal)), 0);
        }
        // Finish the shared queue: what is posted or held completes, each once.
        for qp in OWN_RINGS..QPS {
            while send(&to, qp, 0) {}
        }
        self.drain();
        assert_eq!(self.seen.len() as u64, self.posted[OWN_RINGS as usize], "shared queue: requests lost");
    }
}

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn senders_are_killed_anywhere() {
    let kills: u32 = std::env::var("KILLS").ok().map_or(500, |k| k.parse().expect("KILLS is no number"));
    // SAFETY: reads a number of the process.
    let dir = Dir(PathBuf::from(format!("/dev/shm/ironverbs-test-kill-{}", unsafe { libc::getpid() })));
    let folder = Arc::new(Folder::open(&Config { path: dir.0.clone(), group: None }).unwrap());
    let counters = counters();
    let me = Arc::new(Segment::create(folder.clone()).unwrap());
    let bell = Bell::new(&me).unwrap();
    let objects = Objects::new(me.clone()).unwrap();
    for cq in 0..2 {
        let shape = Shape { capacity: 1024, receive_words: 0, bell: Some(bell.number()), alert: None };
        assert_eq!(objects.create(Object::Cq(0), shape), Ok(Object::Cq(cq)));
    }
    let queue = Shape { capacity: RING, receive_words: 2 + 2 * 4, bell: None, alert: Some(bell.number()) };
    assert_eq!(objects.create(Object::Srq(0), queue), Ok(Object::Srq(SRQ)));
    for qp in 0..QPS {
        let capacity = if qp < OWN_RINGS { RING } else { 0 };
        assert_eq!(objects.create(Object::Qp(0), Shape { capacity, ..queue }), Ok(Object::Qp(qp)));
    }
    let mut receiver = Receiver {
        host: Arc::new(Host::own(me.clone())),
        posted: Default::default(),
        expected: Default::default(),
        last: Default::default(),
        seen: HashSet::new(),
        completions: 0,
    };
    receiver.fill();

    let start = Instant::now();
    let mut random =
        Random(0x9e37_79b9_7f4a_7c15 ^ start.elapsed().as_nanos() as u64 ^ u64::from(std::process::id()));
    let mut number = 0;
    let mut spawn = || {
        number += 1;
        // SAFETY: the child uses nothing of the other threads, and never returns.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system call; the child must not outlive a failed test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let life = || sender(&folder, me.owner().slot(), number, counters);
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(1) };
        }
        pid
    };
    let mut senders: Vec<libc::pid_t> = (0..SENDERS).map(|_| spawn()).collect();
    for kill in 0..kills {
        let until = Instant::now() + Duration::from_micros(random.below(20_000));
        while Instant::now() < until {
            receiver.drain();
            receiver.fill();
            bell.silence();
        }
        let which = random.below(SENDERS as u64) as usize;
        let mut status = 0;
        // SAFETY: the process is our child; `status` is writable.
        unsafe {
            libc::kill(senders[which], libc::SIGKILL);
            assert_eq!(libc::waitpid(senders[which], &mut status, 0), senders[which]);
        }
        assert!(libc::WIFSIGNALED(status), "a sender failed before kill {kill}");
        senders[which] = spawn();
    }
    for pid in senders {
        let mut status = 0;
        // SAFETY: as above.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        }
        assert!(libc::WIFSIGNALED(status), "a sender failed");
    }
    receiver.settle(counters);
    slot::sweep(&folder).unwrap();
    let names = || std::fs::read_dir(&dir.0).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names().len(), 2, "besides the receiver's segment and bell: {:?}", names());
    drop((receiver.host, objects, bell, me));
    assert!(names().is_empty(), "{:?}", names());
    let recovered = counters.recovered.load(Ordering::Relaxed);
    println!(
        "{kills} kills in {:.1} s: {} completions, {} claims, {recovered} locks taken over from the dead",
        start.elapsed().as_secs_f64(),
        receiver.completions,
        counters.claims.load(Ordering::Relaxed),
    );
    // Otherwise the kills did not hit what they are for.
    assert!(u64::from(kills) < 100 || recovered > u64::from(kills) / 50);
}
