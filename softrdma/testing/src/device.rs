//! What the tests of the device share: folders, devices, ends of connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use softrdma::device::{
    Attributes, Capabilities, Channel, CompletionQueue, Copying, CqFlags, Data, Datagram, Device, EventQueue,
    Path, QpInit, QueuePair, Region, Settings, SharedReceiveQueue, SrqInit, SrqType, Wr, XrcDomain,
};
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Access, Attr, Event, Opcode, QpState, QpType, SendFlags, Status};
use softrdma::shm::folder::Config;
use softrdma::shm::objects::Host;
use softrdma::shm::segment::{Peer, Segment};

pub use crate::processes::{Child, Words};

/// The address of every device here.
pub const GID: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
/// Ends a wait for what never comes, in place of a hang. Nothing takes that long on any machine.
pub const GUARD: Duration = Duration::from_secs(300);
/// All rights.
pub const ALL: Access = Access(0x1f);
/// The key of all datagrams.
pub const QKEY: u32 = 0x1111_1111;

/// How payload travels in these tests: `IRONVERBS_SOFT_COPY`.
pub fn copying() -> Copying {
    let name = std::env::var("IRONVERBS_SOFT_COPY").unwrap_or_default();
    Copying::from_name(&name).expect("IRONVERBS_SOFT_COPY")
}

/// A folder of its own for one test, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = PathBuf::from(format!("/dev/shm/ironverbs-device-{}-{number}", std::process::id()));
            // A test that was killed may have left one.
            match std::fs::create_dir(&path) {
                Ok(()) => return Folder(path),
                Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::AlreadyExists),
            }
        }
    }

    /// Where processes meet.
    pub fn path(&self) -> PathBuf {
        self.0.join("f")
    }

    /// Kept to the user, or for the group of `IRONVERBS_SOFT_GROUP`.
    fn config(&self) -> Config {
        let group = std::env::var_os("IRONVERBS_SOFT_GROUP");
        Config { path: self.path(), group: Config::from_values(None, group).unwrap().group }
    }

    pub fn open(&self) -> Arc<Device> {
        self.open_at(GID)
    }

    /// As [`Folder::open`], with this address.
    pub fn open_at(&self, gid: [u8; 16]) -> Arc<Device> {
        self.open_in(self.config(), gid)
    }

    /// As [`Folder::open`], in a folder for the members of this process's group.
    pub fn open_for_group(&self) -> Arc<Device> {
        // SAFETY: reads a number of the process.
        let group = Some(unsafe { libc::getegid() });
        self.open_in(Config { path: self.0.join("f"), group }, GID)
    }

    fn open_in(&self, folder: Config, gid: [u8; 16]) -> Arc<Device> {
        let device = Device::open(&Settings { folder, copying: copying(), network: false }).unwrap();
        device.set_gids(&[gid]);
        device
    }

    /// How one more process sees the device in slot 0.
    pub fn view(&self) -> Host {
        let (stranger, peer) = self.stranger();
        Host::of_peer(stranger, peer)
    }

    /// One more process among the devices, by the parts that they are made of, and its view of the device in
    /// slot 0.
    pub fn stranger(&self) -> (Arc<Segment>, Arc<Peer>) {
        let folder = softrdma::shm::folder::Folder::open(&self.config());
        self.stranger_in(Arc::new(folder.unwrap()))
    }

    /// As [`Folder::stranger`], among the members of this process's group.
    pub fn member(&self) -> (Arc<Segment>, Arc<Peer>) {
        // SAFETY: reads a number of the process.
        let group = Some(unsafe { libc::getegid() });
        let folder = softrdma::shm::folder::Folder::open(&Config { path: self.0.join("f"), group });
        self.stranger_in(Arc::new(folder.unwrap()))
    }

    fn stranger_in(&self, folder: Arc<softrdma::shm::folder::Folder>) -> (Arc<Segment>, Arc<Peer>) {
        let own = Arc::new(Segment::create(folder).unwrap());
        let peer = Arc::new(Peer::open(own.folder(), 0).unwrap());
        (own, peer)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A device with a context.
#[derive(Clone)]
pub struct Node {
    pub device: Arc<Device>,
    pub events: Arc<EventQueue>,
    pub pd: u32,
    /// The address by which others reach it.
    pub gid: [u8; 16],
}

impl Node {
    pub fn new(folder: &Folder) -> Self {
        Node::of(folder.open())
    }

    pub fn of(device: Arc<Device>) -> Self {
        Node::reached_by(device, GID)
    }

    /// Of a device that has this address.
    pub fn reached_by(device: Arc<Device>, gid: [u8; 16]) -> Self {
        let events = EventQueue::new(&device).unwrap();
        let pd = device.alloc_pd().unwrap();
        Node { device, events, pd, gid }
    }

    pub fn cq(&self, cqe: u32, channel: Option<&Arc<Channel>>, cookie: usize) -> Arc<CompletionQueue> {
        CompletionQueue::new(&self.device, cqe, channel, &self.events, cookie, CqFlags::default()).unwrap()
    }

    /// A shared receive queue with room for so many requests of two entries; its cookie is 3.
    pub fn shared_queue(&self, max_wr: u32) -> Arc<SharedReceiveQueue> {
        let init = SrqInit {
            pd: self.pd,
            srq_type: SrqType::Basic,
            max_wr,
            max_sge: 2,
            xrcd: None,
            cq: None,
            events: self.events.clone(),
            cookie: 3,
        };
        SharedReceiveQueue::new(&self.device, &init).unwrap()
    }

    /// A shared receive queue of an XRC domain, with room for four requests of one entry; its cookie is 3.
    pub fn xrc_srq(&self, xrcd: &Arc<XrcDomain>, cq: &Arc<CompletionQueue>) -> Arc<SharedReceiveQueue> {
        let init = SrqInit {
            pd: self.pd,
            srq_type: SrqType::Xrc,
            max_wr: 4,
            max_sge: 1,
            xrcd: Some(xrcd.clone()),
            cq: Some(cq.clone()),
            events: self.events.clone(),
            cookie: 3,
        };
        SharedReceiveQueue::new(&self.device, &init).unwrap()
    }

    pub fn init(&self, qp_type: QpType, cq: &Arc<CompletionQueue>) -> QpInit {
        QpInit {
            qp_type,
            pd: self.pd,
            send_cq: Some(cq.clone()),
            recv_cq: Some(cq.clone()),
            srq: None,
            cap: Capabilities {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 64,
            },
            sq_sig_all: false,
            blocks_own_multicast: false,
            xrcd: None,
            events: self.events.clone(),
            cookie: 7,
        }
    }

    /// A queue pair with a completion queue and memory.
    pub fn end(&self, qp_type: QpType) -> End {
        let cq = self.cq(64, None, 1);
        let qp = QueuePair::new(&self.device, &self.init(qp_type, &cq)).unwrap();
        self.end_of(qp, cq)
    }

    /// As [`Node::end`], for so many requests of each kind at once.
    pub fn deep_end(&self, qp_type: QpType, cq: &Arc<CompletionQueue>, depth: u32) -> End {
        let init = self.init(qp_type, cq);
        let cap = Capabilities { max_send_wr: depth, max_recv_wr: depth, ..init.cap };
        let qp = QueuePair::new(&self.device, &QpInit { cap, ..init }).unwrap();
        self.end_of(qp, cq.clone())
    }

    pub fn end_of(&self, qp: Arc<QueuePair>, cq: Arc<CompletionQueue>) -> End {
        let memory = Buffer::new(64 << 10);
        let (addr, length) = (memory.addr(0), memory.len() as u64);
        let region = self.device.register(self.pd, addr, length, addr, ALL).unwrap();
        End { qp, cq, memory, region, gid: self.gid }
    }

    /// The next asynchronous event, which is there already or comes.
    pub fn event(&self) -> Event {
        assert!(readable(self.events.fd(), GUARD.as_millis() as i32), "no event comes");
        self.events.next().unwrap().0
    }

    pub fn has_event(&self) -> bool {
        readable(self.events.fd(), 0)
    }
}

/// Memory that the device writes to while the test may look at it.
pub struct Buffer(Vec<std::cell::UnsafeCell<u8>>);

// SAFETY: the tests look at bytes only after their completion.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn new(len: usize) -> Self {
        let mut cells = Vec::with_capacity(len);
        cells.resize_with(len, || std::cell::UnsafeCell::new(0));
        Buffer(cells)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn addr(&self, offset: usize) -> u64 {
        self.0.as_ptr() as u64 + offset as u64
    }

    pub fn fill(&self, offset: usize, bytes: &[u8]) {
        for (cell, byte) in self.0[offset..].iter().zip(bytes) {
            // SAFETY: nothing else accesses the byte now.
            unsafe { cell.get().write_volatile(*byte) };
        }
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        // SAFETY: as above.
        self.0[offset..][..len].iter().map(|cell| unsafe { cell.get().read_volatile() }).collect()
    }

    pub fn word(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset, 8).try_into().unwrap())
    }
}

/// One end of a connection.
pub struct End {
    pub qp: Arc<QueuePair>,
    pub cq: Arc<CompletionQueue>,
    pub memory: Buffer,
    pub region: Region,
    /// The address of its device.
    pub gid: [u8; 16],
}

impl Drop for End {
    fn drop(&mut self) {
        // A dropped handle does not end the queue pair: its next try would read the memory that is freed here.
        let _ = self.qp.destroy();
    }
}

/// Attributes that connect quickly and wait long.
pub fn attributes(dest_qp_num: u32) -> Attributes {
    attributes_at(GID, dest_qp_num)
}

/// As [`attributes`], for a connection with a queue pair at this address.
pub fn attributes_at(dgid: [u8; 16], dest_qp_num: u32) -> Attributes {
    Attributes {
        port_num: 1,
        access: ALL,
        qkey: QKEY,
        path: Path { dgid, is_global: true, port_num: 1, ..Path::default() },
        path_mtu: 5,
        dest_qp_num,
        rq_psn: 1,
        sq_psn: 1,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        timeout: 12,
        retry_cnt: 7,
        rnr_retry: 7,
        ..Attributes::default()
    }
}

/// Takes a queue pair from RESET to a state.
pub fn bring_up(qp: &QueuePair, attributes: &Attributes, last: QpState) {
    use softrdma::rules::qp::attributes as table;
    let steps = [QpState::Init, QpState::Rtr, QpState::Rts];
    let mut from = QpState::Reset;
    for state in steps {
        let (required, _) = table(qp.qp_type(), from, state).unwrap();
        qp.modify(required.union(Attr::STATE), &Attributes { state, ..*attributes }).unwrap();
        if state == last {
            return;
        }
        from = state;
    }
}

pub fn set_state(qp: &QueuePair, state: QpState) {
    qp.modify(Attr::STATE, &Attributes { state, ..Attributes::default() }).unwrap();
}

pub fn connect(one: &QueuePair, other: &QueuePair) {
    bring_up(one, &attributes(other.qp_num()), QpState::Rts);
    bring_up(other, &attributes(one.qp_num()), QpState::Rts);
}

/// Connects two ends, whose devices may have addresses of their own.
pub fn connect_ends(one: &End, other: &End) {
    bring_up(&one.qp, &other.address(), QpState::Rts);
    bring_up(&other.qp, &one.address(), QpState::Rts);
}

/// A request without anything, signalled.
pub fn wr<'a>(wr_id: u64, opcode: Opcode, sges: &'a [Sge]) -> Wr<'a> {
    Wr {
        wr_id,
        opcode,
        flags: SendFlags::SIGNALED,
        data: Data::Sges(sges),
        operands: Operands::None,
        imm_or_key: 0,
        srq_num: 0,
        datagram: None,
    }
}

impl End {
    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge { addr: self.memory.addr(offset), length: length as u32, lkey: self.region.lkey }
    }

    pub fn receive(&self, wr_id: u64, offset: usize, length: usize) {
        self.try_receive(wr_id, offset, length).unwrap();
    }

    pub fn try_receive(&self, wr_id: u64, offset: usize, length: usize) -> Result<(), Rejected> {
        self.qp.post_receive(wr_id, &[self.sge(offset, length)])
    }

    pub fn try_send(&self, wr_id: u64, offset: usize, length: usize) -> Result<(), Rejected> {
        self.qp.post_send(&wr(wr_id, Opcode::Send, &[self.sge(offset, length)]))
    }

    pub fn send(&self, wr_id: u64, offset: usize, length: usize) {
        self.try_send(wr_id, offset, length).unwrap();
    }

    /// Attributes that connect another queue pair with this end.
    pub fn address(&self) -> Attributes {
        attributes_at(self.gid, self.qp.qp_num())
    }

    /// What makes a request a datagram to this end.
    pub fn datagrams(&self) -> Option<Datagram<'static>> {
        Some(Datagram { qp_num: self.qp.qp_num(), qkey: QKEY, grh: &[0x60; 40], dgid: self.gid, route: None })
    }

    /// A request to the remote memory of `to`.
    pub fn remote(&self, wr_id: u64, opcode: Opcode, offset: usize, length: usize, to: (u64, u32)) {
        let sges = [self.sge(offset, length)];
        let operands = Operands::Remote { addr: to.0, rkey: to.1, length: length as u64 };
        self.qp.post_send(&Wr { operands, ..wr(wr_id, opcode, &sges) }).unwrap();
    }

    pub fn datagram(&self, wr_id: u64, qp_num: u32, offset: usize, length: usize) {
        let sges = [self.sge(offset, length)];
        let datagram = Some(Datagram { qp_num, qkey: QKEY, grh: &[0x60; 40], dgid: GID, route: None });
        self.qp.post_send(&Wr { datagram, ..wr(wr_id, Opcode::Send, &sges) }).unwrap();
    }

    /// Sends a datagram to another end.
    pub fn datagram_to(&self, wr_id: u64, to: &End, offset: usize, length: usize) {
        let sges = [self.sge(offset, length)];
        self.qp.post_send(&Wr { datagram: to.datagrams(), ..wr(wr_id, Opcode::Send, &sges) }).unwrap();
    }

    pub fn try_poll(&self) -> Option<Completion> {
        poll(&self.cq)
    }

    /// The next completion, which is there already or comes soon.
    pub fn poll(&self) -> Completion {
        poll_soon(&self.cq)
    }

    /// The next completion, whenever it comes.
    pub fn poll_long(&self) -> Completion {
        loop {
            if let Some(completion) = self.try_poll() {
                return completion;
            }
        }
    }

    /// The next completion, which is that of this request and good.
    pub fn done(&self, wr_id: u64) -> Completion {
        let completion = self.poll();
        assert_eq!((completion.wr_id, completion.status), (wr_id, Status::Success));
        completion
    }
}

pub fn poll(cq: &CompletionQueue) -> Option<Completion> {
    let mut found = None;
    cq.poll(1, &mut |completion| found = Some(*completion));
    found
}

/// All completions that are there.
pub fn poll_all(cq: &CompletionQueue) -> Vec<Completion> {
    std::iter::from_fn(|| poll(cq)).collect()
}

/// Posts a list as `ibv_post_send` does: how many were posted, and what the first that is refused was refused
/// for.
pub fn post_list(end: &End, list: &[Wr<'_>]) -> (usize, Option<Rejected>) {
    let mut sending = end.qp.sending();
    for (count, wr) in list.iter().enumerate() {
        if let Err(rejected) = sending.accept(wr) {
            return (count, Some(rejected));
        }
        sending.post(wr);
    }
    (list.len(), None)
}

pub fn poll_soon(cq: &CompletionQueue) -> Completion {
    let start = Instant::now();
    loop {
        if let Some(completion) = poll(cq) {
            return completion;
        }
        assert!(start.elapsed() < GUARD, "no completion comes");
        std::thread::yield_now();
    }
}

/// Posts to a shared receive queue.
pub fn post_shared(srq: &SharedReceiveQueue, wr_id: u64, end: &End, offset: usize, length: usize) {
    srq.post(wr_id, &[end.sge(offset, length)]).unwrap();
}

pub fn readable(fd: i32, timeout: i32) -> bool {
    let mut p = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: `p` is one writable entry.
    unsafe { libc::poll(&raw mut p, 1, timeout) == 1 && p.revents == libc::POLLIN }
}

pub fn set_nonblocking(fd: i32) {
    // SAFETY: plain system calls on a descriptor of the test.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK) };
}
