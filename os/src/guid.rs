//! What tells this host and its software devices from others.

use core::ffi::CStr;

use crate::interfaces::first_ethernet_address;

/// What tells this host from others and stays the same over restarts: the number that systemd and D-Bus keep,
/// else the address of the first Ethernet interface, else the number of this boot or the host's name.
#[expect(clippy::disallowed_methods, reason = "six bytes")]
pub fn host() -> Vec<u8> {
    let number = |path: &str| {
        let mut text = std::fs::read(path).ok()?;
        text.truncate(text.trim_ascii_end().len());
        text.drain(..text.len() - text.trim_ascii_start().len());
        // systemd writes `uninitialized` while the host is set up for the first time.
        (text.len() >= 32 && text.iter().any(|byte| byte.is_ascii_hexdigit() && *byte != b'0'))
            .then_some(text)
    };
    number("/etc/machine-id")
        .or_else(|| number("/var/lib/dbus/machine-id"))
        .or_else(|| first_ethernet_address().map(|address| address.to_vec()))
        .or_else(|| number("/proc/sys/kernel/random/boot_id"))
        .unwrap_or_else(host_name)
}

#[expect(clippy::disallowed_methods, reason = "at most 255 bytes")]
fn host_name() -> Vec<u8> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer can be written for the length told, less one byte, so the name ends with the last NUL
    // at the latest.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    CStr::from_bytes_until_nul(&name).map_or_else(|_| Vec::new(), |name| name.to_bytes().to_vec())
}

/// A number that belongs to `name` on this host, an EUI-64 of the range that is given out locally: never 0, and
/// never that of a device of the kernel, which has its vendor's or its interface's.
pub fn guid(host: &[u8], name: &str) -> u64 {
    0x02 << 56 | hash(&[b"ironverbs software device", host, name.as_bytes()]) >> 8
}

/// The address of a host without an Ethernet interface, for its link-local GID.
pub fn interface_identifier() -> u64 {
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
    use super::*;

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
