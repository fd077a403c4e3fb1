//! Making, changing and ending objects.

use softrdma::device::{
    Attributes, Capabilities, Error, LIMITS, QpInit, QueuePair, SharedReceiveQueue, SrqInit, SrqType,
    WindowType,
};
use softrdma::rules::qp::{Refused, attributes as table};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{Access, Attr, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::Carrier;
use softrdma_testing::thread::sleeps;

super::suite! {
    control:
    protection_domains_end_when_nothing_is_in_them,
    regions_are_memory_that_is_there,
    device_memory,
    sizes_and_queues_are_checked,
    changes_are_those_that_the_state_allows,
    a_queue_pair_in_error_flushes_what_is_posted,
    a_destroyed_queue_pair_leaves_no_completions,
    completion_queues_are_resized_with_what_is_in_them,
    numbers_are_not_used_again_soon,
    a_thousand_queue_pairs,
    as_many_queue_pairs_as_promised,
    shared_receive_queues_are_made_changed_and_ended,
    a_send_queue_is_full_until_its_completions_are_polled,
}

pub fn protection_domains_end_when_nothing_is_in_them(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let device = &node.device;
    assert_eq!(node.pd, 1);
    let pd = device.alloc_pd().unwrap();
    device.hold_pd(pd).unwrap();
    assert_eq!(device.free_pd(pd), Err(Error::Busy));
    device.release_pd(pd);
    let window = device.alloc_window(pd, WindowType::Two).unwrap();
    assert_eq!(device.free_pd(pd), Err(Error::Busy));
    device.free_window(window).unwrap();
    assert!(device.free_window(window).is_err());
    assert_eq!(device.free_pd(pd), Ok(()));
    assert!(device.free_pd(pd).is_err() && device.hold_pd(pd).is_err());
    assert!(device.register(pd, 0, 0, 0, Access::NONE).is_err());
    let end = node.end(QpType::Rc);
    assert_eq!(device.free_pd(node.pd), Err(Error::Busy));
    end.qp.destroy().unwrap();
    device.deregister(end.region.lkey).unwrap();
    assert_eq!(device.free_pd(node.pd), Ok(()));
}

pub fn regions_are_memory_that_is_there(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let device = &node.device;
    let page = |protection| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new mappings at addresses of the kernel's choice.
        unsafe { libc::mmap(std::ptr::null_mut(), 8192, protection, flags, -1, 0) as u64 }
    };
    let both = page(libc::PROT_READ | libc::PROT_WRITE);
    let read_only = page(libc::PROT_READ);
    let register = |addr, length, access| device.register(node.pd, addr, length, addr, access);
    let region = register(both + 1, 8000, ALL).unwrap();
    assert_eq!(region.lkey, region.rkey);
    assert!(register(both, 8192, Access::REMOTE_WRITE).is_err());
    assert_eq!(register(read_only, 8192, Access::NONE).map(|_| ()), Ok(()));
    assert_eq!(register(read_only, 8192, Access::LOCAL_WRITE), Err(Error::Fault));
    assert_eq!(register(4096, 1, Access::NONE), Err(Error::Fault));
    assert!(matches!(register(u64::MAX - 10, 100, Access::NONE), Err(Error::Invalid(_))));
    // SAFETY: the mapping made above, and nothing looks into it.
    unsafe { libc::munmap((both + 4096) as *mut _, 4096) };
    assert_eq!(register(both, 8192, Access::NONE), Err(Error::Fault));
    assert_eq!(device.reregister(region.lkey, None, Some((both, 4096, 0)), None), Ok(region));
    assert_eq!(device.reregister(region.lkey, None, Some((4096, 1, 0)), None), Err(Error::Fault));
    assert_eq!(device.deregister(region.lkey), Ok(()));
    assert!(device.deregister(region.lkey).is_err());
}

pub fn device_memory(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    assert!(node.device.alloc_memory(0).is_err());
    let memory = node.device.alloc_memory(100).unwrap();
    memory.write(90, &[5; 10]).unwrap();
    let mut back = [0; 4];
    memory.read(96, &mut back).unwrap();
    assert_eq!(back, [5; 4]);
    assert!(memory.write(91, &[0; 10]).is_err() && memory.read(u64::MAX, &mut back).is_err());
    assert!(node.device.register(node.pd, memory.address(), memory.length(), 0, ALL).is_ok());
}

pub fn sizes_and_queues_are_checked(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let cq = node.cq(1, None, 0);
    let good = node.init(QpType::Rc, &cq);
    let try_init = |init: &QpInit| QueuePair::new(&node.device, init).map(|qp| qp.capabilities());
    let try_cap = |cap: Capabilities| try_init(&QpInit { cap, ..good.clone() });
    assert_eq!(try_init(&good), Ok(good.cap));
    let most = Capabilities {
        max_send_wr: LIMITS.max_qp_wr,
        max_recv_wr: LIMITS.max_qp_wr,
        max_send_sge: LIMITS.max_sge,
        max_recv_sge: LIMITS.max_sge,
        max_inline_data: LIMITS.max_inline_data,
    };
    assert_eq!(try_cap(most), Ok(most));
    assert!(try_cap(Capabilities { max_send_wr: most.max_send_wr + 1, ..most }).is_err());
    assert!(try_cap(Capabilities { max_recv_sge: 33, ..most }).is_err());
    assert!(try_cap(Capabilities { max_inline_data: most.max_inline_data + 1, ..most }).is_err());
    assert!(try_init(&QpInit { recv_cq: None, ..good.clone() }).is_err());
    assert!(try_init(&QpInit { pd: 99, ..good.clone() }).is_err());
    assert!(try_init(&QpInit { qp_type: QpType::XrcRecv, ..good.clone() }).is_err());
    assert_eq!(cq.destroy(), Ok(()), "every queue pair is gone");
}

// rule: qp-refused-as-it-was, qp-reset-forgets, post-receive-states
pub fn changes_are_those_that_the_state_allows(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    let qp = &end.qp;
    let good = attributes_at(node.gid, 77);
    let init = Attr::STATE.union(Attr::PKEY_INDEX).union(Attr::PORT).union(Attr::ACCESS_FLAGS);
    let to = |state| Attributes { state, ..good };
    assert_eq!(
        qp.modify(Attr::STATE.union(Attr::PORT), &to(QpState::Init)),
        Err(Error::Modify(Refused::Missing(Attr::PKEY_INDEX.union(Attr::ACCESS_FLAGS))))
    );
    assert!(qp.modify(init, &Attributes { port_num: 2, ..to(QpState::Init) }).is_err());
    assert_eq!(qp.state(), QpState::Reset);
    assert_eq!(qp.post_receive(1, &[]), Err(Rejected::State));
    assert_eq!(qp.modify(init, &to(QpState::Init)), Ok(()));
    assert_eq!(qp.post_receive(1, &[]), Ok(()));
    assert_eq!(qp.post_receive(2, &[Sge::default(); 5]), Err(Rejected::TooManySges));
    for wr_id in 2..=16 {
        assert_eq!(qp.post_receive(wr_id, &[]), Ok(()));
    }
    assert_eq!(qp.post_receive(17, &[]), Err(Rejected::Full));
    assert_eq!(end.try_send(1, 0, 8), Err(Rejected::State));
    bring_up_from_init(qp, &Attributes { max_dest_rd_atomic: 3, ..good });
    let queried = qp.query().attributes;
    assert_eq!((queried.state, queried.dest_qp_num, queried.timeout), (QpState::Rts, 77, 12));
    assert_eq!((queried.max_rd_atomic, queried.max_dest_rd_atomic), (4, 4));
    assert!(qp.modify(Attr::QKEY, &good).is_err());
    assert!(qp.modify(Attr::ALT_PATH, &good).is_err());
    let minimum = Attributes { min_rnr_timer: 9, cur_state: QpState::Rts, ..good };
    assert_eq!(qp.modify(Attr::MIN_RNR_TIMER.union(Attr::CUR_STATE), &minimum), Ok(()));
    assert_eq!(qp.query().attributes.min_rnr_timer, 9);
    // ERR flushes in order; RESET forgets.
    set_state(qp, QpState::Err);
    for wr_id in 1..=3 {
        let completion = end.poll();
        assert_eq!((completion.wr_id, completion.status), (wr_id, Status::WrFlushErr));
    }
    assert_eq!(qp.post_receive(99, &[]), Ok(()));
    assert_eq!(end.try_send(100, 0, 8), Ok(()));
    set_state(qp, QpState::Reset);
    assert_eq!(end.try_poll(), None);
    assert_eq!(qp.destroy(), Ok(()));
    assert_eq!(end.cq.destroy(), Ok(()));
}

fn bring_up_from_init(qp: &QueuePair, attributes: &Attributes) {
    for (from, state) in [(QpState::Init, QpState::Rtr), (QpState::Rtr, QpState::Rts)] {
        let (required, _) = table(qp.qp_type(), from, state).unwrap();
        qp.modify(required.union(Attr::STATE), &Attributes { state, ..*attributes }).unwrap();
    }
}

// rule: flush-all
pub fn a_queue_pair_in_error_flushes_what_is_posted(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes_at(node.gid, 77), QpState::Rts);
    set_state(&end.qp, QpState::Err);
    for wr_id in 1..=4 {
        end.receive(wr_id, 0, 8);
        end.send(10 + wr_id, 0, 8);
    }
    for wr_id in 1..=4 {
        for expected in [wr_id, 10 + wr_id] {
            let completion = end.poll();
            assert_eq!((completion.wr_id, completion.status), (expected, Status::WrFlushErr));
        }
    }
}

pub fn a_destroyed_queue_pair_leaves_no_completions(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let (one, cq) = (node.end(QpType::Rc), node.cq(64, None, 0));
    let pair = [0, 1].map(|_| QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap());
    for qp in &pair {
        bring_up(qp, &attributes_at(node.gid, 77), QpState::Rts);
        set_state(qp, QpState::Err);
    }
    for wr_id in 0..6 {
        pair[wr_id as usize % 2].post_receive(wr_id, &[one.sge(0, 8)]).unwrap();
    }
    pair[0].destroy().unwrap();
    for wr_id in [1, 3, 5] {
        assert_eq!(poll(&cq).unwrap().wr_id, wr_id);
    }
    assert_eq!(poll(&cq), None);
    assert_eq!(cq.destroy(), Err(Error::Busy));
    pair[1].destroy().unwrap();
    assert_eq!(cq.destroy(), Ok(()));
}

pub fn completion_queues_are_resized_with_what_is_in_them(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let cq = node.cq(4, None, 0);
    let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    bring_up(&qp, &attributes_at(node.gid, 77), QpState::Rts);
    set_state(&qp, QpState::Err);
    let mut posted = 0..;
    let mut polled = 0..;
    let post = |posted: &mut std::ops::RangeFrom<u64>| qp.post_receive(posted.next().unwrap(), &[]).unwrap();
    for _ in 0..3 {
        post(&mut posted);
        assert_eq!(poll(&cq).unwrap().wr_id, polled.next().unwrap());
    }
    for size in [16, 8, 4, 5] {
        for _ in 0..3 {
            post(&mut posted);
        }
        assert_eq!(cq.resize(size), Ok(size));
        assert_eq!(cq.cqe(), size);
        post(&mut posted);
        for _ in 0..4 {
            assert_eq!(poll(&cq).unwrap().wr_id, polled.next().unwrap());
        }
        assert_eq!(poll(&cq), None);
    }
    for _ in 0..3 {
        post(&mut posted);
    }
    assert!(cq.resize(2).is_err() && cq.resize(0).is_err() && cq.resize(LIMITS.max_cqe + 1).is_err());
}

pub fn numbers_are_not_used_again_soon(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let cq = node.cq(1, None, 0);
    let mut numbers = std::collections::HashSet::new();
    for _ in 0..100 {
        let qp = QueuePair::new(&node.device, &node.init(QpType::Ud, &cq)).unwrap();
        assert!(qp.qp_num() > 1 && qp.qp_num() < 0xff_ffff);
        assert!(numbers.insert(qp.qp_num()));
        qp.destroy().unwrap();
    }
}

pub fn a_thousand_queue_pairs(carrier: Carrier) {
    let (fabric, words) = (carrier(), Words::new());
    // In a process to itself: what the tests beside this one have in memory is not counted.
    let child = Child::run(|| {
        let node = fabric.open(0);
        let cq = node.cq(64, None, 0);
        let init = node.init(QpType::Rc, &cq);
        let before = [processor_time(), sleeps(), resident()];
        let all: Vec<_> = (0..1000).map(|_| QueuePair::new(&node.device, &init).unwrap()).collect();
        for pair in all.chunks_exact(2) {
            for (qp, peer) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                bring_up(qp, &attributes_at(node.gid, peer.qp_num()), QpState::Rts);
            }
        }
        let after = [processor_time(), sleeps(), resident()];
        words.put(1, &[0, 1, 2].map(|n| after[n] - before[n]));
        assert!(all.iter().all(|qp| qp.state() == QpState::Rts));
    });
    let [time, sleeps, memory] = words.get(0);
    println!("1000 queue pairs: {time} ms, {sleeps} sleeps, {} KiB each", memory / 1000);
    assert!(memory / 1000 <= 64, "{memory} KiB");
    // Neither by work nor by waiting: others that are busy make neither more.
    assert!(time < 5000 && sleeps < 1000, "{time} ms, {sleeps} sleeps");
    assert_eq!(child.wait(), 0);
}

pub fn as_many_queue_pairs_as_promised(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let cq = node.cq(64, None, 0);
    let cap =
        Capabilities { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
    let init = QpInit { cap, ..node.init(QpType::Rc, &cq) };
    let make = || QueuePair::new(&node.device, &init);
    let mut all: Vec<_> = (0..LIMITS.max_qp).map(|_| make().unwrap()).collect();
    assert_eq!(make().unwrap_err(), Error::NoMemory);
    assert!(all.iter().all(|qp| qp.qp_num() > 1 && qp.qp_num() < 0xff_ffff));
    all.pop();
    assert!(make().is_ok());
}

/// Milliseconds that the calling thread has had a processor.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub fn shared_receive_queues_are_made_changed_and_ended(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    let init = SrqInit {
        pd: node.pd,
        srq_type: SrqType::Basic,
        max_wr: 4,
        max_sge: 2,
        xrcd: None,
        cq: None,
        events: node.events.clone(),
        cookie: 3,
    };
    let make = |init: &SrqInit| SharedReceiveQueue::new(&node.device, init);
    assert!(make(&SrqInit { max_wr: 0, ..init.clone() }).is_err());
    assert!(make(&SrqInit { max_sge: 33, ..init.clone() }).is_err());
    assert!(make(&SrqInit { srq_type: SrqType::Xrc, ..init.clone() }).is_err());
    let srq = make(&init).unwrap();
    for wr_id in 0..4 {
        post_shared(&srq, wr_id, &end, 0, 8);
    }
    assert_eq!(srq.post(4, &[]), Err(Rejected::Full));
    assert_eq!(srq.post(4, &[Sge::default(); 3]), Err(Rejected::TooManySges));
    assert!(srq.modify(None, Some(3)).is_err() && srq.modify(Some(5), None).is_err());
    assert_eq!(srq.modify(Some(2), Some(9)), Ok(()));
    assert_eq!((srq.limit(), srq.max_wr()), (2, 9));
    for wr_id in 4..9 {
        post_shared(&srq, wr_id, &end, 0, 8);
    }
    assert_eq!(srq.post(9, &[]), Err(Rejected::Full));
    let qp =
        QueuePair::new(&node.device, &QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &end.cq) })
            .unwrap();
    assert_eq!(qp.post_receive(1, &[]), Err(Rejected::State));
    assert_eq!(srq.destroy(), Err(Error::Busy));
    qp.destroy().unwrap();
    assert_eq!(srq.destroy(), Ok(()));
}

pub fn a_send_queue_is_full_until_its_completions_are_polled(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes_at(node.gid, 77), QpState::Rts);
    set_state(&end.qp, QpState::Err);
    let post = || end.qp.post_send(&wr(0, Opcode::Send, &[]));
    for _ in 0..16 {
        assert_eq!(post(), Ok(()));
    }
    assert_eq!(post(), Err(Rejected::Full));
    end.poll();
    assert_eq!((post(), post()), (Ok(()), Err(Rejected::Full)));
}
