//! Which software devices there are, and how they look in the list of devices.
//!
//! | variable | effect |
//! |---|---|
//! | `IRONVERBS_SOFT` unset, empty or `0` | none |
//! | `IRONVERBS_SOFT=N`, up to 16 | `soft0` to `soft(N-1)`; `1` is the usual one |
//! | `IRONVERBS_SOFT=NAME,…` | devices of these names |
//!
//! A program that has more rights than its caller has none ([`environment`]): the device would make files with
//! those rights, and let the caller's other processes reach into the program's queues.

use core::ffi::CStr;
use std::ffi::OsStr;

use softrdma::device::Copying;

use super::gids;
use crate::environment;
use crate::log;
use crate::uverbs::discovery::{DeviceInfo, SOFTWARE_FILE, is_file_name};

/// Most devices that one process gets. They share one engine, so more than one is of use for tests alone.
const DEVICES_MAX: usize = 16;

/// The software devices that the environment asks for. A name that a device of the kernel has already stays
/// that device's.
pub fn devices(of_the_kernel: &[DeviceInfo]) -> Vec<DeviceInfo> {
    let Some(value) = environment::trusted("IRONVERBS_SOFT") else {
        return Vec::new();
    };
    let Some(names) = names(&value) else {
        log::warn(format_args!(
            "IRONVERBS_SOFT is neither a number up to {DEVICES_MAX} nor a list of device names: no software device"
        ));
        return Vec::new();
    };
    let free = |name: &String| of_the_kernel.iter().all(|device| device.ibdev_name != *name);
    let host = host();
    names
        .into_iter()
        .filter(free)
        .filter_map(|name| DeviceInfo::software(&name, &format!("{SOFTWARE_FILE}{name}"), guid(&host, &name)))
        .collect()
}

/// The names that a value of `IRONVERBS_SOFT` stands for; None if it is a mistake.
fn names(value: &OsStr) -> Option<Vec<String>> {
    let value = value.to_str()?.trim();
    if value.is_empty() {
        return Some(Vec::new());
    }
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        let count = value.parse().ok().filter(|count| *count <= DEVICES_MAX)?;
        return Some((0..count).map(|number| format!("soft{number}")).collect());
    }
    let mut names: Vec<String> = Vec::new();
    for name in value.split(',').map(str::trim) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        // The name of the device file, which is longer, must fit as well.
        if !is_file_name(&format!("{SOFTWARE_FILE}{name}")) || name.is_empty() || !name.bytes().all(plain) {
            return None;
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    (names.len() <= DEVICES_MAX).then_some(names)
}

/// How payload travels: `IRONVERBS_SOFT_COPY`, and `IRONVERBS_SOFT_CONSENT`.
///
/// The device consents to copies by the user's other processes, where Yama's `ptrace_scope` 1 makes them ask:
/// who wants the software device wants its messages to arrive. UCX and Open MPI do the same for their shared
/// memory. Debuggers of the same user are let in by it too, so a program with more rights than its caller does
/// not consent, nor does anybody with `IRONVERBS_SOFT_CONSENT=0`; payload then takes the other way.
pub fn copying() -> Copying {
    let value = environment::trusted("IRONVERBS_SOFT_COPY").unwrap_or_default();
    let wanted = value.to_str().and_then(Copying::from_name).unwrap_or_else(|| {
        log::warn(format_args!("IRONVERBS_SOFT_COPY is neither auto nor ferry: auto"));
        Copying::Auto
    });
    let consents = environment::callers_rights()
        && environment::trusted("IRONVERBS_SOFT_CONSENT").is_none_or(|value| value != "0");
    if wanted == Copying::Auto && !consents { Copying::NoConsent } else { wanted }
}

/// What tells this host from others and stays the same over restarts: the number that systemd and D-Bus keep,
/// else the address of the first Ethernet interface, else the number of this boot or the host's name.
fn host() -> Vec<u8> {
    let number = |path: &str| {
        let text = std::fs::read(path).ok()?;
        let text = text.trim_ascii().to_owned();
        // systemd writes `uninitialized` while the host is set up for the first time.
        (text.len() >= 32 && text.iter().any(|byte| byte.is_ascii_hexdigit() && *byte != b'0'))
            .then_some(text)
    };
    number("/etc/machine-id")
        .or_else(|| number("/var/lib/dbus/machine-id"))
        .or_else(|| gids::first_ethernet_address().map(|address| address.to_vec()))
        .or_else(|| number("/proc/sys/kernel/random/boot_id"))
        .unwrap_or_else(host_name)
}

fn host_name() -> Vec<u8> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer can be written for the length told, less one byte, so the name ends with the last NUL
    // at the latest.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    CStr::from_bytes_until_nul(&name).map_or_else(|_| Vec::new(), |name| name.to_bytes().to_vec())
}

/// A number that belongs to `name` on this host, an EUI-64 of the range that is given out locally: never 0, and
/// never that of a device of the kernel, which has its vendor's or its interface's.
fn guid(host: &[u8], name: &str) -> u64 {
    0x02 << 56 | hash(&[b"ironverbs software device", host, name.as_bytes()]) >> 8
}

/// The address of a host without an Ethernet interface, for its link-local GID.
pub(super) fn interface_identifier() -> u64 {
    guid(&host(), "")
}

/// FNV-1a over parts and their ends, well mixed. It must stay the same for ever: processes with different
/// builds of the library show the same device.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.iter().copied().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn names_of(value: &str) -> Option<Vec<String>> {
        names(&OsString::from(value))
    }

    #[test]
    fn a_number_counts_and_names_name() {
        for none in ["", "0", " ", "00"] {
            assert_eq!(names_of(none), Some(Vec::new()), "{none:?}");
        }
        assert_eq!(names_of("1").unwrap(), ["soft0"]);
        assert_eq!(names_of("2").unwrap(), ["soft0", "soft1"]);
        assert_eq!(names_of("nic_a, nic-b,nic_a").unwrap(), ["nic_a", "nic-b"]);
    }

    #[test]
    fn a_mistake_is_no_device() {
        for bad in ["17", "99999999999999999999", "a b", "a,,b", "../x", "a/b", "soft0,", &"x".repeat(64)] {
            assert_eq!(names_of(bad), None, "{bad:?}");
        }
        use std::os::unix::ffi::OsStringExt;
        assert_eq!(names(&OsString::from_vec(vec![0xff, 0xfe])), None);
    }

    #[test]
    fn a_guid_belongs_to_host_and_name() {
        let guid_of = |host: &str, name: &str| guid(host.as_bytes(), name);
        assert_eq!(guid_of("h", "soft0"), guid_of("h", "soft0"));
        assert_ne!(guid_of("h", "soft0"), guid_of("h", "soft1"));
        assert_ne!(guid_of("h", "soft0"), guid_of("i", "soft0"));
        assert_ne!(guid_of("ab", "c"), guid_of("a", "bc"));
        // Unicast, given out locally.
        assert_eq!(guid_of("", "") >> 56, 0x02);
        // As every build of the library says it.
        assert_eq!(guid_of("h", "soft0"), 0x029e_430b_7d07_75d1);
    }

    #[test]
    fn this_host_is_known() {
        assert!(!host().is_empty());
    }
}
