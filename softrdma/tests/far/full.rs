//! Packets for which a socket has no room.

use std::net::UdpSocket;
use std::os::fd::{FromRawFd, IntoRawFd};

use softrdma::device::Attributes;
use softrdma::rules::verbs::{Access, QpState, QpType};
use softrdma::wire::opcode::{Extra, Operation, Position};
use softrdma::wire::packet::{Headers, Reth};
use softrdma_testing::device::*;
use softrdma_testing::network::ip;

use crate::hosts::*;
use crate::peer::{PORT, RawPeer};

/// Leaves the sockets of RoCE of this process room for one packet that waits to leave.
pub fn narrow_sockets() -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let fd: i32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: it is looked at, and given back below; what is no socket says so.
        let socket = unsafe { UdpSocket::from_raw_fd(fd) };
        let is_of_roce = socket.local_addr().is_ok_and(|address| address.port() == PORT);
        let least: libc::c_int = 1;
        let length = size_of_val(&least) as libc::socklen_t;
        if is_of_roce {
            // SAFETY: a plain system call with an integer.
            let set = unsafe {
                let least = (&raw const least).cast();
                libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, least, length)
            };
            assert_eq!(set, 0);
            count += 1;
        }
        let _ = socket.into_raw_fd();
    }
    count
}

#[test]
fn answers_that_find_no_room_leave_later() {
    const PACKETS: u32 = 60;
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = node.end(QpType::Rc);
        let access = Access::REMOTE_READ;
        bring_up(&end.qp, &Attributes { access, ..hosts[0].attributes(0x4001) }, QpState::Rts);
        assert!(narrow_sockets() > 1);
        // Both know where the other's address is.
        let (send, read) = ((Operation::Send, Position::Only), (Operation::ReadRequest, Position::Only));
        end.receive(1, 0, 8);
        peer.request((end.qp.qp_num(), 1), (send.0, send.1, Extra::Nothing), Headers::NONE, &[1; 8]);
        peer.next();
        // What leaves waits until it is known again, which the other host tells only later.
        let tells_nothing = |nothing: &str| {
            hosts[1].enter();
            std::fs::write("/proc/sys/net/ipv4/conf/wire/arp_ignore", nothing).unwrap();
        };
        tells_nothing("8");
        hosts[0].enter();
        ip("neigh flush dev wire");
        let reth = Reth { va: end.memory.addr(0), rkey: end.region.rkey, length: PACKETS << 10 };
        let headers = Headers { reth: Some(reth), ..Headers::NONE };
        peer.request((end.qp.qp_num(), 2), (read.0, read.1, Extra::Nothing), headers, &[]);
        // Time to find no room: with less of it the test shows less, and passes.
        std::thread::sleep(std::time::Duration::from_millis(200));
        tells_nothing("0");
        for n in 0..PACKETS {
            let (head, payload) = peer.next();
            assert_eq!((head.bth.psn.number(), payload.len()), (2 + n, 1024));
        }
    });
}
