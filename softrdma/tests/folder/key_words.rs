//! Every word by which a peer finds memory, spoiled one at a time by a third process, while an honest peer
//! reads and writes by it: nothing is reached but what is registered, with the rights that it was registered
//! with.
//!
//! Keys are in two places: in sealed memory, which peers go by where they can, and in the segment, which others
//! may write and peers go by where they cannot ([`softrdma::shm::keys`]). Both are tried; who spoils the
//! segment decides which, since it says where the sealed memory is. Each word that peers go by must be seen to
//! have been believed, or the test would show nothing.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use softrdma::device::{Attributes, Copying, Device, Settings, WindowType, Wr};
use softrdma::queues::direct::DirectWord;
use softrdma::queues::shared::{CqWord, Memory as _, Object, QpWord, Word, slot};
use softrdma::rules::keys::Bind;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{BindWindow, Operands};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status};
use softrdma::shm::folder::Config;
use softrdma::shm::keys::{Entry, ROOT, Table};
use softrdma::shm::objects::Host;
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::device::*;

const PAGE: usize = 4096;
/// The victim's memory, by pages: never registered, but for these.
const PAGES: usize = 10;
/// Open to peers.
const OPEN: usize = PAGE;
const OPEN_LEN: usize = 2 * PAGE;
/// Open for being read.
const READ_ONLY: usize = 3 * PAGE;
/// For receive requests alone.
const LOCAL: usize = 5 * PAGE;
const LOCAL_LEN: usize = 2 * PAGE;
/// Only its beginning is open, for writing, by a window.
const BEHIND_WINDOW: usize = 7 * PAGE;
const WINDOW_LEN: usize = 1024;

/// What each page holds.
const CONTENT: [u8; PAGES] = [0xc5, 0x11, 0x11, 0x22, 0xc5, 0x44, 0x44, 0x77, 0xc5, 0xc5];
/// What a peer may read, and what it writes.
const READABLE: [u8; 3] = [0x11, 0x22, SENT];
const SENT: u8 = 0x33;

/// Offsets in a segment (`softrdma/src/shm/segment.rs`, `keys.rs`).
const AT_SEALED: u64 = 24;
const AT_ROOT: u64 = 128 + 8 * ROOT as u64;
const DIRECTORY: u64 = 16 * 128;

/// Words of a key's entry.
const TAG: usize = 0;
const LENGTH: usize = 3;
const RIGHTS: usize = 4;
const BASE: usize = 5;
const ENDED: usize = 6;
const WORDS: usize = 8;

struct Scene {
    group: bool,
    _victim: Node,
    end: End,
    memory: &'static Buffer,
    /// Of the ranges above, in their order.
    keys: [u32; 4],
    _peer: Node,
    other: End,
    liar: Arc<Segment>,
    /// The victim's segment as the liar writes it.
    spoiled: Arc<Peer>,
    _folder: Folder,
}

/// What came of each operation.
type Outcomes = Vec<Status>;

/// Whatever the environment says of folders.
fn config(folder: &Folder, group: bool) -> Config {
    // SAFETY: reads a number of the process.
    Config { path: folder.path(), group: group.then(|| unsafe { libc::getegid() }) }
}

fn open(folder: &Folder, group: bool) -> Node {
    let settings = Settings { folder: config(folder, group), copying: Copying::Auto, network: false };
    let device = Device::open(&settings).unwrap();
    device.set_gids(&[GID]);
    Node::of(device)
}

/// A victim and a liar; a peer that comes after the liar wrote `sealed`, if anything, where the victim says
/// which of its descriptors is its sealed memory.
fn scene(group: bool, sealed: Option<u64>) -> Scene {
    let folder = Folder::new();
    let victim = open(&folder, group);
    let shared = softrdma::shm::folder::Folder::open(&config(&folder, group)).unwrap();
    let liar = Arc::new(Segment::create(Arc::new(shared)).unwrap());
    let spoiled = Arc::new(Peer::open(liar.folder(), 0).unwrap());
    let memory: &Buffer = Box::leak(Box::new(Buffer::new(PAGES * PAGE)));
    let register = |at: usize, length: usize, access| {
        let addr = memory.addr(at);
        victim.device.register(victim.pd, addr, length as u64, addr, access).unwrap().rkey
    };
    let mut keys = [
        register(OPEN, OPEN_LEN, ALL),
        register(READ_ONLY, PAGE, Access::REMOTE_READ),
        register(LOCAL, LOCAL_LEN, Access::LOCAL_WRITE),
        victim.device.alloc_window(victim.pd, WindowType::Two).unwrap(),
    ];
    let bindable = register(BEHIND_WINDOW, PAGE, Access(0x11));
    if let Some(number) = sealed {
        spoiled.memory().u64(AT_SEALED).unwrap().store(number, Ordering::Relaxed);
    }
    let peer = open(&folder, group);
    let (end, other) = (victim.end(QpType::Rc), peer.end(QpType::Rc));
    other.memory.fill(0, &vec![SENT; other.memory.len()]);
    let scene = Scene {
        group,
        _victim: victim,
        end,
        memory,
        keys,
        _peer: peer,
        other,
        liar,
        spoiled,
        _folder: folder,
    };
    scene.connect();
    let addr = memory.addr(BEHIND_WINDOW);
    let bind = Bind { addr, length: WINDOW_LEN as u64, access: Access::REMOTE_WRITE };
    let window = BindWindow { window: keys[3], key8: 7, region: bindable, bind };
    let bind = Wr { operands: Operands::Bind(window), ..wr(1, Opcode::BindMw, &[]) };
    scene.end.qp.post_send(&bind).unwrap();
    scene.end.done(1);
    keys[3] = keys[3] & !0xff | 7;
    scene.spoiled.refresh().unwrap();
    Scene { keys, ..scene }
}

impl Scene {
    fn connect(&self) {
        for (end, other) in [(&self.end, &self.other), (&self.other, &self.end)] {
            let attributes = Attributes { timeout: 10, ..attributes(other.qp.qp_num()) };
            set_state(&end.qp, QpState::Reset);
            bring_up(&end.qp, &attributes, QpState::Rts);
        }
        for end in [&self.end, &self.other] {
            while end.try_poll().is_some() {}
        }
        // A window that a queue pair is bound to outlives its reset.
        (0..PAGES).for_each(|page| self.memory.fill(page * PAGE, &[CONTENT[page]; PAGE]));
    }

    /// The liar's words of a key's entry in the segment.
    fn entry(&self, key: u32) -> &[AtomicU64] {
        let memory = self.spoiled.memory();
        let chunk = memory.u64(self.spoiled.root(ROOT).unwrap() + DIRECTORY).unwrap().load(Ordering::Relaxed);
        memory.words(chunk + 64 * u64::from(key >> 8), WORDS).unwrap()
    }

    /// What a peer that comes now finds by a key.
    fn found(&self, key: u32) -> Option<Entry> {
        let peer = Peer::open(self.liar.folder(), 0).unwrap();
        Table::of(&peer).lookup(key).ok()
    }

    /// Everything that is closed is as it was.
    fn check(&self, said: &dyn std::fmt::Debug, by_receives: bool) {
        for (page, content) in CONTENT.iter().enumerate() {
            let at = page * PAGE;
            let from = match at {
                READ_ONLY => 0,
                BEHIND_WINDOW if by_receives => PAGE,
                BEHIND_WINDOW => WINDOW_LEN,
                _ if *content == 0xc5 => 0,
                _ => PAGE,
            };
            let kept = self.memory.bytes(at + from, PAGE - from);
            let spoiled = kept.iter().position(|byte| byte != content);
            assert_eq!(spoiled, None, "{said:?}: page {page} from {from} on was written to");
        }
    }

    /// Takes the peer's next completion, while the victim polls and so helps.
    fn outcome(&self) -> Status {
        loop {
            let _ = self.end.try_poll();
            if let Some(completion) = self.other.try_poll() {
                return completion.status;
            }
        }
    }

    /// Reads and writes everything that is open, and what is not.
    fn remote(&self, said: &dyn std::fmt::Debug) -> Outcomes {
        let [open, read_only, local, window] = self.keys;
        let at = |offset: usize| self.memory.addr(offset);
        let end = OPEN + OPEN_LEN;
        let requests = [
            (Opcode::RdmaWrite, open, OPEN + 256, 8),
            (Opcode::RdmaWrite, open, OPEN, 5000),
            (Opcode::RdmaRead, open, OPEN + 256, 8),
            (Opcode::RdmaRead, open, OPEN, 5000),
            (Opcode::FetchAndAdd, open, end - 8, 8),
            (Opcode::RdmaRead, read_only, READ_ONLY, PAGE),
            (Opcode::RdmaWrite, window, BEHIND_WINDOW, 64),
            // Beyond the ends, and without the right.
            (Opcode::RdmaWrite, open, end - 8, 64),
            (Opcode::RdmaRead, open, OPEN - 64, 128),
            (Opcode::RdmaWrite, open, OPEN - PAGE, 3000),
            (Opcode::RdmaWrite, read_only, READ_ONLY, 64),
            (Opcode::FetchAndAdd, read_only, READ_ONLY, 8),
            (Opcode::RdmaWrite, local, LOCAL, 64),
            (Opcode::RdmaRead, local, LOCAL, 64),
            (Opcode::RdmaRead, window, BEHIND_WINDOW, 64),
            (Opcode::RdmaWrite, window, BEHIND_WINDOW + WINDOW_LEN - 8, 64),
        ];
        let mut outcomes = Vec::new();
        for (opcode, rkey, offset, length) in requests {
            if self.other.qp.state() != QpState::Rts || self.end.qp.state() != QpState::Rts {
                self.connect();
            }
            if opcode == Opcode::FetchAndAdd {
                let sges = [self.other.sge(16 << 10, 8)];
                let operands = Operands::Atomic { addr: at(offset), rkey, compare_add: 1, swap: 0 };
                self.other.qp.post_send(&Wr { operands, ..wr(2, opcode, &sges) }).unwrap();
            } else {
                let here = if opcode == Opcode::RdmaRead { 32 << 10 } else { 0 };
                self.other.remote(2, opcode, here, length, (at(offset), rkey));
            }
            outcomes.push(self.outcome());
            self.check(said, false);
            let read = self.other.memory.bytes(32 << 10, PAGE + 1000);
            assert!(
                read.iter().all(|byte| READABLE.contains(byte)),
                "{said:?}: {opcode:?} read what is closed"
            );
            self.other.memory.fill(32 << 10, &[SENT; PAGE + 1000]);
        }
        outcomes
    }

    /// Sends into a receive request, with a lie after it was posted and, for a message that is there, before it
    /// is taken; where in the victim's memory it landed.
    fn send(&self, length: usize, settled: bool, mut lie: impl FnMut(bool)) -> (Status, Option<usize>) {
        self.connect();
        if settled {
            // The first message shows the ring in which the next ones come, and the pool.
            let first = Sge { addr: self.memory.addr(LOCAL), length: 4000, lkey: self.keys[2] };
            self.end.qp.post_receive(0, &[first]).unwrap();
            self.other.send(1, 0, length);
            self.outcome();
            while self.end.try_poll().is_some() {}
            self.memory.fill(LOCAL, &[CONTENT[LOCAL / PAGE]; PAGE]);
            self.spoiled.refresh().unwrap();
        }
        let buffer = Sge { addr: self.memory.addr(LOCAL), length: 4000, lkey: self.keys[2] };
        self.end.qp.post_receive(1, &[buffer]).unwrap();
        lie(false);
        self.other.send(2, 0, length);
        lie(true);
        let status = self.outcome();
        for _ in 0..4 {
            let _ = self.end.try_poll();
        }
        (status, self.memory.bytes(0, PAGES * PAGE).iter().position(|byte| *byte == SENT))
    }
}

/// What each word of an entry may say that gives more than it should, or something else.
fn lies_about(word: usize, honest: u64, memory: &Buffer) -> Vec<u64> {
    let page = PAGE as u64;
    let around =
        [honest.wrapping_sub(page), honest.wrapping_add(page), memory.addr(0), memory.addr(8 * PAGE)];
    match word {
        // The eight bits, kind, validity, sequence number.
        TAG => [32, 40, 41, 42, 1].iter().map(|bit| honest ^ 1 << bit).chain([0, u64::MAX]).collect(),
        1 => vec![honest + 1, 0, honest | 5 << 32, u64::MAX],
        LENGTH => vec![0, 1, honest + 3 * page, 1 << 40, u64::MAX],
        RIGHTS => vec![0, 1, 0x1f, u64::MAX],
        ENDED => vec![1, 1 << 32, u64::MAX],
        _ => around.into_iter().chain([0, u64::MAX]).collect(),
    }
}

/// Spoils each word of each key's entry in the segment; the words that were seen to be believed, and those with
/// which operations went another way.
fn spoil_entries(scene: &Scene) -> ([bool; WORDS], [bool; WORDS]) {
    let (mut believed, mut counted) = ([false; WORDS], [false; WORDS]);
    let honest = scene.remote(&"nothing");
    for key in scene.keys {
        let (entry, found) = (scene.entry(key), scene.found(key));
        assert!(found.is_some_and(|found| found.key.valid));
        for (word, place) in entry.iter().enumerate() {
            let before = place.load(Ordering::Relaxed);
            // What a peer says that it ended the entry by.
            let end = 1 << 32 | u64::from(entry[TAG].load(Ordering::Relaxed) as u32);
            let more = (word == ENDED).then_some(end);
            for value in lies_about(word, before, scene.memory).into_iter().chain(more) {
                place.store(value, Ordering::Relaxed);
                believed[word] |= scene.found(key) != found;
                counted[word] |= scene.remote(&(key, word, value)) != honest;
                place.store(before, Ordering::Relaxed);
            }
        }
    }
    assert_eq!(scene.remote(&"nothing"), honest, "what is put right again is as before");
    (believed, counted)
}

/// The first of so many bytes of the segment, not of its first pages, in which nothing stands.
fn unused(peer: &Peer, bytes: usize) -> u64 {
    let words = peer.memory().words(0, peer.memory().len() / 8).unwrap();
    let is_free =
        |at: &usize| words[*at..at + bytes / 8].iter().all(|word| word.load(Ordering::Relaxed) == 0);
    let mut places = (0..=(words.len() - bytes / 8) / 8).rev().map(|line| 8 * line);
    8 * places.find(is_free).expect("unused memory") as u64
}

/// Puts other tables in the place of the keys': each entry opens all of the victim's memory to everything.
fn spoil_tables(scene: &Scene) -> [bool; 2] {
    let (memory, honest) = (scene.spoiled.memory(), scene.remote(&"nothing"));
    let found = scene.found(scene.keys[1]);
    let put = |at: u64, value| memory.u64(at).unwrap().swap(value, Ordering::Relaxed);
    let chunk = unused(&scene.spoiled, 4096);
    for key in scene.keys {
        let mut words: Vec<u64> = scene.entry(key).iter().map(|word| word.load(Ordering::Relaxed)).collect();
        (words[2], words[LENGTH], words[RIGHTS]) = (scene.memory.addr(0), (PAGES * PAGE) as u64, 0x1f);
        words[BASE] = scene.memory.addr(0);
        for (at, word) in (0..).step_by(8).zip(words) {
            put(chunk + 64 * u64::from(key >> 8) + at, word);
        }
    }
    let table = unused(&scene.spoiled, 8192);
    assert!(table + DIRECTORY + 8 <= chunk || chunk + 4096 <= table);
    put(table + DIRECTORY, chunk);
    let root = scene.spoiled.root(ROOT).unwrap();
    [(AT_ROOT, table), (root + DIRECTORY, chunk)].map(|(at, value)| {
        let before = put(at, value);
        let is_believed = scene.found(scene.keys[1]) != found;
        let outcomes = scene.remote(&("table", at));
        put(at, before);
        assert_eq!(scene.remote(&"nothing"), honest);
        if !is_believed {
            assert_eq!(outcomes, honest);
        }
        is_believed
    })
}

/// Peers that find the sealed memory give nothing on what stands in the segment, but for that a window has
/// ended. In a group the victim moves its half of the payload, and finds there, too, whether a window is open
/// still.
#[test]
fn who_sees_sealed_keys_goes_by_nothing_else() {
    for group in [false, true] {
        let scene = scene(group, None);
        let (mut ended, mut counts) = ([false; WORDS], [false; WORDS]);
        (ended[ENDED], counts[ENDED], counts[TAG]) = (true, true, group);
        assert_eq!(spoil_entries(&scene), (ended, counts), "in a group: {group}");
        assert_eq!(spoil_tables(&scene), [false; 2]);
    }
}

/// Where the liar hides the sealed memory, or shows another file in its place, each word is believed, and the
/// victim's own permissions decide.
#[test]
fn keys_that_a_peer_believes_open_no_more_than_the_victim_s_own_books() {
    for group in [false, true] {
        let scene = scene(group, Some(0));
        let (believed, counted) = spoil_entries(&scene);
        assert_eq!(believed, [true, true, true, true, true, true, true, false], "in a group: {group}");
        assert_eq!(counted, [true, true, true, true, true, true, true, false], "in a group: {group}");
        assert_eq!(spoil_tables(&scene), [true; 2]);
    }
}

/// The descriptor of the victim's sealed memory, by what its segment says.
fn sealed_number(peer: &Peer) -> u64 {
    peer.memory().u64(AT_SEALED).unwrap().load(Ordering::Relaxed)
}

/// Other files of the victim's process that are said to be its sealed memory, among them one that is another
/// device's.
#[test]
fn only_the_sealed_memory_of_the_claim_is_taken_for_it() {
    let (another, file) = (scene(false, None), File::open("/proc/self/exe").unwrap());
    let numbers = [sealed_number(&another.spoiled), file.as_raw_fd() as u64 + 1, 1, 1 << 20, u64::MAX];
    for number in numbers {
        let scene = scene(false, Some(number));
        let key = scene.keys[1];
        let rights = &scene.entry(key)[RIGHTS];
        rights.store(0x1f, Ordering::Relaxed);
        // Its keys are those of the segment, so it has taken none of these files.
        assert_eq!(scene.found(key).map(|found| found.key.access), Some(ALL), "{number}");
        scene.remote(&number);
    }
}

/// What peers go by is out of reach for everybody but its owner.
#[test]
fn sealed_keys_are_written_by_nobody_else() {
    let scene = scene(false, None);
    let key = scene.keys[1];
    let path = format!("/proc/self/fd/{}", sealed_number(&scene.spoiled) - 1);
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let at = PAGE as u64 + 64 * u64::from(key >> 8);
    let mut entry = [0; 64];
    file.read_exact_at(&mut entry, at).unwrap();
    let word = |n: usize| u64::from_ne_bytes(entry[8 * n..][..8].try_into().unwrap());
    assert_eq!((word(2), word(LENGTH)), (scene.memory.addr(READ_ONLY), PAGE as u64), "the entry of the key");
    let errno = |failed: bool| failed.then(|| std::io::Error::last_os_error().raw_os_error().unwrap());
    let (fd, length) = (file.as_raw_fd(), file.metadata().unwrap().len() as libc::off_t);
    assert_eq!(file.write_at(&[0xff; 8], at).unwrap_err().raw_os_error(), Some(libc::EPERM));
    // SAFETY: plain system calls on a descriptor of the test; what is mapped is not touched.
    unsafe {
        let map = |access| libc::mmap(std::ptr::null_mut(), PAGE, access, libc::MAP_SHARED, fd, PAGE as _);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(errno(map(both) == libc::MAP_FAILED), Some(libc::EPERM));
        let read = map(libc::PROT_READ);
        assert_ne!(read, libc::MAP_FAILED);
        assert_eq!(errno(libc::mprotect(read, PAGE, both) != 0), Some(libc::EACCES));
        libc::munmap(read, PAGE);
        assert_eq!(errno(libc::ftruncate(fd, length - 4096) != 0), Some(libc::EPERM));
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(errno(libc::fallocate(fd, hole, 0, length) != 0), Some(libc::EPERM));
        assert_eq!(errno(libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_WRITE) != 0), Some(libc::EPERM));
        let (from, mut to) = (File::open("/proc/self/exe").unwrap(), at as libc::off_t);
        let copied = libc::copy_file_range(from.as_raw_fd(), std::ptr::null_mut(), fd, &raw mut to, 64, 0);
        assert!(copied < 0);
    }
    let mut now = [0; 64];
    file.read_exact_at(&mut now, at).unwrap();
    assert_eq!(now, entry);
    assert_eq!(scene.found(key).map(|found| found.key.access), Some(Access::REMOTE_READ));
}

/// What stands in the segment for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// The request that it is received by.
    Request,
    /// The ring in which small ones come.
    Ring,
    /// The state of the buffer where the payload of a longer one is.
    Pool,
    /// Its completion, or the one before it.
    Completion,
    /// What the victim set of the queue pair.
    Attributes,
}

const PARTS: [(Part, u32); 5] =
    [(Part::Request, 8), (Part::Ring, 40), (Part::Pool, 1), (Part::Completion, 20), (Part::Attributes, 8)];

/// A word of the part, where it stands now.
fn word_of(view: &Host, part: Part, word: u32) -> Option<u64> {
    let (queue, cq) = (Object::Qp(0), 0);
    // Where it is, in lines, stands beside the XRC domain; 0 where there is none.
    let packed = view.load(Word::Attribute { object: queue, word: 4 }) >> 32;
    let ring = (packed > 0).then_some((packed & 0xfff_ffff) << 6);
    let last = |tail: Word, object| slot((view.load(tail) as u32).wrapping_sub(1), view.capacity(object));
    view.offset(match part {
        Part::Request => Word::Receive { queue, slot: last(Word::Qp(0, QpWord::Tail), queue), word },
        Part::Ring => return ring.map(|ring| ring + 8 * u64::from(word)),
        Part::Pool => {
            let pool = view.hold(ring? + 8 * DirectWord::Pool as u64, 1)?.get()[0].load(Ordering::Relaxed);
            return (pool > 0).then(|| pool + 8 * u64::from(word));
        }
        Part::Completion => Word::Entry { cq, slot: last(Word::Cq(cq, CqWord::Tail), Object::Cq(cq)), word },
        Part::Attributes => Word::Attribute { object: queue, word },
    })
}

/// Spoils each word that stands in the segment for a message, before it comes and before it is taken; how many
/// lies about each part were noticed.
fn spoil_messages(scene: &Scene, length: usize) -> [usize; 5] {
    let view = Host::of_peer(scene.liar.clone(), scene.spoiled.clone());
    let honest = scene.send(length, true, |_| {});
    assert_eq!(honest, (Status::Success, Some(LOCAL)));
    let keys = scene.keys.map(u64::from);
    let (elsewhere, half) =
        (|offset: usize| scene.memory.addr(offset), |high: u64, low: u64| high << 32 | low);
    let values = [
        0,
        u64::MAX,
        elsewhere(0),
        elsewhere(READ_ONLY),
        elsewhere(LOCAL + 64),
        // Of the same key, and not what was posted.
        elsewhere(LOCAL + PAGE),
        half(4000, keys[1]),
        half(keys[0], 64 << 10),
        half(64 << 10, keys[2]),
    ];
    PARTS.map(|(part, words)| {
        let mut noticed = 0;
        for (word, value, late) in (0..words)
            .flat_map(|word| values.map(|value| (word, value)))
            .flat_map(|(word, value)| [false, true].map(|late| (word, value, late)))
        {
            let by_ring = matches!(part, Part::Ring | Part::Pool);
            let came = scene.send(length, by_ring, |now| {
                let place = word_of(&view, part, word).filter(|_| now == late);
                let place = place.and_then(|at| scene.spoiled.memory().u64(at).ok());
                place.into_iter().for_each(|place| place.store(value, Ordering::Relaxed));
            });
            let said = (part, word, value, late);
            scene.check(&said, !scene.group);
            if scene.group {
                let landed = came.1.is_none_or(|at| (LOCAL..LOCAL + 4000).contains(&at));
                assert!(landed, "{said:?}: {came:?}");
            }
            noticed += usize::from(came != honest);
        }
        noticed
    })
}

/// A message lands where the victim may be written to locally, and in a group where it waits for it.
#[test]
fn messages_that_others_spoil_land_in_no_memory_that_is_closed() {
    for (group, sealed, lengths) in
        [(false, None, &[100, 3000][..]), (false, Some(0), &[3000]), (true, None, &[100, 3000])]
    {
        for length in lengths.iter().copied() {
            let scene = scene(group, sealed);
            // The first send meets a peer whose service has to begin.
            while scene.send(length, false, |_| {}).0 != Status::Success {}
            let noticed = spoil_messages(&scene, length);
            println!("group {group}, sealed {sealed:?}, {length} bytes: {noticed:?}");
            // Longer ones have no payload beside their completion, and there are no rings in a group.
            let expected = [true, !group, length > 256 && !group, length < 256, true];
            assert_eq!(noticed.map(|lies| lies > 0), expected, "parts of which a lie was noticed");
        }
    }
}

/// An older message waits in the pool for its receiver, and its key is being changed when a younger request
/// comes: that is not carried out before.
#[test]
fn a_younger_request_waits_for_an_older_message_that_cannot_be_moved_now() {
    let scene = scene(false, Some(0));
    let open_addr = scene.memory.addr(OPEN);
    let outcome = || loop {
        if let Some(completion) = scene.other.try_poll() {
            break completion.status;
        }
    };
    let buffer = Sge { addr: scene.memory.addr(LOCAL), length: 4000, lkey: scene.keys[2] };
    // The first one shows the pool.
    for n in 0..2 {
        scene.memory.fill(LOCAL, &[0; 3000]);
        scene.end.qp.post_receive(n, &[buffer]).unwrap();
        scene.other.send(n, 0, 3000);
        assert_eq!(if n == 0 { scene.outcome() } else { outcome() }, Status::Success);
        while n == 0 && scene.end.try_poll().is_none() {}
    }
    assert!(scene.memory.bytes(LOCAL, 3000) == [0; 3000], "the second one waits");
    let tag = &scene.entry(scene.keys[2])[TAG];
    tag.fetch_xor(1, Ordering::Relaxed);
    scene.other.remote(3, Opcode::RdmaWrite, 0, 8, (open_addr, scene.keys[0]));
    assert_eq!(outcome(), Status::RetryExcErr);
    assert!(scene.memory.bytes(OPEN, 8) == [CONTENT[OPEN / PAGE]; 8]);
    tag.fetch_xor(1, Ordering::Relaxed);
    assert_eq!(scene.end.poll().status, Status::Success);
    assert!(scene.memory.bytes(LOCAL, 3000) == [SENT; 3000]);
}
