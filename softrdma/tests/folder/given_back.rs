//! Memory and windows that are given back while others use them.

use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use softrdma::device::{WindowType, Wr};
use softrdma::rules::keys::Bind;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{BindWindow, Operands};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType};
use softrdma::shm::keys;
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, pair};
use softrdma_testing::thread::asleep;

#[test]
fn memory_that_is_written_to_is_not_given_back() {
    const LEN: usize = 32 << 20;
    let (_folder, [node, _], one, other) = pair(near, QpType::Rc);
    let buffers = [Buffer::new(LEN), Buffer::new(LEN)];
    let register = |buffer: &Buffer| {
        node.device.register(node.pd, buffer.addr(0), LEN as u64, buffer.addr(0), ALL).unwrap()
    };
    buffers[0].fill(0, &[1]);
    buffers[0].fill(LEN - 1, &[1]);
    let (from, to) = (register(&buffers[0]), register(&buffers[1]));
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let sges = [Sge { addr: buffers[1].addr(0), length: LEN as u32, lkey: to.lkey }];
            let operands = Operands::Remote { addr: buffers[0].addr(0), rkey: from.rkey, length: LEN as u64 };
            one.qp.post_send(&Wr { operands, ..wr(1, Opcode::RdmaRead, &sges) }).unwrap();
            one.done(1);
        });
        while buffers[1].bytes(0, 1) == [0] {
            std::hint::spin_loop();
        }
        // Under way: from here on the last byte is the program's again.
        assert_eq!(node.device.deregister(to.lkey), Ok(()));
        buffers[1].fill(LEN - 1, &[7]);
        reader.join().unwrap();
    });
    assert_eq!(buffers[1].bytes(LEN - 1, 1), [7]);
    assert_eq!(other.qp.state(), QpState::Rts);
}

/// A thread that has `begun` to wait for a peer does so still after this time, unless its patience was over.
fn waits<T>(thread: &ScopedJoinHandle<'_, T>, begun: Instant, time: Duration) {
    std::thread::sleep(time);
    assert!(!thread.is_finished() || begun.elapsed() >= keys::PATIENCE_WITH_PEERS);
}

#[test]
fn whoever_uses_a_window_is_waited_for() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&one.qp, &other.qp);
    let (stranger, peer) = folder.stranger();
    let table = keys::Table::of(&peer);
    let use_it = |rkey| table.pin(rkey, stranger.owner(), &*stranger).unwrap();
    let device = &node.device;
    let window = device.alloc_window(node.pd, WindowType::Two).unwrap();
    let bind = |wr_id, window, key8| {
        let bind = Bind { addr: other.memory.addr(0), length: 100, access: Access::REMOTE_WRITE };
        let operands = Operands::Bind(BindWindow { window, key8, region: other.region.lkey, bind });
        other.qp.post_send(&Wr { operands, ..wr(wr_id, Opcode::BindMw, &[]) }).unwrap();
        other.done(wr_id);
        window & !0xff | u32::from(key8)
    };
    let rkey = bind(1, window, 0x41);
    let used = use_it(rkey);
    std::thread::scope(|s| {
        let begun = Instant::now();
        let (closes, _) = asleep(s, || {
            let close = Wr { operands: Operands::Key(rkey), ..wr(2, Opcode::LocalInv, &[]) };
            other.qp.post_send(&close).unwrap();
            other.done(2);
        });
        waits(&closes, begun, Duration::from_millis(500));
        drop(used);
        closes.join().unwrap();
    });
    let rkey = bind(3, rkey, 0x42);
    let used = use_it(rkey);
    assert!(table.invalidate(rkey));
    std::thread::scope(|s| {
        let begun = Instant::now();
        let (ends, _) = asleep(s, || assert_eq!(device.deregister(other.region.lkey), Ok(())));
        waits(&ends, begun, Duration::from_millis(100));
        drop(used);
    });
}
