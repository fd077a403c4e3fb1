//! What comes for multicast groups.
//!
//! Of a packet to a group the kernel gives a copy to each socket that has joined it, and asks no program for
//! one. So each process that is in groups has a socket more, which joins them. It has the port and address of
//! the set, and comes behind that in the kernel's order: it can end with its process, groups and all, and no
//! index means it.

use std::mem::size_of;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, RawFd};

use ironverbs_os::error::{Error, Result};

use super::options::Options;
use super::set;
use super::socket::Socket;

/// The place of such a socket, which no packet's number leads to.
pub const GROUPS: u16 = set::COMMON + 1;

/// Makes the socket, which is in no group yet.
///
/// # Errors
/// Those of the system calls.
pub fn open(options: Options) -> Result<Socket> {
    Socket::adopt(set::make_for_groups(options)?, GROUPS, options)
}

/// Joins a group at an interface; `false` where there is none of this index.
///
/// # Errors
/// `ENOBUFS` at the limit (`net.ipv4.igmp_max_memberships`), and others of the system call.
pub fn join(socket: &Socket, group: Ipv6Addr, interface: u32) -> Result<bool> {
    match membership(socket, group, interface, [libc::IP_ADD_MEMBERSHIP, libc::IPV6_ADD_MEMBERSHIP]) {
        Ok(()) => Ok(true),
        Err(Error { errno: libc::EADDRINUSE, .. }) => Ok(true),
        Err(Error { errno: libc::ENODEV, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Leaves a group at an interface, where it is in it.
pub fn leave(socket: &Socket, group: Ipv6Addr, interface: u32) {
    let _ = membership(socket, group, interface, [libc::IP_DROP_MEMBERSHIP, libc::IPV6_DROP_MEMBERSHIP]);
}

fn membership(
    socket: &Socket,
    group: Ipv6Addr,
    interface: u32,
    [option_v4, option_v6]: [libc::c_int; 2],
) -> Result<()> {
    match group.to_ipv4_mapped() {
        Some(group) => {
            let request = libc::ip_mreqn {
                imr_multiaddr: libc::in_addr { s_addr: group.to_bits().to_be() },
                imr_address: libc::in_addr { s_addr: 0 },
                imr_ifindex: interface.cast_signed(),
            };
            ask(socket.raw(), libc::IPPROTO_IP, option_v4, &request)
        }
        None => {
            let request = libc::ipv6_mreq {
                ipv6mr_multiaddr: libc::in6_addr { s6_addr: group.octets() },
                ipv6mr_interface: interface,
            };
            ask(socket.raw(), libc::IPPROTO_IPV6, option_v6, &request)
        }
    }
}

fn ask<T>(socket: RawFd, level: libc::c_int, option: libc::c_int, request: &T) -> Result<()> {
    let (length, request) = (size_of::<T>() as libc::socklen_t, std::ptr::from_ref(request));
    // SAFETY: the kernel reads the struct, of the length given, which lives across the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, request.cast(), length) } {
        0 => Ok(()),
        _ => Err(Error::last("setsockopt")),
    }
}
