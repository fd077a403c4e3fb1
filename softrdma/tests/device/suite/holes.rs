//! Memory that is not there: regions are refused, requests fail, and nobody crashes.

use softrdma::device::{Data, Error, Wr};
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, Fabric};
use softrdma_testing::holes::{Holey, PAGE, Pages};

super::suite! {
    holes:
    a_region_has_all_its_pages,
    a_region_does_not_go_round_the_address_space,
    pages_on_demand_that_are_there_are_used,
    a_hole_that_is_sent_from_is_the_senders_error,
    a_list_that_meets_a_hole_arrives_up_to_it,
    a_datagram_from_a_hole_is_the_senders_error,
    a_hole_that_waits_for_a_message_is_the_receivers_error,
    a_hole_of_the_target_is_a_remote_access_error,
    a_page_that_its_program_made_read_only_is_read_and_not_written,
    a_hole_where_an_answer_goes_is_the_senders_error,
}

/// A small payload, and one that travels by itself.
const LENGTHS: [u64; 2] = [64, 5000];

pub fn a_region_has_all_its_pages(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
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

pub fn a_region_does_not_go_round_the_address_space(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
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

fn two(carrier: Carrier, qp_type: QpType) -> (Box<dyn Fabric>, [Node; 2], Holey, Holey) {
    let fabric = carrier();
    let nodes = fabric.pair();
    let [one, other] = [0, 1].map(|n| Holey::new(&nodes[n], qp_type));
    connect_ends(&one.end, &other.end);
    (fabric, nodes, one, other)
}

pub fn pages_on_demand_that_are_there_are_used(carrier: Carrier) {
    for length in [64, 200, 2000] {
        let (_fabric, _nodes, one, other) = two(carrier, QpType::Rc);
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

pub fn a_hole_that_is_sent_from_is_the_senders_error(carrier: Carrier) {
    for length in LENGTHS {
        for (opcode, qp_type) in [
            (Opcode::Send, QpType::Rc),
            (Opcode::SendWithImm, QpType::Uc),
            (Opcode::RdmaWrite, QpType::Rc),
            (Opcode::RdmaWrite, QpType::Uc),
            (Opcode::AtomicWrite, QpType::Rc),
        ] {
            let length = if opcode == Opcode::AtomicWrite { 8 } else { length };
            let (fabric, _nodes, one, other) = two(carrier, qp_type);
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
            fabric.settle();
            assert_eq!(other.end.try_poll(), None);
        }
    }
}

pub fn a_list_that_meets_a_hole_arrives_up_to_it(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = two(carrier, QpType::Rc);
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

pub fn a_datagram_from_a_hole_is_the_senders_error(carrier: Carrier) {
    let (fabric, _nodes, one, other) = two(carrier, QpType::Ud);
    other.end.receive(1, 0, 200);
    let datagram = other.end.datagrams();
    one.end.qp.post_send(&Wr { datagram, ..wr(2, Opcode::Send, &[one.sge(PAGE, 64)]) }).unwrap();
    assert_eq!(one.end.poll().status, Status::LocProtErr);
    fabric.settle();
    assert_eq!(other.end.try_poll(), None);
}

pub fn a_hole_that_waits_for_a_message_is_the_receivers_error(carrier: Carrier) {
    for length in LENGTHS {
        let (_fabric, _nodes, one, other) = two(carrier, QpType::Rc);
        other.end.qp.post_receive(1, &[other.sge(PAGE - 4, 2 * PAGE)]).unwrap();
        one.end.send(2, 0, length as usize);
        let sent = one.end.poll();
        assert_eq!((sent.wr_id, sent.status), (2, Status::RemOpErr));
        let received = other.end.poll();
        assert_eq!((received.wr_id, received.status), (1, Status::LocProtErr));
        assert_eq!((one.end.qp.state(), other.end.qp.state()), (QpState::Err, QpState::Err));
    }
}

pub fn a_hole_of_the_target_is_a_remote_access_error(carrier: Carrier) {
    for length in LENGTHS {
        for opcode in [Opcode::RdmaWrite, Opcode::RdmaRead, Opcode::AtomicWrite] {
            let (_fabric, _nodes, one, other) = two(carrier, QpType::Rc);
            let length = if opcode == Opcode::AtomicWrite { 8 } else { length };
            one.end.remote(1, opcode, 0, length as usize, (other.pages.0 + PAGE, other.lkey));
            assert_eq!(one.end.poll().status, Status::RemAccessErr, "{opcode:?}");
        }
    }
}

/// Also where the page was there, and might be written, when it was registered: the kernel copies with the
/// rights that the program has now.
pub fn a_page_that_its_program_made_read_only_is_read_and_not_written(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let pages = Pages::new(3);
    let region = there.device.register(there.pd, pages.0, 3 * PAGE, pages.0, ALL).unwrap();
    let attempt = |opcode, offset, length| {
        let (one, other) = (here.end(QpType::Rc), there.end(QpType::Rc));
        connect_ends(&one, &other);
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

pub fn a_hole_where_an_answer_goes_is_the_senders_error(carrier: Carrier) {
    for opcode in [Opcode::RdmaRead, Opcode::FetchAndAdd, Opcode::CmpAndSwp] {
        let (_fabric, _nodes, one, other) = two(carrier, QpType::Rc);
        let (addr, rkey) = (other.end.memory.addr(0).next_multiple_of(8), other.end.region.rkey);
        let operands = match opcode {
            Opcode::RdmaRead => Operands::Remote { addr, rkey, length: 8 },
            _ => Operands::Atomic { addr, rkey, compare_add: 0, swap: 7 },
        };
        let sges = [one.sge(PAGE, 8)];
        one.end.qp.post_send(&Wr { operands, ..wr(1, opcode, &sges) }).unwrap();
        assert_eq!(one.end.poll().status, Status::LocProtErr, "{opcode:?}");
        // The same at the target.
        let (_fabric, _nodes, one, other) = two(carrier, QpType::Rc);
        let (addr, rkey) = (other.pages.0 + PAGE, other.lkey);
        let operands = match opcode {
            Opcode::RdmaRead => Operands::Remote { addr, rkey, length: 8 },
            _ => Operands::Atomic { addr, rkey, compare_add: 0, swap: 7 },
        };
        one.end.qp.post_send(&Wr { operands, ..wr(1, opcode, &[one.end.sge(0, 8)]) }).unwrap();
        assert_eq!(one.end.poll().status, Status::RemAccessErr, "{opcode:?}");
    }
}
