//! Processes of several network namespaces: who is reached by which address, and who is not.

use std::sync::atomic::Ordering;

use softrdma::device::{Attributes, Datagram, Path, Wr};
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma::shm::segment::Peer;
use softrdma_testing::device::*;
use softrdma_testing::network::go_apart;

/// Addresses of the parent, of the child, of both.
const HERE: [u8; 16] = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const THERE: [u8; 16] = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const LOOPBACK: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
const LINK: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn at(dgid: [u8; 16], dest_qp_num: u32) -> Attributes {
    let quick = Attributes { retry_cnt: 2, timeout: 10, ..attributes(dest_qp_num) };
    Attributes { path: Path { dgid, ..quick.path }, ..quick }
}

fn datagram(end: &End, wr_id: u64, qp_num: u32, dgid: [u8; 16]) {
    let datagram = Some(Datagram { qp_num, qkey: QKEY, grh: &[0x60; 40], dgid, route: None });
    end.qp.post_send(&Wr { datagram, ..wr(wr_id, Opcode::Send, &[end.sge(0, 8)]) }).unwrap();
    end.done(wr_id);
}

#[test]
fn another_namespace_is_reached_by_its_own_addresses_alone() {
    let (folder, words) = (Folder::new(), Words::new());
    let multicast = {
        let mut gid = HERE;
        (gid[0], gid[1]) = (0xff, 2);
        gid
    };
    let child = Child::run(|| {
        words.get::<1>(1);
        go_apart();
        let node = Node::new(&folder);
        assert!(node.device.set_gids(&[THERE, LOOPBACK, LINK]));
        let (end, ud) = (node.end(QpType::Rc), node.end(QpType::Ud));
        bring_up(&ud.qp, &attributes(0), QpState::Rts);
        node.device.attach_multicast(&ud.qp, &multicast).unwrap();
        (0..3).for_each(|n| ud.receive(n, 0, 100));
        end.memory.fill(0, &[7; 20_000]);
        words.put(1, &[u64::from(end.qp.qp_num()), u64::from(ud.qp.qp_num())]);
        let [peer] = words.get(1);
        bring_up(&end.qp, &at(HERE, peer as u32), QpState::Rts);
        end.receive(1, 30_000, 20_000);
        words.put(1, &[end.memory.addr(0), u64::from(end.region.rkey)]);
        assert_eq!(end.done(1).byte_len, 9000);
        assert_eq!(end.memory.bytes(30_000, 9000), [7; 9000]);
        // The datagram to its own address, and the one to the group; none before, between or behind.
        words.get::<1>(1);
        assert_eq!([ud.done(0).byte_len, ud.done(1).byte_len], [48, 48]);
        assert_eq!(ud.try_poll(), None);
    });
    let node = Node::new(&folder);
    node.device.set_gids(&[HERE, LOOPBACK, LINK]);
    let (end, ud) = (node.end(QpType::Rc), node.end(QpType::Ud));
    words.put(0, &[0]);
    let [peer, peers_ud] = words.get(0).map(|number: u64| number as u32);
    // What both have leads nowhere else, nor does what the other one does not have.
    for nowhere in [LOOPBACK, LINK, HERE] {
        let lost = node.end(QpType::Rc);
        bring_up(&lost.qp, &at(nowhere, peer), QpState::Rts);
        lost.send(1, 0, 8);
        assert_eq!(lost.poll().status, Status::RetryExcErr, "{nowhere:x?}");
    }
    bring_up(&end.qp, &at(THERE, peer), QpState::Rts);
    words.put(0, &[u64::from(end.qp.qp_num())]);
    let [addr, rkey] = words.get(0);
    end.remote(1, Opcode::RdmaRead, 0, 20_000, (addr, rkey as u32));
    end.done(1);
    assert_eq!(end.memory.bytes(0, 20_000), [7; 20_000]);
    end.send(2, 0, 9000);
    end.done(2);
    bring_up(&ud.qp, &attributes(0), QpState::Rts);
    for (n, to) in [LINK, THERE, LOOPBACK, HERE].into_iter().enumerate() {
        datagram(&ud, n as u64, peers_ud, to);
    }
    datagram(&ud, 9, 0xff_ffff, multicast);
    words.put(0, &[0]);
    assert_eq!(child.wait(), 0);
}

/// The number of a queue pair says whose it is, and what others show as theirs changes nothing.
#[test]
fn an_address_that_two_have_is_told_apart() {
    let folder = Folder::new();
    let (sender, victim, liar) = (Node::new(&folder), Node::new(&folder), Node::new(&folder));
    victim.device.set_gids(&[THERE]);
    liar.device.set_gids(&[THERE, HERE]);
    let (from, to) = (sender.end(QpType::Ud), [victim.end(QpType::Ud), liar.end(QpType::Ud)]);
    for end in to.iter().chain([&from]) {
        bring_up(&end.qp, &attributes(0), QpState::Rts);
        end.receive(1, 0, 100);
    }
    for end in &to {
        datagram(&from, 2, end.qp.qp_num(), THERE);
        end.done(1);
        assert!(to.iter().all(|end| end.try_poll().is_none()));
    }
    // What a peer writes into the victim's table takes it away from those that only know it by that, and gives
    // it to nobody.
    let (stranger, _) = folder.stranger();
    let seen = Peer::open(stranger.folder(), 1).unwrap();
    assert!(seen.addresses().unwrap().has(&THERE));
    for word in (216..2048).step_by(8) {
        seen.memory().u64(word).unwrap().store(0, Ordering::Relaxed);
    }
    let other = sender.end(QpType::Ud);
    bring_up(&other.qp, &attributes(0), QpState::Rts);
    to.iter().for_each(|end| end.receive(3, 0, 100));
    datagram(&other, 4, to[0].qp.qp_num(), THERE);
    assert!(to.iter().all(|end| end.try_poll().is_none()));
    // Who sends to itself, or is connected, goes by what itself knows.
    let own =
        Some(Datagram { qp_num: to[0].qp.qp_num(), qkey: QKEY, grh: &[0x60; 40], dgid: THERE, route: None });
    to[0].qp.post_send(&Wr { datagram: own, ..wr(5, Opcode::Send, &[to[0].sge(0, 8)]) }).unwrap();
    let mut done = [to[0].poll().wr_id, to[0].poll().wr_id];
    done.sort_unstable();
    assert_eq!(done, [3, 5]);
    to[0].receive(6, 0, 100);
    datagram(&from, 7, to[0].qp.qp_num(), THERE);
    to[0].done(6);
}

/// The table of addresses ends with the queue pairs that used it, and a new process has none of them.
#[test]
fn who_ended_is_found_no_more() {
    let folder = Folder::new();
    let sender = Node::new(&folder);
    let end = sender.end(QpType::Rc);
    let words = Words::new();
    let child = Child::run(|| {
        go_apart();
        let node = Node::new(&folder);
        node.device.set_gids(&[THERE]);
        let end = node.end(QpType::Rc);
        words.put(1, &[u64::from(end.qp.qp_num())]);
        words.get::<1>(1);
    });
    let [peer] = words.get(0);
    bring_up(&end.qp, &at(THERE, peer as u32), QpState::Rts);
    child.kill();
    child.wait();
    // In the same slot, with a queue pair of the same number, elsewhere.
    let next = Node::new(&folder);
    let same = next.end(QpType::Rc);
    assert_eq!(u64::from(same.qp.qp_num()), peer);
    bring_up(&same.qp, &at(GID, end.qp.qp_num()), QpState::Rts);
    same.receive(1, 0, 100);
    end.send(1, 0, 8);
    assert_eq!(end.poll().status, Status::RetryExcErr);
    assert_eq!(same.try_poll(), None);
}
