//! The own addresses that are on the network: others send there, and no other address is theirs to name.

use std::collections::TryReserveError;
use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ironverbs_os::growth::{TryPush, try_room};

/// Addresses at most; others are not on the network.
pub(crate) const MOST: usize = 64;

/// An address, and the index of the network interface that has it.
type Address = (Ipv6Addr, u32);

/// See the module.
#[derive(Debug)]
pub(crate) struct Addresses(Mutex<Vec<Address>>);

impl Addresses {
    /// None yet.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn new() -> Result<Self, TryReserveError> {
        Ok(Self(Mutex::new(try_room(MOST)?)))
    }

    /// These are from now on.
    pub(crate) fn set(&self, addresses: impl Iterator<Item = ([u8; 16], u32)>) {
        let mut known = self.lock();
        known.clear();
        for (address, interface) in addresses.take(MOST) {
            known.push_reserved((address.into(), interface));
        }
    }

    /// Whether this is one.
    pub(crate) fn has(&self, address: Ipv6Addr) -> bool {
        self.lock().iter().any(|(own, _)| *own == address)
    }

    /// The interfaces that have an address of the same family as this one, each once, in `room`.
    pub(crate) fn interfaces<'a>(&self, like: Ipv6Addr, room: &'a mut [u32; MOST]) -> &'a [u32] {
        let known = self.lock();
        let is_v4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        let mut count = 0;
        for (address, interface) in known.iter() {
            if is_v4(*address) == is_v4(like) && !room[..count].contains(interface) {
                (room[count], count) = (*interface, count + 1);
            }
        }
        &room[..count]
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Address>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_set_last_are_on_the_network() {
        let gid = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let (one, other) = (gid("fd00::1"), gid("::ffff:10.0.0.1"));
        let addresses = Addresses::new().unwrap();
        assert!(!addresses.has(one) && !addresses.has(Ipv6Addr::UNSPECIFIED));
        addresses.set([(one.octets(), 2), (other.octets(), 3)].into_iter());
        assert!(addresses.has(one) && addresses.has(other));
        let mut room = [0; MOST];
        assert_eq!(addresses.interfaces(gid("::ffff:239.0.0.1"), &mut room), [3]);
        assert_eq!(addresses.interfaces(gid("ff02::1"), &mut room), [2]);
        addresses.set([(other.octets(), 3)].into_iter());
        assert!(!addresses.has(one) && addresses.has(other));
        addresses.set((0..1000).map(|_| (one.octets(), 1)));
        assert!(addresses.has(one));
        assert_eq!(addresses.interfaces(one, &mut room), [1]);
    }
}
