//! Targets that change, end or die between two requests, and processes that are not who sent before.

use std::time::Instant;

use softrdma::device::{Attributes, OneSided, QueuePair, Wr};
use softrdma::queues::shared::Object;
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{between, near_apart};

use super::{AT, CARRIERS, OPCODES, Prepared, is_direct};

#[test]
fn a_target_that_is_in_error_or_was_reset_does_not_answer_and_one_that_is_back_does() {
    for carrier in CARRIERS {
        for state in [QpState::Err, QpState::Reset] {
            for opcode in OPCODES {
                let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
                let (one, other) = (&scene.one, &scene.other);
                let few = Attributes { timeout: 1, retry_cnt: 1, ..other.address() };
                set_state(&one.qp, QpState::Reset);
                bring_up(&one.qp, &few, QpState::Rts);
                scene.prepare();
                set_state(&other.qp, state);
                scene.fails(&scene.access(opcode, 8), Status::RetryExcErr);

                // Another connection between the same two, of which only the target was reset.
                scene.reconnect();
                set_state(&other.qp, QpState::Reset);
                bring_up(&other.qp, &one.address(), QpState::Rts);
                for _ in 0..2 {
                    scene.post(&scene.access(opcode, 8));
                    one.done(7);
                }
            }
        }
    }
}

#[test]
fn a_target_that_is_connected_to_another_does_not_answer() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let (one, other) = (&scene.one, &scene.other);
        let third = scene.nodes[0].end(QpType::Rc);
        let few = Attributes { timeout: 1, retry_cnt: 1, ..other.address() };
        set_state(&one.qp, QpState::Reset);
        bring_up(&one.qp, &few, QpState::Rts);
        scene.prepare();
        set_state(&other.qp, QpState::Reset);
        bring_up(&other.qp, &third.address(), QpState::Rts);
        scene.fails(&scene.access(Opcode::RdmaWrite, 8), Status::RetryExcErr);
    }
}

/// To the first target nothing goes any more, though the second is like it in all that peers see.
#[test]
fn another_target_is_looked_at_from_then_on() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Uc);
        let (one, first) = (&scene.one, &scene.other);
        let init = scene.nodes[1].init(QpType::Uc, &first.cq);
        let second = QueuePair::new(&scene.nodes[1].device, &init).unwrap();
        bring_up(&second, &one.address(), QpState::Rts);
        set_state(&one.qp, QpState::Reset);
        let to = Attributes { dest_qp_num: second.qp_num(), ..first.address() };
        bring_up(&one.qp, &to, QpState::Rts);
        assert!(!one.qp.sending().post_one_sided(&scene.access(Opcode::RdmaWrite, 8)));
        scene.prepare();
        set_state(&second, QpState::Err);
        one.memory.fill(0, &[6; 8]);
        // It is lost without a word.
        assert!(!scene.post(&scene.access(Opcode::RdmaWrite, 8)));
        one.done(7);
        assert_ne!(first.memory.bytes(AT, 8), [6; 8]);
        second.destroy().unwrap();
    }
}

/// A queue pair with the number of one that was destroyed is another one.
#[test]
fn a_target_that_has_ended_does_not_answer_though_another_has_its_number() {
    for carrier in CARRIERS {
        let (_fabric, mut scene) = Prepared::new(carrier, QpType::Rc);
        let few = Attributes { timeout: 1, retry_cnt: 1, ..scene.other.address() };
        set_state(&scene.one.qp, QpState::Reset);
        bring_up(&scene.one.qp, &few, QpState::Rts);
        scene.prepare();
        let old = scene.other.qp.clone();
        old.destroy().unwrap();
        let there = scene.nodes[1].clone();
        scene.other.qp = loop {
            let next = QueuePair::new(&there.device, &there.init(QpType::Rc, &scene.other.cq)).unwrap();
            if next.qp_num() == old.qp_num() {
                break next;
            }
            next.destroy().unwrap();
        };
        bring_up(&scene.other.qp, &scene.one.address(), QpState::Rts);
        scene.fails(&scene.access(Opcode::RdmaWrite, 8), Status::RetryExcErr);
    }
}

/// A process that has the target's lock keeps nobody who writes for longer than the rules allow.
#[test]
fn a_lock_that_another_has_is_left_to_the_general_way() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let [other, one] = [(); 2].map(|()| node.end(QpType::Rc));
    connect_ends(&one, &other);
    let to = (other.memory.addr(AT), other.region.rkey);
    for n in 0..2 {
        one.remote(n, Opcode::RdmaWrite, 0, 8, to);
        one.done(n);
    }
    assert_eq!(there.lock(Object::Qp(0)), Ok(Locked::Clean));
    let (flags, sge) = (SendFlags::SIGNALED, one.sge(0, 8));
    let write = OneSided { wr_id: 7, flags, sge, is_read: false, addr: to.0, rkey: to.1 };
    assert!(!one.qp.sending().post_one_sided(&write));
    assert!(there.unlock(Object::Qp(0)));
    assert_eq!(one.qp.sending().post_one_sided(&write), is_direct());
}

#[test]
fn a_forked_child_posts_nothing() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        scene.one.memory.fill(0, &[1; 8]);
        let write = scene.access(Opcode::RdmaWrite, 8);
        let child = Child::run(|| {
            assert!(!scene.one.qp.sending().post_one_sided(&write));
            let sges = [write.sge];
            let operands = Operands::Remote { addr: write.addr, rkey: write.rkey, length: 0 };
            let request = Wr { operands, ..wr(7, Opcode::RdmaWrite, &sges) };
            assert_eq!(scene.one.qp.post_send(&request), Err(Rejected::State));
        });
        assert_eq!(child.wait(), 0);
        assert_ne!(scene.other.memory.bytes(AT, 8), [1; 8]);
        assert_eq!(scene.post(&write), is_direct());
        scene.one.done(7);
        assert_eq!(scene.other.memory.bytes(AT, 8), [1; 8]);
    }
}

#[test]
fn between_processes_until_the_peer_dies() {
    for carrier in CARRIERS {
        between(
            carrier,
            QpType::Rc,
            |_, end, words| {
                end.memory.fill(AT, &[4; 8]);
                words.put(1, &[end.memory.addr(AT), u64::from(end.region.rkey)]);
                words.get::<1>(1);
                words.put(1, &[end.memory.word(AT)]);
                words.get::<1>(1);
            },
            |_, end, words, child| {
                let [addr, rkey] = words.get(0);
                let access = |is_read| OneSided {
                    wr_id: 7,
                    flags: SendFlags::SIGNALED,
                    sge: end.sge(0, 8),
                    is_read,
                    addr,
                    rkey: rkey as u32,
                };
                end.remote(1, Opcode::RdmaRead, 0, 8, (addr, rkey as u32));
                end.done(1);
                assert_eq!(end.qp.sending().post_one_sided(&access(true)), is_direct());
                if is_direct() {
                    end.done(7);
                }
                assert_eq!(end.memory.bytes(0, 8), [4; 8]);
                end.memory.fill(0, &[5; 8]);
                for n in 2..4 {
                    end.remote(n, Opcode::RdmaWrite, 0, 8, (addr, rkey as u32));
                    end.done(n);
                }
                words.put(0, &[0]);
                assert_eq!(words.get::<1>(0), [0x0505_0505_0505_0505]);
                child.kill();
                // SAFETY: only looks whether the child has ended, which somebody else waits for.
                unsafe {
                    let mut info: libc::siginfo_t = std::mem::zeroed();
                    libc::waitid(
                        libc::P_PID,
                        child.pid() as u32,
                        &raw mut info,
                        libc::WEXITED | libc::WNOWAIT,
                    );
                }
                for is_read in [true, false] {
                    assert!(!end.qp.sending().post_one_sided(&access(is_read)));
                }
                end.remote(9, Opcode::RdmaWrite, 0, 8, (addr, rkey as u32));
                assert_eq!((end.poll_long().status, end.qp.state()), (Status::RetryExcErr, QpState::Err));
            },
        );
    }
}

/// It has closed what the kernel knows it by, and its memory is there still.
#[test]
fn a_peer_that_counts_as_dead_does_not_answer() {
    between(
        near_apart,
        QpType::Rc,
        |_, end, words| {
            words.put(1, &[end.memory.addr(AT), u64::from(end.region.rkey)]);
            words.get::<1>(1);
            for fd in (3..1024).filter(|fd| *fd != words.fd(1)) {
                // SAFETY: plain system call; nothing of this process is used any more but the words.
                unsafe { libc::close(fd) };
            }
            words.put(1, &[0]);
            words.get::<1>(1);
        },
        |_, end, words, _| {
            let [addr, rkey] = words.get(0);
            let write = || end.remote(1, Opcode::RdmaWrite, 0, 8, (addr, rkey as u32));
            for _ in 0..2 {
                write();
                end.done(1);
            }
            words.put(0, &[0]);
            words.get::<1>(0);
            // What was known some moments ago is believed.
            let begun = Instant::now();
            let status = loop {
                write();
                match end.poll_long().status {
                    Status::Success => assert!(begun.elapsed() < GUARD, "it counts as alive"),
                    other => break other,
                }
            };
            assert_eq!(status, Status::RetryExcErr);
        },
    );
}
