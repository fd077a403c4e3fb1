//! Domains of extended reliable connections (XRC), and what is reached through them.

use softrdma::device::{Error, EventQueue, OpenedQp, QpInit, QueuePair, Wr, XrcDomain};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pattern};

super::suite! {
    xrc:
    xrc_domains_are_those_of_their_files,
    who_opened_a_queue_pair_is_told_of_its_events_when_its_maker_is_gone,
    xrc_names_the_queue,
}

pub fn xrc_domains_are_those_of_their_files(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let file = |name: &str| std::fs::File::create(std::env::temp_dir().join(name)).unwrap();
    let name = format!("ironverbs-xrc-{}", std::process::id());
    let (one, other) = (file(&name), file(&name));
    let fd = |file: &std::fs::File| Some(std::os::fd::AsRawFd::as_raw_fd(file));
    let open = |fd, create, exclusive| XrcDomain::open(&node.device, fd, create, exclusive);
    assert!(matches!(open(fd(&one), false, false), Err(Error::NotFound)));
    let domain = open(fd(&one), true, true).unwrap();
    assert!(matches!(open(fd(&other), true, true), Err(Error::Exists)));
    let again = open(fd(&other), false, false).unwrap();
    assert!(matches!(open(None, false, false), Err(Error::Invalid(_))));
    let private = open(None, true, false).unwrap();
    let cq = node.cq(1, None, 0);
    let init = node.init(QpType::XrcRecv, &cq);
    let qp = QueuePair::new(&node.device, &QpInit { xrcd: Some(domain.clone()), ..init }).unwrap();
    assert_eq!(domain.close(), Err(Error::Busy));
    let open_qp = |domain| OpenedQp::open(domain, qp.qp_num(), &node.events, 5);
    assert!(open_qp(&private).is_err());
    let opened = open_qp(&again).unwrap();
    // Whoever has it open is told of its events.
    device_events(&node, &qp);
    qp.destroy().unwrap();
    set_state(opened.queue_pair(), QpState::Reset);
    bring_up(opened.queue_pair(), &attributes_at(node.gid, 77), QpState::Rts);
    opened.close().unwrap();
    assert_eq!((domain.close(), again.close(), private.close()), (Ok(()), Ok(()), Ok(())));
    let _ = std::fs::remove_file(std::env::temp_dir().join(name));
    assert!(matches!(open(fd(&one), false, false), Err(Error::NotFound)));
}

pub fn who_opened_a_queue_pair_is_told_of_its_events_when_its_maker_is_gone(carrier: Carrier) {
    let fabric = carrier();
    let node = fabric.open(0);
    let domain = XrcDomain::open(&node.device, None, true, false).unwrap();
    let cq = node.cq(1, None, 0);
    let init = QpInit { xrcd: Some(domain.clone()), ..node.init(QpType::XrcRecv, &cq) };
    let qp = QueuePair::new(&node.device, &init).unwrap();
    let others = [0, 1].map(|_| EventQueue::new(&node.device).unwrap());
    let opened = [5, 6].map(|n| OpenedQp::open(&domain, qp.qp_num(), &others[n - 5], n).unwrap());
    bring_up(&qp, &attributes_at(node.gid, 77), QpState::Rts);
    // What nobody has looked at yet is not lost, and what comes finds another bell.
    set_state(&qp, QpState::Err);
    assert!(node.has_event() && !readable(others[0].fd(), 0));
    qp.destroy().unwrap();
    assert!(!node.has_event());
    for (queue, cookie) in others.iter().zip(5..) {
        assert!(readable(queue.fd(), 0));
        assert_eq!(queue.next().unwrap(), (Event::QpLastWqeReached, cookie));
        assert!(!readable(queue.fd(), 0));
    }
    let left = opened[1].queue_pair();
    set_state(left, QpState::Reset);
    bring_up(left, &attributes_at(node.gid, 77), QpState::Rts);
    opened[0].close().unwrap();
    set_state(left, QpState::Err);
    assert!(readable(others[1].fd(), 0) && !readable(others[0].fd(), 0) && !node.has_event());
    assert_eq!(others[1].next().unwrap(), (Event::QpLastWqeReached, 6));
    assert!(!readable(others[1].fd(), 0));
    opened[1].close().unwrap();
}

/// An event of a queue pair that is open twice, with the cookies 7 and 5.
fn device_events(node: &Node, qp: &QueuePair) {
    bring_up(qp, &attributes_at(node.gid, 77), QpState::Rts);
    set_state(qp, QpState::Err);
    let mut events = [node.events.next().unwrap(), node.events.next().unwrap()];
    events.sort();
    assert_eq!(events, [(Event::QpLastWqeReached, 5), (Event::QpLastWqeReached, 7)]);
    assert!(!node.has_event());
}

pub fn xrc_names_the_queue(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let xrcd = XrcDomain::open(&there.device, None, true, false).unwrap();
    let cq = there.cq(16, None, 0);
    let queues = [there.xrc_srq(&xrcd, &cq), there.xrc_srq(&xrcd, &cq)];
    let sender = here.end(QpType::XrcSend);
    let init = QpInit { xrcd: Some(xrcd.clone()), ..there.init(QpType::XrcRecv, &cq) };
    let target = QueuePair::new(&there.device, &init).unwrap();
    bring_up(&sender.qp, &attributes_at(there.gid, target.qp_num()), QpState::Rts);
    bring_up(&target, &sender.address(), QpState::Rts);
    let home = there.end(QpType::Rc);
    sender.memory.fill(0, &pattern(500));
    for (wr_id, srq) in (0..).zip(&queues) {
        post_shared(srq, wr_id, &home, 1000, 600);
        let sges = [sender.sge(0, 500)];
        sender.qp.post_send(&Wr { srq_num: srq.number(), ..wr(10 + wr_id, Opcode::Send, &sges) }).unwrap();
        sender.done(10 + wr_id);
        let completion = poll_soon(&cq);
        assert_eq!((completion.wr_id, completion.status), (wr_id, Status::Success));
        assert_eq!(home.memory.bytes(1000, 500), pattern(500));
    }
    assert!(xrcd.close().is_err() && cq.destroy().is_err());
    target.destroy().unwrap();
    for srq in &queues {
        srq.destroy().unwrap();
    }
    assert_eq!((xrcd.close(), cq.destroy()), (Ok(()), Ok(())));
}
