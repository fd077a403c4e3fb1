//! Processes that have the port, and tell what arrives.

use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};

use softrdma::testing::port::Port;
use softrdma::testing::port::error::PortError;
use softrdma::testing::port::flow::Flow;
use softrdma::testing::port::options::Options;
use softrdma::testing::port::receive::{Inbox, Received};
use softrdma::testing::port::socket::Socket;
use softrdma::wire::flow::ROCE_PORT;
use softrdma_testing::child::{begin, in_child};
use softrdma_testing::network::{go_apart, ip};
use softrdma_testing::processes::Words;

/// Said by a process that has the port, in the place of one.
pub const OPEN: u64 = 1000;
/// Said by one to which the kernel gave what was for another place.
pub const WRONG: u64 = 1002;
/// And by one that has not.
pub const FAILED: u64 = 1001;

/// Packets come from the test's own network namespace.
pub fn from_here() -> Options {
    Options { from_here: true, ..Options::default() }
}

/// Runs a test in a network namespace of its own.
pub fn apart(test: impl FnOnce()) {
    let status = in_child(|| {
        go_apart();
        ip("link set lo up");
        test();
    });
    assert_eq!(status, 0);
}

/// A BTH to a queue pair, with this behind.
pub fn packet(number: u32, behind: &[u8]) -> Vec<u8> {
    let mut packet = vec![4, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    packet[5..8].copy_from_slice(&number.to_be_bytes()[1..]);
    packet.extend(behind);
    packet
}

/// Waits until one of these is readable.
pub fn wait(fds: &[i32]) {
    let mut places: Vec<_> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: `places` is writable for its length.
    unsafe { libc::poll(places.as_mut_ptr(), places.len() as _, -1) };
}

/// All that is there now.
pub fn receive_all(inbox: &mut Inbox, socket: &Socket, mut tell: impl FnMut(&Flow, &[u8])) -> Received {
    let mut sum = Received::default();
    loop {
        let one = inbox
            .receive(socket, |flow, all| all.iter().for_each(|segment| tell(flow, segment.bytes)))
            .unwrap();
        sum.packets += one.packets;
        sum.passed += one.passed;
        sum.lost += one.lost;
        if one == Received::default() {
            return sum;
        }
    }
}

/// What a process tells of a packet.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Told {
    /// Slot of the process.
    pub slot: u64,
    /// Place of the socket.
    pub place: u64,
    /// The number of the queue pair that it is for.
    pub number: u64,
    /// The first byte behind the header.
    pub byte: u64,
}

/// Processes of a test.
pub struct Crew(Words);

impl Crew {
    pub fn new() -> Self {
        Crew(Words::new())
    }

    /// One that opens the port with this slot, says so, and tells what arrives until it is killed.
    pub fn begin(&self, slot: u16) -> libc::pid_t {
        self.begin_after(slot, || {})
    }

    /// The same, after something else.
    pub fn begin_after(&self, slot: u16, first: impl FnOnce()) -> libc::pid_t {
        begin(|| {
            first();
            match Port::open(slot, from_here()) {
                Ok(port) => self.serve(slot, &port),
                Err(error) => {
                    eprintln!("{error}");
                    self.tell(Told { slot: slot.into(), place: FAILED, number: 0, byte: 0 });
                    1
                }
            }
        })
    }

    fn tell(&self, told: Told) {
        self.0.put(1, &[told.slot, told.place, told.number, told.byte]);
    }

    fn serve(&self, slot: u16, port: &Port) -> ! {
        let slot = u64::from(slot);
        let mut inbox = Inbox::new().unwrap();
        self.tell(Told { slot, place: OPEN, number: 0, byte: 0 });
        loop {
            wait(&[port.door(), port.own().raw(), port.common().raw()]);
            let _ = port.admit();
            for socket in [port.own(), port.common()] {
                let received = receive_all(&mut inbox, socket, |_, bytes| {
                    let number = bytes
                        .get(5..8)
                        .map_or(0, |n| u64::from(n[0]) << 16 | u64::from(n[1]) << 8 | u64::from(n[2]));
                    let byte = bytes.get(12).map_or(0, |byte| u64::from(*byte));
                    self.tell(Told { slot, place: socket.place().into(), number, byte });
                });
                if received.passed + received.lost > 0 {
                    self.tell(Told { slot, place: WRONG, number: 0, byte: 0 });
                }
            }
        }
    }

    /// What is told next.
    pub fn told(&self) -> Told {
        let [slot, place, number, byte] = self.0.get(0);
        Told { slot, place, number, byte }
    }

    /// Begins these, and waits until they have the port, whatever comes first.
    pub fn begin_all(&self, slots: &[u16]) -> Vec<libc::pid_t> {
        let processes = slots.iter().map(|slot| self.begin(*slot)).collect();
        self.all_open(slots);
        processes
    }

    pub fn all_open(&self, slots: &[u16]) {
        let mut open: Vec<_> = slots.iter().map(|_| self.told()).collect();
        assert!(open.iter().all(|told| told.place == OPEN), "{open:?}");
        open.sort_unstable_by_key(|told| told.slot);
        let mut slots = slots.to_vec();
        slots.sort_unstable();
        assert_eq!(open.iter().map(|told| told.slot as u16).collect::<Vec<_>>(), slots);
    }
}

pub fn kill(process: libc::pid_t) {
    // SAFETY: plain system calls on an own child.
    unsafe {
        libc::kill(process, libc::SIGKILL);
        libc::waitpid(process, std::ptr::null_mut(), 0);
    }
}

/// Sends to the port of an address of this host, from any port.
pub fn send(to: &str, interface: u32, bytes: &[u8]) {
    let address: std::net::IpAddr = to.parse().unwrap();
    let address = match address {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        std::net::IpAddr::V6(v6) => v6,
    };
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    socket.send_to(bytes, SocketAddrV6::new(address, ROCE_PORT, 0, interface)).unwrap();
}

/// What opening the port gives, which has no port then.
pub fn refused(slot: u16) -> PortError {
    Port::open(slot, from_here()).expect_err("the port is had")
}
