//! Keys that are changed, or lied about.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use softrdma::device::Wr;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::request::Operands;
use softrdma::rules::requester::{Outcome, Syndrome};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status};
use softrdma::shm::keys::{Entry, ROOT};
use softrdma::testing::Endpoint;
use softrdma_testing::child::in_child;
use softrdma_testing::raw_qp::{Dir, PD, RawQp, pair, register};

use crate::fill;

/// The words of a key's entry in the segment, which peers may write.
fn entry(endpoint: &Endpoint, key: u32) -> &[AtomicU64] {
    const DIRECTORY: u64 = 16 * 128;
    const CHUNK: u64 = 4096;
    let (memory, index) = (endpoint.segment.memory(), u64::from(key >> 8));
    let table = endpoint.segment.root(ROOT).unwrap().load(Relaxed);
    let chunk = memory.u64(table + DIRECTORY + 8 * (index / CHUNK)).unwrap().load(Relaxed);
    memory.words(chunk + 64 * (index % CHUNK), 8).unwrap()
}

/// The words of a key's entry that peers go by who reach the memory directly, by way of the owner's own
/// mapping.
fn sealed_entry(endpoint: &Endpoint, key: u32) -> &[AtomicU64] {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = maps.lines().filter(|line| line.contains(" rw-s ") && line.contains("memfd:ironverbs "));
    let words = own.map(|line| {
        let start = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        // SAFETY: no other test runs in this process, the first pages of a mapping are there, and all
        // access to it is atomic.
        unsafe { std::slice::from_raw_parts(start as *const AtomicU64, 512 + 8 * 4096) }
    });
    let signed = |words: &&[AtomicU64]| words[2].load(Relaxed) == endpoint.segment.owner().word();
    let words = words.into_iter().find(signed).expect("sealed memory");
    &words[512 + 8 * (key >> 8) as usize..][..8]
}

#[test]
fn lies_about_the_own_keys_open_no_memory() {
    let dir = Dir::new("lies");
    let endpoint = dir.endpoint();
    for closed in [false, true] {
        if closed {
            endpoint.peers.get(endpoint.segment.owner().slot()).expect("it lives").close();
        }
        let (mut a, mut b) = pair(&endpoint, &endpoint, QpType::Rc);
        let secret = vec![0x5au8; 1 << 16].into_boxed_slice();
        let honest: Vec<u64> = entry(&endpoint, b.key).iter().map(|word| word.load(Relaxed)).collect();
        let (base, secret_base) = (b.at(0), secret.as_ptr() as u64);
        assert_eq!((honest[2], honest[5]), (base, base));
        // Every request within the region goes elsewhere, and the region is as long as one likes.
        entry(&endpoint, b.key)[3].store(u64::MAX / 2, Relaxed);
        entry(&endpoint, b.key)[5].store(secret_base, Relaxed);
        let bytes = fill(&mut a, 0, 40_000);
        let to = |addr, rkey| Operands::Remote { addr, rkey, length: 0 };
        let here = [a.sge(0, 40_000)];
        let write = RawQp::wr(Opcode::RdmaWrite, &here, to(b.at(8), b.key));
        assert_eq!(a.execute(&write), Outcome::Done(40_000));
        assert!(b.read(8, 40_000) == bytes);
        b.memory.fill(0);
        b.receive(1, &[b.sge(100, 40_000)]);
        assert_eq!(a.send(&here), Outcome::Done(40_000));
        assert!(a.poll().is_some() && b.poll().is_some());
        assert!(b.read(100, 40_000) == bytes);
        let small = [a.sge(0, 8)];
        let addr = b.at(0);
        let add = Operands::Atomic { addr, rkey: b.key, compare_add: 3, swap: 0 };
        assert_eq!(a.execute(&RawQp::wr(Opcode::FetchAndAdd, &small, add)), Outcome::Done(8));
        assert_eq!((a.read(0, 8), b.read(0, 1)), (vec![0; 8], vec![3]));
        let read = RawQp::wr(Opcode::RdmaRead, &here, to(b.at(100), b.key));
        assert_eq!(a.execute(&read), Outcome::Done(40_000));
        assert!(a.read(0, 40_000) == bytes);
        let beyond = to(b.at(0) + b.memory.len() as u64, b.key);
        let refused = Outcome::Refused(Syndrome::Access);
        assert_eq!(a.execute(&RawQp::wr(Opcode::RdmaRead, &small, beyond)), refused);
        b.settle(QpState::Rts);
        // Rights that the key does not give, though its entry says so.
        let key = register(&endpoint, &b.memory, Access::NONE);
        entry(&endpoint, key)[4].store(u64::from(b.access.0), Relaxed);
        let write = RawQp::wr(Opcode::RdmaWrite, &small, to(b.at(0), key));
        assert_eq!(a.execute(&write), refused);
        assert!(secret.iter().all(|&byte| byte == 0x5a));
    }
}

/// In a child: another test's memory may be gone before [`sealed_entry`] has looked whose it is.
#[test]
fn a_key_that_is_being_changed_is_waited_for() {
    assert_eq!(in_child(change_keys), 0);
}

fn change_keys() {
    let dir = Dir::new("torn");
    let (one, other) = (dir.endpoint(), dir.endpoint());
    let (mut a, mut b) = pair(&one, &other, QpType::Rc);
    let kind = Kind::Window2 { qp_num: b.number() };
    let key = Key { kind, valid: true, pd: PD, start: 0, length: 8, access: Access::REMOTE_WRITE };
    let window = other.keys.add(&Entry { key, base: b.at(0) }).unwrap();
    for (torn, opcode, length) in
        [(b.key, Opcode::Send, 8), (b.key, Opcode::Send, 500), (window, Opcode::SendWithInv, 8)]
    {
        let here = [a.sge(0, length)];
        let send = Wr { imm_or_key: window, ..RawQp::wr(opcode, &here, Operands::None) };
        b.receive(1, &[b.sge(0, length)]);
        sealed_entry(&other, torn)[0].fetch_sub(1, Relaxed);
        assert_eq!(a.execute(&send), Outcome::NoAnswer);
        assert_eq!((b.poll(), b.state()), (None, QpState::Rts));
        sealed_entry(&other, torn)[0].fetch_add(1, Relaxed);
        assert_eq!(a.execute(&send), Outcome::Done(length));
        assert_eq!(b.poll().map(|completion| completion.status), Some(Status::Success));
    }
}
