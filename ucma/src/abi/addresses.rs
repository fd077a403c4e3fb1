//! Socket addresses as they stand in commands and answers.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use ironverbs_cm::address::{Address, IbAddress};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::layout::{SockaddrIb, SockaddrIn, SockaddrIn6, Storage};

/// `AF_INET`, as it stands in addresses.
const AF_INET: u16 = libc::AF_INET as u16;
/// `AF_INET6`.
const AF_INET6: u16 = libc::AF_INET6 as u16;
/// `AF_IB`.
const AF_IB: u16 = libc::AF_IB as u16;

/// The address at the beginning of `bytes`, and the size of its family; [`Address::Unspecified`] and 0 where
/// the family is not known or its address does not fit.
pub fn read(bytes: &[u8]) -> (Address, usize) {
    let none = (Address::Unspecified, 0);
    let Ok((family, _)) = u16::read_from_prefix(bytes) else { return none };
    match family {
        AF_INET => SockaddrIn::read_from_prefix(bytes).map_or(none, |(found, _)| {
            let address = SocketAddrV4::new(Ipv4Addr::from(found.address), found.port.get());
            (Address::V4(address), size_of::<SockaddrIn>())
        }),
        AF_INET6 => SockaddrIn6::read_from_prefix(bytes).map_or(none, |(found, _)| {
            let address = Ipv6Addr::from(found.address);
            let address = SocketAddrV6::new(address, found.port.get(), found.flow.get(), found.scope);
            (Address::V6(address), size_of::<SockaddrIn6>())
        }),
        AF_IB => SockaddrIb::read_from_prefix(bytes).map_or(none, |(found, _)| {
            let address = IbAddress {
                pkey: found.pkey.get(),
                flow: found.flow.get(),
                gid: found.gid,
                service: found.service.get(),
                mask: found.mask.get(),
                scope: found.scope,
            };
            (Address::Ib(address), size_of::<SockaddrIb>())
        }),
        _ => none,
    }
}

/// The address as a program reads it, and its size; nothing and 0 of an unspecified one.
pub fn write(address: &Address) -> (Storage, u16) {
    let mut storage = Storage::new_zeroed();
    let place = storage.as_mut_bytes();
    let size = match address {
        Address::Unspecified => 0,
        Address::V4(from) => put(
            place,
            SockaddrIn {
                family: AF_INET,
                port: from.port().into(),
                address: from.ip().octets(),
                zero: [0; 8],
            },
        ),
        Address::V6(from) => put(place, in6(from)),
        Address::Ib(from) => put(
            place,
            SockaddrIb {
                family: AF_IB,
                pkey: from.pkey.into(),
                flow: from.flow.into(),
                gid: from.gid,
                service: from.service.into(),
                mask: from.mask.into(),
                scope: from.scope,
            },
        ),
    };
    (storage, size)
}

/// As [`write`] where there is room for IP addresses alone.
pub fn write_ip(address: &Address) -> SockaddrIn6 {
    let (storage, _) = write(address);
    match address {
        Address::V4(_) | Address::V6(_) => SockaddrIn6::read_from_prefix(storage.as_bytes())
            .map_or(SockaddrIn6::new_zeroed(), |(address, _)| address),
        _ => SockaddrIn6::new_zeroed(),
    }
}

fn in6(from: &SocketAddrV6) -> SockaddrIn6 {
    SockaddrIn6 {
        family: AF_INET6,
        port: from.port().into(),
        flow: from.flowinfo().into(),
        address: from.ip().octets(),
        scope: from.scope_id(),
    }
}

/// Writes a socket address to the beginning of `place`; its size.
fn put(place: &mut [u8], address: impl IntoBytes + zerocopy::Immutable) -> u16 {
    let bytes = address.as_bytes();
    place[..bytes.len()].copy_from_slice(bytes);
    bytes.len() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        let v6 = SocketAddrV6::new("fe80::1".parse().unwrap(), 7471, 5, 3);
        let ib = IbAddress { pkey: 0xffff, flow: 9, gid: [7; 16], service: 0x0106_1d2f, mask: !0, scope: 4 };
        let addresses = [
            (Address::V4("192.0.2.2:7471".parse().unwrap()), 16),
            (Address::V6(v6), 28),
            (Address::Ib(ib), 48),
            (Address::Unspecified, 0),
        ];
        for (address, size) in addresses {
            let (storage, written) = write(&address);
            assert_eq!(written, size);
            assert_eq!(read(storage.as_bytes()), (address, usize::from(size)));
            assert_eq!(read(&storage.as_bytes()[..usize::from(size).saturating_sub(1)]).1, 0);
        }
        let wire = write(&addresses[0].0).0;
        assert_eq!(wire.as_bytes()[..8], [2, 0, 0x1d, 0x2f, 192, 0, 2, 2]);
        assert_eq!(write_ip(&addresses[0].0).as_bytes()[..8], wire.as_bytes()[..8]);
        assert_eq!(write_ip(&addresses[2].0), SockaddrIn6::new_zeroed());
    }
}
