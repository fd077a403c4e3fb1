//! Memory that is not there: regions are refused, requests fail, and nobody crashes.

use softrdma::device::{Attributes, Data, Datagram, Error, Wr, XrcDomain};
use softrdma::queues::completion::Stage;
use softrdma::queues::deliver::Deliver;
use softrdma::queues::transport::run;
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;

const PAGE: u64 = 4096;
/// A small payload, and one that travels by itself.
const LENGTHS: [u64; 2] = [64, 5000];

/// Pages of memory, of which a hole can be made.
struct Pages(u64, u64);

impl Pages {
    fn new(count: u64) -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), (count * PAGE) as usize, access, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Pages(at as u64, count)
    }

    /// Takes the rights to a page away; nothing else is mapped there meanwhile.
    fn protect(&self, page: u64, rights: libc::c_int) {
        // SAFETY: within the mapping, and nothing looks into it but the device.
        unsafe { assert_eq!(libc::mprotect((self.0 + page * PAGE) as *mut _, PAGE as usize, rights), 0) };
    }

    fn word(&self, at: u64) -> *mut u64 {
        (self.0 + at) as *mut u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.0 as *mut _, (self.1 * PAGE) as usize) };
    }
}

#[test]
fn a_region_has_all_its_pages() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let register = |addr, length, access| node.device.register(node.pd, addr, length, addr, access);
    for page in 0..3 {
        let pages = Pages::new(3);
        for (rights, read, write) in [(libc::PROT_NONE, false, false), (libc::PROT_READ, true, false)] {
            pages.protect(page, rights);
            let all = |access| register(pages.0 + 1, 3 * PAGE - 2, access).map(|_| ());
            let answer = |good| if good { Ok(()) } else { Err(Error::Fault) };
            for access in [Access::NONE, Access::REMOTE_READ] {
                assert_eq!(all(access), answer(read), "page {page}");
            }
            for access in [Access::LOCAL_WRITE, Access::MW_BIND, ALL] {
                assert_eq!(all(access), answer(write), "page {page}");
            }
            let region = register(pages.0, 3 * PAGE, Access::NONE);
            assert_eq!(region.is_ok(), read);
            if let Ok(region) = region {
                let again = |access| node.device.reregister(region.lkey, None, None, Some(access));
                assert_eq!((again(ALL), again(Access::NONE)), (Err(Error::Fault), Ok(region)));
            }
        }
    }
}

#[test]
fn a_region_does_not_go_round_the_address_space() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let pages = Pages::new(1);
    let last = u64::MAX - PAGE + 1;
    for (addr, length) in [
        (pages.0, u64::MAX - pages.0 + 1),
        (pages.0, u64::MAX - pages.0),
        (pages.0, u64::MAX),
        (last + 1, PAGE - 2),
        (u64::MAX, 0),
        (PAGE, 1 << 60),
    ] {
        let answer = node.device.register(node.pd, addr, length, 0, ALL);
        assert!(matches!(answer, Err(Error::Invalid(_))), "{addr:#x} {length:#x}: {answer:?}");
    }
}

/// One side of a connection that has memory with a hole in a region with pages on demand: the second of three
/// pages.
struct Holey {
    end: End,
    pages: Pages,
    lkey: u32,
}

impl Holey {
    fn new(node: &Node, qp_type: QpType) -> Self {
        let pages = Pages::new(3);
        let region = node.device.register_on_demand(node.pd, pages.0, 3 * PAGE, pages.0, ALL).unwrap();
        pages.protect(1, libc::PROT_NONE);
        Holey { end: node.end(qp_type), pages, lkey: region.lkey }
    }

    fn sge(&self, offset: u64, length: u64) -> Sge {
        Sge { addr: self.pages.0 + offset, length: length as u32, lkey: self.lkey }
    }
}

fn two(qp_type: QpType) -> (Folder, Node, Holey, Holey) {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (Holey::new(&node, qp_type), Holey::new(&node, qp_type));
    connect(&one.end.qp, &other.end.qp);
    (folder, node, one, other)
}

#[test]
fn pages_on_demand_that_are_there_are_used() {
    for length in [64, 200, 2000] {
        let (_folder, _node, one, other) = two(QpType::Rc);
        // SAFETY: words of mappings that nobody else uses now.
        unsafe { one.pages.word(2 * PAGE).write_volatile(length) };
        other.end.qp.post_receive(1, &[other.sge(2 * PAGE, PAGE)]).unwrap();
        one.end.qp.post_send(&wr(2, Opcode::Send, &[one.sge(2 * PAGE, length)])).unwrap();
        one.end.done(2);
        assert_eq!(u64::from(other.end.done(1).byte_len), length);
        // SAFETY: as above.
        assert_eq!(unsafe { other.pages.word(2 * PAGE).read_volatile() }, length);

        let to = |addr| Operands::Remote { addr: other.pages.0 + addr, rkey: other.lkey, length: 0 };
        let write = wr(3, Opcode::AtomicWrite, &[]);
        let sges = [one.sge(2 * PAGE, 3), one.sge(2 * PAGE + 3, 5)];
        let write = Wr { data: Data::Sges(&sges), operands: to(8), ..write };
        one.end.qp.post_send(&write).unwrap();
        one.end.done(3);
        let (addr, rkey) = (other.pages.0 + 8, other.lkey);
        let operands = Operands::Atomic { addr, rkey, compare_add: 5, swap: 0 };
        let sges = [one.sge(16, 2), one.sge(18, 6)];
        one.end.qp.post_send(&Wr { operands, ..wr(4, Opcode::FetchAndAdd, &sges) }).unwrap();
        one.end.done(4);
        // SAFETY: as above.
        let words = unsafe { (one.pages.word(16).read_volatile(), other.pages.word(8).read_volatile()) };
        assert_eq!(words, (length, length + 5));
    }
}

#[test]
fn a_hole_that_is_sent_from_is_the_senders_error() {
    for length in LENGTHS {
        for (opcode, qp_type) in [
            (Opcode::Send, QpType::Rc),
            (Opcode::SendWithImm, QpType::Uc),
            (Opcode::RdmaWrite, QpType::Rc),
            (Opcode::RdmaWrite, QpType::Uc),
            (Opcode::AtomicWrite, QpType::Rc),
        ] {
            let length = if opcode == Opcode::AtomicWrite { 8 } else { length };
            let (_folder, _node, one, other) = two(qp_type);
            other.end.receive(1, 0, 8192);
            let (addr, rkey) = (other.end.memory.addr(0), other.end.region.rkey);
            let operands = match opcode {
                Opcode::Send | Opcode::SendWithImm => Operands::None,
                _ => Operands::Remote { addr: addr.next_multiple_of(8), rkey, length },
            };
            // It begins before the hole.
            let sges = [one.sge(PAGE - 4, length)];
            one.end.qp.post_send(&Wr { operands, ..wr(2, opcode, &sges) }).unwrap();
            let completion = one.end.poll();
            assert_eq!((completion.wr_id, completion.status), (2, Status::LocProtErr), "{opcode:?}");
            assert_eq!(other.end.try_poll(), None);
        }
    }
}

#[test]
fn a_list_that_meets_a_hole_arrives_up_to_it() {
    let (_folder, _node, one, other) = two(QpType::Rc);
    for n in 0..4 {
        other.end.receive(n, 0, 64);
    }
    let mut sending = one.end.qp.sending();
    for (n, offset) in [0, 2 * PAGE, PAGE, 0].into_iter().enumerate() {
        let sges = [if n == 0 { one.end.sge(0, 8) } else { one.sge(offset, 8) }];
        let request = wr(n as u64, Opcode::Send, &sges);
        sending.accept(&request).unwrap();
        sending.post(&request);
    }
    drop(sending);
    let statuses = [one.end.poll(), one.end.poll(), one.end.poll(), one.end.poll()].map(|c| c.status);
    assert_eq!(statuses, [Status::Success, Status::Success, Status::LocProtErr, Status::WrFlushErr]);
    assert_eq!([other.end.done(0).byte_len, other.end.done(1).byte_len], [8; 2]);
}

#[test]
fn a_datagram_from_a_hole_is_the_senders_error() {
    let (_folder, _node, one, other) = two(QpType::Ud);
    other.end.receive(1, 0, 200);
    let datagram = Some(Datagram { qp_num: other.end.qp.qp_num(), qkey: QKEY, grh: &[0x60; 40], dgid: GID });
    one.end.qp.post_send(&Wr { datagram, ..wr(2, Opcode::Send, &[one.sge(PAGE, 64)]) }).unwrap();
    assert_eq!(one.end.poll().status, Status::LocProtErr);
    assert_eq!(other.end.try_poll(), None);
}

#[test]
fn a_hole_that_waits_for_a_message_is_the_receivers_error() {
    for length in LENGTHS {
        let (_folder, _node, one, other) = two(QpType::Rc);
        other.end.qp.post_receive(1, &[other.sge(PAGE - 4, 2 * PAGE)]).unwrap();
        one.end.send(2, 0, length as usize);
        let sent = one.end.poll();
        assert_eq!((sent.wr_id, sent.status), (2, Status::RemOpErr));
        let received = other.end.poll();
        assert_eq!((received.wr_id, received.status), (1, Status::LocProtErr));
        assert_eq!((one.end.qp.state(), other.end.qp.state()), (QpState::Err, QpState::Err));
    }
}

#[test]
fn a_hole_of_the_target_is_a_remote_access_error() {
    for length in LENGTHS {
        for opcode in [Opcode::RdmaWrite, Opcode::RdmaRead, Opcode::AtomicWrite] {
            let (_folder, _node, one, other) = two(QpType::Rc);
            let length = if opcode == Opcode::AtomicWrite { 8 } else { length };
            one.end.remote(1, opcode, 0, length as usize, (other.pages.0 + PAGE, other.lkey));
            assert_eq!(one.end.poll().status, Status::RemAccessErr, "{opcode:?}");
        }
    }
}

/// Also where the page was there, and might be written, when it was registered: the kernel copies with the
/// rights that the program has now.
#[test]
fn a_page_that_its_program_made_read_only_is_read_and_not_written() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let pages = Pages::new(3);
    let region = node.device.register(node.pd, pages.0, 3 * PAGE, pages.0, ALL).unwrap();
    let attempt = |opcode, offset, length| {
        let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
        connect(&one.qp, &other.qp);
        one.memory.fill(0, &[7; 2 * PAGE as usize]);
        one.remote(1, opcode, 0, length, (pages.0 + offset, region.rkey));
        one.poll().status
    };
    pages.protect(1, libc::PROT_READ);
    assert_eq!(attempt(Opcode::RdmaRead, PAGE, 8), Status::Success);
    for length in [8, PAGE as usize] {
        assert_eq!(attempt(Opcode::RdmaWrite, PAGE, length), Status::RemAccessErr, "{length}");
    }
    // What comes before it arrives, as with adapters that meet a wrong address.
    assert_eq!(attempt(Opcode::RdmaWrite, 0, 2 * PAGE as usize), Status::RemAccessErr);
    // SAFETY: words of a mapping that nobody else uses now.
    let words = unsafe { [0, PAGE].map(|at| pages.word(at).read_volatile()) };
    assert_eq!(words, [0x0707_0707_0707_0707, 0]);
    pages.protect(1, libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(attempt(Opcode::RdmaWrite, PAGE, PAGE as usize), Status::Success);
    // SAFETY: as above.
    assert_eq!(unsafe { pages.word(PAGE).read_volatile() }, words[0]);
}

#[test]
fn a_hole_where_an_answer_goes_is_the_senders_error() {
    for opcode in [Opcode::RdmaRead, Opcode::FetchAndAdd, Opcode::CmpAndSwp] {
        let (_folder, _node, one, other) = two(QpType::Rc);
        let (addr, rkey) = (other.end.memory.addr(0).next_multiple_of(8), other.end.region.rkey);
        let operands = match opcode {
            Opcode::RdmaRead => Operands::Remote { addr, rkey, length: 8 },
            _ => Operands::Atomic { addr, rkey, compare_add: 0, swap: 7 },
        };
        let sges = [one.sge(PAGE, 8)];
        one.end.qp.post_send(&Wr { operands, ..wr(1, opcode, &sges) }).unwrap();
        assert_eq!(one.end.poll().status, Status::LocProtErr, "{opcode:?}");
        // The same at the target.
        let (_folder, _node, one, other) = two(QpType::Rc);
        let (addr, rkey) = (other.pages.0 + PAGE, other.lkey);
        let operands = match opcode {
            Opcode::RdmaRead => Operands::Remote { addr, rkey, length: 8 },
            _ => Operands::Atomic { addr, rkey, compare_add: 0, swap: 7 },
        };
        one.end.qp.post_send(&Wr { operands, ..wr(1, opcode, &[one.end.sge(0, 8)]) }).unwrap();
        assert_eq!(one.end.poll().status, Status::RemAccessErr, "{opcode:?}");
    }
}

/// A completion with a payload, as a peer may write it whatever has been posted.
fn forged(qp_num: u32, wr_id: u64) -> Completion {
    Completion { status: Status::Success, byte_len: 8, ..Completion::flushed(wr_id, WcOpcode::Recv, qp_num) }
}

#[test]
fn a_payload_that_claims_to_be_for_memory_that_may_not_be_there_is_moved_by_the_kernel() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let here = Holey::new(&node, QpType::Rc);
    bring_up(&here.end.qp, &attributes(77), QpState::Rts);
    let view = folder.view();
    for (page, status) in [(1, Status::LocProtErr), (2, Status::Success)] {
        let addr = here.pages.0 + page * PAGE;
        let stage = Stage { addr, lkey: here.lkey, bytes: &[9; 8] };
        let completion = forged(here.end.qp.qp_num(), page);
        run(&view, Deliver::append(0, &completion).with(Some(stage))).unwrap();
        assert_eq!(here.end.poll().status, status);
    }
    // SAFETY: a word of a mapping that nobody else uses now.
    assert_eq!(unsafe { here.pages.word(2 * PAGE).read_volatile() }, u64::from_ne_bytes([9; 8]));
}

#[test]
fn a_payload_lands_in_the_domain_of_its_queue_pair_alone() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    let stranger = node.device.alloc_pd().unwrap();
    let memory = Buffer::new(64);
    let other = node.device.register(stranger, memory.addr(0), 64, memory.addr(0), ALL).unwrap();
    // An XRC target has the domains of the shared receive queues that complete there.
    let domain = XrcDomain::open(&node.device, None, true, false).unwrap();
    let _shared = node.xrc_srq(&domain, &end.cq);
    let init = softrdma::device::QpInit { xrcd: Some(domain), ..node.init(QpType::XrcRecv, &end.cq) };
    let target = softrdma::device::QueuePair::new(&node.device, &init).unwrap();
    let gone = node.end(QpType::Rc);
    gone.qp.destroy().unwrap();

    let view = folder.view();
    let mut number = 0;
    let mut is_placed = |qp_num: u32, addr: u64, lkey: u32| {
        number += 1;
        let stage = Stage { addr, lkey, bytes: &[number as u8; 8] };
        run(&view, Deliver::append(0, &forged(qp_num, number)).with(Some(stage))).unwrap();
        let completion = end.poll();
        assert_eq!(completion.wr_id, number);
        completion.status == Status::Success
    };
    let never = target.qp_num() + 7;
    for (qp_num, own) in
        [(end.qp.qp_num(), true), (target.qp_num(), true), (gone.qp.qp_num(), false), (never, false)]
    {
        assert_eq!(is_placed(qp_num, end.memory.addr(0), end.region.lkey), own, "{qp_num:#x}");
        assert!(!is_placed(qp_num, memory.addr(0), other.lkey), "{qp_num:#x}");
    }
    assert_eq!(memory.word(0), 0);
    assert_eq!(end.memory.word(0), u64::from_ne_bytes([3; 8]));
}

#[test]
fn holes_between_processes() {
    let folder = Folder::new();
    let words = Words::new();
    // Each message breaks its connection.
    const TRIES: [(Opcode, u64); 6] = [
        (Opcode::Send, 8),
        (Opcode::Send, 5000),
        (Opcode::RdmaWrite, 8),
        (Opcode::RdmaRead, 8),
        (Opcode::AtomicWrite, 8),
        (Opcode::FetchAndAdd, 8),
    ];
    let target = Child::run(|| {
        // SAFETY: plain system call; the other side would wait for one that failed.
        unsafe { libc::alarm(300) };
        let node = Node::new(&folder);
        for (opcode, _) in TRIES {
            let here = Holey::new(&node, QpType::Rc);
            let qp_num = u64::from(here.end.qp.qp_num());
            words.put(1, &[qp_num, here.pages.0 + PAGE, u64::from(here.lkey)]);
            let [peer] = words.get(1);
            bring_up(&here.end.qp, &attributes(peer as u32), QpState::Rts);
            here.end.qp.post_receive(1, &[here.sge(PAGE, PAGE), here.end.sge(0, 4096)]).unwrap();
            words.put(1, &[0]);
            if opcode == Opcode::Send {
                assert_eq!(here.end.poll().status, Status::LocProtErr);
            }
            while !readable(words.fd(1), 0) {
                here.end.try_poll();
            }
            words.get::<1>(1);
        }
    });
    let node = Node::new(&folder);
    for (opcode, length) in TRIES {
        let end = node.end(QpType::Rc);
        let [peer, addr, rkey] = words.get(0);
        let rkey = rkey as u32;
        words.put(0, &[u64::from(end.qp.qp_num())]);
        words.get::<1>(0);
        bring_up(&end.qp, &Attributes { timeout: 20, ..attributes(peer as u32) }, QpState::Rts);
        let operands = match opcode {
            Opcode::Send => Operands::None,
            Opcode::FetchAndAdd => Operands::Atomic { addr, rkey, compare_add: 1, swap: 0 },
            _ => Operands::Remote { addr, rkey, length },
        };
        let sges = [end.sge(0, length as usize)];
        end.qp.post_send(&Wr { operands, ..wr(1, opcode, &sges) }).unwrap();
        let expected = if opcode == Opcode::Send { Status::RemOpErr } else { Status::RemAccessErr };
        assert_eq!(end.poll().status, expected, "{opcode:?}");
        words.put(0, &[0]);
    }
    assert_eq!(target.wait(), 0);
}
