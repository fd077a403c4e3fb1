//! Messages of several packets, from and to memory in several pieces.

use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Opcode, QpType};
use softrdma_testing::device::*;

use crate::hosts::*;

/// Pieces of the receiver's memory: ends of packets of 1,024 bytes lie within them and between them, and there
/// are more packets than come at once.
const TO: [(usize, usize); 4] = [(100, 1500), (2000, 1), (3000, 2595), (9000, 18_103)];
/// And of the sender's.
const FROM: [(usize, usize); 3] = [(50, 1024), (2000, 5000), (8000, 16_175)];

#[test]
fn are_put_together() {
    with_hosts(|hosts| {
        for qp_type in [QpType::Rc, QpType::Uc] {
            let [(_one_node, one), (_other_node, other)] = connected(hosts, qp_type);
            let content: Vec<u8> =
                (0..30_000).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            one.memory.fill(0, &content);
            let from = FROM.map(|(offset, length)| one.sge(offset, length));
            let to = TO.map(|(offset, length)| other.sge(offset, length));
            let sent: Vec<u8> =
                FROM.iter().flat_map(|(at, length)| &content[*at..][..*length]).copied().collect();
            let found =
                || TO.iter().flat_map(|(at, length)| other.memory.bytes(*at, *length)).collect::<Vec<_>>();

            other.qp.post_receive(1, &to).unwrap();
            one.qp.post_send(&wr(2, Opcode::Send, &from)).unwrap();
            assert_eq!(other.done(1).byte_len as usize, sent.len());
            one.done(2);
            assert!(found() == sent, "a send");
            if qp_type == QpType::Uc {
                continue;
            }

            other.memory.fill(0, &vec![0; other.memory.len()]);
            let addr = one.memory.addr(1000);
            let operands = Operands::Remote { addr, rkey: one.region.rkey, length: sent.len() as u64 };
            other.qp.post_send(&softrdma::device::Wr { operands, ..wr(3, Opcode::RdmaRead, &to) }).unwrap();
            other.done(3);
            assert!(found() == content[1000..][..sent.len()], "a read");

            let addr = other.memory.addr(30_001);
            let operands = Operands::Remote { addr, rkey: other.region.rkey, length: sent.len() as u64 };
            one.qp.post_send(&softrdma::device::Wr { operands, ..wr(4, Opcode::RdmaWrite, &from) }).unwrap();
            one.done(4);
            assert!(other.memory.bytes(30_001, sent.len()) == sent, "a write");
        }
    });
}
