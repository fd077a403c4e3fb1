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
use crate::peer::{ACKNOWLEDGED, PORT, RawPeer, SEND};

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

/// Nanoseconds of processors that the device's threads have had.
fn processor_time() -> u64 {
    let mut time = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        if read("comm").starts_with("ironverbs") {
            time += read("schedstat").split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0);
        }
    }
    time
}

/// The host where the device is finds nobody at the other address, and finds it again.
struct Silence<'h>(&'h [Host; 2]);

impl<'h> Silence<'h> {
    /// What leaves waits from now on until it is known again where the address is.
    fn new(hosts: &'h [Host; 2]) -> Self {
        let silence = Self(hosts);
        silence.tells_nothing("8");
        hosts[0].enter();
        ip("neigh flush dev wire");
        silence
    }

    fn tells_nothing(&self, nothing: &str) {
        self.0[1].enter();
        std::fs::write("/proc/sys/net/ipv4/conf/wire/arp_ignore", nothing).unwrap();
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.tells_nothing("0");
    }
}

/// Both know where the other's address is.
fn meet(peer: &RawPeer, end: &End) {
    end.receive(1, 0, 8);
    peer.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
    peer.next();
    end.done(1);
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
        meet(&peer, &end);
        let silence = Silence::new(hosts);
        let what = (Operation::ReadRequest, Position::Only, Extra::Nothing);
        let reth = Reth { va: end.memory.addr(0), rkey: end.region.rkey, length: PACKETS << 10 };
        let headers = Headers { reth: Some(reth), ..Headers::NONE };
        peer.request((end.qp.qp_num(), 2), what, headers, &[]);
        wait_without_a_processor();
        drop(silence);
        for n in 0..PACKETS {
            let (head, payload) = peer.next();
            assert_eq!((head.bth.psn.number(), payload.len()), (2 + n, 1024));
        }
    });
}

#[test]
fn requests_that_find_no_room_leave_later() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = node.end(QpType::Rc);
        bring_up(&end.qp, &Attributes { timeout: 0, ..hosts[0].attributes(0x4001) }, QpState::Rts);
        assert!(narrow_sockets() > 1);
        meet(&peer, &end);
        let silence = Silence::new(hosts);
        end.send(2, 0, 16 << 10);
        wait_without_a_processor();
        drop(silence);
        for n in 0..16 {
            let (head, payload) = peer.next();
            assert_eq!((head.bth.psn.number(), payload.len()), (1 + n, 1024));
        }
        peer.answer(end.qp.qp_num(), 16, ACKNOWLEDGED);
        end.done(2);
    });
}

/// Time to find no room, in which no thread tries all the time: with less of it a test shows less, and passes.
fn wait_without_a_processor() {
    let (began, before) = (std::time::Instant::now(), processor_time());
    std::thread::sleep(std::time::Duration::from_millis(400));
    let (lasted, used) = (began.elapsed().as_nanos() as u64, processor_time() - before);
    assert!(used < lasted / 6, "{used} ns of {lasted}");
}
