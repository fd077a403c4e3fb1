//! A peer that is no device: packets as the test makes them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use softrdma::wire::flow::Flow;
use softrdma::wire::icrc::{ICRC_BYTES, Icrc};
use softrdma::wire::opcode::{Extra, Opcode, Operation, Position, Transport};
use softrdma::wire::packet::{Aeth, Bth, Head, Headers, MAX_HEAD, Packet, pad_of};
use softrdma::wire::psn::Psn;

use crate::hosts::{ADDRESSES, Host};

/// The port of RoCE v2.
pub const PORT: u16 = 4791;

/// The syndrome of an acknowledgement.
pub const ACKNOWLEDGED: u8 = 0x1f;

/// A message of one packet.
pub const SEND: (Operation, Position, Extra) = (Operation::Send, Position::Only, Extra::Nothing);

/// See the module.
pub struct RawPeer {
    socket: UdpSocket,
    own: IpAddr,
    other: IpAddr,
}

impl RawPeer {
    /// On this host, where no device is.
    pub fn new(hosts: &[Host; 2], host: usize) -> Self {
        Self::at(hosts, host, ADDRESSES[host])
    }

    /// The same, with another address of the host.
    pub fn at(hosts: &[Host; 2], host: usize, address: &str) -> Self {
        hosts[host].enter();
        let socket = UdpSocket::bind((address, PORT)).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let [own, other] = [address, ADDRESSES[1 - host]].map(|address| address.parse().unwrap());
        let peer = RawPeer { socket, own, other };
        // No fragments, so that the identification is 0.
        peer.set(libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        peer.set(libc::IP_RECVTOS, 1);
        peer
    }

    fn set(&self, option: libc::c_int, value: libc::c_int) {
        let (fd, length) = (self.socket.as_raw_fd(), size_of_val(&value) as libc::socklen_t);
        // SAFETY: a plain system call with an integer.
        let done =
            unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, option, (&raw const value).cast(), length) };
        assert_eq!(done, 0);
    }

    /// What it sends from now on is of this type of service.
    pub fn set_class(&self, class: u8) {
        self.set(libc::IP_TOS, class.into());
    }

    /// Sends a packet.
    pub fn send(&self, bth: Bth, headers: Headers, payload: &[u8]) {
        let to = SocketAddr::from((self.other, PORT));
        let flow = Flow::new((self.own, PORT).into(), to).unwrap();
        self.socket.send_to(&sealed(&flow, bth, headers, payload), to).unwrap();
    }
    /// Sends a packet to a group.
    pub fn send_to_group(&self, group: &str, bth: Bth, headers: Headers, payload: &[u8]) {
        let to = SocketAddr::from((group.parse::<IpAddr>().unwrap(), PORT));
        let flow = Flow::new((self.own, PORT).into(), to).unwrap();
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
        let (head, payload, _) = self.next_of_class();
        (head, payload)
    }

    /// The same, and its type of service.
    pub fn next_of_class(&self) -> (Head, Vec<u8>, u8) {
        let (mut bytes, mut beside) = ([0_u8; 8192], [0_u64; 16]);
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: made of integers and pointers, for which all zeroes is a value; what it points to lives
        // across the call. The kernel writes what the C library's functions read.
        let (length, class) = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            message.msg_control = beside.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&beside) as _;
            let length = libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0);
            assert!(length > 0, "no packet comes");
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            assert_eq!((*header).cmsg_type, libc::IP_TOS);
            (length as usize, *libc::CMSG_DATA(header))
        };
        let packet = Packet::parse(&bytes[..length - ICRC_BYTES]).expect("no packet of RoCE");
        (packet.head(), packet.payload.to_vec(), class)
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
