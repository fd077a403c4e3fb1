//! The addresses at which a process is found, in the first page of its segment.
//!
//! Words, in native byte order:
//!
//! | word | meaning |
//! |---|---|
//! | 0, 1 | the network namespace of the process ([`Network::words`]) |
//! | 2 and on | [`PLACES`] places of three words |
//!
//! A place is its state and the two halves of an address, as it travels. The state is 0 while the place is
//! free or being written, else a number that no other state of this table has had. Only the owner writes, and
//! what a place means changes only when a hundred addresses have come and gone: one that the owner has lost
//! stays, since what is connected by it goes on.
//!
//! A sender looks here once for each target that it talks to, and nothing of it is believed but that the owner
//! says so. To whom a message goes is the queue pair's number to say, which names one process of the folder:
//! an address that another process claims leads nobody there.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use ironverbs_os::growth::TryPush;

use ironverbs_os::network::Network;

/// Addresses in a table: all that a device has, and some that it had.
pub const PLACES: usize = 74;
/// Words of a table.
pub(super) const WORDS: usize = FIRST + PLACE * PLACES;
const FIRST: usize = 2;
const PLACE: usize = 3;

fn halves(address: &[u8; 16]) -> [u64; 2] {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    first.copy_from_slice(&address[..8]);
    second.copy_from_slice(&address[8..]);
    [u64::from_ne_bytes(first), u64::from_ne_bytes(second)]
}

/// The address of every process of a folder: the one that has the queue pair of a number is found by that.
pub(crate) const EVERYBODY: [u8; 16] = [0; 16];

/// Whether an address is a group's: IPv6, or IPv4 in IPv6.
pub(crate) fn is_group(gid: &[u8; 16]) -> bool {
    let ipv4 = gid[..10].iter().all(|byte| *byte == 0) && gid[10..12] == [0xff, 0xff];
    gid[0] == 0xff || ipv4 && (224..240).contains(&gid[12])
}

/// Whether a group's address has the scope of one interface (RFC 4291, 2.7), which no other namespace shares.
pub(crate) fn is_interface_local(gid: &[u8; 16]) -> bool {
    gid[0] == 0xff && gid[1] & 0xf == 1
}

/// Whether an address means something within one network namespace alone: that of the loopback interface, and
/// those of one link, which other namespaces may have as well.
#[must_use]
pub fn is_local(address: &[u8; 16]) -> bool {
    let address = Ipv6Addr::from(*address);
    let v4 = address.to_ipv4_mapped();
    address.is_loopback()
        || address.segments()[0] & 0xffc0 == 0xfe80
        || v4.is_some_and(|v4| v4.is_loopback() || v4.is_link_local())
}

/// Another process's table, as its words stand there.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a>(&'a [AtomicU64]);

impl<'a> Table<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        Table(words)
    }

    /// Whether the process says that it is in this network namespace.
    #[must_use]
    pub fn is_in(&self, network: Network) -> bool {
        let [first, second, ..] = self.0 else { return false };
        network.is([first.load(Ordering::Acquire), second.load(Ordering::Acquire)])
    }

    /// Whether the process says that it has this address, or had it.
    #[must_use]
    pub fn has(&self, address: &[u8; 16]) -> bool {
        let halves = halves(address);
        let places = self.0.get(FIRST..).unwrap_or_default().chunks_exact(PLACE);
        places.into_iter().any(|place| {
            let state = place[0].load(Ordering::Acquire);
            state != 0
                && place[1].load(Ordering::Acquire) == halves[0]
                && place[2].load(Ordering::Acquire) == halves[1]
                // A place that was written meanwhile has another state.
                && place[0].load(Ordering::Relaxed) == state
        })
    }

    /// All addresses that the process says it has, or had. For who looks from outside.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn all(&self) -> Vec<[u8; 16]> {
        let places = self.0.get(FIRST..).unwrap_or_default().chunks_exact(PLACE);
        let address = |place: &[AtomicU64]| {
            let state = place[0].load(Ordering::Acquire);
            let halves = [place[1].load(Ordering::Acquire), place[2].load(Ordering::Acquire)];
            let is_whole = state != 0 && place[0].load(Ordering::Relaxed) == state;
            let mut address = [0; 16];
            address.copy_from_slice(halves.map(u64::to_ne_bytes).as_flattened());
            is_whole.then_some(address)
        };
        places.filter_map(address).collect()
    }
}

/// What the owner knows of its addresses, whatever others write into its segment.
#[derive(Debug)]
pub struct Own {
    network: Option<Network>,
    places: Vec<Place>,
    /// The state that was given last.
    last: u64,
}

#[derive(Debug)]
struct Place {
    address: [u8; 16],
    /// When it was written, by [`Own::last`].
    state: u64,
    /// The host has it now.
    is_there: bool,
}

impl Own {
    /// No addresses yet, of a process in this network namespace.
    #[must_use]
    pub fn new(network: Option<Network>) -> Self {
        Own { network, places: Vec::new(), last: 0 }
    }

    /// Whether this is one of the addresses, or was.
    #[must_use]
    pub fn has(&self, address: &[u8; 16]) -> bool {
        self.places.iter().any(|place| place.address == *address)
    }

    /// Takes these as the addresses that there are now, and shows them in the own table; tells whether others
    /// are there than before. One that is gone keeps its place until there is none left for a new one. What
    /// finds no place is left out, and so is what there is no memory for.
    pub fn set(&mut self, table: &[AtomicU64], addresses: &[[u8; 16]]) -> bool {
        for (word, value) in table.iter().zip(Network::words(self.network)) {
            word.store(value, Ordering::Release);
        }
        let mut changed = false;
        for place in &mut self.places {
            let is_there = addresses.contains(&place.address);
            changed |= is_there != place.is_there;
            place.is_there = is_there;
        }
        for address in addresses {
            if !self.has(address) {
                changed |= self.add(table, address);
            }
        }
        changed
    }

    fn add(&mut self, table: &[AtomicU64], address: &[u8; 16]) -> bool {
        self.last += 1;
        let place = Place { address: *address, state: self.last, is_there: true };
        let index = if self.places.len() < PLACES && self.places.try_reserve(1).is_ok() {
            self.places.push_reserved(place);
            self.places.len() - 1
        } else {
            let gone = self.places.iter().enumerate().filter(|(_, place)| !place.is_there);
            let Some((index, _)) = gone.min_by_key(|(_, place)| place.state) else { return false };
            self.places[index] = place;
            index
        };
        if let Some([state, first, second]) = table.get(FIRST + PLACE * index..).and_then(|t| t.first_chunk())
        {
            let halves = halves(address);
            state.store(0, Ordering::SeqCst);
            first.store(halves[0], Ordering::Release);
            second.store(halves[1], Ordering::Release);
            state.store(self.last, Ordering::Release);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn numbered(n: u32) -> [u8; 16] {
        Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(n)).octets()
    }

    #[test]
    fn what_is_local_stays_in_its_namespace() {
        let local =
            ["::1", "::ffff:127.0.0.1", "::ffff:127.200.1.1", "fe80::1", "febf::1", "::ffff:169.254.3.4"];
        let others = ["::ffff:10.0.0.1", "::ffff:172.17.0.2", "fd00::1", "2001:db8::1", "fec0::1", "::2"];
        let is_local = |text: &str| is_local(&text.parse::<Ipv6Addr>().unwrap().octets());
        assert!(local.into_iter().all(is_local));
        assert!(!others.into_iter().any(is_local));
    }

    #[test]
    fn an_address_that_the_host_loses_is_still_the_devices() {
        let table = words();
        let mut own = Own::new(Network::current());
        assert!(own.set(&table, &[[1; 16], [2; 16]]));
        assert!(!own.set(&table, &[[2; 16], [1; 16]]));
        assert!(own.set(&table, &[[1; 16]]));
        let seen = Table::new(&table);
        for address in [[1; 16], [2; 16]] {
            assert!(own.has(&address) && seen.has(&address));
        }
        assert_eq!(seen.all(), [[1; 16], [2; 16]]);
        assert!(!own.has(&[3; 16]) && !seen.has(&[3; 16]) && !seen.has(&[0; 16]));
        assert!(own.set(&table, &[[3; 16]]) && own.set(&table, &[[1; 16]]));
        assert!(seen.has(&[2; 16]) && seen.has(&[3; 16]));
        assert!(seen.is_in(Network::current().unwrap()));
        assert!(!Table::new(&words()).is_in(Network::current().unwrap()));
    }

    #[test]
    fn those_that_are_there_drive_out_the_oldest_that_are_gone() {
        let table = words();
        let mut own = Own::new(None);
        let there: Vec<_> = (0..64).map(numbered).collect();
        own.set(&table, &there);
        let seen = Table::new(&table);
        for n in 64..1000 {
            let mut now = there.clone();
            now.push(numbered(n));
            assert!(own.set(&table, &now));
            assert!(now.iter().all(|address| seen.has(address) && own.has(address)));
            // The last nine are known still, and no others.
            let first_known = n.saturating_sub(9).max(64);
            assert!((64..=n).all(|old| seen.has(&numbered(old)) == (old >= first_known)), "{n}");
        }
        let many: Vec<_> = (0..200).map(numbered).collect();
        own.set(&table, &many);
        assert_eq!((0..200).filter(|n| seen.has(&numbered(*n))).count(), PLACES);
        assert!(Network::current().is_some_and(|network| !seen.is_in(network)));
    }

    #[test]
    fn a_reader_beside_the_owner_sees_no_address_that_never_was() {
        let (table, mut own) = (words(), Own::new(None));
        let fills: Vec<_> = (0..73).map(numbered).collect();
        // One half of each: an address that never was.
        let (left, right) = ([[7; 8], [7; 8]].concat(), [[9; 8], [9; 8]].concat());
        let mixed = [[[7; 8], [9; 8]].concat(), [[9; 8], [7; 8]].concat()];
        let of = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).unwrap();
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..20_000 {
                    for address in [&left, &right] {
                        let mut now = fills.clone();
                        now.push(of(address));
                        own.set(&table, &now);
                    }
                }
                ends.store(true, Ordering::Relaxed);
            });
            while !ends.load(Ordering::Relaxed) {
                assert!(mixed.iter().all(|address| !Table::new(&table).has(&of(address))));
            }
        });
    }

    #[test]
    fn whatever_stands_in_a_table_is_an_address_or_none() {
        for fill in [0, 1, u64::MAX] {
            let table = words();
            table.iter().for_each(|word| word.store(fill, Ordering::Relaxed));
            for len in [0, 1, 2, 3, 4, 5, WORDS] {
                let seen = Table::new(&table[..len]);
                let all = [fill.to_ne_bytes(), fill.to_ne_bytes()].concat();
                assert_eq!(seen.has(&<[u8; 16]>::try_from(&all[..]).unwrap()), fill != 0 && len >= 5);
                assert!(!seen.has(&[2; 16]) && !seen.is_in(Network::current().unwrap()));
            }
        }
    }
}
