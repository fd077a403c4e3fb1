//! Transactions on memory full of lies.

use std::cell::Cell;

use proptest::prelude::*;
use softrdma::queues::burst::Burst;
use softrdma::queues::claim::ClaimRequest;
use softrdma::queues::deliver::Deliver;
use softrdma::queues::flush::Flush;
use softrdma::queues::receive::{next_in_claim, next_in_ring};
use softrdma::queues::respond::{MoveError, Queues};
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, Take, Word};
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::queues::transport::{acquire, run};
use softrdma::rules::completion::Completion;
use softrdma::rules::responder::{Incoming, TargetQp};
use softrdma::rules::verbs::{Opcode, WcOpcode};
use softrdma_testing::post::post;
use softrdma_testing::segment::Segment;

use crate::bare::Bare;
use crate::burst::{SEND, TARGET, key};
use crate::place::{poll, request};
use crate::responder::respond;

/// A burst of messages of all lengths at one of the queue pairs, which goes as far as it does.
fn burst(place: &Bare, qp: u32) {
    let head = place.load(Word::Qp(qp, QpWord::Head)) as u32;
    let target = TargetQp { receive_pd: 1 + qp, ..TARGET };
    let mut burst = Burst::default();
    burst.open(place, &Queues { qp, cq: qp, srq: None });
    let (mut delivered, mut steps, mut locked) = (0, 0, false);
    while burst.is_open() {
        let request = Incoming { length: u64::from(8 * delivered % 104), solicited: delivered > 3, ..SEND };
        let goes = delivered < 20 && burst.offer(place, &target, &request, key);
        if !goes {
            burst.close();
        }
        let done = loop {
            steps += 1;
            match burst.step(place) {
                Progress::Done(done) => break done,
                Progress::Lock(object) => {
                    assert!(object == Object::Cq(qp) && !locked);
                    acquire(place, object).expect("locks are free");
                    locked = true;
                }
                Progress::Unlock(object) => {
                    assert!(object == Object::Cq(qp) && locked);
                    locked = false;
                }
                Progress::Continue => {}
                progress => panic!("a burst asks for {progress:?}"),
            }
        };
        assert!(goes || !done);
        assert_eq!(done, burst.is_open());
        delivered += u32::from(done);
    }
    assert!(!locked && steps < 200);
    // Whatever stood there: so many requests are used up, and no more.
    assert_eq!(place.load(Word::Qp(qp, QpWord::Head)) as u32, head.wrapping_add(delivered));
}

/// A word as a vandal would write it: plausible, or anything.
fn lie() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        0..8u64,
        any::<u64>(),
        any::<u64>().prop_map(|word| word | 1 << 63),
        any::<u64>().prop_map(|word| 0b11 << 62 | word & 0xff_ffff),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lies_in_shared_memory_do_no_harm(lies in prop::collection::vec(lie(), 64), recovered: bool) {
        let mut segment = Segment::default();
        for _ in 0..2 {
            segment.add_qp(4);
            segment.add_srq(2);
            segment.add_cq(4);
        }
        segment.fill(&lies);
        let place = Bare { segment, steps: Cell::new(0), recovered: Cell::new(recovered) };
        let entry = Completion::flushed(1, WcOpcode::Recv, 1);
        for object in place.segment.objects() {
            acquire(&place, object).expect("locks are free");
        }
        for index in 0..2 {
            let _ = run(&place, ClaimRequest::new(index, 1 - index));
            let _ = next_in_claim(&place, index);
            let _ = next_in_ring(&place, index);
            let _ = run(&place, Deliver::receive(index, Take::Claim(0), index, &entry, true));
            let _ = run(&place, Flush::new(&place, index, 1, index, index == 0));
            for opcode in [Opcode::SendWithImm, Opcode::RdmaWriteWithImm, Opcode::RdmaRead] {
                respond(&place, index, opcode, Err(MoveError::Target));
            }
            burst(&place, index);
            let _ = post(&place, Object::Srq(index), &request(1));
            for _ in 0..8 {
                let _ = poll(&place, index);
            }
        }
    }

    /// Otherwise few of the bursts on lies get far.
    #[test]
    fn bursts_end_on_lies_that_could_be_true(
        lies in prop::collection::vec(lie(), 64),
        recovered: bool,
        counts: [u32; 2],
        waiting in [0..5_u32, 0..5_u32],
        requests in prop::collection::vec((0..3_u64, 0..200_u64), 4),
    ) {
        let mut segment = Segment::default();
        segment.add_qp(4);
        segment.add_cq(4);
        segment.fill(&lies);
        let place = Bare { segment, steps: Cell::new(0), recovered: Cell::new(recovered) };
        let (qp, cq) = (|word| Word::Qp(0, word), |word| Word::Cq(0, word));
        for _ in 0..3 {
            place.store(qp(QpWord::Head), u64::from(counts[0]));
            place.store(qp(QpWord::Tail), u64::from(counts[0].wrapping_add(waiting[0])));
            place.store(cq(CqWord::Head), u64::from(counts[1]));
            place.store(cq(CqWord::Tail), u64::from(counts[1].wrapping_add(waiting[1])));
            place.store(cq(CqWord::Armed), 0);
            place.store(cq(CqWord::Events), 0);
            for (slot, (pieces, length)) in (0..).zip(&requests) {
                let word = |word| Word::Receive { queue: Object::Qp(0), slot, word };
                place.store(word(1), *pieces);
                place.store(word(3), length | 1 << 32);
            }
            burst(&place, 0);
            for object in place.segment.objects() {
                acquire(&place, object).expect("locks are free");
            }
            for _ in 0..8 {
                let _ = poll(&place, 0);
            }
        }
    }
}
