//! Two hosts in one process: a device each, in a network namespace and a folder of its own.

use std::fs::File;
use std::os::fd::AsRawFd;

use softrdma::device::{Attributes, Device, Path, Settings, Source};
use softrdma::rules::verbs::{QpState, QpType};
use softrdma::shm::folder::Config;
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;
use softrdma_testing::network::{go_apart, index, ip, up};

/// Addresses of the hosts.
pub const ADDRESSES: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
/// And those of IPv6.
pub const ADDRESSES_6: [&str; 2] = ["fd08::1", "fd08::2"];

/// The address of a host, as a GID.
pub fn gid(host: usize) -> [u8; 16] {
    ADDRESSES[host].parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped().octets()
}

/// That of IPv6.
pub fn gid_6(host: usize) -> [u8; 16] {
    ADDRESSES_6[host].parse::<std::net::Ipv6Addr>().unwrap().octets()
}

/// A network namespace.
pub struct Host {
    namespace: File,
    folder: Folder,
    number: usize,
    interface: u32,
}

fn here() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

impl Host {
    /// Goes there.
    pub fn enter(&self) {
        // SAFETY: a plain system call on a descriptor that lives across it.
        assert_eq!(unsafe { libc::setns(self.namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    }

    /// Opens its device.
    pub fn node(&self) -> Node {
        self.enter();
        let folder = Config { path: self.folder.path(), group: None };
        let device = Device::open(&Settings { folder, copying: copying(), network: true }).unwrap();
        assert_eq!(device.no_network(), None);
        let gids = [gid(self.number), gid_6(self.number)];
        device.set_gids(&gids);
        device.set_network_addresses(gids.map(|gid| (gid, self.interface)).into_iter());
        Node::reached_by(device, gid(self.number))
    }

    /// Attributes that connect a queue pair of this host with one of the other.
    pub fn attributes(&self, dest_qp_num: u32) -> Attributes {
        let attributes = attributes_at(gid(1 - self.number), dest_qp_num);
        let source = Some(Source { address: gid(self.number), interface: self.interface, mtu: 4096 });
        Attributes { path_mtu: 3, path: Path { source, ..attributes.path }, ..attributes }
    }

    /// The path of datagrams to this address, by that of the own of the same family.
    pub fn path(&self, to: [u8; 16]) -> Path {
        let is_v4 = |gid: [u8; 16]| std::net::Ipv6Addr::from(gid).to_ipv4_mapped().is_some();
        let address = if is_v4(to) { gid(self.number) } else { gid_6(self.number) };
        let source = Some(Source { address, interface: self.interface, mtu: 1024 });
        Path { source, ..attributes_at(to, 0).path }
    }

    /// The same over IPv6.
    pub fn attributes_6(&self, dest_qp_num: u32) -> Attributes {
        let attributes = self.attributes(dest_qp_num);
        let source = Some(Source { address: gid_6(self.number), interface: self.interface, mtu: 4096 });
        Attributes { path: Path { source, dgid: gid_6(1 - self.number), ..attributes.path }, ..attributes }
    }
}

/// Runs a test with two hosts that are joined by a wire, in a process of its own.
pub fn with_hosts(test: impl FnOnce(&[Host; 2])) {
    let status = in_child(|| {
        go_apart();
        let first = here();
        go_apart();
        let second = here();
        // It looks for it among its own, as it may not look at this process's.
        // SAFETY: a plain system call.
        assert_eq!(unsafe { libc::fcntl(first.as_raw_fd(), libc::F_SETFD, 0) }, 0);
        let place = format!("/proc/self/fd/{}", first.as_raw_fd());
        ip("link add wire type veth peer name other");
        ip(&format!("link set other netns {place} name wire"));
        let hosts = [(first, 0), (second, 1)].map(|(namespace, number)| Host {
            namespace,
            folder: Folder::new(),
            number,
            interface: 0,
        });
        let hosts = hosts.map(|host| {
            host.enter();
            ip("link set lo up");
            let number = host.number;
            up("wire", &[&format!("{}/24", ADDRESSES[number]), &format!("{}/64", ADDRESSES_6[number])]);
            let interface = index("wire");
            Host { interface, ..host }
        });
        test(&hosts);
    });
    assert_eq!(status, 0);
}

/// A queue pair on each host, connected.
pub fn connected(hosts: &[Host; 2], qp_type: QpType) -> [(Node, End); 2] {
    let ends = [&hosts[0], &hosts[1]].map(|host| {
        let node = host.node();
        let end = node.end(qp_type);
        (node, end)
    });
    join(hosts, [&ends[0].1, &ends[1].1]);
    ends
}

/// Connects two ends.
pub fn join(hosts: &[Host; 2], ends: [&End; 2]) {
    for this in 0..2 {
        bring_up(&ends[this].qp, &hosts[this].attributes(ends[1 - this].qp.qp_num()), QpState::Rts);
    }
}
