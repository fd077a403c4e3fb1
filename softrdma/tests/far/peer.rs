//! A peer that is no device: packets as the test makes them.

use std::net::{SocketAddr, UdpSocket};

use softrdma::wire::flow::Flow;
use softrdma::wire::icrc::{ICRC_BYTES, Icrc};
use softrdma::wire::opcode::{Extra, Opcode, Operation, Position, Transport};
use softrdma::wire::packet::{Aeth, Bth, Head, Headers, MAX_HEAD, Packet, pad_of};
use softrdma::wire::psn::Psn;

use crate::hosts::{ADDRESSES, Host};

/// The port of RoCE v2.
const PORT: u16 = 4791;

/// The syndrome of an acknowledgement.
pub const ACKNOWLEDGED: u8 = 0x1f;

/// See the module.
pub struct RawPeer {
    socket: UdpSocket,
    host: usize,
}

impl RawPeer {
    /// On this host, where no device is.
    pub fn new(hosts: &[Host; 2], host: usize) -> Self {
        hosts[host].enter();
        let socket = UdpSocket::bind((ADDRESSES[host], PORT)).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        // SAFETY: a plain system call with an integer: no fragments, so that the identification is 0.
        unsafe {
            use std::os::fd::AsRawFd;
            let probe: libc::c_int = libc::IP_PMTUDISC_PROBE;
            let length = size_of_val(&probe) as libc::socklen_t;
            let done = libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                (&raw const probe).cast(),
                length,
            );
            assert_eq!(done, 0);
        }
        RawPeer { socket, host }
    }

    fn flow(&self, from: usize) -> (Flow, SocketAddr) {
        let at = |host: usize| -> SocketAddr {
            (ADDRESSES[host].parse::<std::net::IpAddr>().unwrap(), PORT).into()
        };
        (Flow::new(at(from), at(1 - from)).unwrap(), at(1 - from))
    }

    /// Sends a packet.
    pub fn send(&self, bth: Bth, headers: Headers, payload: &[u8]) {
        let (flow, to) = self.flow(self.host);
        self.socket.send_to(&sealed(&flow, bth, headers, payload), to).unwrap();
    }
    /// Sends an acknowledgement, or another syndrome.
    pub fn answer(&self, qp_num: u32, psn: u32, syndrome: u8) {
        let headers = Headers { aeth: Some(Aeth { syndrome, msn: 1 }), ..Headers::NONE };
        self.send(Bth::new(Opcode::ACKNOWLEDGE, qp_num, Psn::new(psn)), headers, &[]);
    }

    /// A request of RC.
    pub fn request(
        &self,
        (qp_num, psn): (u32, u32),
        what: (Operation, Position, Extra),
        headers: Headers,
        payload: &[u8],
    ) {
        let opcode = Opcode::new(Transport::Rc, what.0, what.1, what.2).unwrap();
        self.send(Bth { ack_req: true, ..Bth::new(opcode, qp_num, Psn::new(psn)) }, headers, payload);
    }

    /// The next packet that comes: its headers and its payload.
    pub fn next(&self) -> (Head, Vec<u8>) {
        let mut bytes = [0; 8192];
        let length = self.socket.recv(&mut bytes).expect("no packet comes");
        let packet = Packet::parse(&bytes[..length - ICRC_BYTES]).expect("no packet of RoCE");
        (packet.head(), packet.payload.to_vec())
    }

    /// Whether one is there.
    pub fn has_packet(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let there = self.socket.peek(&mut [0; 1]).is_ok();
        self.socket.set_nonblocking(false).unwrap();
        there
    }
}

/// A packet as it stands in a datagram.
pub fn sealed(flow: &Flow, bth: Bth, headers: Headers, payload: &[u8]) -> Vec<u8> {
    let head = Head { bth: Bth { pad: pad_of(payload.len()), ..bth }, headers };
    let mut bytes = [0; MAX_HEAD];
    let length = head.write(&mut bytes);
    let mut packet = bytes[..length].to_vec();
    packet.extend(payload);
    packet.resize(packet.len() + usize::from(head.bth.pad), 0);
    let mut icrc = Icrc::new(flow, 0, &packet[..length], packet.len());
    icrc.update(&packet[length..]);
    packet.extend(icrc.finish());
    packet
}
