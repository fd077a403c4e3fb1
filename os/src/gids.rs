//! GIDs of the software device: RoCE v2 over the addresses of the host.
//!
//! | index | GID |
//! |---|---|
//! | 0 | link-local, of the first Ethernet interface; without one, of the host's identity |
//! | then | IPv4 addresses (`::ffff:a.b.c.d`) and other IPv6 addresses of that interface, then the next |
//! | then | link-local addresses of all interfaces that no GID is yet |
//! | 62 | 127.0.0.1 |
//! | 63 | ::1, where the loopback interface has it |
//!
//! Interfaces that are down have no GIDs, but for 127.0.0.1: a private network namespace still has a device to
//! work with, and connections to the own host have an address. Where nothing else is, it has index 1. Those of
//! the loopback interface keep their places whatever comes before them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::guid;
use crate::interfaces::{Interface, in_order, interfaces};
use crate::network::Network;

/// Places in the table; addresses beyond are left out.
pub const TABLE_LENGTH: u32 = 64;

/// How long a table is not looked up again.
const FRESH: Duration = Duration::from_millis(100);

/// The place of 127.0.0.1, and that of ::1.
const LOOPBACK: [u32; 2] = [TABLE_LENGTH - 2, TABLE_LENGTH - 1];

/// One place of the table that is not empty. All are of the type RoCE v2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Its place.
    pub index: u32,
    /// In network byte order.
    pub raw: [u8; 16],
    /// Name of the network interface behind it.
    pub ndev: String,
    /// Its index; 0 if there is none.
    pub ifindex: u32,
}

/// The table as the host's addresses are now, without empty places; as they were when the kernel told last,
/// where it does not tell now: a process without free descriptors, for one.
///
/// Programs ask for one place after the other; they get the same table for a moment ([`FRESH`]).
///
/// It is that of `network`, the namespace of the device, and stays as it is when a thread asks that has gone to
/// another one.
pub fn table(network: Option<Network>) -> Vec<Gid> {
    table_within(network, FRESH)
}

/// The same, looked up now.
pub fn table_anew(network: Option<Network>) -> Vec<Gid> {
    table_within(network, Duration::ZERO)
}

/// The same, to be kept by the caller: None where the kernel does not tell now, or the thread is in another
/// namespace.
pub fn table_told(network: Option<Network>) -> Option<Vec<Gid>> {
    let all = if Network::current() == network { interfaces() } else { None };
    all.map(|all| from_interfaces(all, guid::interface_identifier))
}

/// The table, not older than that where the kernel tells.
fn table_within(network: Option<Network>, age: Duration) -> Vec<Gid> {
    static LAST: Mutex<Last> = Mutex::new((None, None));
    let look = || if Network::current() == network { interfaces() } else { None };
    // Never waits: a child of a fork may find it locked by a thread that it does not have.
    match LAST.try_lock() {
        Ok(mut last) => {
            // A device that was opened before, or a parent's, may have been in another one.
            if last.0 != network {
                *last = (network, None);
            }
            table_after(&mut last.1, age, look)
        }
        Err(_) => table_after(&mut None, age, look),
    }
}

/// The table that was read last and when, and for which network namespace.
type Last = (Option<Network>, Read);
/// When it was read.
type Read = Option<(Instant, Vec<Gid>)>;

fn table_after(last: &mut Read, age: Duration, look: impl FnOnce() -> Option<Vec<Interface>>) -> Vec<Gid> {
    if let Some((read, table)) = last
        && read.elapsed() < age
    {
        return table.clone();
    }
    let found = look();
    if let (None, Some((_, table))) = (&found, &last) {
        return table.clone();
    }
    let known = found.is_some();
    let table = from_interfaces(found.unwrap_or_default(), guid::interface_identifier);
    if known {
        *last = Some((Instant::now(), table.clone()));
    }
    table
}

fn from_interfaces(mut all: Vec<Interface>, identifier: impl Fn() -> u64) -> Vec<Gid> {
    let lo = all.iter_mut().find(|interface| interface.loopback).map(std::mem::take);
    let lo = lo.unwrap_or_else(|| Interface { name: "lo".to_owned(), ..Default::default() });
    let others = in_order(all);
    let first = others.first().unwrap_or(&lo);
    let identifier = first.ethernet.map_or_else(identifier, eui64);
    let link_local = Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(identifier));
    let mut gids = Vec::new();
    add(&mut gids, None, link_local, first);
    for interface in &others {
        let v4 = interface.v4.iter().map(Ipv4Addr::to_ipv6_mapped);
        for address in v4.chain(interface.v6.iter().copied()) {
            add(&mut gids, None, address, interface);
        }
    }
    for interface in &others {
        for address in &interface.link_local {
            add(&mut gids, None, *address, interface);
        }
    }
    let place = (gids.len() > 1).then_some(LOOPBACK[0]);
    add(&mut gids, place, Ipv4Addr::LOCALHOST.to_ipv6_mapped(), &lo);
    if lo.v6.contains(&Ipv6Addr::LOCALHOST) {
        add(&mut gids, Some(LOOPBACK[1]), Ipv6Addr::LOCALHOST, &lo);
    }
    gids
}

/// Adds an address to a table that does not have it, in the next place that is free unless one is named.
#[expect(clippy::disallowed_methods, reason = "at most TABLE_LENGTH")]
fn add(gids: &mut Vec<Gid>, place: Option<u32>, address: Ipv6Addr, interface: &Interface) {
    let (raw, next) = (address.octets(), gids.len() as u32);
    if (place.is_some() || next < LOOPBACK[0]) && gids.iter().all(|known| known.raw != raw) {
        let (ndev, ifindex) = (interface.name.clone(), interface.index);
        gids.push(Gid { index: place.unwrap_or(next), raw, ndev, ifindex });
    }
}

/// The interface identifier that belongs to a machine address.
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(name: &str, index: u32, last: u8, v4: &[[u8; 4]]) -> Interface {
        Interface {
            name: name.to_owned(),
            index,
            up: true,
            ethernet: Some([0x02, 0xfc, 0, 0, 0, last]),
            v4: v4.iter().map(|address| Ipv4Addr::from(*address)).collect(),
            ..Default::default()
        }
    }

    fn lo(up: bool) -> Interface {
        let v4 = if up { vec![Ipv4Addr::LOCALHOST] } else { Vec::new() };
        let v6 = if up { vec![Ipv6Addr::LOCALHOST] } else { Vec::new() };
        Interface {
            name: "lo".to_owned(),
            index: 1,
            up,
            loopback: true,
            ethernet: None,
            v4,
            v6,
            link_local: Vec::new(),
        }
    }

    fn addresses(gids: &[Gid]) -> Vec<String> {
        gids.iter().map(|gid| format!("{} {} {}", gid.index, Ipv6Addr::from(gid.raw), gid.ndev)).collect()
    }

    #[test]
    fn the_first_ethernet_interface_comes_first() {
        let mut eth0 = ethernet("eth0", 4, 1, &[[192, 0, 2, 2]]);
        eth0.v6 = vec!["fd00::2".parse().unwrap()];
        let mut down = ethernet("ifb0", 2, 9, &[]);
        down.up = false;
        let tunnel = Interface { ethernet: None, ..ethernet("tun0", 3, 7, &[[10, 0, 0, 1]]) };
        let all = vec![
            lo(true),
            down,
            ethernet("br0", 1, 8, &[]),
            tunnel,
            eth0,
            ethernet("eth1", 5, 2, &[[192, 0, 2, 2]]),
        ];
        let gids = from_interfaces(all, || unreachable!());
        assert_eq!(
            addresses(&gids),
            [
                "0 fe80::fc:ff:fe00:1 eth0",
                "1 ::ffff:192.0.2.2 eth0",
                "2 fd00::2 eth0",
                "3 ::ffff:10.0.0.1 tun0",
                "62 ::ffff:127.0.0.1 lo",
                "63 ::1 lo"
            ]
        );
        assert_eq!(gids[0].ifindex, 4);
    }

    #[test]
    fn link_local_addresses_of_all_interfaces_come_last() {
        let own = |last: u16| vec![Ipv6Addr::new(0xfe80, 0, 0, 0, 0xfc, 0xff, 0xfe00, last)];
        let mut eth0 = ethernet("eth0", 2, 1, &[[192, 0, 2, 2]]);
        let mut eth1 = ethernet("eth1", 3, 2, &[[192, 0, 2, 3]]);
        (eth0.link_local, eth1.link_local) = (own(1), own(2));
        // The same on another link is no second GID.
        let eth2 = Interface { link_local: own(2), ..ethernet("eth2", 4, 3, &[]) };
        let gids = from_interfaces(vec![eth0, eth1, eth2], || unreachable!());
        assert_eq!(
            addresses(&gids),
            [
                "0 fe80::fc:ff:fe00:1 eth0",
                "1 ::ffff:192.0.2.2 eth0",
                "2 ::ffff:192.0.2.3 eth1",
                "3 fe80::fc:ff:fe00:2 eth1",
                "62 ::ffff:127.0.0.1 lo"
            ]
        );
    }

    #[test]
    fn loopback_alone_is_enough_up_or_down_or_unknown() {
        for (all, has_v6) in [(vec![lo(true)], true), (vec![lo(false)], false), (vec![], false)] {
            let gids = from_interfaces(all, || 0x0212_3456_789a_bcde);
            let addresses = addresses(&gids);
            assert_eq!(addresses[..2], ["0 fe80::212:3456:789a:bcde lo", "1 ::ffff:127.0.0.1 lo"]);
            assert_eq!(addresses[2..], ["63 ::1 lo"][..has_v6.into()]);
        }
    }

    #[test]
    fn an_interface_without_an_address_still_names_the_host() {
        let gids = from_interfaces(vec![lo(true), ethernet("eth0", 2, 3, &[])], || unreachable!());
        assert_eq!(addresses(&gids), ["0 fe80::fc:ff:fe00:3 eth0", "1 ::ffff:127.0.0.1 lo", "63 ::1 lo"]);
    }

    #[test]
    fn the_table_has_an_end() {
        let many: Vec<_> = (0..200).map(|last| [10, 0, 0, last]).collect();
        let gids = from_interfaces(vec![ethernet("eth0", 2, 3, &many), lo(true)], || unreachable!());
        assert_eq!(gids.len(), TABLE_LENGTH as usize);
        assert_eq!(addresses(&gids)[62..], ["62 ::ffff:127.0.0.1 lo", "63 ::1 lo"]);
    }

    #[test]
    fn a_look_that_fails_changes_nothing() {
        let eth0 = || Some(vec![ethernet("eth0", 2, 3, &[[192, 0, 2, 2]])]);
        let aged = |last: &mut Read| last.as_mut().unwrap().0 -= 2 * FRESH;
        let mut last = None;
        assert_eq!(table_after(&mut last, FRESH, || None).len(), 2);
        let known = table_after(&mut last, FRESH, eth0);
        assert_eq!(addresses(&known)[..2], ["0 fe80::fc:ff:fe00:3 eth0", "1 ::ffff:192.0.2.2 eth0"]);
        aged(&mut last);
        assert_eq!(table_after(&mut last, FRESH, || None), known);
        assert_eq!(table_after(&mut last, FRESH, || Some(vec![lo(true)])).len(), 3);
        aged(&mut last);
        assert_eq!(table_after(&mut last, FRESH, eth0), known);
        assert_eq!(table_after(&mut last, FRESH, || Some(vec![lo(true)])), known);
        assert_eq!(table_after(&mut last, Duration::ZERO, || Some(vec![lo(true)])).len(), 3);
    }

    #[test]
    fn this_host_has_a_table() {
        let gids = table(Network::current());
        assert_eq!(gids[0].raw[..2], [0xfe, 0x80]);
        let loopback = Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        assert!(gids.iter().any(|gid| gid.raw == loopback));
        assert!(gids.len() > 1 && gids.iter().all(|gid| gid.raw != [0; 16] && !gid.ndev.is_empty()));
    }
}
