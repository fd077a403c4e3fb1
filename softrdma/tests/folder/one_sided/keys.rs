//! Keys that end, give other rights or other memory between two requests.

use std::sync::atomic::{AtomicBool, Ordering};

use softrdma::device::{Attributes, OneSided, Region, WindowType, Wr};
use softrdma::rules::keys::Bind;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{BindWindow, Operands};
use softrdma::rules::verbs::{Access, Attr, Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;

use super::{AT, CARRIERS, OPCODES, Prepared, is_direct};

/// As many keys as are registered one after the other, in turn.
#[test]
fn each_key_opens_its_own_memory() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let there = &scene.nodes[1];
        let regions: Vec<Region> = (0..6)
            .map(|n| {
                let addr = scene.other.memory.addr(AT + 64 * n);
                there.device.register(there.pd, addr, 64, addr, ALL).unwrap()
            })
            .collect();
        for round in 0..3 {
            for (n, region) in regions.iter().enumerate() {
                let addr = scene.other.memory.addr(AT + 64 * n);
                scene.one.memory.fill(0, &[(16 * round + n) as u8 + 1; 8]);
                let write = scene.access(Opcode::RdmaWrite, 8);
                scene.post(&OneSided { addr, rkey: region.rkey, ..write });
                scene.one.done(7);
                assert_eq!(scene.other.memory.bytes(AT + 64 * n, 8), [(16 * round + n) as u8 + 1; 8]);
            }
        }
        // One of them ends; those beside it do not.
        there.device.deregister(regions[2].lkey).unwrap();
        for n in [1, 3] {
            let addr = scene.other.memory.addr(AT + 64 * n);
            scene.post(&OneSided { addr, rkey: regions[n].rkey, ..scene.access(Opcode::RdmaWrite, 8) });
            scene.one.done(7);
        }
        let addr = scene.other.memory.addr(AT + 128);
        scene.fails(
            &OneSided { addr, rkey: regions[2].rkey, ..scene.access(Opcode::RdmaWrite, 8) },
            Status::RemAccessErr,
        );
    }
}

// rule: rsp-key
#[test]
fn a_key_that_has_ended_opens_nothing() {
    for carrier in CARRIERS {
        for opcode in OPCODES {
            let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
            scene.nodes[1].device.deregister(scene.other.region.lkey).unwrap();
            scene.fails(&scene.access(opcode, 8), Status::RemAccessErr);
            assert_eq!(scene.other.qp.state(), QpState::Err);
            assert_eq!(scene.nodes[1].event(), Event::QpAccessErr);
        }
    }
}

/// The region's key may be used again, by a smaller one.
#[test]
fn an_own_key_that_has_ended_gives_nothing() {
    for carrier in CARRIERS {
        for opcode in OPCODES {
            let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
            scene.nodes[0].device.deregister(scene.one.region.lkey).unwrap();
            scene.fails(&scene.access(opcode, 8), Status::LocProtErr);
        }
    }
}

// rule: rsp-key, status-local-key
#[test]
fn what_is_outside_of_a_key_is_refused() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let end = scene.other.memory.addr(0) + scene.other.memory.len() as u64;
        let start = scene.other.memory.addr(0);
        let own_end = scene.one.memory.addr(0) + scene.one.memory.len() as u64;
        for opcode in OPCODES {
            let access = scene.access(opcode, 8);
            let sge = Sge { addr: own_end - 7, ..access.sge };
            for (access, status) in [
                (OneSided { addr: end - 7, ..access }, Status::RemAccessErr),
                (OneSided { addr: start - 1, ..access }, Status::RemAccessErr),
                (OneSided { addr: u64::MAX - 3, ..access }, Status::RemAccessErr),
                (OneSided { rkey: access.rkey ^ 1, ..access }, Status::RemAccessErr),
                (OneSided { rkey: access.rkey ^ 0x400, ..access }, Status::RemAccessErr),
                (OneSided { sge, ..access }, Status::LocProtErr),
                (
                    OneSided { sge: Sge { lkey: access.sge.lkey ^ 1, ..access.sge }, ..access },
                    Status::LocProtErr,
                ),
            ] {
                scene.fails(&access, status);
                scene.reconnect();
            }
            // The last eight bytes are within.
            assert_eq!(scene.post(&OneSided { addr: end - 8, ..access }), is_direct());
            scene.one.done(7);
        }
    }
}

#[test]
fn a_request_of_no_bytes_names_no_memory() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        for opcode in OPCODES {
            let access = scene.access(opcode, 0);
            assert!(!scene.post(&OneSided { addr: 0, rkey: 1, ..access }));
            assert_eq!(scene.one.done(7).byte_len, 0);
        }
    }
}

// rule: rsp-qp-rights, rsp-resources
#[test]
fn a_right_that_was_taken_away_is_missing() {
    for carrier in CARRIERS {
        for opcode in OPCODES {
            let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
            let other = if opcode == Opcode::RdmaRead { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
            let attributes = Attributes { access: other, ..Attributes::default() };
            scene.other.qp.modify(Attr::ACCESS_FLAGS, &attributes).unwrap();
            scene.fails(&scene.access(opcode, 8), Status::RemInvReqErr);
            assert_eq!(scene.nodes[1].event(), Event::QpReqErr);

            // Of the key alone.
            let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
            let (there, addr) = (&scene.nodes[1], scene.other.memory.addr(AT));
            let rights = Access(other.0 | Access::LOCAL_WRITE.0);
            let region = there.device.register(there.pd, addr, 64, addr, rights).unwrap();
            let allowed = if opcode == Opcode::RdmaRead { Opcode::RdmaWrite } else { Opcode::RdmaRead };
            for _ in 0..2 {
                scene.post(&OneSided { rkey: region.rkey, ..scene.access(allowed, 8) });
                scene.one.done(7);
            }
            scene.fails(&OneSided { rkey: region.rkey, ..scene.access(opcode, 8) }, Status::RemAccessErr);
        }
        // A place for reads at either side.
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let (one, other) = (&scene.one, &scene.other);
        for end in [one, other] {
            set_state(&end.qp, QpState::Reset);
        }
        bring_up(&one.qp, &Attributes { max_rd_atomic: 0, ..other.address() }, QpState::Rts);
        bring_up(&other.qp, &one.address(), QpState::Rts);
        one.remote(1, Opcode::RdmaWrite, 0, 8, scene.to());
        one.done(1);
        assert_eq!(scene.post(&scene.access(Opcode::RdmaWrite, 8)), is_direct());
        one.done(7);
        scene.fails(&scene.access(Opcode::RdmaRead, 8), Status::LocQpOpErr);
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        set_state(&scene.other.qp, QpState::Reset);
        let none = Attributes { max_dest_rd_atomic: 0, ..scene.one.address() };
        bring_up(&scene.other.qp, &none, QpState::Rts);
        scene.fails(&scene.access(Opcode::RdmaRead, 8), Status::RemInvReqErr);
    }
}

/// The memory of the one may be read to, and that of the other not.
#[test]
fn own_memory_that_may_not_be_written_is_not_read_to() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let (here, addr) = (&scene.nodes[0], scene.one.memory.addr(0));
        let region = here.device.register(here.pd, addr, 64, addr, Access::NONE).unwrap();
        let sge = Sge { addr, length: 8, lkey: region.lkey };
        let of = |opcode| OneSided { sge, ..scene.access(opcode, 8) };
        for n in 0..2 {
            // Within a process the first learns that keys have changed.
            assert_eq!(scene.post(&of(Opcode::RdmaWrite)) || n == 0, is_direct() || n == 0);
            scene.one.done(7);
        }
        scene.fails(&of(Opcode::RdmaRead), Status::LocProtErr);
    }
}

/// Peers may invalidate a window, and it may be bound anew.
#[test]
fn a_window_is_looked_up_each_time() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let (there, other) = (&scene.nodes[1], &scene.other);
        let window = there.device.alloc_window(there.pd, WindowType::Two).unwrap();
        let (addr, region) = (other.memory.addr(AT), other.region.lkey);
        let access = Access::REMOTE_WRITE.union(Access::REMOTE_READ);
        let bind = Bind { addr, length: 64, access };
        let operands = Operands::Bind(BindWindow { window, key8: window as u8, region, bind });
        other.qp.post_send(&Wr { operands, ..wr(3, Opcode::BindMw, &[]) }).unwrap();
        other.done(3);
        let write = OneSided { rkey: window, ..scene.access(Opcode::RdmaWrite, 8) };
        for _ in 0..3 {
            assert!(!scene.post(&write));
            scene.one.done(7);
        }
        other.receive(5, 512, 64);
        let sges = [scene.one.sge(0, 8)];
        let invalidate = Wr { imm_or_key: window, ..wr(4, Opcode::SendWithInv, &sges) };
        scene.one.qp.post_send(&invalidate).unwrap();
        scene.one.done(4);
        other.done(5);
        scene.fails(&write, Status::RemAccessErr);
    }
}

/// A thread writes or reads meanwhile. What is written is the other's memory, or by a read the own.
#[test]
fn nothing_is_written_once_a_region_was_deregistered() {
    for (carrier, opcode) in CARRIERS.into_iter().flat_map(|carrier| OPCODES.map(|opcode| (carrier, opcode)))
    {
        for _ in 0..10 {
            let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
            let (written, at, node, expected) = match opcode {
                Opcode::RdmaRead => (&scene.one, 0, &scene.nodes[0], Status::LocProtErr),
                _ => (&scene.other, AT, &scene.nodes[1], Status::RemAccessErr),
            };
            let [has_begun, has_ended] = [(); 2].map(|()| AtomicBool::new(false));
            std::thread::scope(|s| {
                let thread = s.spawn(|| {
                    let mut left = 10;
                    for n in 0.. {
                        scene.post(&scene.access(opcode, 4096));
                        let status = scene.one.poll().status;
                        if status != Status::Success || left == 0 {
                            return status;
                        }
                        left -= i32::from(has_ended.load(Ordering::Relaxed));
                        has_begun.store(n > 10, Ordering::Relaxed);
                    }
                    Status::Success
                });
                while !has_begun.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                node.device.deregister(written.region.lkey).unwrap();
                written.memory.fill(at, &[0xee; 4096]);
                has_ended.store(true, Ordering::Relaxed);
                assert_eq!(thread.join().unwrap(), expected);
            });
            assert_eq!(written.memory.bytes(at, 4096), [0xee; 4096]);
        }
    }
}
