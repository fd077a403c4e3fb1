//! Network namespaces of a test, and what is in them.

use std::net::Ipv6Addr;
use std::process::{Command, Stdio};

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
    keep_rights();
}

/// Lets the programs that this process runs have its rights over its network namespace, although it is not root
/// there.
fn keep_rights() {
    const NET_ADMIN: u32 = 12;
    let header = [0x2008_0522u32, 0];
    let mut rights = [0u32; 6];
    // SAFETY: the kernel reads a header, and reads or writes two structs of three words.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, header.as_ptr(), rights.as_mut_ptr()), 0);
        // Those that are inherited.
        rights[2] = 1 << NET_ADMIN;
        assert_eq!(libc::syscall(libc::SYS_capset, header.as_ptr(), rights.as_ptr()), 0);
        let (ambient, raise) = (libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE);
        assert_eq!(libc::prctl(ambient, raise, NET_ADMIN, 0, 0), 0);
    }
}

/// Runs `ip` (iproute2) in the process's network namespace.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip of iproute2");
    assert!(status.success(), "ip {arguments}");
}

/// Makes an interface up, with these addresses: packets for them are taken from then on.
pub fn up(interface: &str, addresses: &[&str]) {
    use std::io::Write;
    let mut lines = format!("link set {interface} addrgenmode none\nlink set {interface} up\n");
    for address in addresses {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        lines += &format!("addr add {address} dev {interface}{nodad}\n");
    }
    let mut ip =
        Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("ip of iproute2");
    ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success(), "ip: {lines}");
    for address in addresses.iter().filter_map(|address| address.split('/').next()?.parse().ok()) {
        while !is_local(address) {
            std::thread::yield_now();
        }
    }
}

/// Whether the kernel takes packets for this address. A worker of the kernel makes the route for that some time
/// after the address is there, even where nobody looks for another host that has it (`nodad`), and packets that
/// come before are thrown away (`Ip6InAddrErrors`).
fn is_local(address: Ipv6Addr) -> bool {
    /// `RTF_LOCAL` (`linux/ipv6_route.h`).
    const LOCAL: u32 = 0x8000_0000;
    let routes = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap();
    let this = format!("{:032x}", u128::from(address));
    routes.lines().filter(|line| line.starts_with(&this)).any(|line| {
        let flags =
            line.split_ascii_whitespace().nth(8).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & LOCAL != 0)
    })
}

/// An interface's index.
pub fn index(interface: &str) -> u32 {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: a C string that lives across the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "{interface}");
    index
}

/// What an adapter may do for the host, as `ethtool --show-features` names it.
pub mod offload {
    /// Cutting apart what is sent. Of a cable, the other side puts together what it receives only where this
    /// one does none of it.
    pub const SEGMENTATIONS: [&str; 5] = [
        "tx-udp-segmentation",
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-tcp-mangleid-segmentation",
    ];
    /// Putting together what is received.
    pub const COALESCING: &str = "rx-gro";
}

/// Lets an interface do something for the host ([`offload`]), or not.
pub fn set_offload(interface: &str, feature: &str, on: bool) {
    const FEATURES: u32 = 4;
    const COUNT: u32 = 0x37;
    const STRINGS: u32 = 0x1b;
    const SET: u32 = 0x3b;
    /// Bytes of a name.
    const NAME: usize = 32;
    // Command, a reserved word, a mask of 64 bits; then the answer.
    let mut count = [COUNT, 0, 1 << FEATURES, 0, 0];
    ethtool(interface, &mut count);
    // Command, set, count, names.
    let mut names = vec![0u32; 3 + count[4] as usize * NAME / 4];
    (names[0], names[1], names[2]) = (STRINGS, FEATURES, count[4]);
    ethtool(interface, &mut names);
    let bytes: Vec<u8> = names[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let is_it = |name: &[u8]| name.split(|byte| *byte == 0).next() == Some(feature.as_bytes());
    let bit = bytes.chunks(NAME).position(is_it).unwrap_or_else(|| panic!("no {feature}"));
    // Command, blocks of 32, and of each block which are meant and which are on.
    let blocks = (count[4] as usize).div_ceil(32);
    let mut set = vec![0u32; 2 + 2 * blocks];
    (set[0], set[1]) = (SET, blocks as u32);
    set[2 + 2 * (bit / 32)] = 1 << (bit % 32);
    set[3 + 2 * (bit / 32)] = u32::from(on) << (bit % 32);
    ethtool(interface, &mut set);
}

/// Asks for something of an interface, which begins with its number and has room for the answer.
fn ethtool(interface: &str, request: &mut [u32]) {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // SAFETY: plain system calls; ifreq is made of integers and pointers, and the request has the length that
    // the kernel goes by.
    unsafe {
        let mut named: libc::ifreq = std::mem::zeroed();
        for (to, from) in named.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        named.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let done = libc::ioctl(socket, SIOCETHTOOL, &raw mut named);
        assert!(done >= 0, "{interface}: {}", std::io::Error::last_os_error());
        libc::close(socket);
    }
}
