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

use std::ffi::OsStr;

use softrdma::device::Copying;

use super::guid::{guid, host};
use crate::environment;
use crate::log;
use crate::uverbs::discovery::{DeviceInfo, SOFTWARE_FILE, is_file_name};

/// Most devices that one process gets. They share one engine, so more than one is of use for tests alone.
const DEVICES_MAX: usize = 16;

/// The software devices that the environment asks for. A name that a device of the kernel has already stays
/// that device's.
#[expect(clippy::disallowed_methods, reason = "at most DEVICES_MAX")]
pub fn devices(of_the_kernel: &[DeviceInfo]) -> Vec<DeviceInfo> {
    let Some(value) = environment::trusted("IRONVERBS_SOFT") else {
        return Vec::new();
    };
    let Some(names) = names(&value) else {
        log::warn(format_args!(
            "IRONVERBS_SOFT is neither a number up to {DEVICES_MAX} nor a list of device names: no software \
             device"
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
#[expect(clippy::disallowed_methods, reason = "at most DEVICES_MAX, or what the environment spells out")]
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
/// The device consents to copies by the user's other processes, where Yama's `ptrace_scope` 1 asks for it,
/// since messages could not arrive directly without. UCX and Open MPI do the same for their shared memory.
/// Debuggers of the same user are let in by it too, so a program with more rights than its caller does not
/// consent, nor one with `IRONVERBS_SOFT_CONSENT=0`; payload then goes through shared memory.
pub fn copying() -> Copying {
    let value = environment::trusted("IRONVERBS_SOFT_COPY").unwrap_or_default();
    let wanted = value.to_str().and_then(Copying::from_name).unwrap_or_else(|| {
        log::warn(format_args!("IRONVERBS_SOFT_COPY is neither auto nor bounce: auto"));
        Copying::Auto
    });
    let consents = environment::callers_rights()
        && environment::trusted("IRONVERBS_SOFT_CONSENT").is_none_or(|value| value != "0");
    if wanted == Copying::Auto && !consents { Copying::NoConsent } else { wanted }
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
}
