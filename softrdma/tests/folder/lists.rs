//! Lists of requests whose targets cannot be had.

use softrdma::device::{Datagram, Wr};
use softrdma::queues::shared::Object;
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport as _;
use softrdma::rules::verbs::{Opcode, QpState, QpType};
use softrdma_testing::device::*;

/// Requests that each queue holds.
const DEEP: u32 = 200;

#[test]
fn a_target_that_cannot_be_had_keeps_nothing_back_and_mixes_up_no_order() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    // Queue pairs 0 and 1, and their completion queues.
    let [reached, held] = [0, 1].map(|_| node.deep_end(QpType::Ud, &node.cq(DEEP, None, 1), DEEP));
    let one = node.deep_end(QpType::Ud, &node.cq(2 * DEEP, None, 1), DEEP);
    for end in [&reached, &held, &one] {
        bring_up(&end.qp, &attributes(0), QpState::Rts);
        for n in 0..20 {
            end.receive(n, 64 * n as usize, 64);
        }
    }
    let sge = [one.sge(0, 8)];
    let to = |n: u64, end: &End| Wr {
        datagram: Some(Datagram {
            qp_num: end.qp.qp_num(),
            qkey: QKEY,
            grh: &[0x60; 40],
            dgid: GID,
            route: None,
        }),
        ..wr(n, Opcode::Send, &sge)
    };
    post_list(&one, &[to(0, &reached), to(1, &held)]);
    assert_eq!(poll_all(&one.cq).len(), 2);
    for object in [Object::Qp(1), Object::Cq(1)] {
        assert_eq!(there.lock(object), Ok(Locked::Clean));
        let list = [to(10, &reached), to(11, &reached), to(12, &held), to(13, &reached)];
        assert_eq!(post_list(&one, &list), (4, None));
        there.unlock(object);
        let numbers: Vec<_> = poll_all(&one.cq).iter().map(|completion| completion.wr_id).collect();
        assert_eq!(numbers, [10, 11, 12, 13]);
        assert_eq!(poll_all(&reached.cq).len(), if object == Object::Qp(1) { 4 } else { 3 });
    }
    // What was left half done is whole again.
    post_list(&one, &[to(20, &held)]);
    assert_eq!(poll_all(&held.cq).len(), 2);
}
