//! Payload that a forged completion brings: it lands where its queue pair may be written to, or nowhere.

use softrdma::device::XrcDomain;
use softrdma::queues::completion::Stage;
use softrdma::queues::deliver::Deliver;
use softrdma::queues::transport::run;
use softrdma::rules::completion::Completion;
use softrdma::rules::verbs::{QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::holes::{Holey, PAGE};

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
