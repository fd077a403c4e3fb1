//! Memory that the kernel reaches for its owner alone.

use softrdma::device::{Copying, Error, WindowType, Wr};
use softrdma::rules::keys::Bind;
use softrdma::rules::request::{BindWindow, Operands};
use softrdma::rules::verbs::{Access, Opcode, QpType, Status};
use softrdma::shm::copy::reaches_own;
use softrdma_testing::device::*;
use softrdma_testing::fabric::{between, near, pair, pattern};

/// Page frames that every process has: data of the kernel's clocks, to be read alone.
fn frames() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vvar]")).expect("no [vvar]");
    u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
}

#[test]
fn frames_are_read_by_peers() {
    const ASKED: Access = Access::REMOTE_READ;
    between(
        near,
        QpType::Rc,
        |node, _, words| {
            let at = frames();
            assert!(!reaches_own(at) && reaches_own(words as *const _ as u64));
            let frames = node.device.register_unpinnable(node.pd, at, 64, 1 << 40, ASKED).unwrap();
            let claimed = node.device.register_on_demand(node.pd, at, 64, 1 << 41, ASKED).unwrap();
            words.put(1, &[u64::from(frames.rkey), u64::from(claimed.rkey)]);
            words.get::<1>(1);
        },
        |_, end, words, _| {
            let [frames, claimed] = words.get(0);
            end.memory.fill(0, &[0xa5; 64]);
            end.remote(1, Opcode::RdmaRead, 0, 64, (1 << 40, frames as u32));
            end.done(1);
            // The whole words of a clock are never that.
            assert_ne!(end.memory.bytes(0, 64), [0xa5; 64]);
            // The kernel reaches the same memory in vain, where it is asked.
            if copying() == Copying::Auto && std::env::var_os("IRONVERBS_SOFT_GROUP").is_none() {
                end.remote(2, Opcode::RdmaRead, 0, 64, (1 << 41, claimed as u32));
                assert_eq!(end.poll().status, Status::RemAccessErr);
            }
            words.put(0, &[0]);
        },
    );
}

#[test]
fn every_operation_reaches_it() {
    let (_folder, [node, _], one, other) = pair(near, QpType::Rc);
    let buffer = Buffer::new(64 << 10);
    let (addr, iova) = (buffer.addr(0), 0x7000_0000 + (buffer.addr(0) & 4095));
    let region = node.device.register_unpinnable(node.pd, addr, buffer.len() as u64, iova, ALL).unwrap();
    let at = |offset: u64| (iova + offset, region.rkey);
    for (n, length) in [8, 100, 5000, 60_000].into_iter().enumerate() {
        one.memory.fill(0, &pattern(length));
        one.remote(1, Opcode::RdmaWrite, 0, length, at(n as u64));
        one.done(1);
        assert!(buffer.bytes(n, length) == pattern(length));
        one.memory.fill(0, &vec![0; length]);
        one.remote(2, Opcode::RdmaRead, 0, length, at(n as u64));
        one.done(2);
        assert!(one.memory.bytes(0, length) == pattern(length));
        // Received there, and sent from there.
        let sge = |lkey| softrdma::rules::receive::Sge { addr: iova, length: length as u32, lkey };
        other.qp.post_receive(3, &[sge(region.lkey)]).unwrap();
        one.send(4, 0, length);
        one.done(4);
        other.done(3);
        assert!(buffer.bytes(0, length) == pattern(length));
        one.receive(5, 0, length);
        one.memory.fill(0, &vec![0; length]);
        other.qp.post_send(&wr(6, Opcode::Send, &[sge(region.lkey)])).unwrap();
        other.done(6);
        one.done(5);
        assert!(one.memory.bytes(0, length) == pattern(length));
    }
    buffer.fill(0, &7u64.to_ne_bytes());
    let sges = [one.sge(0, 8)];
    let operands = Operands::Atomic { addr: iova, rkey: region.rkey, compare_add: 5, swap: 0 };
    one.qp.post_send(&Wr { operands, ..wr(7, Opcode::FetchAndAdd, &sges) }).unwrap();
    one.done(7);
    assert_eq!((one.memory.word(0), buffer.word(0)), (7, 12));
    assert_eq!(node.device.deregister(region.lkey), Ok(()));
    one.remote(8, Opcode::RdmaWrite, 0, 8, at(0));
    assert_eq!(one.poll().status, Status::RemAccessErr);
}

#[test]
fn peers_write_to_it() {
    const LENGTH: usize = 50_000;
    between(
        near,
        QpType::Rc,
        |node, end, words| {
            let buffer = Buffer::new(LENGTH);
            let (addr, length) = (buffer.addr(0), LENGTH as u64);
            let region = node.device.register_unpinnable(node.pd, addr, length, addr, ALL).unwrap();
            words.put(1, &[u64::from(region.rkey), addr]);
            words.get::<1>(1);
            assert!(buffer.bytes(0, LENGTH) == pattern(LENGTH));
            let sge = softrdma::rules::receive::Sge { addr, length: LENGTH as u32, lkey: region.lkey };
            // One buffer of each kind.
            let rest = softrdma::rules::receive::Sge { length: 100, ..sge };
            end.qp.post_receive(1, &[end.sge(0, 100), rest]).unwrap();
            words.put(1, &[0]);
            end.done(1);
            assert!(end.memory.bytes(0, 100) == pattern(200)[..100]);
            assert!(buffer.bytes(0, 100) == pattern(200)[100..]);
            words.put(1, &[0]);
        },
        |_, end, words, _| {
            let [rkey, addr] = words.get(0);
            end.memory.fill(0, &pattern(LENGTH));
            end.remote(1, Opcode::RdmaWrite, 0, LENGTH, (addr, rkey as u32));
            end.done(1);
            words.put(0, &[0]);
            words.get::<1>(0);
            end.memory.fill(0, &pattern(200));
            end.send(2, 0, 200);
            end.done(2);
            words.get::<1>(0);
        },
    );
}

#[test]
fn it_stays_so_with_other_rights_and_by_a_window() {
    const ASKED: Access = Access::REMOTE_READ.union(Access::MW_BIND);
    let (_folder, [node, _], one, other) = pair(near, QpType::Rc);
    let (device, pd) = (&node.device, node.pd);
    let frames = device.register_unpinnable(pd, frames(), 64, 1 << 40, ASKED).unwrap();
    let is_read = |wr_id, rkey| {
        one.memory.fill(0, &[0xa5; 64]);
        one.remote(wr_id, Opcode::RdmaRead, 0, 64, (1 << 40, rkey));
        one.done(wr_id);
        one.memory.bytes(0, 64) != [0xa5; 64]
    };
    let window = device.alloc_window(pd, WindowType::Two).unwrap();
    let bind = Bind { addr: 1 << 40, length: 64, access: Access::REMOTE_READ };
    let operands = Operands::Bind(BindWindow { window, key8: 7, region: frames.lkey, bind });
    other.qp.post_send(&Wr { operands, ..wr(1, Opcode::BindMw, &[]) }).unwrap();
    other.done(1);
    assert!(is_read(2, window & !0xff | 7));
    assert_eq!(device.free_window(window & !0xff | 7), Ok(()));

    let change = |access| device.reregister(frames.lkey, None, None, Some(access));
    assert_eq!(change(Access::REMOTE_READ), Ok(frames));
    assert!(is_read(3, frames.rkey));
    // They are there to be read alone.
    assert_eq!(change(Access::LOCAL_WRITE), Err(Error::Fault));
    assert!(is_read(4, frames.rkey));
    assert_eq!(device.deregister(frames.lkey), Ok(()));
}
