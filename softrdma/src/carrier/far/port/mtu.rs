//! The largest RoCE MTU that goes through an interface.

use std::os::fd::{AsRawFd, RawFd};

use ironverbs_os::error::{Error, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Bytes of a packet beside its payload at most, as soft-RoCE counts them: with this an interface of 1500 bytes
/// has an MTU of 1024 on both sides.
const HEADERS: u32 = 80;
/// Payloads that RoCE packets may have.
const MTUS: [u32; 5] = [4096, 2048, 1024, 512, 256];

/// The largest RoCE MTU, in bytes, whose packets an interface of this MTU takes; `None` below 336.
#[must_use]
pub fn roce_mtu(interface: u32) -> Option<u32> {
    MTUS.into_iter().find(|mtu| mtu + HEADERS <= interface)
}

/// The MTU of an interface of the calling thread's network namespace, in bytes.
///
/// # Errors
/// `ENODEV` where there is none of this index; those of the other system calls.
pub fn interface_mtu(index: u32) -> Result<u32> {
    let any = socket(AddressFamily::Inet6, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|_| Error::last("socket"))?;
    // SAFETY: ifreq is made of integers and arrays of them, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index.cast_signed();
    ask(any.as_raw_fd(), libc::SIOCGIFNAME, &mut request)?;
    ask(any.as_raw_fd(), libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: the second request writes this field.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.max(0).cast_unsigned())
}

fn ask(socket: RawFd, what: libc::c_ulong, request: &mut libc::ifreq) -> Result<()> {
    // SAFETY: both requests read and write one ifreq.
    match unsafe { libc::ioctl(socket, what, &raw mut *request) } {
        0 => Ok(()),
        _ => Err(Error::last("ioctl")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fit_with_their_headers() {
        let all = [
            (335, None),
            (336, Some(256)),
            (591, Some(256)),
            (592, Some(512)),
            (1280, Some(1024)),
            (1500, Some(1024)),
            (2128, Some(2048)),
            (4175, Some(2048)),
            (4176, Some(4096)),
            (9000, Some(4096)),
            (65_536, Some(4096)),
            (u32::MAX, Some(4096)),
        ];
        for (interface, mtu) in all {
            assert_eq!(roce_mtu(interface), mtu, "{interface}");
        }
    }

    #[test]
    fn the_loopback_interface_has_an_mtu() {
        let mtu = interface_mtu(1).unwrap();
        assert!(mtu >= 1280, "{mtu}");
        assert_eq!(interface_mtu(u32::MAX >> 2), Err(Error { call: "ioctl", errno: libc::ENODEV }));
    }
}
