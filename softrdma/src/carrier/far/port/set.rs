//! The sockets, and the program by which the kernel chooses one of them for a packet.

use std::mem::size_of;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ironverbs_os::error::{Error, Result};
use ironverbs_os::growth::{TryPush, try_room};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::control::{IPV6_FLOWINFO, UDP_GRO};
use super::flow::{LOOPBACK, NAME, name};
use super::number::udp_port;
use super::options::{Options, set};

/// The place of what is for no process in particular; places below it belong to processes, by their slots.
pub const COMMON: u16 = 64;
/// Sockets in a set.
pub const SOCKETS: usize = COMMON as usize + 1;

/// Bits of a queue pair's number below those of its process's slot.
const INDEX_BITS: u32 = 14;
/// Where the 32 bits begin of which the lower 24 are the destination queue pair's number (BTH), and what is
/// needed to read them.
const AT_NUMBER: u32 = 4;
const WITH_NUMBER: u32 = 8;
/// The last of the numbers that no queue pair has but the special ones.
const SPECIAL: u32 = 1;

/// Packets to groups are received that others have joined (`linux/in6.h`).
const IPV6_MULTICAST_ALL: libc::c_int = 29;
/// Packets without a checksum are received over IPv6, too (`linux/udp.h`).
const UDP_NO_CHECK6_RX: libc::c_int = 102;

/// The place of a packet: what [`PROGRAM`] says of it.
#[must_use]
pub fn place_of(packet: &[u8]) -> u16 {
    let number = packet
        .get(AT_NUMBER as usize..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |four| u32::from_be_bytes(*four) & 0xff_ffff);
    if number <= SPECIAL { COMMON } else { ((number >> INDEX_BITS) as u16).min(COMMON) }
}

const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Run by the kernel with the UDP payload of a packet, to choose a socket by its index. A load beyond the
/// packet would end it with 0, a process's place, so the length comes first.
const PROGRAM: [libc::sock_filter; 9] = [
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 6, WITH_NUMBER),
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, AT_NUMBER),
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xff_ffff),
    instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 3, SPECIAL),
    instruction(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, INDEX_BITS),
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, COMMON as u32),
    instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, COMMON as u32),
];

/// Run by the kernel over each packet of a socket: of those that come by the loopback interface it takes what
/// [`pass`](super::pass) has sent, and no other. The kernel says for a packet of IPv6 that it came by the
/// interface that has its destination, so that the flow does not show it.
const FILTER: [libc::sock_filter; 8] = [
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, ANCILLARY + INTERFACE),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 4, LOOPBACK),
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, ANCILLARY),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, libc::ETH_P_IP as u32),
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NETWORK + SOURCE),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, std::net::Ipv4Addr::LOCALHOST.to_bits()),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];
/// The same of a socket that joins groups, but that it takes nothing of this host at all: the kernel tells what
/// it gives back of what leaves.
const GROUP_FILTER: [libc::sock_filter; 6] = [
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, ANCILLARY + TYPE),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 3, 0, PACKET_LOOPBACK),
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, ANCILLARY + INTERFACE),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, LOOPBACK),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];
/// What the kernel knows beside a packet (`linux/filter.h`): its protocol there, its type and its interface.
const ANCILLARY: u32 = -0x1000_i32 as u32;
const TYPE: u32 = 4;
const INTERFACE: u32 = 8;
/// The type of what the kernel gives back of what leaves (`linux/if_packet.h`).
const PACKET_LOOPBACK: u32 = 5;
/// The header of IP, and the source address in it.
const NETWORK: u32 = -0x10_0000_i32 as u32;
const SOURCE: u32 = 12;

/// Makes the whole set, in its order.
///
/// The first socket is bound alone, which fails if anybody has the port, one that is about to end included, and
/// lets others join only then: so the indices begin with it.
///
/// # Errors
/// `EADDRINUSE` of `bind` where somebody has the port; those of the other system calls.
pub(super) fn make(options: Options) -> Result<Vec<OwnedFd>> {
    let mut sockets = try_room(SOCKETS).map_err(|_| Error { call: "socket", errno: libc::ENOMEM })?;
    for place in 0..SOCKETS {
        let made = fresh(options)?;
        let fd = made.as_raw_fd();
        if place > 0 {
            set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        if !options.from_here {
            attach(fd, libc::SO_ATTACH_FILTER, &mut FILTER.clone())?;
        }
        bind(fd)?;
        if place == 0 {
            set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        sockets.push_reserved(made);
    }
    if let Some(first) = sockets.first() {
        attach(first.as_raw_fd(), libc::SO_ATTACH_REUSEPORT_CBPF, &mut PROGRAM.clone())?;
    }
    Ok(sockets)
}

fn fresh(options: Options) -> Result<OwnedFd> {
    let made = socket(AddressFamily::Inet6, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|_| Error::last("socket"))?;
    prepare(made.as_raw_fd(), options)?;
    Ok(made)
}

/// Makes a socket that stands behind the set, to join groups.
///
/// # Errors
/// Those of the system calls.
pub(super) fn make_for_groups(options: Options) -> Result<OwnedFd> {
    let made = fresh(options)?;
    let fd = made.as_raw_fd();
    set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    if !options.from_here {
        attach(fd, libc::SO_ATTACH_FILTER, &mut GROUP_FILTER.clone())?;
    }
    bind(fd)?;
    Ok(made)
}

fn bind(socket: RawFd) -> Result<()> {
    let any = name(Ipv6Addr::UNSPECIFIED, udp_port(), 0);
    // SAFETY: the kernel reads an address of the length given.
    match unsafe { libc::bind(socket, (&raw const any).cast(), NAME) } {
        0 => Ok(()),
        _ => Err(Error::last("bind")),
    }
}

fn attach(socket: RawFd, option: libc::c_int, filter: &mut [libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel reads the struct and as many instructions as it says; both live across the call.
    let done = unsafe {
        let program = (&raw const program).cast();
        libc::setsockopt(socket, libc::SOL_SOCKET, option, program, length)
    };
    if done == 0 { Ok(()) } else { Err(Error::last("setsockopt")) }
}

/// What holds for all sockets of the set, and for all processes: an option belongs to the socket.
pub(super) fn prepare(socket: RawFd, options: Options) -> Result<()> {
    const IP: libc::c_int = libc::IPPROTO_IP;
    const IPV6: libc::c_int = libc::IPPROTO_IPV6;
    // IPv4, too.
    set(socket, IPV6, libc::IPV6_V6ONLY, 0)?;
    // No fragments, by which IPv4's identification is 0, as checksums of packets need it; and no path is
    // narrowed by what anybody says, since the MTU of a connection is agreed upon.
    set(socket, IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    set(socket, IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    // Where packets were sent to, of IPv4, too; what else of their headers a datagram's receiver is shown.
    set(socket, IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    set(socket, IPV6, libc::IPV6_RECVTCLASS, 1)?;
    set(socket, IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    set(socket, IPV6, IPV6_FLOWINFO, 1)?;
    set(socket, IP, libc::IP_RECVTOS, 1)?;
    set(socket, IP, libc::IP_RECVTTL, 1)?;
    // Of what goes to groups those alone get a copy that have joined them, and none on this host: processes of
    // the folder have theirs by shared memory. Linux before 4.20 gives copies of IPv6 to all.
    set(socket, IP, libc::IP_MULTICAST_ALL, 0)?;
    let _ = set(socket, IPV6, IPV6_MULTICAST_ALL, 0);
    set(socket, IP, libc::IP_MULTICAST_LOOP, 0)?;
    set(socket, IPV6, libc::IPV6_MULTICAST_LOOP, 0)?;
    // soft-RoCE and adapters send no checksum over IPv6, either: packets have one of their own.
    set(socket, libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)?;
    // As little as can be, until a process has the place: nobody reads what comes before.
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    if options.coalesce {
        // Linux before 5.0 gives packets one by one.
        let _ = set(socket, libc::IPPROTO_UDP, UDP_GRO, 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::near::number::{MAX_NUMBERED, number, place_of as process_of};

    fn packet(number: u32) -> [u8; 12] {
        let mut packet = [0xff; 12];
        packet[5..8].copy_from_slice(&number.to_be_bytes()[1..]);
        packet
    }

    #[test]
    fn numbers_lead_to_the_places_of_their_processes() {
        for slot in [0, 1, 63] {
            for index in [0, 1, MAX_NUMBERED - 1] {
                let number = number(slot, index);
                assert_eq!(process_of(number), Some((slot, index)));
                assert_eq!(place_of(&packet(number)), slot);
            }
        }
        for number in [0, 1, number(64, 0), number(1023, 5), 0xff_ffff] {
            assert_eq!(place_of(&packet(number)), COMMON, "{number:#x}");
        }
        assert_eq!((place_of(&[]), place_of(&packet(0x8000)[..7])), (COMMON, COMMON));
    }
}
