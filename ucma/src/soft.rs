//! The software device as the verbs show it: GIDs and GUID come from where libibverbs has them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;

use ironverbs_cm::address::{Address, Gid};
use ironverbs_cm::world::{Device, NoDevice};
use ironverbs_os::environment;
use ironverbs_os::network::Network;
use ironverbs_os::{gids, guid};
use softrdma::device::Settings;
use softrdma::shm::named::Named;
use softrdma::shm::watch;

use crate::registry::room;
use crate::route;
use crate::shim::Kept;

/// What `ibv_get_device_index` answers for a device that is not the kernel's.
const NO_INDEX: u32 = u32::MAX;
/// The only port.
const PORT: u8 = 1;

/// A software device, and its GUID as on the wire.
pub type Known = (Named, [u8; 8]);

/// The software devices; one with all interfaces where the environment names none.
pub fn devices() -> Vec<Known> {
    let value = environment::trusted("IRONVERBS_SOFT").unwrap_or_default();
    let mut all = Named::all(&value).unwrap_or_default();
    if all.is_empty() {
        all.push(Named { name: "soft0".to_owned(), interfaces: Vec::new() });
    }
    let host = guid::host();
    let known = |named: Named| {
        let guid = guid::guid(&host, &named.name).to_be_bytes();
        (named, guid)
    };
    all.into_iter().map(known).collect()
}

/// Whether an address means the same in other network namespaces.
pub fn is_public(gid: &Gid) -> bool {
    let ip = Ipv6Addr::from(*gid);
    let v4 = ip.to_ipv4_mapped();
    !ip.is_loopback()
        && !ip.is_unicast_link_local()
        && !v4.is_some_and(|ip| ip.is_loopback() || ip.is_link_local())
}

/// The GIDs of one network namespace. They are looked up again when the kernel has told of a change, so that an
/// address is there with the call that gave it, and a connection does not ask for what it knows.
#[derive(Debug)]
pub struct Table {
    devices: Vec<Known>,
    network: Option<Network>,
    /// Where the kernel tells; none where the system has no such sockets for this process.
    changes: Option<Kept>,
    known: Option<Vec<gids::Gid>>,
    /// Of paths by the indices of interfaces.
    mtus: HashMap<u32, u8>,
}

impl Table {
    /// That of the calling thread's namespace, for these devices.
    pub fn new(devices: Vec<Known>) -> Table {
        let changes = watch::socket().ok().and_then(|socket| Kept::new(socket).ok());
        Table { devices, network: Network::current(), changes, known: None, mtus: HashMap::new() }
    }

    /// Looks the table up where it has changed.
    pub fn refresh(&mut self) {
        // Asked before the look: what changes after it is told of again.
        let told = self.changes.as_ref().is_none_or(|socket| watch::has_told(socket.as_raw_fd()));
        if told {
            (self.known, self.mtus) = (None, HashMap::new());
        }
        if self.known.is_none() && self.changes.is_some() {
            self.known = gids::table_told(self.network);
        }
    }

    fn entries(&mut self) -> Cow<'_, [gids::Gid]> {
        self.refresh();
        self.current()
    }

    fn current(&self) -> Cow<'_, [gids::Gid]> {
        match &self.known {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(gids::table(self.network)),
        }
    }

    /// The GIDs that name this host to other network namespaces.
    pub fn public_gids(&mut self) -> Vec<Gid> {
        self.entries().iter().map(|entry| entry.raw).filter(is_public).collect()
    }

    /// The device with the first GID for which this holds: the first device that has it.
    fn with_gid(&mut self, wanted: impl Fn(&gids::Gid) -> bool) -> Option<Device> {
        self.refresh();
        let (entry, node_guid) = self.devices.iter().find_map(|(named, guid)| {
            let known = self.current();
            if named.has_all() {
                return Some((known.iter().find(|entry| wanted(entry))?.clone(), *guid));
            }
            Some((named.table(known.into_owned()).into_iter().find(|entry| wanted(entry))?, *guid))
        })?;
        let read = || path_mtu(interface_mtu(&entry.ndev).unwrap_or(u32::MAX));
        let mtu = *self.mtus.entry(entry.ifindex).or_insert_with(read);
        let sgid_index = u8::try_from(entry.index).ok()?;
        Some(Device { node_guid, index: NO_INDEX, port: PORT, sgid_index, gid: entry.raw, mtu })
    }

    /// The device that has this GID.
    pub fn of_gid(&mut self, gid: &Gid) -> Option<Device> {
        self.with_gid(|entry| entry.raw == *gid)
    }

    /// The device that has this local address.
    ///
    /// # Errors
    /// As [`NoDevice`] says.
    pub fn of_address(&mut self, address: &Address) -> Result<Device, NoDevice> {
        let gid = address.gid().ok_or(NoDevice::NoneHasIt)?;
        if let Address::V6(a) = address
            && a.ip().to_ipv4_mapped().is_some()
        {
            return Err(NoDevice::NotLocal);
        }
        let nowhere = || if route::is_local(address) { NoDevice::NoneHasIt } else { NoDevice::NotLocal };
        let is_link_local = gid[0] == 0xfe && gid[1] & 0xc0 == 0x80;
        if matches!(address, Address::V6(_)) && is_link_local {
            // Several interfaces may have the same; the table names one.
            return self
                .with_gid(|entry| entry.raw == gid && entry.ifindex == address.scope())
                .ok_or(NoDevice::NoneHasIt);
        }
        self.of_gid(&gid).ok_or_else(nowhere)
    }

    /// Whether two addresses are of the same interface, by the table as it was [looked up](Table::refresh)
    /// last.
    pub fn on_one_interface(&self, one: &Address, other: &Address) -> bool {
        let table = self.current();
        let interface = |address: &Address| {
            let gid = address.gid()?;
            table.iter().find(|entry| entry.raw == gid).map(|entry| entry.ifindex)
        };
        matches!((interface(one), interface(other)), (Some(one), Some(other)) if one == other)
    }

    /// Whether an address of this host is on the network.
    pub fn is_on_network(&mut self, gid: &Gid) -> bool {
        self.entries().iter().any(|entry| entry.raw == *gid && Settings::is_on_network(*gid, &entry.ndev))
    }

    /// The index of the interface that has an address; 0 where none has.
    pub fn interface_index_of(&mut self, gid: &Gid) -> u32 {
        self.entries().iter().find(|entry| entry.raw == *gid).map_or(0, |entry| entry.ifindex)
    }

    /// The name of the interface that has a local address.
    pub fn interface_of(&mut self, address: &Address) -> Option<String> {
        let (gid, scope) = (address.gid()?, address.scope());
        let entries = self.entries();
        let entry =
            entries.iter().find(|entry| entry.raw == gid && (scope == 0 || entry.ifindex == scope))?;
        Some(entry.ndev.clone())
    }

    /// The device as it reaches hosts that no interface leads to, other than by loopback: with its first
    /// address of the family.
    pub fn of_family(&mut self, is_v4: bool) -> Option<Device> {
        self.with_gid(|entry| {
            is_public(&entry.raw) && Ipv6Addr::from(entry.raw).to_ipv4_mapped().is_some() == is_v4
        })
    }

    /// The device as it reaches its own host, for loopback addresses: by their GID where the table has it, else
    /// by the first address that it has.
    pub fn of_loopback(&mut self, address: &Address) -> Option<Device> {
        let own = address.gid().unwrap_or_default();
        self.with_gid(|entry| entry.raw == own)
            .or_else(|| self.with_gid(|entry| entry.raw[0] != 0xfe))
            .or_else(|| self.with_gid(|_| true))
    }
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
    room::setting(&format!("/sys/class/net/{name}/mtu")).ok()?.trim().parse().ok()
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
    #[ignore = "needs root"]
    fn an_address_is_there_with_the_call_that_gives_it() {
        let test = || {
            // SAFETY: plain system call; it is this thread alone that goes to another namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            let ip = |words: &str| {
                let status = std::process::Command::new("ip").args(words.split(' ')).status();
                assert!(status.unwrap().success(), "ip {words}");
            };
            ip("link add v0 type veth peer name v1");
            ip("link set v0 up");
            ip("link set v1 up");
            let mut table = Table::new(vec![(Named::default(), [1; 8])]);
            for last in 1..5 {
                let address = std::net::Ipv4Addr::new(192, 0, 2, last);
                let gid = address.to_ipv6_mapped().octets();
                assert_eq!(table.of_gid(&gid), None, "{address}");
                ip(&format!("address add {address}/24 dev v0"));
                assert_eq!(table.of_gid(&gid).map(|device| device.gid), Some(gid));
                ip(&format!("address del {address}/24 dev v0"));
                assert_eq!(table.of_gid(&gid), None, "{address} again");
            }
        };
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn loopback_has_a_gid_always() {
        for address in ["127.0.0.1", "::1"] {
            let mut table = Table::new(vec![(Named::default(), [1; 8])]);
            let device = table.of_loopback(&Address::ip(address.parse().unwrap(), 0)).unwrap();
            assert_eq!(table.of_gid(&device.gid), Some(device));
        }
    }
}
