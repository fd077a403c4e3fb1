//! The way to an address, as the kernel's routing table has it.

use std::mem;
use std::os::fd::AsRawFd;

use ironverbs_cm::address::Address;
use zerocopy::IntoBytes;

use crate::abi::addresses;
use crate::sys::{self, checked};

/// The own address that packets to `destination` have, from `source` where that is given.
///
/// # Errors
/// Those of the routing table: ENETUNREACH, EHOSTUNREACH, EACCES and others; EINVAL of an address that is no IP
/// address.
pub fn source(source: Option<&Address>, destination: &Address) -> Result<Address, i32> {
    let family = match destination {
        Address::V4(_) => libc::AF_INET,
        Address::V6(_) => libc::AF_INET6,
        _ => return Err(libc::EINVAL),
    };
    // Datagrams: connecting sends nothing.
    let socket = sys::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC)?;
    let fd = socket.as_raw_fd();
    let call =
        |address: &Address, port, call: unsafe extern "C" fn(i32, *const libc::sockaddr, u32) -> i32| {
            let (storage, size) = addresses::write(&address.with_port(port));
            // SAFETY: the address is readable for its size.
            checked(unsafe { call(fd, storage.as_bytes().as_ptr().cast(), size.into()) })
        };
    if let Some(source) = source.filter(|source| source.family() == destination.family() && !source.is_zero())
    {
        call(source, 0, libc::bind)?;
    }
    // Any port but 0.
    call(destination, 9, libc::connect)?;
    // SAFETY: all zero bytes are a value of this plain struct.
    let mut found: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: there is room for an address of either family, and the size says how much.
    checked(unsafe { libc::getsockname(fd, (&raw mut found).cast(), &raw mut size) })?;
    // SAFETY: plain memory, of which every byte was set.
    let bytes: [u8; size_of::<libc::sockaddr_in6>()] = unsafe { mem::transmute(found) };
    drop(socket);
    match addresses::read(&bytes).0 {
        Address::Unspecified => Err(libc::ENETUNREACH),
        address => Ok(address.with_port(0)),
    }
}

/// Whether an address is the host's own; a native one counts as such.
pub fn is_local(address: &Address) -> bool {
    let leads_here = || source(Some(address), address).is_ok_and(|found| found.same_host(address));
    matches!(address, Address::Ib(_)) || !address.is_multicast() && leads_here()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_its_own_source() {
        let to = Address::ip("127.0.0.1".parse().unwrap(), 7471);
        assert_eq!(source(None, &to), Ok(to.with_port(0)));
        assert_eq!(source(Some(&to), &to), Ok(to.with_port(0)));
        assert_eq!(source(None, &Address::Unspecified), Err(libc::EINVAL));
    }
}
