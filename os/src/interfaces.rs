//! The network interfaces of the host, with their addresses.

use core::ffi::CStr;
use std::collections::TryReserveError;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::growth::{TryPush, try_collect};

/// A network interface as far as GIDs and GUIDs go.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) up: bool,
    pub(crate) loopback: bool,
    /// Its machine address, of an Ethernet interface.
    pub(crate) ethernet: Option<[u8; 6]>,
    pub(crate) v4: Vec<Ipv4Addr>,
    pub(crate) v6: Vec<Ipv6Addr>,
    pub(crate) link_local: Vec<Ipv6Addr>,
}

/// The host's interfaces with their addresses; None where the kernel does not tell, or there is no memory for
/// them.
pub(crate) fn interfaces() -> Option<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: there is room for the pointer that is written.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    // SAFETY: getifaddrs gave a list that lives until freeifaddrs.
    let found = unsafe { from_addresses(first) };
    // SAFETY: the list came from getifaddrs, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// `first` is a list of getifaddrs.
unsafe fn from_addresses(first: *const libc::ifaddrs) -> Option<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    let mut next = first;
    // SAFETY: the list ends with NULL; each name is NUL-terminated.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let Ok(text) = name.to_str() else { continue };
        // An alias such as `eth0:1` is its interface under another name.
        let text = text.split(':').next().unwrap_or(text);
        let place = match found.iter().position(|interface| interface.name == text) {
            Some(place) => place,
            None => {
                let name = String::from_utf8(try_collect(text.bytes()).ok()?).ok()?;
                found.try_push(Interface { name, ..Default::default() }).ok()?;
                found.len() - 1
            }
        };
        let interface = &mut found[place];
        let flag = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        interface.up |= flag(libc::IFF_UP);
        interface.loopback |= flag(libc::IFF_LOOPBACK);
        // SAFETY: an address is NULL or has the size that its family says.
        unsafe { add_address(interface, entry.ifa_addr) }.ok()?;
    }
    Some(found)
}

/// # Safety
/// `address` is null or a socket address of the size that its family says.
unsafe fn add_address(
    interface: &mut Interface,
    address: *const libc::sockaddr,
) -> Result<(), TryReserveError> {
    if address.is_null() {
        return Ok(());
    }
    // SAFETY: by the contract; reads need no alignment.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_PACKET => {
                let link = address.cast::<libc::sockaddr_ll>().read_unaligned();
                interface.index = u32::try_from(link.sll_ifindex).unwrap_or(0);
                if link.sll_hatype == libc::ARPHRD_ETHER && link.sll_halen == 6 {
                    let [a, b, c, d, e, f, ..] = link.sll_addr;
                    interface.ethernet = Some([a, b, c, d, e, f]).filter(|address| *address != [0; 6]);
                }
            }
            libc::AF_INET => {
                let address = address.cast::<libc::sockaddr_in>().read_unaligned();
                interface.v4.try_push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)))?;
            }
            libc::AF_INET6 => {
                let address = address.cast::<libc::sockaddr_in6>().read_unaligned();
                let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
                // They follow all others, so that those keep their places.
                let is_link_local = address.is_unicast_link_local();
                let list = if is_link_local { &mut interface.link_local } else { &mut interface.v6 };
                list.try_push(address)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The machine address of the first Ethernet interface that is up.
pub(crate) fn first_ethernet_address() -> Option<[u8; 6]> {
    in_order(interfaces()?).into_iter().find_map(|interface| interface.ethernet)
}

/// Interfaces that may have GIDs, the first Ethernet interface with an address before the others.
pub(crate) fn in_order(mut interfaces: Vec<Interface>) -> Vec<Interface> {
    interfaces.retain(|interface| interface.up && !interface.loopback);
    // In place: a sort that keeps the order of equals needs memory.
    interfaces.sort_unstable_by_key(|interface| {
        let without_address = interface.v4.is_empty() && interface.v6.is_empty();
        (interface.ethernet.is_none(), without_address, interface.index)
    });
    interfaces
}
