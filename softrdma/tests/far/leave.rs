//! Devices that are closed while something of them was not destroyed.

use softrdma::rules::verbs::{QpState, QpType};
use softrdma_testing::device::*;

use crate::hosts::*;

#[test]
fn a_device_is_opened_again_though_a_queue_pair_was_left() {
    with_hosts(|hosts| {
        let node = hosts[0].node();
        let left = node.end(QpType::Rc);
        bring_up(&left.qp, &hosts[0].attributes(0x4001), QpState::Rts);
        node.device.close();
        let [(_, one), (_, other)] = &connected(hosts, QpType::Rc);
        other.receive(1, 0, 8);
        one.send(2, 0, 8);
        one.done(2);
        other.done(1);
    });
}
