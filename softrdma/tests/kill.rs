//! Processes that are killed anywhere: senders deliver into the queues of a receiver, are ended by SIGKILL at
//! random moments, some of them stopped before, and new ones take over what they left half done. Messages go
//! singly and in bursts. The receiver must see every receive request completed exactly once and in order, with
//! its payload, and the folder must be empty at the end.
//!
//! `KILLS` sets the number of kills (500).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softrdma::queues::burst::Burst;
use softrdma::queues::claim::{ClaimRequest, Claimed};
use softrdma::queues::completion::{Arm, Stage};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::receive::{next_in_claim, next_in_ring};
use softrdma::queues::respond::Queues;
use softrdma::queues::shared::{Memory, Object, QpWord, Take, Word};
use softrdma::queues::transaction::{LockError, Locked};
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::queues::transport::{Operation, Transport, acquire, run};
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::{Next, ReceiveRequest, Sge};
use softrdma::rules::responder::{Incoming, TargetQp};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma::shm::bell::Bell;
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::lock::Owner;
use softrdma::shm::objects::{Host, Objects, Shape};
use softrdma::shm::segment::{Peer, Segment};
use softrdma::shm::slot;
use softrdma_testing::pass_on;
use softrdma_testing::poll::{Staged, poll};
use softrdma_testing::post::post;

const RING: u32 = 64;
const SENDERS: usize = 3;
/// Ends a wait for what never comes. Nothing takes that long on any machine.
const GUARD: Duration = Duration::from_secs(300);
/// What all processes of the test count together.
#[repr(C)]
struct Counters {
    delivered: AtomicU64,
    /// Those of them that went in bursts.
    in_bursts: AtomicU64,
    recovered: AtomicU64,
    claims: AtomicU64,
    /// Deliveries that were given up because another sender has the queue and does not go on.
    given_up: AtomicU64,
    /// As whom each sender works.
    names: [AtomicU64; SENDERS],
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
    pass_on!(0: load store exchange many shape);
}

impl<T: Transport> Transport for Counting<'_, T> {
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        let locked = self.0.lock(object);
        if locked == Ok(Locked::Recovered) {
            self.1.recovered.fetch_add(1, Ordering::Relaxed);
        }
        locked
    }
    fn unlock(&self, object: Object) -> bool {
        self.0.unlock(object)
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

/// Queue pairs of the receiver, in the order they were made: the first two have rings, the others share a
/// queue.
const QPS: u32 = 4;
const OWN_RINGS: u32 = 2;
const SRQ: u32 = 0;

fn cq_of(qp: u32) -> u32 {
    qp % 2
}

/// Bytes of the message for a receive request: nothing, or more than a cache line of it.
fn length(wr_id: u64) -> u32 {
    (wr_id % 3) as u32 * 65
}

fn payload(wr_id: u64) -> Vec<u8> {
    (0..u64::from(length(wr_id))).map(|n| (wr_id * 31 + n) as u8).collect()
}

/// Delivers one message; `false` when the receiver is not ready.
///
/// # Errors
/// [`LockError::Held`]: a sender that lives has a queue and does not go on. What was begun is left to who has
/// the queue pair's lock next, as at a death.
fn send(to: &impl Transport, qp: u32, sender: u32) -> Result<bool, LockError> {
    let mut operation = Operation::new(to);
    operation.lock(Object::Qp(qp))?;
    let next = if qp < OWN_RINGS {
        let head = to.load(Word::Qp(qp, QpWord::Head)) as u32;
        Some((Take::Head(head), next_in_ring(to, qp)))
    } else {
        if next_in_claim(to, qp).is_none() {
            assert_ne!(operation.run(ClaimRequest::new(qp, SRQ))?, Claimed::Broken);
        }
        next_in_claim(to, qp).map(|(_, next)| (Take::Claim(0), next))
    };
    let ready = match next {
        Some((take, Next::Request(request))) => {
            let completion = Completion {
                status: Status::Success,
                byte_len: length(request.wr_id),
                imm_or_key: !(request.wr_id as u32),
                src_qp: sender,
                flags: WcFlags::WITH_IMM,
                ..Completion::flushed(request.wr_id, WcOpcode::Recv, qp)
            };
            assert_eq!(request.length(), u64::from(length(request.wr_id)));
            let bytes = payload(request.wr_id);
            let first = request.sges.first().copied().unwrap_or_default();
            let stage = Stage { addr: first.addr, lkey: first.lkey, bytes: &bytes };
            let stage = (!bytes.is_empty()).then_some(stage);
            let deliver = Deliver::receive(qp, take, cq_of(qp), &completion, false).with(stage);
            assert_eq!(operation.run(deliver)?, Delivered::Published);
            true
        }
        Some((_, Next::Broken)) => panic!("a damaged receive request"),
        _ => false,
    };
    operation.unlock(Object::Qp(qp));
    Ok(ready)
}

/// Delivers up to so many messages in a burst, and tells how many went.
///
/// # Errors
/// As those of [`send`].
fn burst(to: &impl Transport, qp: u32, sender: u32, count: u64) -> Result<u64, LockError> {
    let mut operation = Operation::new(to);
    operation.lock(Object::Qp(qp))?;
    let target = TargetQp {
        qp_num: qp,
        qp_type: QpType::Rc,
        state: QpState::Rts,
        pd: 1,
        receive_pd: 1,
        access: Access::NONE,
        dest_qp_num: sender,
        qkey: 0,
        max_dest_rd_atomic: 0,
        min_rnr_timer: 0,
        srq: qp >= OWN_RINGS,
    };
    let start = 0;
    let key = Key { kind: Kind::Region, valid: true, pd: 1, start, length: u64::MAX, access: Access(1) };
    let mut burst = Burst::default();
    burst.open(to, &Queues { qp, cq: cq_of(qp), srq: target.srq.then_some(SRQ) });
    // Requests of a ring have numbers that follow one another.
    let next = match next_in_ring(to, qp) {
        Next::Request(request) if burst.is_open() => request.wr_id..request.wr_id + count,
        _ => 0..0,
    };
    let mut delivered = 0;
    for wr_id in next {
        let bytes = payload(wr_id);
        burst.bytes()[..bytes.len()].copy_from_slice(&bytes);
        let request = Incoming {
            qp_type: QpType::Rc,
            opcode: Opcode::SendWithImm,
            src_qp: sender,
            path_matches: true,
            qkey: 0,
            ipv4: false,
            length: bytes.len() as u64,
            addr: 0,
            imm_or_key: !(wr_id as u32),
            solicited: false,
            timestamp: 0,
        };
        let lookup = |lkey| (lkey == 1).then_some(key);
        if !burst.offer(to, &target, &request, lookup) || !go_on(&mut operation, to, &mut burst)? {
            break;
        }
        delivered += 1;
    }
    burst.close();
    assert!(!go_on(&mut operation, to, &mut burst)?);
    operation.unlock(Object::Qp(qp));
    Ok(delivered)
}

/// Goes on until a message is delivered or the burst is closed.
fn go_on<T: Transport>(
    operation: &mut Operation<'_, T>,
    to: &T,
    burst: &mut Burst,
) -> Result<bool, LockError> {
    loop {
        match burst.step(to) {
            Progress::Done(delivered) => return Ok(delivered),
            progress => assert!(operation.proceed(&progress)?),
        }
    }
}

/// Delivers some messages: in a burst, or one by itself.
fn deliver(to: &impl Transport, qp: u32, sender: u32, count: u64, counters: &Counters) {
    let moved: Result<u64, LockError> = (|| {
        let in_burst = if count > 0 { burst(to, qp, sender, count)? } else { 0 };
        counters.in_bursts.fetch_add(in_burst, Ordering::Relaxed);
        // What does not go in a burst goes the other way.
        Ok(in_burst + u64::from(in_burst == 0 && send(to, qp, sender)?))
    })();
    match moved {
        Ok(moved) => _ = counters.delivered.fetch_add(moved, Ordering::Relaxed),
        Err(why) => {
            assert_eq!(why, LockError::Held);
            counters.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A sender's life: claims a slot, uses its own segment, delivers, gives the slot back, and again.
fn sender(folder: &Arc<Folder>, receiver: u16, place: usize, number: u32, counters: &Counters) -> ! {
    let mut random = Random(u64::from(number) * 2654435761 + 1);
    loop {
        let me = Arc::new(Segment::create(folder.clone()).unwrap());
        counters.claims.fetch_add(1, Ordering::Relaxed);
        counters.names[place].store(me.owner().word(), Ordering::Release);
        let bell = Bell::new(&me).unwrap();
        let objects = Objects::new(me.clone()).unwrap();
        let peer = Arc::new(Peer::open(folder, receiver).unwrap());
        let host = Host::of_peer(me.clone(), peer);
        for round in 0..random.below(400) {
            let qp = random.below(u64::from(QPS)) as u32;
            let count = random.below(2) * (1 + random.below(8));
            // The two forms of the transport take turns.
            if round % 2 == 0 {
                deliver(&Counting(&host, counters), qp, number, count, counters);
            } else {
                let of = [Object::Qp(qp), Object::Srq(SRQ), Object::Cq(cq_of(qp))];
                let held = host.find(of.map(Some));
                deliver(&Counting(&host.with(&held), counters), qp, number, count, counters);
            }
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
    drains: u64,
}

impl Receiver {
    fn new(host: Host) -> Self {
        Self {
            host: Arc::new(host),
            posted: Default::default(),
            expected: Default::default(),
            last: Default::default(),
            seen: HashSet::new(),
            completions: 0,
            drains: 0,
        }
    }

    fn fill(&mut self) {
        for (ring, posted) in self.posted.iter_mut().enumerate() {
            let queue = if ring < OWN_RINGS as usize { Object::Qp(ring as u32) } else { Object::Srq(SRQ) };
            loop {
                // The first piece takes all: what is for more of them does not go in a burst.
                let sge = Sge { addr: *posted, length: length(*posted), lkey: 1 };
                let rest = Sge { length: 0, ..sge };
                let sges = [sge, rest].into_iter().take((*posted % 3) as usize).collect();
                let request = ReceiveRequest { wr_id: *posted, sges };
                if post(&*self.host, queue, &request).is_err() {
                    break;
                }
                *posted += 1;
            }
        }
    }

    fn drain(&mut self) {
        let mut staged = Staged::default();
        self.drains += 1;
        for cq in 0..2 {
            // Bursts wake nobody, and go only while the queue is not armed.
            if self.drains.is_multiple_of(8) {
                run(&*self.host, Arm::new(cq, false)).unwrap();
            }
            while let Some(c) = poll(&*self.host, cq, &mut staged).expect("a damaged completion queue") {
                assert_eq!(c.status, Status::Success);
                assert_eq!(cq_of(c.qp_num), cq);
                assert_eq!(c.imm_or_key, !(c.wr_id as u32));
                assert_eq!(c.byte_len, length(c.wr_id));
                let bytes: Vec<u8> = staged.words().iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert_eq!(bytes[..staged.len()], payload(c.wr_id));
                assert!(staged.is_empty() || (staged.addr, staged.lkey) == (c.wr_id, 1));
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

    /// Receives for this time, and until something is so.
    fn work_until(&mut self, bell: &Bell, time: Duration, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < time || !is_so() {
            assert!(begun.elapsed() < GUARD, "the senders do not get on");
            self.drain();
            self.fill();
            bell.silence();
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
            while send(&to, qp, 0).unwrap() {}
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

/// Stops a child.
fn stop(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    unsafe {
        libc::kill(pid, libc::SIGSTOP);
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
    }
    assert!(libc::WIFSTOPPED(status), "a sender failed");
}

/// Kills a sender; answers whether it lived until then.
fn kill_sender(pid: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
    }
    libc::WIFSIGNALED(status)
}

/// The queues of the receiver.
fn create_queues(objects: &Objects, bell: &Bell) {
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
    create_queues(&objects, &bell);
    let mut receiver = Receiver::new(Host::own(me.clone()));
    receiver.fill();
    let host = receiver.host.clone();

    let start = Instant::now();
    let mut random =
        Random(0x9e37_79b9_7f4a_7c15 ^ start.elapsed().as_nanos() as u64 ^ u64::from(std::process::id()));
    let mut number = 0;
    let mut spawn = |place: usize| {
        number += 1;
        counters.names[place].store(0, Ordering::Relaxed);
        // SAFETY: the child uses nothing of the other threads, and never returns.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system call; the child must not outlive a failed test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let life = || sender(&folder, me.owner().slot(), place, number, counters);
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(1) };
        }
        pid
    };
    let mut senders: Vec<libc::pid_t> = (0..SENDERS).map(&mut spawn).collect();
    // Queues first, whose locks are not waited for as long as that of a queue pair.
    let queues = [Object::Cq(0), Object::Cq(1), Object::Srq(SRQ)];
    let all: Vec<_> = queues.into_iter().chain((0..QPS).map(Object::Qp)).collect();
    let lock_of = |place: usize, objects: &[Object]| {
        let it = Owner::from_word(counters.names[place].load(Ordering::Acquire));
        objects.iter().copied().find(|object| it.is_some() && host.holder(*object) == it)
    };
    // One more sender, who looks whether a queue is to be had.
    let other = Arc::new(Segment::create(folder.clone()).unwrap());
    let peer = Arc::new(Peer::open(&folder, me.owner().slot()).unwrap());
    let other = Host::of_peer(other, peer);
    for kill in 0..kills {
        let which = random.below(SENDERS as u64) as usize;
        let pause = Duration::from_micros(random.below(20_000));
        receiver.work_until(&bell, pause, || true);
        // Some with a lock, which another one takes over then; some of these are stopped with that of a queue
        // until others have given it up.
        let (with_a_lock, for_long) = (kill % 16 == 15, kill % 64 == 63);
        let objects = if for_long { &queues } else { &all[..] };
        let (mut is_met, since) = (!with_a_lock, Instant::now());
        while !is_met {
            let pause = Duration::from_micros(random.below(200));
            receiver.work_until(&bell, pause, || lock_of(which, objects).is_some());
            stop(senders[which]);
            if let Some(object) = lock_of(which, objects) {
                assert!(!for_long || acquire(&other, object) == Err(LockError::Held));
                is_met = true;
                continue;
            }
            assert!(since.elapsed() < GUARD, "no sender is stopped with a lock");
            // SAFETY: the process is our child.
            unsafe { libc::kill(senders[which], libc::SIGCONT) };
        }
        assert!(kill_sender(senders[which]), "a sender failed before kill {kill}");
        senders[which] = spawn(which);
    }
    // On a busy machine the senders have not come so far yet.
    let enough = || counters.in_bursts.load(Ordering::Relaxed) > u64::from(kills);
    receiver.work_until(&bell, Duration::ZERO, enough);
    assert!(senders.into_iter().all(kill_sender), "a sender failed");
    receiver.settle(counters);
    drop(other);
    slot::sweep(&folder).unwrap();
    let names = || std::fs::read_dir(&dir.0).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names().len(), 2, "besides the receiver's segment and bell: {:?}", names());
    drop((receiver.host, host, objects, bell, me));
    assert!(names().is_empty(), "{:?}", names());
    let recovered = counters.recovered.load(Ordering::Relaxed);
    let in_bursts = counters.in_bursts.load(Ordering::Relaxed);
    println!(
        "{kills} kills in {:.1} s: {} completions, {in_bursts} of them in bursts, {} claims, {recovered} \
         locks taken over from the dead, {} deliveries given up",
        start.elapsed().as_secs_f64(),
        receiver.completions,
        counters.claims.load(Ordering::Relaxed),
        counters.given_up.load(Ordering::Relaxed),
    );
    // Otherwise the kills did not hit what they are for.
    assert!(u64::from(kills) < 100 || recovered > u64::from(kills) / 50);
    assert!(u64::from(kills) < 100 || in_bursts > u64::from(kills));
}
