//! What ends with an error.

use softrdma::device::Region;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Access, Opcode, QpType, Status};
use softrdma_testing::device::*;

use crate::hosts::*;

/// Registers memory and makes it unreachable from some byte on, as if it had been unmapped, but that nothing
/// else comes there: its address, and the key.
fn unreachable_memory(node: &Node, length: usize, from: usize) -> (u64, Region) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping that nobody else knows.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    let addr = memory.expose_provenance() as u64;
    let all = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);
    let region = node.device.register(node.pd, addr, length as u64, addr, all).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::mprotect(memory.byte_add(from), length - from, libc::PROT_NONE) }, 0);
    (addr, region)
}

#[test]
fn memory_that_is_gone_ends_a_request_and_not_the_process() {
    for opcode in [Opcode::RdmaWrite, Opcode::RdmaRead] {
        // Of the longest, packets before it and in other bursts are of memory that is there.
        for (length, from) in [(8, 0), (5000, 0), (5000, 4096), (60_000, 40 << 10), (60_000, 56 << 10)] {
            with_hosts(|hosts| {
                let [(_, one), (node, other)] = &connected(hosts, QpType::Rc);
                let (addr, region) = unreachable_memory(node, 64 << 10, from);
                one.remote(1, opcode, 0, length, (addr, region.rkey));
                one.remote(2, opcode, 0, 8, (other.memory.addr(0), other.region.rkey));
                assert_eq!(one.poll().status, Status::RemAccessErr, "{opcode:?} {length} {from}");
                assert_eq!(one.poll().status, Status::WrFlushErr, "{opcode:?} {length} {from}");
            });
        }
    }
}

/// Nobody polls where the message comes, so that the device's own thread takes it.
#[test]
fn a_receive_buffer_that_is_gone_ends_a_message_and_not_the_process_that_sleeps() {
    for (length, from) in [(5000, 0), (5000, 4096), (60_000, 40 << 10)] {
        with_hosts(|hosts| {
            let [(_, one), (node, other)] = &connected(hosts, QpType::Rc);
            let (addr, region) = unreachable_memory(node, 64 << 10, from);
            other.qp.post_receive(1, &[Sge { addr, length: 64 << 10, lkey: region.lkey }]).unwrap();
            one.send(1, 0, length);
            assert_eq!(one.poll().status, Status::RemOpErr, "{length} {from}");
            let lost = other.poll();
            assert_eq!((lost.wr_id, lost.status), (1, Status::LocProtErr), "{length} {from}");
        });
    }
}

#[test]
fn what_the_wire_has_no_packets_for_is_refused_here() {
    for opcode in [Opcode::Flush, Opcode::AtomicWrite] {
        with_hosts(|hosts| {
            let [(_, one), (_, other)] = &connected(hosts, QpType::Rc);
            let sges = [one.sge(0, 8)];
            let sges = if opcode == Opcode::Flush { &sges[..0] } else { &sges[..] };
            let operands =
                Operands::Remote { addr: other.memory.addr(0), rkey: other.region.rkey, length: 8 };
            let request = softrdma::device::Wr { operands, ..wr(1, opcode, sges) };
            one.qp.post_send(&request).unwrap();
            assert_eq!(one.poll().status, Status::LocQpOpErr, "{opcode:?}");
        });
    }
}
