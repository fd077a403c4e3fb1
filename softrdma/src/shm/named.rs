//! The software devices that a value of `IRONVERBS_SOFT` names, and the network interfaces of each.
//!
//! | value | devices |
//! |---|---|
//! | a number | `soft0` and on, so many, each with all interfaces |
//! | `NAME,…` | of these names, each with all interfaces |
//! | `NAME=INTERFACE+INTERFACE…,…` | each with these interfaces |

use std::ffi::OsStr;

use ironverbs_os::growth::{TryPush, try_collect};

use ironverbs_os::gids::{Gid, TABLE_LENGTH};

/// Most devices that one process gets.
pub const DEVICES_MAX: usize = 16;

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its interfaces; none stands for all.
    pub interfaces: Vec<String>,
}

impl Named {
    /// The devices that a value of `IRONVERBS_SOFT` stands for; `None` if it is a mistake, or there is no
    /// memory.
    pub fn all(value: &OsStr) -> Option<Vec<Named>> {
        let value = value.to_str()?.trim();
        if value.is_empty() {
            return Some(Vec::new());
        }
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            let count = value.parse().ok().filter(|count| *count <= DEVICES_MAX)?;
            let named = |number| Named { name: format!("soft{number}"), interfaces: Vec::new() };
            return try_collect((0..count).map(named)).ok();
        }
        let mut all: Vec<Named> = Vec::new();
        for one in value.split(',').map(str::trim) {
            let (name, interfaces) = match one.split_once('=') {
                Some((name, interfaces)) => (name, Some(interfaces)),
                None => (one, None),
            };
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if name.is_empty() || !name.bytes().all(plain) {
                return None;
            }
            let is_interface = |text: &str| !text.is_empty() && text.len() < libc::IFNAMSIZ;
            let interfaces = interfaces.into_iter().flat_map(|list| list.split('+'));
            let interfaces = try_collect(interfaces.map(str::to_owned)).ok()?;
            if !interfaces.iter().all(|interface| is_interface(interface)) {
                return None;
            }
            match all.iter().find(|known| known.name == name) {
                Some(known) if known.interfaces == interfaces => {}
                Some(_) => return None,
                None => all.try_push(Named { name: name.to_owned(), interfaces }).ok()?,
            }
        }
        (all.len() <= DEVICES_MAX).then_some(all)
    }

    /// Whether the device has all interfaces.
    pub fn has_all(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// The device's table of GIDs, of that of its network namespace: as that where it has all interfaces; else
    /// what its own have in the same order, from place 0 on, a link-local address of Ethernet in front.
    /// Loopback addresses keep their places.
    pub fn table(&self, mut all: Vec<Gid>) -> Vec<Gid> {
        if self.has_all() {
            return all;
        }
        all.retain(|gid| self.interfaces.contains(&gid.ndev));
        if let Some(at) = all.iter().position(|gid| gid.raw[0] == 0xfe) {
            all[..=at].rotate_right(1);
        }
        let first_fixed = TABLE_LENGTH - 2;
        for (place, gid) in (0..).zip(all.iter_mut().filter(|gid| gid.index < first_fixed)) {
            gid.index = place;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn named(value: &str) -> Option<Vec<(String, String)>> {
        let all = Named::all(&OsString::from(value))?;
        Some(all.into_iter().map(|one| (one.name, one.interfaces.join("+"))).collect())
    }

    fn pairs(expected: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(expected.iter().map(|(name, list)| ((*name).to_owned(), (*list).to_owned())).collect())
    }

    #[test]
    fn a_number_counts_and_names_name() {
        for none in ["", "0", " ", "00"] {
            assert_eq!(named(none), pairs(&[]), "{none:?}");
        }
        assert_eq!(named("1"), pairs(&[("soft0", "")]));
        assert_eq!(named("2"), pairs(&[("soft0", ""), ("soft1", "")]));
        assert_eq!(named("nic_a, nic-b,nic_a"), pairs(&[("nic_a", ""), ("nic-b", "")]));
        assert_eq!(named("a=eth0+eth1.7,b,c=lo"), pairs(&[("a", "eth0+eth1.7"), ("b", ""), ("c", "lo")]));
    }

    #[test]
    fn a_mistake_is_no_device() {
        let many: String = (0..17).map(|number| format!("n{number},")).collect();
        for bad in [
            "17",
            "99999999999999999999",
            "a b",
            "a,,b",
            "../x",
            "a/b",
            "soft0,",
            "a=",
            "=eth0",
            "a=eth0+",
            "a=eth0,a",
            "a=interface-name-16",
            many.trim_end_matches(','),
        ] {
            assert_eq!(named(bad), None, "{bad:?}");
        }
        use std::os::unix::ffi::OsStringExt;
        assert_eq!(Named::all(&OsString::from_vec(vec![0xff, 0xfe])), None);
    }

    #[test]
    fn a_device_has_the_addresses_of_its_interfaces() {
        let gid = |index, first, last, ndev: &str| {
            let mut raw = [0; 16];
            (raw[0], raw[15]) = (first, last);
            Gid { index, raw, ndev: ndev.to_owned(), ifindex: last.into() }
        };
        let all = vec![
            gid(0, 0xfe, 1, "eth0"),
            gid(1, 0, 2, "eth0"),
            gid(2, 0, 3, "eth1"),
            gid(3, 0xfd, 4, "eth1"),
            gid(4, 0xfe, 5, "eth1"),
            gid(62, 0, 6, "lo"),
        ];
        let table = |interfaces: &[&str]| {
            let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
            let named = Named { name: "a".to_owned(), interfaces };
            named.table(all.clone()).iter().map(|gid| (gid.index, gid.raw[15])).collect::<Vec<_>>()
        };
        assert_eq!(table(&[]), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (62, 6)]);
        assert_eq!(table(&["eth0"]), [(0, 1), (1, 2)]);
        assert_eq!(table(&["eth1", "lo"]), [(0, 5), (1, 3), (2, 4), (62, 6)]);
        assert_eq!(table(&["eth2"]), []);
    }
}
