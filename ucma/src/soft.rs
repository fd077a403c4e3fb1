//! The software device as the verbs show it: the same files that libibverbs is built of.

use std::net::Ipv6Addr;

use ironverbs_cm::Errno;
use ironverbs_cm::address::{Address, Gid};
use ironverbs_cm::world::Device;
use softrdma::host::environment;
use softrdma::host::network::Network;

use crate::route;

#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/provider/soft/gids.rs"]
mod gids;
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/provider/soft/guid.rs"]
mod guid;

/// What `ibv_get_device_index` answers for a device that is not the kernel's.
const NO_INDEX: u32 = u32::MAX;
/// The only port.
const PORT: u8 = 1;

/// GUID of the first software device, as on the wire.
pub fn node_guid() -> [u8; 8] {
    let names = environment::trusted("IRONVERBS_SOFT").unwrap_or_default();
    let names = names.to_string_lossy();
    let first = names.split(',').next().unwrap_or_default().trim();
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit());
    guid::guid(&guid::host(), if is_number { "soft0" } else { first }).to_be_bytes()
}

fn table() -> Vec<gids::Gid> {
    gids::table(Network::current())
}

/// The GIDs that name this host to other network namespaces.
pub fn public_gids() -> Vec<Gid> {
    table().into_iter().map(|entry| entry.raw).filter(is_public).collect()
}

/// Whether an address means the same in other network namespaces.
pub fn is_public(gid: &Gid) -> bool {
    let ip = Ipv6Addr::from(*gid);
    let v4 = ip.to_ipv4_mapped();
    !ip.is_loopback()
        && !ip.is_unicast_link_local()
        && !v4.is_some_and(|ip| ip.is_loopback() || ip.is_link_local())
}

/// The device with the first GID for which this holds.
fn with_gid(node_guid: [u8; 8], wanted: impl Fn(&gids::Gid) -> bool) -> Option<Device> {
    let table = table();
    let entry = table.iter().find(|entry| wanted(entry))?;
    let mtu = path_mtu(interface_mtu(&entry.ndev).unwrap_or(u32::MAX));
    let sgid_index = u8::try_from(entry.index).ok()?;
    Some(Device { node_guid, index: NO_INDEX, port: PORT, sgid_index, gid: entry.raw, mtu })
}

/// The device that has this GID.
pub fn of_gid(node_guid: [u8; 8], gid: &Gid) -> Option<Device> {
    with_gid(node_guid, |entry| entry.raw == *gid)
}

/// The device that has this local address.
///
/// # Errors
/// EADDRNOTAVAIL where it is none of the host's, as an IPv4 address in IPv6 never is; ENODEV where no device has
/// it; EINVAL for a link-local address without a scope.
pub fn of_address(node_guid: [u8; 8], address: &Address) -> Result<Device, Errno> {
    let gid = address.gid().ok_or(Errno::ENODEV)?;
    if let Address::V6(a) = address
        && a.ip().to_ipv4_mapped().is_some()
    {
        return Err(Errno::EADDRNOTAVAIL);
    }
    let nowhere = || if route::is_local(address) { Errno::ENODEV } else { Errno::EADDRNOTAVAIL };
    let is_link_local = gid[0] == 0xfe && gid[1] & 0xc0 == 0x80;
    if matches!(address, Address::V6(_)) && is_link_local {
        if address.scope() == 0 {
            return Err(Errno::EINVAL);
        }
        // Several interfaces may have the same; the table names one.
        return with_gid(node_guid, |entry| entry.raw == gid && entry.ifindex == address.scope())
            .ok_or(Errno::ENODEV);
    }
    of_gid(node_guid, &gid).ok_or_else(nowhere)
}

/// Whether two addresses are of the same interface.
pub fn on_one_interface(one: &Address, other: &Address) -> bool {
    let table = table();
    let interface = |address: &Address| {
        let gid = address.gid()?;
        table.iter().find(|entry| entry.raw == gid).map(|entry| entry.ifindex)
    };
    matches!((interface(one), interface(other)), (Some(one), Some(other)) if one == other)
}

/// The device as it reaches hosts that no interface leads to, other than by loopback: with its first address of
/// the family.
pub fn of_family(node_guid: [u8; 8], is_v4: bool) -> Option<Device> {
    with_gid(node_guid, |entry| {
        is_public(&entry.raw) && Ipv6Addr::from(entry.raw).to_ipv4_mapped().is_some() == is_v4
    })
}

/// The device as it reaches its own host, for loopback addresses: by their GID where the table has it, else by
/// the first address that it has.
pub fn of_loopback(node_guid: [u8; 8], address: &Address) -> Option<Device> {
    let own = address.gid().unwrap_or_default();
    with_gid(node_guid, |entry| entry.raw == own)
        .or_else(|| with_gid(node_guid, |entry| entry.raw[0] != 0xfe))
        .or_else(|| with_gid(node_guid, |_| true))
}

/// `enum ibv_mtu` for packets on an interface, less the headers that Linux reckons with.
fn path_mtu(interface: u32) -> u8 {
    match interface.saturating_sub(80) {
        4096.. => 5,
        2048.. => 4,
        1024.. => 3,
        512.. => 2,
        _ => 1,
    }
}

fn interface_mtu(name: &str) -> Option<u32> {
    std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_left_room_for() {
        let cases = [(65536, 5), (4200, 5), (4175, 4), (1500, 3), (1024, 2), (576, 1), (0, 1)];
        for (mtu, expected) in cases {
            assert_eq!(path_mtu(mtu), expected, "{mtu}");
        }
    }

    #[test]
    fn loopback_has_a_gid_always() {
        for address in ["127.0.0.1", "::1"] {
            let device = of_loopback([1; 8], &Address::ip(address.parse().unwrap(), 0)).unwrap();
            assert_eq!(of_gid([1; 8], &device.gid), Some(device));
        }
    }
}
