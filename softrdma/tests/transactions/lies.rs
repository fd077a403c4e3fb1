//! Transactions on memory full of lies.

use std::cell::Cell;

use proptest::prelude::*;
use softrdma::core::claim::Claim;
use softrdma::core::completion::Completion;
use softrdma::core::deliver::Deliver;
use softrdma::core::flush::Flush;
use softrdma::core::receive::{next_in_claim, next_in_ring, post};
use softrdma::core::respond::MoveError;
use softrdma::core::shared::{Object, Take};
use softrdma::core::transport::{acquire, run};
use softrdma::core::verbs::{Opcode, WcOpcode};

use crate::bare::Bare;
use crate::place::{poll, request};
use crate::responder::respond;
use crate::segment::Segment;

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
            let _ = run(&place, Claim::new(index, 1 - index));
            let _ = next_in_claim(&place, index);
            let _ = next_in_ring(&place, index);
            let _ = run(&place, Deliver::receive(index, Take::Claim, index, &entry, true));
            let _ = run(&place, Flush::new(&place, index, 1, index, index == 0));
            for opcode in [Opcode::SendWithImm, Opcode::RdmaWriteWithImm, Opcode::RdmaRead] {
                respond(&place, index, opcode, Err(MoveError::Target));
            }
            let _ = post(&place, Object::Srq(index), &request(1));
            for _ in 0..8 {
                let _ = poll(&place, index);
            }
        }
    }
}
