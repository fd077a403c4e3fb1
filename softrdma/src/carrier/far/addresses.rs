//! The own addresses that are on the network: others send there, and no other address is theirs to name.

use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses at most; others are not on the network.
const MOST: usize = 64;

/// An address, and the index of the network interface that has it.
type Address = (Ipv6Addr, u32);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<Known>);

#[derive(Debug)]
struct Known {
    all: [Address; MOST],
    count: usize,
}

impl Default for Known {
    fn default() -> Self {
        Self { all: [(Ipv6Addr::UNSPECIFIED, 0); MOST], count: 0 }
    }
}

impl Addresses {
    /// These are from now on.
    pub(crate) fn set(&self, addresses: impl Iterator<Item = ([u8; 16], u32)>) {
        let mut known = self.lock();
        let known = &mut *known;
        known.count = 0;
        for (place, (address, interface)) in known.all.iter_mut().zip(addresses) {
            *place = (address.into(), interface);
            known.count += 1;
        }
    }

    /// Whether this is one.
    pub(crate) fn has(&self, address: Ipv6Addr) -> bool {
        let known = self.lock();
        known.all[..known.count].iter().any(|(own, _)| *own == address)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
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
        let addresses = Addresses::default();
        assert!(!addresses.has(one) && !addresses.has(Ipv6Addr::UNSPECIFIED));
        addresses.set([(one.octets(), 2), (other.octets(), 3)].into_iter());
        assert!(addresses.has(one) && addresses.has(other));
        addresses.set([(other.octets(), 3)].into_iter());
        assert!(!addresses.has(one) && addresses.has(other));
        addresses.set((0..1000).map(|_| (one.octets(), 1)));
        assert!(addresses.has(one));
    }
}
