//! Requests carried out between two segments and within one: what each kind does to the target, and what it
//! meets.

mod keys;
mod peers;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ironverbs_os::clock::now;
use softrdma::device::{BindWindow, Data, Datagram, Wr};
use softrdma::queues::completion::wants;
use softrdma::queues::shared::{Memory as _, Object, Word};
use softrdma::queues::transport::{Transport as _, acquire};
use softrdma::rules::keys::{Bind, Key, Kind};
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Operands;
use softrdma::rules::requester::{Outcome, Syndrome};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma::shm::keys::Entry;
use softrdma::shm::memory::Memory;
use softrdma::testing::Endpoint;
use softrdma::testing::QpAttributes;
use softrdma_testing::post::Poster;
use softrdma_testing::raw_qp::{Dir, PD, RawQp, pair, shared};

/// Runs a test between two segments, and within one.
fn both(name: &str, test: impl Fn(&Arc<Endpoint>, &Arc<Endpoint>)) {
    let dir = Dir::new(name);
    let (one, other) = (dir.endpoint(), dir.endpoint());
    test(&one, &other);
    test(&one, &one);
    // As where the kernel moves no payload.
    other.help();
    for to in [&one, &other] {
        let slot = to.segment.owner().slot();
        one.peers.get(slot).expect("it lives").close();
    }
    test(&one, &other);
    test(&one, &one);
}

fn fill(end: &mut RawQp, offset: usize, length: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + offset) as u8 | 1).collect();
    end.memory[offset..offset + length].copy_from_slice(&bytes);
    bytes
}

#[test]
fn sends_arrive_whatever_their_size_and_their_pieces() {
    both("sends", |one, other| {
        for qp_type in [QpType::Rc, QpType::Uc] {
            let (mut a, mut b) = pair(one, other, qp_type);
            for length in [0, 1, 7, 8, 9, 64, 199, 200, 201, 4096, 40_000] {
                for pieces in 1..4 {
                    let bytes = fill(&mut a, 0, length as usize);
                    let cut = |end: &RawQp, at: usize| -> Vec<_> {
                        let step = length / pieces;
                        (0..pieces)
                            .map(|n| {
                                let last = if n + 1 == pieces { length - n * step } else { step };
                                end.sge(at + (n * step) as usize, last)
                            })
                            .collect()
                    };
                    // Cut on one side, then on the other.
                    for (here, there) in
                        [(cut(&a, 0), vec![b.sge(100, length)]), (vec![a.sge(0, length)], cut(&b, 100))]
                    {
                        b.memory.fill(0);
                        b.receive(9, &there);
                        let done = a.execute(&RawQp::wr(Opcode::Send, &here, Operands::None));
                        assert_eq!(done, Outcome::Done(length));
                        let completion = b.poll().expect("a completion");
                        assert_eq!((completion.wr_id, completion.status), (9, Status::Success));
                        assert_eq!((completion.byte_len, completion.qp_num), (length, b.number()));
                        assert_eq!(b.read(100, length as usize), bytes);
                        assert_eq!(b.read(100 + length as usize, 8), [0; 8]);
                        assert_eq!(b.poll(), None);
                    }
                }
            }
        }
    });
}

#[test]
// rule: wc-immediate
fn inline_data_and_immediate_data() {
    both("inline", |one, other| {
        let (mut a, mut b) = pair(one, other, QpType::Rc);
        let loose = [3u8; 100];
        let there = b.sge(0, 200);
        for data in [
            Data::Inline(&loose),
            Data::InlineSges(&[Sge { addr: loose.as_ptr() as u64, length: 100, lkey: 0 }]),
        ] {
            b.memory.fill(0);
            b.receive(1, &[there]);
            let wr = Wr { data, imm_or_key: 77, ..RawQp::wr(Opcode::SendWithImm, &[], Operands::None) };
            assert_eq!(a.execute(&wr), Outcome::Done(100));
            let completion = b.poll().expect("a completion");
            assert_eq!((completion.imm_or_key, completion.flags), (77, WcFlags::WITH_IMM));
            assert_eq!(b.read(0, 101), [&loose[..], &[0]].concat());
        }
    });
}

#[test]
// rule: wc-header, wc-source, rsp-qkey, rsp-qkey-own
fn datagrams_bring_their_header() {
    both("datagrams", |one, other| {
        let (mut a, mut b) = pair(one, other, QpType::Ud);
        let grh = [0x60; 40];
        for length in [0, 8, 160, 161, 1024, 4096] {
            let bytes = fill(&mut a, 0, length as usize);
            b.memory.fill(0);
            b.receive(2, &[b.sge(0, length + 40)]);
            let here = [a.sge(0, length)];
            let wr = RawQp::datagram(b.number(), &grh, &here);
            assert_eq!(a.execute(&wr), Outcome::Done(length));
            let completion = b.poll().expect("a completion");
            assert_eq!((completion.byte_len, completion.flags), (length + 40, WcFlags::GRH));
            assert_eq!((completion.src_qp, completion.qp_num), (a.number(), b.number()));
            assert_eq!(b.read(0, length as usize + 40), [&grh[..], &bytes].concat());
        }
        b.receive(3, &[b.sge(0, 100)]);
        let here = [a.sge(0, 8)];
        let wr = RawQp::datagram(b.number(), &grh, &here);
        let stranger = Wr { datagram: wr.datagram.map(|to| Datagram { qkey: 5, ..to }), ..wr };
        assert_eq!(a.execute(&stranger), Outcome::NoAnswer);
        let nowhere = Wr { datagram: wr.datagram.map(|to| Datagram { dgid: [9; 16], ..to }), ..wr };
        assert_eq!(a.execute(&nowhere), Outcome::NoAnswer);
        let nobody = Wr { datagram: wr.datagram.map(|to| Datagram { qp_num: 0x0f_fff0, ..to }), ..wr };
        assert_eq!(a.execute(&nobody), Outcome::NoAnswer);
        assert_eq!(b.poll(), None);
        // The sender's own key goes where the request's has the top bit.
        let own = Wr { datagram: wr.datagram.map(|to| Datagram { qkey: 1 << 31, ..to }), ..wr };
        assert_eq!(a.execute(&own), Outcome::Done(8));
        assert!(b.poll().is_some());
    });
}

#[test]
fn remote_memory_is_read_written_and_changed() {
    both("remote", |one, other| {
        let (mut a, mut b) = pair(one, other, QpType::Rc);
        let remote = |b: &RawQp, at: usize| Operands::Remote { addr: b.at(at), rkey: b.key, length: 0 };
        for length in [0u32, 1, 8, 300, 30_000] {
            let bytes = fill(&mut a, 0, length as usize);
            let here = [a.sge(0, length / 2), a.sge(length as usize / 2, length - length / 2)];
            assert_eq!(
                a.execute(&RawQp::wr(Opcode::RdmaWrite, &here, remote(&b, 64))),
                Outcome::Done(length)
            );
            assert_eq!(b.read(64, length as usize), bytes);
            assert_eq!(b.poll(), None);
            b.receive(4, &[]);
            let wr = Wr { imm_or_key: 5, ..RawQp::wr(Opcode::RdmaWriteWithImm, &here, remote(&b, 99)) };
            assert_eq!(a.execute(&wr), Outcome::Done(length));
            let completion = b.poll().expect("a completion");
            assert_eq!((completion.opcode, completion.byte_len), (WcOpcode::RecvRdmaWithImm, length));
            assert_eq!(b.read(99, length as usize), bytes);
            let back = [a.sge(40_000, 5.min(length)), a.sge(50_000, length - 5.min(length))];
            if length < 10_000 {
                let done = a.execute(&RawQp::wr(Opcode::RdmaRead, &back, remote(&b, 99)));
                assert_eq!(done, Outcome::Done(length));
                let first = 5.min(length as usize);
                assert_eq!([a.read(40_000, first), a.read(50_000, length as usize - first)].concat(), bytes);
            }
        }
        b.memory[256..264].copy_from_slice(&10u64.to_ne_bytes());
        let here = [a.sge(0, 4), a.sge(8, 4)];
        let atomic = |a: &mut RawQp, opcode, compare_add, swap| {
            let operands = Operands::Atomic { addr: b.at(256), rkey: b.key, compare_add, swap };
            assert_eq!(a.execute(&RawQp::wr(opcode, &here, operands)), Outcome::Done(8));
            let old = u64::from_ne_bytes([a.read(0, 4), a.read(8, 4)].concat().try_into().unwrap());
            (old, u64::from_ne_bytes(b.read(256, 8).try_into().unwrap()))
        };
        assert_eq!(atomic(&mut a, Opcode::FetchAndAdd, 5, 0), (10, 15));
        assert_eq!(atomic(&mut a, Opcode::CmpAndSwp, 14, 1), (15, 15));
        assert_eq!(atomic(&mut a, Opcode::CmpAndSwp, 15, u64::MAX), (15, u64::MAX));
        assert_eq!(atomic(&mut a, Opcode::FetchAndAdd, 2, 0), (u64::MAX, 1));
        a.memory[0..8].copy_from_slice(&77u64.to_ne_bytes());
        let wr = [a.sge(0, 8)];
        let write = RawQp::wr(Opcode::AtomicWrite, &wr, remote(&b, 256));
        assert_eq!(a.execute(&write), Outcome::Done(8));
        assert_eq!(b.read(256, 8), 77u64.to_ne_bytes());
        let flush = Operands::Remote { addr: b.at(256), rkey: b.key, length: 8 };
        assert_eq!(a.execute(&RawQp::wr(Opcode::Flush, &[], flush)), Outcome::Done(8));
        // Wrong keys end the connection.
        let wrong = Operands::Remote { addr: b.at(0), rkey: b.key ^ 1, length: 0 };
        let here = [a.sge(0, 8)];
        let refused = a.execute(&RawQp::wr(Opcode::RdmaWrite, &here, wrong));
        assert_eq!((refused, b.state()), (Outcome::Refused(Syndrome::Access), QpState::Err));
        assert_eq!(a.execute(&RawQp::wr(Opcode::RdmaWrite, &here, remote(&b, 0))), Outcome::NoAnswer);
    });
}

#[test]
// rule: qp-receives-in, wc-error-fields, flush-after-cause
fn what_a_send_meets() {
    both("meets", |one, other| {
        let (mut a, mut b) = pair(one, other, QpType::Rc);
        let here = [a.sge(0, 8)];
        let again = |a: &RawQp| a.near.is_hopeless(&RawQp::wr(Opcode::Send, &here, Operands::None));
        assert!(!again(&a), "nothing is known");
        assert_eq!(a.send(&here), Outcome::ReceiverNotReady(12));
        assert!(again(&a));
        b.settle(QpState::Init);
        assert!(!again(&a));
        assert_eq!(a.send(&here), Outcome::NoAnswer);
        b.settle(QpState::Rts);
        let foreign = [Sge { lkey: a.key ^ 1, ..here[0] }];
        assert_eq!(a.send(&foreign), Outcome::Local(Status::LocProtErr));
        assert!(again(&a));
        b.receive(1, &[b.sge(0, 8)]);
        assert!(!again(&a));
        assert_eq!(a.send(&here), Outcome::Done(8));
        assert!(again(&a));
        assert!(b.poll().is_some() && a.poll().is_some());
        // Connected to somebody else.
        b.attributes.dest_qp_num += 1;
        b.settle(QpState::Rts);
        assert_eq!(a.send(&here), Outcome::NoAnswer);
        b.attributes.dest_qp_num -= 1;
        b.settle(QpState::Rts);
        for receive in [b.sge(0, 7), Sge { lkey: b.key ^ 1, ..b.sge(0, 8) }] {
            b.receive(2, &[receive]);
            b.receive(3, &[]);
            let (outcome, status) = if receive.length < 8 {
                (Outcome::Refused(Syndrome::InvalidRequest), Status::LocLenErr)
            } else {
                (Outcome::Refused(Syndrome::Operational), Status::LocProtErr)
            };
            assert_eq!(a.send(&here), outcome);
            assert_eq!(b.state(), QpState::Err);
            let completions: Vec<_> = std::iter::from_fn(|| b.poll()).collect();
            let statuses: Vec<_> = completions.iter().map(|c| (c.wr_id, c.status)).collect();
            assert_eq!(statuses, [(2, status), (3, Status::WrFlushErr)]);
            for c in completions {
                assert_eq!((c.byte_len, c.imm_or_key, c.flags), (0, 0, WcFlags::NONE));
            }
            b.settle(QpState::Rts);
        }
        // A queue pair that goes away, and another of the same process.
        let gone = RawQp::new(other, QpType::Rc);
        a.connect(gone.number());
        assert_eq!(a.send(&here), Outcome::NoAnswer);
        other.objects.destroy(Object::Qp(gone.qp)).unwrap();
        assert_eq!(a.send(&here), Outcome::NoAnswer);
        a.connect(b.number());
        b.receive(4, &[b.sge(0, 8)]);
        assert_eq!(a.send(&here), Outcome::Done(8));
    });
}

#[test]
fn shared_receive_queues_and_xrc() {
    both("shared", |one, other| {
        let srq = shared(other, None);
        let mut a = RawQp::new(one, QpType::Rc);
        let mut b = RawQp::with_srq(other, QpType::Rc, Some(srq));
        a.connect(b.number());
        b.connect(a.number());
        let bytes = fill(&mut a, 0, 500);
        let here = [a.sge(0, 500)];
        assert_eq!(a.send(&here), Outcome::ReceiverNotReady(12));
        let again = |a: &RawQp| a.near.is_hopeless(&RawQp::wr(Opcode::Send, &here, Operands::None));
        assert!(again(&a));
        b.receive(8, &[b.sge(0, 100), b.sge(100, 100), b.sge(200, 300), b.sge(500, 1), b.sge(501, 1)]);
        assert!(!again(&a));
        assert_eq!(a.send(&here), Outcome::Done(500));
        assert!(again(&a));
        assert_eq!(b.poll().map(|completion| completion.wr_id), Some(8));
        assert_eq!(b.read(0, 500), bytes);

        let domain = 3;
        let mut target = RawQp::new(other, QpType::XrcRecv);
        let srq = shared(other, Some((target.cq, domain)));
        let elsewhere = shared(other, Some((target.cq, domain + 1)));
        target.attributes =
            QpAttributes { pd: 0, receive_pd: 0, cq: None, srq: None, xrcd: domain, ..target.attributes };
        let mut a = RawQp::new(one, QpType::XrcSend);
        a.connect(target.number());
        target.connect(a.number());
        let mut receiver = Poster::new(&other.own, Object::Srq(srq));
        receiver.post(&other.own, 5, &[target.sge(0, 50)]).unwrap();
        let bytes = fill(&mut a, 0, 50);
        let here = [a.sge(0, 50)];
        let to =
            |srq: u32| Wr { srq_num: other.number(srq), ..RawQp::wr(Opcode::Send, &here, Operands::None) };
        assert_eq!(a.execute(&to(srq)), Outcome::Done(50));
        let completion = target.poll().expect("a completion");
        assert_eq!((completion.wr_id, completion.qp_num), (5, target.number()));
        assert_eq!(target.read(0, 50), bytes);
        assert_eq!(a.execute(&to(srq)), Outcome::ReceiverNotReady(12));
        let violation = Outcome::Refused(Syndrome::InvalidRequest);
        assert_eq!(a.execute(&to(elsewhere)), violation);
        assert_eq!(a.execute(&to(srq)), Outcome::ReceiverNotReady(12));
        let operands = Operands::Remote { addr: target.at(300), rkey: target.key, length: 0 };
        let write = Wr { operands, opcode: Opcode::RdmaWrite, ..to(srq) };
        assert_eq!(a.execute(&write), Outcome::Done(50));
        assert_eq!(target.read(300, 50), bytes);
    });
}

#[test]
// rule: wc-invalidated, mw2-free, mw1-not-invalidated
fn windows_are_bound_used_and_invalidated_from_both_sides() {
    both("windows", |one, other| {
        let (mut a, mut b) = pair(one, other, QpType::Rc);
        for zero_based in [false, true] {
            let fresh = Key {
                kind: Kind::Window2 { qp_num: 0 },
                valid: false,
                pd: PD,
                start: 0,
                length: 0,
                access: Access::NONE,
            };
            let window = b.endpoint.keys.add(&Entry { key: fresh, base: 0 }).unwrap();
            let access =
                Access::REMOTE_WRITE.union(if zero_based { Access::ZERO_BASED } else { Access::NONE });
            let bind = BindWindow {
                window,
                key8: (window as u8).wrapping_add(1),
                region: b.key,
                bind: Bind { addr: b.at(1000), length: 16, access },
            };
            let rkey = window & !0xff | u32::from(bind.key8);
            let addr = if zero_based { 0 } else { b.at(1000) };
            assert_eq!(b.execute(&RawQp::wr(Opcode::BindMw, &[], Operands::Bind(bind))), Outcome::Done(0));
            let bytes = fill(&mut a, 0, 16);
            let here = [a.sge(0, 16)];
            let write = RawQp::wr(Opcode::RdmaWrite, &here, Operands::Remote { addr, rkey, length: 0 });
            assert_eq!(a.execute(&write), Outcome::Done(16));
            assert_eq!(b.read(1000, 16), bytes);
            // Bound already.
            let again = BindWindow { window: rkey, ..bind };
            let refused = b.execute(&RawQp::wr(Opcode::BindMw, &[], Operands::Bind(again)));
            assert_eq!(refused, Outcome::Local(Status::MwBindErr));
            if zero_based {
                assert_eq!(
                    b.execute(&RawQp::wr(Opcode::LocalInv, &[], Operands::Key(rkey))),
                    Outcome::Done(0)
                );
            } else {
                b.receive(7, &[b.sge(0, 16)]);
                let wr = Wr { imm_or_key: rkey, ..RawQp::wr(Opcode::SendWithInv, &here, Operands::None) };
                assert_eq!(a.execute(&wr), Outcome::Done(16));
                let completion = b.poll().expect("a completion");
                assert_eq!((completion.flags, completion.imm_or_key), (WcFlags::WITH_INV, rkey));
            }
            let twice = b.execute(&RawQp::wr(Opcode::LocalInv, &[], Operands::Key(rkey)));
            assert_eq!(twice, Outcome::Local(Status::MwBindErr));
            // Invalid for all, then bound again with the same bits.
            assert_eq!(a.execute(&write), Outcome::Refused(Syndrome::Access));
            b.settle(QpState::Rts);
            let again = BindWindow { window: rkey, ..bind };
            assert_eq!(b.execute(&RawQp::wr(Opcode::BindMw, &[], Operands::Bind(again))), Outcome::Done(0));
            assert_eq!(a.execute(&write), Outcome::Done(16));
        }
        // Regions cannot be invalidated by a peer.
        b.receive(7, &[b.sge(0, 16)]);
        let here = [a.sge(0, 16)];
        let wr = Wr { imm_or_key: b.key, ..RawQp::wr(Opcode::SendWithInv, &here, Operands::None) };
        assert_eq!(a.execute(&wr), Outcome::Refused(Syndrome::Access));
        // Nor can windows of type 1, not even by their own process.
        b.settle(QpState::Rts);
        let access = Access::REMOTE_WRITE;
        let bound = Key { kind: Kind::Window1, valid: true, pd: PD, start: b.at(0), length: 16, access };
        let window = b.endpoint.keys.add(&Entry { key: bound, base: b.at(0) }).unwrap();
        let invalidate = RawQp::wr(Opcode::LocalInv, &[], Operands::Key(window));
        assert_eq!(b.execute(&invalidate), Outcome::Local(Status::MwBindErr));
    });
}

/// Gives a completion queue another ring, as its owner does.
fn resize(end: &mut RawQp, capacity: u32) {
    let own = &end.endpoint.own;
    let (cq, object) = (end.cq, Object::Cq(end.cq));
    acquire(own, object).unwrap();
    let (before, words) = (own.capacity(object), own.entry_words(cq));
    let from = own.offset(Word::Entry { cq, slot: 0, word: 0 }).unwrap();
    let copy = |memory: &Memory, to: u64| {
        for word in 0..u64::from(before.min(capacity) * words) {
            let word = |at: u64| memory.u64(at + 8 * word).unwrap();
            word(to).store(word(from).load(Relaxed), Relaxed);
        }
    };
    end.endpoint.objects.resize(object, capacity, words, copy).unwrap();
    own.unlock(object);
    end.held.add(&own.find([None, None, Some(object)]));
}

#[test]
fn a_send_that_invalidates_is_carried_out_once_whatever_it_meets() {
    let dir = Dir::new("invalidates");
    let (one, other) = (dir.endpoint(), dir.endpoint());
    let (mut a, mut b) = pair(&one, &other, QpType::Rc);
    let here = [a.sge(0, 16)];
    let bound = |b: &RawQp| {
        let kind = Kind::Window2 { qp_num: b.number() };
        let (start, access) = (b.at(0), Access::REMOTE_WRITE);
        let key = Key { kind, valid: true, pd: PD, start, length: 16, access };
        b.endpoint.keys.add(&Entry { key, base: start }).unwrap()
    };
    let send = |a: &mut RawQp, key: u32| {
        a.execute(&Wr { imm_or_key: key, ..RawQp::wr(Opcode::SendWithInv, &here, Operands::None) })
    };
    for (capacity, length) in [(256, 16), (512, 16), (64, 16), (128, 500)] {
        let key = bound(&b);
        resize(&mut b, capacity);
        b.receive(7, &[b.sge(0, length)]);
        assert_eq!(send(&mut a, key), Outcome::Done(16), "{capacity} entries");
        assert_eq!(b.poll().map(|completion| completion.imm_or_key), Some(key));
        assert!(!b.endpoint.keys.window(key).unwrap().key.valid);
    }
    // Somebody keeps the lock of the completion queue.
    let key = bound(&b);
    b.receive(8, &[b.sge(0, 16)]);
    let third = dir.endpoint();
    let slot = b.endpoint.segment.owner().slot();
    let busy = third.peers.get(slot).expect("it lives");
    acquire(&busy.host, Object::Cq(b.cq)).unwrap();
    assert_eq!(send(&mut a, key), Outcome::Held);
    assert!(b.endpoint.keys.window(key).unwrap().key.valid);
    busy.host.unlock(Object::Cq(b.cq));
    assert_eq!(send(&mut a, key), Outcome::Done(16));
    assert_eq!(b.poll().map(|completion| completion.wr_id), Some(8));
    assert!(!b.endpoint.keys.window(key).unwrap().key.valid);
    assert_eq!((b.poll(), b.state()), (None, QpState::Rts));
}

#[test]
fn completions_carry_the_time_where_it_is_asked_for() {
    both("times", |one, other| {
        let (mut a, mut b) = pair(one, other, QpType::Rc);
        let here = [a.sge(0, 8)];
        for wanted in [false, true] {
            for end in [&a, &b] {
                let wants = wants::TIMESTAMPS * u64::from(wanted);
                let word = Word::Attribute { object: Object::Cq(end.cq), word: 0 };
                end.endpoint.own.store(word, wants);
            }
            let before = now();
            b.receive(1, &[b.sge(0, 8)]);
            assert_eq!(a.send(&here), Outcome::Done(8));
            let times = [&a, &b].map(|end| end.poll().expect("a completion").timestamp);
            let after = now();
            assert!(times.iter().all(|time| if wanted {
                (before..=after).contains(time)
            } else {
                *time == 0
            }));
        }
    });
}
