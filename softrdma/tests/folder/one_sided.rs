//! Writes and reads that go as one before them went: they do what the first did as long as all is as it was
//! then, and what the rules say where it is not.

mod keys;
mod targets;

use softrdma::device::{Copying, Data, OneSided, PlainSend, Wr};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Opcode, QpState, QpType, SendFlags, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Fabric, near, near_apart, pair};

/// Where the other end's memory is written to and read from.
const AT: usize = 4096;
const OPCODES: [Opcode; 2] = [Opcode::RdmaWrite, Opcode::RdmaRead];

/// Whether requests go this way at all: the kernel moves the bytes.
fn is_direct() -> bool {
    copying() == Copying::Auto && std::env::var_os("IRONVERBS_SOFT_GROUP").is_none()
}

/// Two connected ends, of which the first has written and read the other's memory at [`AT`].
struct Prepared {
    one: End,
    other: End,
    nodes: [Node; 2],
}

impl Prepared {
    fn new(carrier: softrdma_testing::fabric::Carrier, qp_type: QpType) -> (Box<dyn Fabric>, Self) {
        let (fabric, nodes, one, other) = pair(carrier, qp_type);
        let prepared = Self { one, other, nodes };
        prepared.prepare();
        (fabric, prepared)
    }

    fn prepare(&self) {
        for (n, opcode) in OPCODES.into_iter().enumerate() {
            if opcode == Opcode::RdmaWrite || self.one.qp.qp_type() == QpType::Rc {
                self.one.remote(n as u64, opcode, 0, 8, self.to());
                self.one.done(n as u64);
            }
        }
        assert_eq!(self.one.qp.sending().takes_one_sided(), is_direct());
    }

    /// The other's memory.
    fn to(&self) -> (u64, u32) {
        (self.other.memory.addr(AT), self.other.region.rkey)
    }

    fn access(&self, opcode: Opcode, length: usize) -> OneSided {
        let (addr, rkey) = self.to();
        let is_read = opcode == Opcode::RdmaRead;
        OneSided { wr_id: 7, flags: SendFlags::SIGNALED, sge: self.one.sge(0, length), is_read, addr, rkey }
    }

    /// A request as a program posts it, and whether it went as one before it.
    fn post(&self, access: &OneSided) -> bool {
        let goes = self.one.qp.sending().post_one_sided(access);
        if !goes {
            let opcode = if access.is_read { Opcode::RdmaRead } else { Opcode::RdmaWrite };
            let operands = Operands::Remote { addr: access.addr, rkey: access.rkey, length: 0 };
            let sges = [access.sge];
            let is_inline = access.flags.has(SendFlags::INLINE);
            let data = if is_inline { Data::InlineSges(&sges) } else { Data::Sges(&sges) };
            let request = Wr { operands, data, flags: access.flags, ..wr(access.wr_id, opcode, &[]) };
            self.one.qp.post_send(&request).unwrap();
        }
        goes
    }

    /// Posts a request that fails so, and changes nothing of either memory.
    fn fails(&self, access: &OneSided, status: Status) {
        let memory = || (self.one.memory.bytes(0, 64), self.other.memory.bytes(AT, 64));
        self.one.memory.fill(0, &[0x5a; 64]);
        let before = memory();
        assert!(!self.post(access), "{access:?}");
        let completion = self.one.poll_long();
        assert_eq!((completion.wr_id, completion.status), (7, status), "{access:?}");
        assert_eq!(memory(), before, "{access:?}");
    }

    /// Both ends, anew: one that failed is in error.
    fn reconnect(&self) {
        for end in [&self.one, &self.other] {
            set_state(&end.qp, QpState::Reset);
        }
        connect_ends(&self.one, &self.other);
        self.prepare();
    }
}

const CARRIERS: [softrdma_testing::fabric::Carrier; 2] = [near, near_apart];

#[test]
fn later_ones_do_what_the_first_did() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let Prepared { one, other, .. } = &scene;
        for length in [1, 8, 100, 5000, 20_000] {
            let data: Vec<u8> = (0..length).map(|n| (n * 5 + length) as u8).collect();
            one.memory.fill(0, &data);
            assert_eq!(scene.post(&scene.access(Opcode::RdmaWrite, length)), is_direct());
            assert_eq!(one.done(7).byte_len as usize, length);
            assert_eq!(other.memory.bytes(AT, length + 1), [&data[..], &[0]].concat());
            one.memory.fill(0, &vec![0; length]);
            assert_eq!(scene.post(&scene.access(Opcode::RdmaRead, length)), is_direct());
            assert_eq!(one.done(7).byte_len as usize, length);
            assert_eq!(one.memory.bytes(0, length), data);
            other.memory.fill(AT, &vec![0; length]);
        }
        // Data taken when posting, of memory that is not registered.
        let inline = [3u8; 20];
        let write = scene.access(Opcode::RdmaWrite, 20);
        let sge = Sge { addr: inline.as_ptr() as u64, length: 20, lkey: 0 };
        let flags = write.flags.union(SendFlags::INLINE);
        assert_eq!(scene.post(&OneSided { sge, flags, ..write }), is_direct());
        one.done(7);
        assert_eq!(other.memory.bytes(AT, 21), [&inline[..], &[0]].concat());
        assert_eq!(one.try_poll(), None);
    }
}

#[test]
fn an_unreliable_connection_writes_and_does_not_read() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Uc);
        scene.one.memory.fill(0, &[9; 8]);
        assert_eq!(scene.post(&scene.access(Opcode::RdmaWrite, 8)), is_direct());
        scene.one.done(7);
        assert_eq!(scene.other.memory.bytes(AT, 9), [9, 9, 9, 9, 9, 9, 9, 9, 0]);
        assert!(!scene.one.qp.sending().post_one_sided(&scene.access(Opcode::RdmaRead, 8)));
        // What is refused is lost without a word.
        scene.one.memory.fill(0, &[8; 8]);
        let write = scene.access(Opcode::RdmaWrite, 8);
        assert!(!scene.post(&OneSided { rkey: write.rkey ^ 1, ..write }));
        scene.one.done(7);
        assert_eq!(scene.other.memory.bytes(AT, 8), [9; 8]);
    }
}

#[test]
fn a_full_send_queue_takes_no_more() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let silent = OneSided { flags: SendFlags::NONE, ..scene.access(Opcode::RdmaWrite, 8) };
        for _ in 0..15 {
            assert_eq!(scene.post(&silent), is_direct());
        }
        assert_eq!(scene.post(&scene.access(Opcode::RdmaWrite, 8)), is_direct());
        assert!(!scene.one.qp.sending().post_one_sided(&silent));
        assert_eq!(scene.one.try_send(1, 0, 8), Err(Rejected::Full));
        // The completion of the last gives the places of all back.
        scene.one.done(7);
        assert_eq!(scene.one.try_poll(), None);
        for _ in 0..15 {
            assert_eq!(scene.post(&silent), is_direct());
        }
    }
}

#[test]
fn messages_and_writes_come_in_order() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let (one, other) = (&scene.one, &scene.other);
        (0..12).for_each(|n| other.receive(n, 64 * n as usize, 64));
        let mut count = 0;
        // As many writes behind each message: the first, and those behind it.
        for writes in [0, 1, 2, 3, 0, 1, 0, 0, 2, 1, 1] {
            one.memory.fill(0, &[count as u8 + 1; 8]);
            one.send(50, 0, 8);
            one.done(50);
            for _ in 0..writes {
                assert_eq!(scene.post(&scene.access(Opcode::RdmaWrite, 8)), is_direct());
                one.done(7);
                assert_eq!(other.memory.bytes(AT, 8), [count as u8 + 1; 8]);
            }
            count += 1;
        }
        // One that breaks the connection: what no message took is flushed, and nothing else.
        let write = scene.access(Opcode::RdmaWrite, 8);
        scene.fails(&OneSided { rkey: write.rkey ^ 1, ..write }, Status::RemAccessErr);
        for n in 0..count {
            assert_eq!(other.done(n).byte_len, 8);
            assert_eq!(other.memory.bytes(64 * n as usize, 8), [n as u8 + 1; 8]);
        }
        let flushed = other.poll();
        assert_eq!((flushed.wr_id, flushed.status), (count, Status::WrFlushErr));
        assert_eq!(other.try_poll(), None);
    }
}

#[test]
fn messages_go_by_the_ring_again_behind_a_write() {
    let (_fabric, scene) = Prepared::new(near_apart, QpType::Rc);
    let (one, other) = (&scene.one, &scene.other);
    (0..8).for_each(|n| other.receive(n, 64 * n as usize, 64));
    let message = PlainSend { wr_id: 9, flags: SendFlags::SIGNALED, sge: one.sge(0, 8), imm: None };
    for _ in 0..3 {
        one.send(8, 0, 8);
        one.done(8);
    }
    for _ in 0..2 {
        assert_eq!(scene.post(&scene.access(Opcode::RdmaWrite, 8)), is_direct());
        one.done(7);
    }
    // The first one learns how many receive requests are taken.
    one.send(8, 0, 8);
    one.done(8);
    if std::env::var_os("IRONVERBS_SOFT_GROUP").is_none() {
        assert!(one.qp.sending().post_plain(&message));
        one.done(9);
    }
}

/// While it waits in its queue for a message, or its list, nothing passes it by.
#[test]
fn a_write_does_not_pass_what_waits() {
    for carrier in CARRIERS {
        let (_fabric, scene) = Prepared::new(carrier, QpType::Rc);
        let (one, other) = (&scene.one, &scene.other);
        one.memory.fill(0, &[7; 8]);
        one.send(1, 0, 8);
        assert!(!scene.post(&scene.access(Opcode::RdmaWrite, 8)));
        assert_ne!(other.memory.bytes(AT, 8), [7; 8]);
        other.receive(2, 64, 64);
        one.done(1);
        one.done(7);
        assert_eq!(other.memory.bytes(AT, 8), [7; 8]);
    }
}
