//! Which software devices there are, and how they look in the list of devices.
//!
//! | variable | effect |
//! |---|---|
//! | `IRONVERBS_SOFT` unset, empty or `0` | none |
//! | `IRONVERBS_SOFT=N`, up to 16 | `soft0` to `soft(N-1)`; `1` is the usual one |
//! | `IRONVERBS_SOFT=NAME,…` | devices of these names |
//! | `IRONVERBS_SOFT=NAME=INTERFACE+…,…` | the same, with addresses of these interfaces alone ([`Named`]) |
//!
//! A program that has more rights than its caller has none ([`environment`]): the device would make files with
//! those rights, and let the caller's other processes reach into the program's queues.

use std::ffi::OsStr;

use softrdma::device::Copying;
use softrdma::shm::named::{DEVICES_MAX, Named};

use super::guid::{guid, host};
use crate::environment;
use crate::log;
use crate::uverbs::discovery::{DeviceInfo, SOFTWARE_FILE, is_file_name};

/// The software devices that the environment asks for. A name that a device of the kernel has already stays
/// that device's.
#[expect(clippy::disallowed_methods, reason = "at most DEVICES_MAX")]
pub fn devices(of_the_kernel: &[DeviceInfo]) -> Vec<DeviceInfo> {
    let Some(value) = environment::trusted("IRONVERBS_SOFT") else {
        return Vec::new();
    };
    let Some(all) = named(&value) else {
        log::warn(format_args!(
            "IRONVERBS_SOFT is neither a number up to {DEVICES_MAX} nor a list of device names: no software \
             device"
        ));
        return Vec::new();
    };
    let free = |name: &String| of_the_kernel.iter().all(|device| device.ibdev_name != *name);
    let host = host();
    all.into_iter()
        .map(|device| device.name)
        .filter(free)
        .filter_map(|name| DeviceInfo::software(&name, &format!("{SOFTWARE_FILE}{name}"), guid(&host, &name)))
        .collect()
}

/// Whether the environment asks for any, as far as one sees without looking at their names.
pub fn are_wanted() -> bool {
    environment::trusted("IRONVERBS_SOFT").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The devices that a value of `IRONVERBS_SOFT` stands for; None if it is a mistake.
fn named(value: &OsStr) -> Option<Vec<Named>> {
    // The name of the device file, which is longer, must fit as well.
    let fits = |device: &Named| is_file_name(&format!("{SOFTWARE_FILE}{}", device.name));
    Named::all(value).filter(|all| all.iter().all(fits))
}

/// What the environment says now of the device of this name; one with all interfaces where it says nothing.
pub fn of_name(name: &str) -> Named {
    let value = environment::trusted("IRONVERBS_SOFT").unwrap_or_default();
    let named = named(&value).and_then(|all| all.into_iter().find(|device| device.name == name));
    named.unwrap_or_default()
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

    #[test]
    fn a_device_file_has_a_name_that_fits() {
        let count = |name: &str| named(&OsString::from(name)).map(|all| all.len());
        assert_eq!((count("a,b=eth0"), count(&"x".repeat(64)), count("a=")), (Some(2), None, None));
    }
}
