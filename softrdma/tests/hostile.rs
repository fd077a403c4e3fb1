//! A living peer whose segment is full of lies: whatever stands there, nothing crashes, nothing outside is
//! touched, and every call ends.

use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bolero::TypeGenerator;
use bolero::generator::produce;
use proptest::prelude::*;
use softrdma::queues::burst::Burst;
use softrdma::queues::claim::ClaimRequest;
use softrdma::queues::deliver::Deliver;
use softrdma::queues::receive::{next_in_claim, next_in_ring};
use softrdma::queues::respond::Queues;
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, Take, Word};
use softrdma::queues::transaction::LockError;
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::queues::transport::{Operation, Transport};
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::{ReceiveRequest, Sge};
use softrdma::rules::responder::{Incoming, TargetQp};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status, WcOpcode};
use softrdma::shm::bell::BellHandle;
use softrdma::shm::copy::probe;
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::keys;
use softrdma::shm::lock::Owner;
use softrdma::shm::objects::{Host, Objects};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::content::segment_of;
use softrdma_testing::poll::{Staged, poll};
use softrdma_testing::post::post;

/// Bytes of the peer's segment that are written over.
const SIZE: usize = 128 << 10;
/// Magic number, version and signature: without them nothing else is even looked at.
const IDENTITY: usize = 24;

const TARGET: TargetQp = TargetQp {
    qp_num: 1,
    qp_type: QpType::Rc,
    state: QpState::Rts,
    pd: 1,
    receive_pd: 1,
    access: Access::NONE,
    dest_qp_num: 2,
    qkey: 0,
    max_dest_rd_atomic: 0,
    min_rnr_timer: 0,
    srq: false,
};

const SEND: Incoming = Incoming {
    qp_type: QpType::Rc,
    opcode: Opcode::Send,
    src_qp: 2,
    path_matches: true,
    qkey: 0,
    ipv4: false,
    length: 0,
    addr: 0,
    imm_or_key: 0,
    solicited: false,
    timestamp: 0,
};

struct Stage {
    path: PathBuf,
    folder: Arc<Folder>,
    me: Arc<Segment>,
    child: libc::pid_t,
    /// Messages that went in bursts.
    in_bursts: Cell<u32>,
}

impl Stage {
    /// The test process in slot 0 and a sleeping process in slot 1.
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/ironverbs-test-{name}-{}", std::process::id()));
        let folder = Arc::new(Folder::open(&Config { path: path.clone(), group: None }).unwrap());
        let me = Arc::new(Segment::create(folder.clone()).unwrap());
        // SAFETY: the child uses nothing of the other threads, and never returns.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let life = || {
                // SAFETY: plain system call; the child must not outlive a failed test.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let segment = Segment::create(folder.clone()).unwrap();
                segment.alloc(SIZE as u64, 64).unwrap();
                loop {
                    std::thread::sleep(Duration::from_secs(1000));
                }
            };
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(1) };
        }
        while Peer::open(&folder, 1).map_or(0, |p| p.memory().len()) < SIZE {
            std::thread::sleep(Duration::from_millis(1));
        }
        Stage { path, folder, me, child, in_bursts: Cell::new(0) }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: the process is our child; its status is not wanted.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Writes what lets bursts go: on nothing but lies few of them do.
fn could_be_true(to: &impl Memory, qp: u32, cq: u32) {
    let head = to.load(Word::Qp(qp, QpWord::Head)) as u32;
    to.store(Word::Qp(qp, QpWord::Tail), u64::from(head.wrapping_add(3)));
    to.store(Word::Qp(qp, QpWord::Seen), u64::from(head));
    let queue = Object::Qp(qp);
    for slot in 0..to.capacity(queue).min(4) {
        to.store(Word::Receive { queue, slot, word: 1 }, 1);
        to.store(Word::Receive { queue, slot, word: 3 }, 64);
    }
    let tail = to.load(Word::Cq(cq, CqWord::Tail));
    to.store(Word::Cq(cq, CqWord::Head), tail);
    for word in [CqWord::Armed, CqWord::Events, CqWord::Journal] {
        to.store(Word::Cq(cq, word), 0);
    }
    to.store(Word::Attribute { object: Object::Cq(cq), word: 0 }, 0);
}

/// A burst at a queue pair whose lock is held, as far as it goes.
fn burst(to: &impl Transport, qp: u32, cq: u32, stage: &Stage) {
    let mut operation = Operation::new(to);
    let mut burst = Burst::default();
    burst.open(to, &Queues { qp, cq, srq: None });
    for message in 0..80 {
        let request = Incoming { length: message % 3 * 8, ..SEND };
        let key =
            Key { kind: Kind::Region, valid: true, pd: 1, start: 0, length: u64::MAX, access: Access(1) };
        if !burst.offer(to, &TARGET, &request, |_| Some(key)) {
            break;
        }
        match go_on(&mut operation, to, &mut burst) {
            Ok(true) => stage.in_bursts.set(stage.in_bursts.get() + 1),
            Ok(false) => assert!(!burst.is_open()),
            // A lock that cannot be had: the sender gives the queue pair up.
            Err(_) => return,
        }
    }
    burst.close();
    assert_ne!(go_on(&mut operation, to, &mut burst), Ok(true));
}

/// Goes on until a message is delivered or the burst is closed.
fn go_on<T: Transport>(
    operation: &mut Operation<'_, T>,
    to: &T,
    burst: &mut Burst,
) -> Result<bool, LockError> {
    for _ in 0..20 {
        match burst.step(to) {
            Progress::Done(delivered) => return Ok(delivered),
            progress => assert!(operation.proceed(&progress)?),
        };
    }
    panic!("a burst does not end");
}

/// Everything that reads a peer's segment, with numbers that the peer may have sent, too.
fn visit(stage: &Stage, peer: Peer, key: u32, index: u32) {
    let _ = probe(&peer);
    let me = &stage.me;
    let _ = keys::Table::of(&peer).lookup(key);
    drop(keys::Table::of(&peer).pin(key, me.owner(), &**me));
    drop(BellHandle::find(&stage.folder, peer.owner(), index));
    let host = Host::of_peer(me.clone(), Arc::new(peer)).with_limit(Duration::from_millis(15));
    let completion = Completion { status: Status::Success, ..Completion::flushed(1, WcOpcode::Recv, index) };
    for number in [index, 0, 1] {
        for object in [Object::Qp(number), Object::Srq(number), Object::Cq(number)] {
            if !host.exists(object) {
                continue;
            }
            let mut operation = Operation::new(&host);
            if operation.lock(object).is_err() {
                continue;
            }
            match object {
                Object::Qp(qp) => {
                    let _ = (next_in_ring(&host, qp), next_in_claim(&host, qp));
                    let head = host.load(Word::Qp(qp, QpWord::Head)) as u32;
                    if host.exists(Object::Cq(number)) {
                        let deliver = Deliver::receive(qp, Take::Head(head), number, &completion, true);
                        let _ = operation.run(deliver);
                        burst(&host, qp, number, stage);
                        could_be_true(&host, qp, number);
                        burst(&host, qp, number, stage);
                        could_be_true(&host, qp, number);
                        let held = host.find([Some(object), Some(Object::Cq(number)), None]);
                        burst(&host.with(&held), qp, number, stage);
                    }
                    if host.exists(Object::Srq(number)) {
                        let _ = operation.run(ClaimRequest::new(qp, number));
                    }
                }
                Object::Cq(cq) => {
                    for _ in 0..8 {
                        let _ = poll(&host, cq, &mut Staged::default());
                    }
                }
                Object::Srq(_) => {
                    let request = ReceiveRequest { wr_id: 1, sges: [Sge::default(); 3].into() };
                    let _ = post(&host, object, &request);
                }
            }
            operation.unlock(object);
        }
    }
}

fn word(own: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0u64),
        4 => (0u64..(SIZE as u64 / 64)).prop_map(|n| n * 64),
        2 => (0u64..5, 0u64..6).prop_map(|(a, b)| 1 << a | (2 + 2 * b) << 32),
        3 => Just(1u64),
        2 => 0u64..70,
        1 => Just(SIZE as u64 - 64),
        1 => Just(own),
        1 => Just(own | 1),
        2 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

/// The peer's segment, all of it words of `pattern` but for `changes` by number of the word. `near`: with
/// tables where the roots say they are, so that the lies within them are reached.
fn lies(honest: &[u8], pattern: &[u64], changes: &[(usize, u64)], near: bool) -> Vec<u8> {
    let mut bytes = honest.to_vec();
    for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&pattern[i % pattern.len()].to_ne_bytes());
    }
    for (at, value) in changes {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
    }
    if near {
        for (root, at) in
            [(Objects::ROOTS[0], 4096u64), (Objects::ROOTS[1], 8192), (Objects::ROOTS[2], 12288)]
        {
            bytes[128 + 8 * root..][..8].copy_from_slice(&at.to_ne_bytes());
            let chunk = (16384 + 32768 * root as u64).to_ne_bytes();
            bytes[at as usize..][..8].copy_from_slice(&chunk);
            for entry in 0..2 {
                let e = 16384 + 32768 * root + 256 * entry;
                bytes[e..][..8].copy_from_slice(&1u64.to_ne_bytes());
                bytes[e + 8..][..8].copy_from_slice(&(65536u64 + 4096 * entry as u64).to_ne_bytes());
                bytes[e + 16..][..8].copy_from_slice(&(4u64 | 8 << 32).to_ne_bytes());
            }
        }
        bytes[128 + 8 * keys::ROOT..][..8].copy_from_slice(&4096u64.to_ne_bytes());
    }
    bytes
}

#[test]
fn lies_harm_nobody() {
    let stage = Stage::new("hostile");
    let file = segment_of(&stage.path, 1);
    let mut honest = vec![0; SIZE];
    file.read_exact_at(&mut honest, 0).unwrap();
    let own = stage.me.owner().word();
    assert_eq!(Owner::from_word(own), Some(stage.me.owner()));
    let content = (
        proptest::collection::vec(word(own), 512),
        proptest::collection::vec((0..SIZE / 8, word(own)), 0..200),
        any::<u32>(),
        0u32..300,
        prop_oneof![9 => Just(true), 1 => Just(false)],
        any::<bool>(),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let opened = Cell::new(0);
    // A burst gives up where a lie keeps a lock longer than a moment, which a busy machine makes of any: then
    // others follow, until enough have done what they are for.
    while opened.get() <= 40 || stage.in_bursts.get() <= 20 {
        let lied =
            |(pattern, changes, key, index, identity, near): (Vec<u64>, Vec<_>, u32, u32, bool, bool)| {
                let mut bytes = lies(&honest, &pattern, &changes, near);
                if identity {
                    bytes[..IDENTITY].copy_from_slice(&honest[..IDENTITY]);
                }
                file.write_all_at(&bytes, 0).unwrap();
                match Peer::open(&stage.folder, 1) {
                    Ok(peer) => {
                        prop_assert!(identity);
                        opened.set(opened.get() + 1);
                        visit(&stage, peer, if near { key & 0xfff } else { key }, index);
                    }
                    Err(_) => prop_assert!(!identity),
                }
                Ok(())
            };
        runner.run(&content, lied).unwrap();
    }
}

/// A word that a hostile peer may have reason to write.
#[derive(Clone, Debug, TypeGenerator)]
enum Lie {
    Small(u8),
    /// An offset in the segment.
    Offset(u16),
    /// A state and a type.
    Halves(u8, u8),
    Owner {
        contended: bool,
    },
    Near(i8),
    Any(u64),
}

impl Lie {
    fn word(&self, own: u64) -> u64 {
        match *self {
            Lie::Small(n) => n.into(),
            Lie::Offset(n) => u64::from(n) % (SIZE as u64 / 8) * 8,
            Lie::Halves(low, high) => u64::from(low) | u64::from(high) << 32,
            Lie::Owner { contended } => own | u64::from(contended),
            Lie::Near(n) => (SIZE as u64).wrapping_add_signed(n.into()),
            Lie::Any(n) => n,
        }
    }
}

#[derive(Clone, Debug, TypeGenerator)]
struct Lies {
    #[generator(produce::<Vec<Lie>>().with().len(1usize..64))]
    pattern: Vec<Lie>,
    #[generator(produce::<Vec<(u16, Lie)>>().with().len(0usize..64))]
    changes: Vec<(u16, Lie)>,
    key: u32,
    index: u8,
    far: bool,
}

/// Every word of a peer's segment, its completion entries among them: as [`lies_harm_nobody`], by any input.
#[test]
fn fuzz_segment() {
    let stage = Stage::new("fuzz-segment");
    let file = segment_of(&stage.path, 1);
    let mut honest = vec![0; SIZE];
    file.read_exact_at(&mut honest, 0).unwrap();
    let own = stage.me.owner().word();
    let run = AssertUnwindSafe(|said: &Lies| {
        let pattern: Vec<_> = said.pattern.iter().map(|lie| lie.word(own)).collect();
        let place = |at: u16| usize::from(at) % (SIZE / 8);
        let changes: Vec<_> = said.changes.iter().map(|(at, lie)| (place(*at), lie.word(own))).collect();
        let mut bytes = lies(&honest, &pattern, &changes, !said.far);
        bytes[..IDENTITY].copy_from_slice(&honest[..IDENTITY]);
        file.write_all_at(&bytes, 0).unwrap();
        if let Ok(peer) = Peer::open(&stage.folder, 1) {
            visit(&stage, peer, if said.far { said.key } else { said.key & 0xfff }, said.index.into());
        }
    });
    corpus::check!().with_type::<Lies>().for_each(move |said| (*run)(said));
}
