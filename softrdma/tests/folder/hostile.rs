//! The engine itself in the midst of lies: two devices at work, and a third process that writes what it likes
//! into both of their segments between any two calls. Every call ends, nothing panics, and memory that is not
//! open to peers stays as it was.

mod play;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use play::{Place, Play, Send, Spot, Step, Value};
use softrdma::device::{
    Attributes, Channel, CompletionQueue, Data, Datagram, QpInit, QueuePair, SharedReceiveQueue, SrqInit,
    SrqType, WindowType, Wr,
};
use softrdma::queues::shared::{CqWord, Object, QpWord, SrqWord, Word};
use softrdma::rules::keys::Bind;
use softrdma::rules::qp::attributes as table;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{BindWindow, Operands};
use softrdma::rules::verbs::{Access, Attr, Opcode, QpState, QpType, SendFlags, Status};
use softrdma::shm::keys;
use softrdma::shm::lock::Owner;
use softrdma::shm::objects::{Host, Objects};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::device::*;

/// What memory holds that nobody may write to.
const CANARY: u8 = 0xc5;

static CANARIES: [u8; SIZE] = [CANARY; SIZE];

const PAGE: usize = 4096;

/// Where peers may read and write, by the queue pairs' protection domain.
const OPEN: std::ops::Range<usize> = PAGE..3 * PAGE;

/// Registered for reading alone.
const READ_ONLY: usize = 4 * PAGE;

/// Open as well, in a protection domain that no queue pair is in.
const ELSEWHERE: usize = 6 * PAGE;

/// Registered and not, in turn.
const PASSING: std::ops::Range<usize> = 8 * PAGE..10 * PAGE;

const SIZE: usize = 12 * PAGE;

/// Whoever slept so often in one call waited for a lock that a living process seems to have. It may be waited
/// for again by all that follows, for seconds each, so that nothing does.
const SLEEPS: i64 = 24;

/// Queue pairs of a device, completion queues too.
const QPS: usize = 4;

const CQS: usize = 2;

/// One of the two devices.
struct Side {
    node: Node,
    channel: Arc<Channel>,
    cqs: Vec<Arc<CompletionQueue>>,
    srq: Arc<SharedReceiveQueue>,
    qps: Vec<Arc<QueuePair>>,
    memory: &'static Buffer,
    /// Of the open region, of the one for reading, of the one elsewhere, and 0 for no key.
    keys: [u32; 4],
    passing: Option<u32>,
    window: Option<u32>,
    elsewhere: u32,
    /// Requests whose completions were not seen, by number.
    posted: HashMap<u64, ()>,
    next: u64,
}

impl Side {
    fn new(node: Node, memory: &'static Buffer) -> Self {
        // SAFETY: so many bytes are writable, and no device knows them yet.
        unsafe { libc::memset(memory.addr(0) as *mut libc::c_void, CANARY.into(), SIZE) };
        let channel = Channel::new(&node.device).unwrap();
        set_nonblocking(channel.fd());
        set_nonblocking(node.events.fd());
        let cqs: Vec<_> = (0..CQS).map(|n| node.cq(16, Some(&channel), n)).collect();
        let init = SrqInit {
            pd: node.pd,
            srq_type: SrqType::Basic,
            max_wr: 8,
            max_sge: 2,
            xrcd: None,
            cq: None,
            events: node.events.clone(),
            cookie: 9,
        };
        let srq = SharedReceiveQueue::new(&node.device, &init).unwrap();
        let elsewhere = node.device.alloc_pd().unwrap();
        let register = |pd, at: usize, length: usize, access| {
            let addr = memory.addr(at);
            node.device.register(pd, addr, length as u64, addr, access).unwrap().lkey
        };
        let keys = [
            register(node.pd, OPEN.start, OPEN.len(), ALL),
            register(node.pd, READ_ONLY, PAGE, Access::REMOTE_READ),
            register(elsewhere, ELSEWHERE, PAGE, ALL),
            0,
        ];
        let mut side = Side {
            node,
            channel,
            cqs,
            srq,
            qps: Vec::new(),
            memory,
            keys,
            passing: None,
            window: None,
            elsewhere,
            posted: HashMap::new(),
            next: 1,
        };
        side.qps = (0..QPS).map(|n| side.make(n).unwrap()).collect();
        side
    }

    fn make(&self, n: usize) -> softrdma::device::Result<Arc<QueuePair>> {
        let qp_type = [QpType::Rc, QpType::Rc, QpType::Uc, QpType::Ud][n];
        let init = QpInit {
            recv_cq: Some(self.cqs[(n + 1) % CQS].clone()),
            srq: (n == 1).then(|| self.srq.clone()),
            ..self.node.init(qp_type, &self.cqs[n % CQS])
        };
        QueuePair::new(&self.node.device, &init)
    }

    fn key(&self, which: u8) -> u32 {
        match which % 8 {
            0..4 => self.keys[0],
            4 => self.keys[1],
            5 => self.keys[2],
            6 => self.passing.unwrap_or(0),
            _ => self.window.unwrap_or(0),
        }
    }

    /// As one of this device's own pieces: within what the key opens, or anywhere.
    fn sge(&self, spot: &Spot) -> Sge {
        let (at, length) = (usize::from(spot.at), u32::from(spot.length));
        let within = match spot.key % 8 {
            0..4 => OPEN,
            4 => READ_ONLY..READ_ONLY + PAGE,
            5 => ELSEWHERE..ELSEWHERE + PAGE,
            _ => PASSING,
        };
        let (at, length) = match spot.key & 0x40 {
            0 => (within.start + at % within.len(), length % 256),
            _ => (at % SIZE, length % (2 * PAGE as u32)),
        };
        Sge { addr: self.memory.addr(at), length, lkey: self.key(spot.key) }
    }

    fn qp(&self, n: u8) -> &Arc<QueuePair> {
        &self.qps[usize::from(n) % QPS]
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.posted.insert(self.next, ());
        self.next
    }

    fn rise(&self, n: u8, peer: u32) {
        let qp = self.qp(n);
        let attributes = Attributes { timeout: 1, retry_cnt: 1, rnr_retry: 1, ..attributes(peer) };
        let mut from = QpState::Reset;
        for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts] {
            let mask = table(qp.qp_type(), from, state).map_or(Attr::STATE, |(required, _)| required);
            // Whoever changed the state says another one is not reached from there.
            let _ = qp.modify(mask.union(Attr::STATE), &Attributes { state, ..attributes });
            from = state;
        }
    }

    /// Memory that was never open to peers.
    fn check(&self, group: bool) {
        let kept = |range: std::ops::Range<usize>| {
            let at = self.memory.addr(range.start) as *const libc::c_void;
            // SAFETY: both are readable for so many bytes; nobody writes to what is closed to peers.
            if unsafe { libc::memcmp(at, CANARIES.as_ptr().cast(), range.len()) } != 0 {
                let bytes = self.memory.bytes(range.start, range.len());
                let spoiled = bytes.iter().position(|byte| *byte != CANARY).map(|at| range.start + at);
                panic!("memory that was not open was written to: {spoiled:?}");
            }
        };
        kept(0..OPEN.start);
        kept(OPEN.end..ELSEWHERE);
        // Which domain a request is in stands in shared memory, and counts by private permissions in a group
        // alone.
        if group {
            kept(ELSEWHERE..ELSEWHERE + PAGE);
        }
        kept(ELSEWHERE + PAGE..PASSING.start);
        if self.passing.is_none() {
            kept(PASSING);
        }
        kept(PASSING.end..SIZE);
    }
}

/// The devices, and who lies to them.
struct World {
    group: bool,
    sides: [Side; 2],
    liar: Arc<Segment>,
    /// The segments as the liar sees them.
    views: [(Arc<Peer>, Host); 2],
    /// Of the living: no lock is to be kept by them.
    names: [Owner; 3],
    _folder: Folder,
}

impl World {
    fn new(group: bool, memory: [&'static Buffer; 2]) -> Self {
        let folder = Folder::new();
        let open = || if group { folder.open_for_group() } else { folder.open() };
        let sides = memory.map(|memory| Side::new(Node::of(open()), memory));
        let (liar, first) = if group { folder.member() } else { folder.stranger() };
        let second = Arc::new(Peer::open(liar.folder(), 1).unwrap());
        let names = [first.owner(), second.owner(), liar.owner()];
        let views = [first, second].map(|peer| (peer.clone(), Host::of_peer(liar.clone(), peer)));
        let world = World { group, sides, liar, views, names, _folder: folder };
        for side in 0..2 {
            (0..QPS as u8).for_each(|n| world.connect(side, n));
        }
        world
    }

    fn connect(&self, side: usize, n: u8) {
        self.sides[side].rise(n, self.sides[1 - side].qp(n).qp_num());
    }

    /// Where a word stands in a segment, if it is there.
    fn offset(&self, victim: usize, place: Place) -> Option<u64> {
        let (peer, view) = &self.views[victim];
        let object = |queue: u8| match queue % 8 {
            n @ 0..4 => Object::Qp(n.into()),
            4 => Object::Srq(0),
            n => Object::Cq(u32::from(n) % CQS as u32),
        };
        let cq_of = |cq: u8| u32::from(cq) % CQS as u32;
        match place {
            Place::Qp(qp, word) => {
                let words = [
                    QpWord::State,
                    QpWord::Journal,
                    QpWord::Head,
                    QpWord::Tail,
                    QpWord::Seen,
                    QpWord::Claim,
                    QpWord::Events,
                    QpWord::Fence,
                ];
                view.offset(Word::Qp(u32::from(qp) % QPS as u32, words[usize::from(word) % words.len()]))
            }
            Place::Cq(cq, word) => {
                let words = [
                    CqWord::Journal,
                    CqWord::Tail,
                    CqWord::Armed,
                    CqWord::Events,
                    CqWord::Seen,
                    CqWord::Head,
                ];
                view.offset(Word::Cq(cq_of(cq), words[usize::from(word) % words.len()]))
            }
            Place::Srq(word) => {
                let words = [
                    SrqWord::Journal,
                    SrqWord::Head,
                    SrqWord::Tail,
                    SrqWord::Limit,
                    SrqWord::Events,
                    SrqWord::Seen,
                ];
                view.offset(Word::Srq(0, words[usize::from(word) % words.len()]))
            }
            Place::Receive { queue, slot, word } => {
                let queue = object(queue % 5);
                let (slot, word) = (u32::from(slot) % 16, u32::from(word) % 8);
                view.offset(Word::Receive { queue, slot, word })
            }
            Place::Entry { cq, slot, word } => {
                let (slot, word) = (u32::from(slot) % 16, u32::from(word) % 32);
                view.offset(Word::Entry { cq: cq_of(cq), slot, word })
            }
            Place::Attribute { queue, word } => {
                view.offset(Word::Attribute { object: object(queue), word: u32::from(word) % 8 })
            }
            Place::Table { queue, word } => {
                let (root, index) = match object(queue) {
                    Object::Qp(index) => (Objects::ROOTS[0], index),
                    Object::Srq(index) => (Objects::ROOTS[1], index),
                    Object::Cq(index) => (Objects::ROOTS[2], index),
                };
                let directory = self.word(victim, 128 + 8 * root as u64)?;
                let chunk = self.word(victim, directory)?;
                chunk.checked_add(256 * u64::from(index) + 8 * u64::from(word % 32))
            }
            Place::Root(which, word) => {
                let root = [keys::ROOT, 4, keys::ROOT, 5][usize::from(which) % 4];
                self.word(victim, 128 + 8 * root as u64)?.checked_add(8 * u64::from(word) % (64 << 10))
            }
            // Not who the owner is: nobody would look at the rest.
            Place::Header(word) => Some(24 + 8 * u64::from(word)),
            Place::Any(word) => Some(24 + 8 * u64::from(word) % (peer.memory().len() as u64 - 24)),
        }
    }

    fn word(&self, victim: usize, offset: u64) -> Option<u64> {
        let word = self.views[victim].0.memory().u64(offset).ok()?;
        Some(word.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn lie(&self, victim: usize, place: Place, value: Value) -> Option<()> {
        let offset = self.offset(victim, place).filter(|offset| *offset >= 24)?;
        let word = self.views[victim].0.memory().u64(offset).ok()?;
        let before = word.load(std::sync::atomic::Ordering::Relaxed);
        let side = |other: bool| &self.sides[if other { 1 - victim } else { victim }];
        let value = match value {
            Value::Small(n) => n.into(),
            Value::Any(n) => n,
            Value::Halves(low, high) => u64::from(low) | u64::from(high) << 32,
            Value::Offset(n) => 8 * u64::from(n),
            Value::Address(spot) => side(spot.other).sge(&spot).addr,
            Value::Key(spot) => {
                let sge = side(spot.other).sge(&spot);
                u64::from(sge.lkey) | u64::from(sge.length) << 32
            }
            Value::Number { other, qp } => side(other).qp(qp).qp_num().into(),
            Value::Add(n) => before.wrapping_add_signed(n.into()),
            Value::Flip(bit) => before ^ 1 << (bit % 64),
            Value::From(place) => self.word(victim, self.offset(victim, place)?)?,
            Value::Dead { slot, contended } => Owner::new(slot.into(), 0x5eed)?.word() | u64::from(contended),
        };
        // A lock that a living process has is waited for, as it must be.
        if !self.names.iter().any(|name| name.word() == value & !1) {
            word.store(value, std::sync::atomic::Ordering::Relaxed);
        }
        Some(())
    }

    fn send(&mut self, me: usize, sends: &[Send]) {
        // A list is one queue pair's.
        let qp = self.sides[me].qp(sends[0].qp).clone();
        let mut sending = None;
        for send in sends {
            let wr_id = self.sides[me].number();
            let (own, other) = (&self.sides[me], &self.sides[1 - me]);
            let opcodes = [
                Opcode::Send,
                Opcode::RdmaWrite,
                Opcode::RdmaRead,
                Opcode::SendWithImm,
                Opcode::RdmaWriteWithImm,
                Opcode::CmpAndSwp,
                Opcode::FetchAndAdd,
                Opcode::SendWithInv,
                Opcode::LocalInv,
                Opcode::BindMw,
                Opcode::Flush,
                Opcode::AtomicWrite,
            ];
            let opcode = opcodes[usize::from(send.opcode) % opcodes.len()];
            let there = other.sge(&send.remote);
            let (addr, rkey) = (there.addr, there.lkey);
            let operands = match opcode {
                Opcode::RdmaWrite | Opcode::RdmaRead | Opcode::RdmaWriteWithImm | Opcode::AtomicWrite => {
                    Operands::Remote { addr, rkey, length: 0 }
                }
                Opcode::Flush => Operands::Remote { addr, rkey, length: there.length.into() },
                Opcode::CmpAndSwp | Opcode::FetchAndAdd => Operands::Atomic {
                    addr: addr & !7,
                    rkey,
                    compare_add: send.operand,
                    swap: send.operand.swap_bytes(),
                },
                Opcode::LocalInv => Operands::Key(own.key(send.remote.key)),
                Opcode::BindMw => {
                    let here = own.sge(&send.remote);
                    let length = here.length.into();
                    let access = Access(send.operand as u32 & 0x1e);
                    Operands::Bind(BindWindow {
                        window: own.window.unwrap_or(here.lkey),
                        key8: send.operand as u8,
                        region: here.lkey,
                        bind: Bind { addr: here.addr, length, access },
                    })
                }
                _ => Operands::None,
            };
            let sges: Vec<_> = send.sges.iter().map(|spot| own.sge(spot)).collect();
            let bytes = vec![0xee; send.sges.first().map_or(0, |spot| usize::from(spot.length) % 64)];
            let wr = Wr {
                wr_id,
                opcode,
                flags: SendFlags(u32::from(send.flags) & 7),
                data: if send.inline { Data::Inline(&bytes) } else { Data::Sges(&sges) },
                operands,
                imm_or_key: rkey,
                srq_num: 0,
                datagram: (qp.qp_type() == QpType::Ud).then_some(Datagram {
                    qp_num: if send.remote.key & 0x80 > 0 { 0xff_ffff } else { other.qp(send.qp).qp_num() },
                    qkey: QKEY,
                    grh: &[0x60; 40],
                    dgid: if send.remote.key & 0x80 > 0 { GROUP } else { GID },
                    route: None,
                }),
            };
            let sending = sending.get_or_insert_with(|| qp.sending());
            if sending.accept(&wr).is_ok() {
                sending.post(&wr);
            }
        }
    }

    fn act(&mut self, me: usize, step: &Step) {
        let liar = self.liar.clone();
        let pinned = self.views[1 - me].0.clone();
        let side = &mut self.sides[me];
        match step {
            Step::Lie { victim, place, value } => {
                self.lie((*victim).into(), *place, *value);
            }
            Step::Send(sends) => self.send(me, sends),
            Step::Receive { qp, sge } => {
                let wr_id = side.number();
                let _ = side.qp(*qp).post_receive(wr_id, &[side.sge(sge)]);
            }
            Step::ReceiveShared { sge } => {
                let wr_id = side.number();
                let _ = side.srq.post(wr_id, &[side.sge(sge)]);
            }
            Step::Poll { cq, count } => {
                let mut found = Vec::new();
                let most = u32::from(*count) % 32;
                let cq = side.cqs[usize::from(*cq) % CQS].clone();
                let taken = cq.poll(most, &mut |completion| found.push(*completion));
                assert!(taken <= most && found.len() == taken as usize);
                for completion in found {
                    // By private permissions a completion is of a request that was posted, and comes once.
                    let posted = side.posted.remove(&completion.wr_id).is_some();
                    assert!(posted || !self.group, "nobody posted {completion:?}");
                    assert!(
                        completion.status != Status::Success || completion.vendor_err == 0 || !self.group
                    );
                }
            }
            Step::Modify { qp, state } => {
                let state = QpState::from_number(u32::from(state % 7)).unwrap();
                let _ = side.qp(*qp).modify(Attr::STATE, &Attributes { state, ..Attributes::default() });
                let _ = side.qp(*qp).query();
            }
            Step::Connect { qp } => self.connect(me, *qp),
            Step::Replace { qp } => {
                let n = usize::from(*qp) % QPS;
                // Busy as long as it is in a group of receivers.
                if side.qps[n].destroy().is_ok()
                    && let Ok(made) = side.make(n)
                {
                    side.qps[n] = made;
                }
            }
            Step::Resize { cq, cqe } => {
                let _ = side.cqs[usize::from(*cq) % CQS].resize(1 + u32::from(*cqe));
            }
            Step::Arm { cq, solicited } => {
                let _ = side.cqs[usize::from(*cq) % CQS].arm(*solicited);
            }
            Step::Events => {
                for _ in 0..64 {
                    let (channel, events) = (side.channel.next(), side.node.events.next());
                    assert!(channel.as_ref().is_ok_and(|cookie| *cookie < CQS) || channel.is_err());
                    if channel.is_err() && events.is_err() {
                        break;
                    }
                }
            }
            Step::Limit { limit, size } => {
                let limit = Some(u32::from(*limit)).filter(|limit| *limit < 128);
                let _ = side.srq.modify(limit, Some(u32::from(*size)).filter(|size| *size < 128));
            }
            Step::Register { access } => {
                if side.passing.is_none() {
                    let (pd, addr) = (side.node.pd, side.memory.addr(PASSING.start));
                    let access = Access(u32::from(*access) & 0x1f);
                    let length = PASSING.len() as u64;
                    side.passing =
                        side.node.device.register(pd, addr, length, addr, access).ok().map(|r| r.lkey);
                }
            }
            Step::Deregister => {
                if let Some(key) = side.passing
                    && side.node.device.deregister(key).is_ok()
                {
                    side.passing = None;
                    // From here on it is the program's alone.
                    side.memory.fill(PASSING.start, &[CANARY; PASSING.end - PASSING.start]);
                }
            }
            Step::Window { two } => {
                if side.window.is_none() {
                    let kind = if *two { WindowType::Two } else { WindowType::One };
                    side.window = side.node.device.alloc_window(side.node.pd, kind).ok();
                }
            }
            Step::FreeWindow => {
                if let Some(window) = side.window
                    && side.node.device.free_window(window).is_ok()
                {
                    side.window = None;
                }
            }
            Step::Pin(spot) => {
                let key = self.sides[1 - me].sge(spot).lkey;
                let table = keys::Table::of(&pinned);
                let _ = table.lookup(key);
                drop(table.pin(key, liar.owner(), &*liar));
            }
            Step::Join { qp, leave } => {
                let qp = side.qp(*qp).clone();
                let device = &side.node.device;
                let _ = if *leave {
                    device.detach_multicast(&qp, &GROUP)
                } else {
                    device.attach_multicast(&qp, &GROUP)
                };
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for side in &self.sides {
            for qp in &side.qps {
                while side.node.device.detach_multicast(qp, &GROUP).is_ok() {}
                let _ = qp.destroy();
            }
        }
    }
}

/// An address of a group of receivers.
const GROUP: [u8; 16] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];

/// How often this thread gave up its processor to wait.
fn sleeps() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: there is room for the answer, which is complete where the call succeeds.
    unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init().ru_nvcsw
    }
}

fn play(play: &Play, memory: [&'static Buffer; 2]) {
    let mut world = World::new(play.group, memory);
    for (me, step) in &play.steps {
        let before = sleeps();
        world.act((*me).into(), step);
        world.sides.iter().for_each(|side| side.check(play.group));
        if sleeps() - before > SLEEPS {
            break;
        }
    }
    for side in &world.sides {
        for qp in &side.qps {
            while side.node.device.detach_multicast(qp, &GROUP).is_ok() {}
            let _ = qp.destroy();
        }
        if let Some(key) = side.passing {
            let _ = side.node.device.deregister(key);
        }
        let _ = side.node.device.free_pd(side.elsewhere);
    }
    // Nothing that was late writes either.
    world.sides.iter().for_each(|side| {
        side.node.device.leave();
        side.check(play.group);
    });
}

#[test]
fn fuzz_engine() {
    let memory = [(); 2].map(|()| &*Box::leak(Box::new(Buffer::new(SIZE))));
    let run = AssertUnwindSafe(|said: &Play| play(said, memory));
    corpus::check!().with_type::<Play>().for_each(move |said| (*run)(said));
}
