//! Network namespaces of a test, and what is in them.

use std::process::Command;

/// Goes to a network namespace of its own, and to a user namespace where that needs rights. The process has one
/// thread.
pub fn go_apart() {
    // SAFETY: plain system calls; the process has one thread, and did nothing with its rights yet.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNET) == 0 {
            return;
        }
        let (user, group) = (libc::geteuid(), libc::getegid());
        assert_eq!(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET), 0, "no namespaces here");
        std::fs::write("/proc/self/setgroups", "deny").unwrap();
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1")).unwrap();
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1")).unwrap();
    }
}

/// Runs `ip` (iproute2) in the process's network namespace.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip of iproute2");
    assert!(status.success(), "ip {arguments}");
}

/// Gives an interface addresses that serve at once, and makes it up.
pub fn up(interface: &str, addresses: &[&str]) {
    ip(&format!("link set {interface} addrgenmode none"));
    ip(&format!("link set {interface} up"));
    for address in addresses {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        ip(&format!("addr add {address} dev {interface}{nodad}"));
    }
}

/// An interface's index.
pub fn index(interface: &str) -> u32 {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: a C string that lives across the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "{interface}");
    index
}

/// What an adapter does for the host, as `ethtool` sets it.
#[derive(Debug, Clone, Copy)]
pub enum Offload {
    /// Checksums of what is sent.
    Checksum = 0x17,
    /// Cutting apart what is sent.
    Segmentation = 0x24,
    /// Putting together what is received.
    Coalescing = 0x2c,
}

/// Lets an interface do something for the host, or not.
pub fn offload(interface: &str, what: Offload, on: bool) {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut value = [what as u32, u32::from(on)];
    // SAFETY: plain system calls; ifreq is made of integers and pointers, and the request reads both structs.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let done = libc::ioctl(socket, SIOCETHTOOL, &raw mut request);
        assert_eq!(done, 0, "{what:?}: {}", std::io::Error::last_os_error());
        libc::close(socket);
    }
}
