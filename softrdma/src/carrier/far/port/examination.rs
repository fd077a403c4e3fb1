//! What a host has for the network, looked at without taking a place.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use ironverbs_os::error::Error;

use super::error::PortError;
use super::flow::{Flow, NAME, name};
use super::number::asked_for;
use super::options::Options;
use super::receive::{Inbox, Segment};
use super::send::{Outbox, Packet, Piece};
use super::set::{COMMON, place_of, prepare};
use super::share::{PATIENCE, Shared, poll};
use super::socket::{SmallRoom, Socket};

/// What was found.
#[derive(Debug)]
pub struct Examination {
    /// Less room for packets that wait than there should be.
    pub small_room: Option<SmallRoom>,
    /// Whether packets of one message leave by one call (`UDP_SEGMENT`).
    pub trains: bool,
    /// Of packets that left by one call, how many came as they were sent; where not all did.
    pub cut: Option<Cut>,
}

/// Packets that did not come as they left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Sent.
    pub sent: usize,
    /// Came, as they were.
    pub whole: usize,
    /// Came otherwise: of another length, or with other bytes.
    pub other: usize,
}

/// Looks whether a process would have the port, and how packets leave and come here: some go to this host
/// itself, by the loopback interface and a port of their own.
///
/// # Errors
/// Why the port is not to be had.
pub fn examine() -> Result<Examination, PortError> {
    asked_for().ok_or(PortError::NotAPort)?;
    let options = Options::default();
    let [common] = Shared::join(options)?.take([COMMON])?;
    let common = Socket::adopt(common, COMMON, options)?;
    let cut = send_to_itself(options)?;
    Ok(Examination { small_room: common.small_room(), trains: common.sends_trains(), cut })
}

/// Packets of the self-test, and bytes of each but the last.
const PACKETS: usize = 8;
const LENGTH: usize = 1000;

/// Sends a train to this host, and compares what comes.
fn send_to_itself(options: Options) -> Result<Option<Cut>, PortError> {
    let (sender, receiver) = (fresh(options)?, fresh(options)?);
    let here = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let destination_port = bind(receiver.as_raw_fd(), here)?;
    let flow = Flow {
        source: here,
        destination: here,
        source_port: 0,
        destination_port,
        interface: 0,
        traffic_class: 0,
        hop_limit: 0,
        label: 0,
    };
    let (sender, receiver) =
        (Socket::adopt(sender, COMMON, options)?, Socket::adopt(receiver, COMMON, options)?);
    let packets: [[u8; LENGTH]; PACKETS] = std::array::from_fn(packet);
    let pieces: [_; PACKETS] = std::array::from_fn(|nth| [Piece::of(&packets[nth][..length(nth) - SEAL])]);
    let trains = pieces.each_ref().map(|pieces| Packet(pieces));
    let no_memory = |_| PortError::Os(Error { call: "mmap", errno: libc::ENOMEM });
    let (mut outbox, mut inbox) = (Outbox::new().map_err(no_memory)?, Inbox::new().map_err(no_memory)?);
    let sent = outbox.send(&sender, &flow, &trains, |nth, _| seal(nth)).packets;
    let (mut whole, mut other) = (0, 0);
    while whole + other < sent && poll(receiver.raw(), PATIENCE)? {
        let received = inbox.receive(&receiver, |_, all| {
            for Segment { bytes, .. } in all {
                let expected = packets.get(whole).is_some_and(|packet| packet[..length(whole)] == **bytes);
                *if expected { &mut whole } else { &mut other } += 1;
            }
        });
        if received.is_ok_and(|received| received.packets == 0) {
            other += 1;
        }
    }
    let is_as_sent = sent == PACKETS && whole == sent && other == 0;
    Ok((!is_as_sent).then_some(Cut { sent, whole, other }))
}

/// Bytes at the end of a packet that are made as it leaves.
const SEAL: usize = 4;

fn seal(nth: usize) -> [u8; SEAL] {
    [nth as u8; SEAL]
}

/// One of the self-test: to no queue pair in particular.
fn packet(nth: usize) -> [u8; LENGTH] {
    let mut bytes: [u8; LENGTH] = std::array::from_fn(|at| (at * 31 + nth * 7) as u8);
    bytes[..8].fill(0);
    bytes[length(nth) - SEAL..][..SEAL].copy_from_slice(&seal(nth));
    debug_assert_eq!(place_of(&bytes), COMMON);
    bytes
}

/// How much of it leaves: the last one is shorter than the others.
fn length(nth: usize) -> usize {
    if nth + 1 == PACKETS { LENGTH / 2 } else { LENGTH }
}

/// Binds a socket to this address, and says at which port it is.
fn bind(socket: RawFd, address: Ipv6Addr) -> Result<u16, Error> {
    let (mut name, mut length) = (name(address, 0, 0), NAME);
    // SAFETY: the kernel reads an address of the length given, and writes one where there is room for it.
    unsafe {
        if libc::bind(socket, (&raw const name).cast(), NAME) != 0 {
            return Err(Error::last("bind"));
        }
        if libc::getsockname(socket, (&raw mut name).cast(), &raw mut length) != 0 {
            return Err(Error::last("getsockname"));
        }
    }
    Ok(u16::from_be(name.sin6_port))
}

fn fresh(options: Options) -> Result<OwnedFd, PortError> {
    let made = socket(AddressFamily::Inet6, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|_| Error::last("socket"))?;
    prepare(made.as_raw_fd(), options)?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_to_this_host_comes_as_it_was() {
        for trains in [true, false] {
            for coalesce in [true, false] {
                let options = Options { trains, coalesce, ..Options::default() };
                assert_eq!(send_to_itself(options).unwrap(), None, "{options:?}");
            }
        }
    }
}
