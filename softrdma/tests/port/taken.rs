//! Who does not get the port, and what is said.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use softrdma::testing::port::Port;
use softrdma::testing::port::error::PortError;
use softrdma::testing::port::holder::Holder;
use softrdma::testing::port::mtu::{interface_mtu, roce_mtu};
use softrdma::testing::port::options::Options;
use softrdma::testing::port::socket::SmallRoom;
use softrdma_testing::child::begin;
use softrdma_testing::network::{index, ip};

use crate::crew::{Crew, apart, from_here, kill, refused, wait};

#[test]
fn a_program_that_has_the_port_is_named() {
    apart(|| {
        for address in ["0.0.0.0:4791", "[::]:4791", "127.0.0.1:4791", "[::1]:4791"] {
            let other = UdpSocket::bind(address).unwrap();
            let PortError::Held(Holder::Program { pid, name }) = refused(0) else { panic!("{}", refused(0)) };
            assert_eq!(pid, std::process::id().cast_signed());
            let comm = std::fs::read("/proc/self/comm").unwrap();
            assert_eq!(name[..comm.len() - 1], comm[..comm.len() - 1]);
            drop(other);
            drop(Port::open(0, from_here()).unwrap());
        }
    });
}

/// A socket that would let others of its user join is one that the kernel would count with those of a set.
#[test]
fn a_program_that_shares_the_port_is_named() {
    apart(|| {
        let (family, kind) = (AddressFamily::Inet6, SockType::Datagram);
        let other = socket::socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::setsockopt(&other, socket::sockopt::ReusePort, &true).unwrap();
        // SAFETY: the kernel reads an address, which is made of integers.
        unsafe {
            let mut any: libc::sockaddr_in6 = std::mem::zeroed();
            (any.sin6_family, any.sin6_port) = (libc::AF_INET6 as u16, 4791u16.to_be());
            let length = size_of_val(&any) as u32;
            assert_eq!(libc::bind(other.as_raw_fd(), (&raw const any).cast(), length), 0);
        }
        let error = refused(0);
        let own = std::process::id().cast_signed();
        assert!(matches!(error, PortError::Held(Holder::Program { pid, .. }) if pid == own), "{error}");
    });
}

/// In the namespace of the tests, on a host that has it: that of the layer `port_guest`.
#[test]
fn soft_roce_is_named() {
    let devices = std::fs::read_dir("/sys/class/infiniband").into_iter().flatten().flatten();
    if devices.filter(|device| device.file_name().to_string_lossy().starts_with("rxe")).count() == 0 {
        println!("there is no soft-RoCE here");
        return;
    }
    let error = refused(0);
    assert_eq!(error, PortError::Held(Holder::SoftRoce));
    assert!(
        error
            .to_string()
            .contains("(rdma_rxe), use another network namespace, or let all hosts use another port"),
        "{error}"
    );
}

/// Two users.
const ONE: libc::uid_t = 10_001;
const OTHER: libc::uid_t = 10_002;

/// As a user who is not root: others' processes are not to be seen.
fn become_user(uid: libc::uid_t) {
    // SAFETY: plain system calls in a process of its own.
    unsafe {
        assert_eq!(libc::setresgid(uid, uid, uid), 0);
        assert_eq!(libc::setresuid(uid, uid, uid), 0);
        // The kernel has forgotten it.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

#[test]
#[ignore = "needs root"]
fn another_user_is_named() {
    apart(|| {
        let crew = Crew::new();
        let process = crew.begin_after(5, || become_user(ONE));
        crew.all_open(&[5]);
        let line = format!("belongs to a program of user {ONE}: one user of a network namespace");
        let as_other = softrdma_testing::child::in_child(|| {
            become_user(OTHER);
            for slot in [5, 6] {
                let error = refused(slot);
                assert_eq!(error, PortError::Held(Holder::User(ONE)));
                assert!(error.to_string().contains(&line), "{error}");
            }
        });
        assert_eq!(as_other, 0);
        // Root has no set of its own then either, and sees who it is.
        assert!(matches!(refused(0), PortError::Held(Holder::Program { pid, .. }) if pid == process));
        // Another user who asks gets nothing.
        let asks = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
        let name = format!("ironverbs-roce-{ONE}");
        socket::connect(asks.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
        assert_eq!(nix::unistd::read(&asks, &mut [0]), Ok(0));
    });
}

#[test]
#[ignore = "needs root"]
fn another_user_who_takes_the_names_is_named() {
    apart(|| {
        let names = [format!("ironverbs-roce-{ONE}"), format!("ironverbs-roce-{ONE}-3")];
        let held: Vec<_> = names
            .iter()
            .map(|name| {
                let door =
                    socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
                socket::bind(door.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
                // Who listens is who is asked for.
                // SAFETY: plain system call.
                unsafe { assert_eq!(libc::seteuid(OTHER), 0) };
                socket::listen(&door, Backlog::MAXCONN).unwrap();
                // SAFETY: plain system call.
                unsafe { assert_eq!(libc::seteuid(0), 0) };
                door
            })
            .collect();
        become_user(ONE);
        assert_eq!(refused(2), PortError::NameTaken { uid: OTHER });
        let pid = std::process::id().cast_signed();
        assert_eq!(refused(3), PortError::PlaceTaken { place: 3, pid, uid: OTHER });
        drop(held);
        drop(Port::open(3, from_here()).unwrap());
    });
}

/// Without rights there is as much room as the system lets everybody have.
#[test]
fn too_little_room_is_told() {
    // Older kernels show it to the first namespace alone.
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let limit: u32 = limit.trim().parse().unwrap();
    apart(|| {
        let no_rights = [0u32; 6];
        let header = [0x2008_0522u32, 0];
        // SAFETY: the kernel reads a header and two structs of three words.
        let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), no_rights.as_ptr()) };
        assert_eq!(done, 0);
        let port = Port::open(0, Options { room: 1 << 29, ..from_here() }).unwrap();
        let small = SmallRoom { wanted: 1 << 29, got: limit };
        assert_eq!([port.own(), port.common()].map(|socket| socket.small_room()), [Some(small); 2]);
        assert!(small.to_string().contains(&format!("room for {limit} bytes")), "{small}");
        drop(port);
        let port = Port::open(0, Options { room: limit, ..from_here() }).unwrap();
        assert_eq!(port.own().small_room(), None);
    });
}

#[test]
fn an_interfaces_mtu_bounds_that_of_roce() {
    apart(|| {
        ip("link add veth type veth peer name other");
        for (mtu, roce) in [(1500, Some(1024)), (4175, Some(2048)), (9000, Some(4096)), (300, None)] {
            ip(&format!("link set veth mtu {mtu}"));
            assert_eq!(interface_mtu(index("veth")), Ok(mtu));
            assert_eq!(roce_mtu(mtu), roce);
        }
    });
}

#[test]
fn who_cannot_be_answered_waits() {
    apart(|| {
        let port = Port::open(0, from_here()).unwrap();
        let asks = begin(|| {
            let _ = Port::open(1, from_here());
            0
        });
        wait(&[port.door()]);
        let few = libc::rlimit { rlim_cur: 100, rlim_max: 100 };
        // SAFETY: the kernel reads the struct.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
        let files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        assert!(!port.admit());
        drop(files);
        assert!(port.admit());
        kill(asks);
    });
}
