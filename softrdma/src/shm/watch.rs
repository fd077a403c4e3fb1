//! Hears of changes of the addresses of the network namespace, without a thread: a netlink socket beside a bell
//! and the like in one descriptor that is readable when one of them is.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::epoll;
use ironverbs_os::network::Network;
use ironverbs_os::sys;
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv,
};

use super::error::{Error, Result, errno};

/// A socket at which the kernel tells that addresses came or went.
#[derive(Debug)]
pub struct Watch {
    /// None where the system has no such sockets for this process.
    socket: Option<Descriptor>,
}

impl Watch {
    /// For the calling thread's network namespace, when that is `network`; hears nothing otherwise, and where
    /// the system refuses.
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub fn new(network: Option<Network>) -> Result<Self> {
        if network != Network::current() {
            return Ok(Watch { socket: None });
        }
        match socket() {
            Ok(socket) => Ok(Watch { socket: Some(Descriptor::new(socket)?) }),
            Err(e) if matches!(e.errno(), libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS) => {
                Err(e)
            }
            Err(_) => Ok(Watch { socket: None }),
        }
    }

    /// A descriptor that is readable while one of the `others` is, or while a change was told of and not
    /// [looked at](Watch::has_changed). It is to be polled, and cannot be read.
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub fn beside(&self, others: impl IntoIterator<Item = RawFd>) -> Result<OwnedFd> {
        let all = epoll::create(libc::EPOLL_CLOEXEC);
        if all < 0 {
            return Err(Error::last("epoll_create1"));
        }
        // SAFETY: epoll_create1 returned this descriptor, and nobody else owns it.
        let all = unsafe { OwnedFd::from_raw_fd(all) };
        for fd in others.into_iter().chain(self.socket.as_ref().map(Descriptor::raw)) {
            let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            if epoll::control(all.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, Some(event)) != 0 {
                return Err(Error::last("epoll_ctl"));
            }
        }
        Ok(all)
    }

    /// Whether the kernel told of a change since this was asked last. Never waits.
    pub fn has_changed(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| has_told(socket.raw()))
    }
}

/// Whether the kernel told of a change at a [`socket()`] since this was asked last. Never waits.
pub fn has_told(socket: RawFd) -> bool {
    let mut changed = false;
    loop {
        // What it says is not read: the addresses are looked up.
        let mut bytes = [0u8; 16];
        match sys::uncancelled(|| recv(socket, &mut bytes, MsgFlags::MSG_DONTWAIT)).map_err(|_| errno()) {
            // More was told than there was room for.
            Ok(_) | Err(libc::ENOBUFS) => changed = true,
            Err(libc::EINTR) => {}
            Err(_) => return changed,
        }
    }
}

/// A socket at which the kernel tells of changes in the calling thread's network namespace.
///
/// # Errors
/// Descriptors or memory have run out, or the system has no such sockets for this process.
pub fn socket() -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)
        .map_err(|_| Error::last("socket"))?;
    // Of links, since one that goes down takes its addresses out of the table.
    let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups as u32)).map_err(|_| Error::last("bind"))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(fd: &OwnedFd) -> bool {
        let mut place = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one writable entry.
        unsafe { libc::poll(&raw mut place, 1, 0) == 1 }
    }

    #[test]
    fn what_stands_beside_it_makes_it_readable() {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which nobody else owns.
        let [read, write] = unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            ends.map(|fd| OwnedFd::from_raw_fd(fd))
        };
        // A thread in another namespace hears nothing.
        for network in [Network::current(), None] {
            let watch = Watch::new(network).unwrap();
            assert_eq!(watch.socket.is_some(), network.is_some());
            let both = watch.beside([read.as_raw_fd()]).unwrap();
            watch.has_changed();
            // SAFETY: one byte is readable, then writable.
            unsafe {
                assert_eq!(libc::write(write.as_raw_fd(), [1u8].as_ptr().cast(), 1), 1);
                assert!(is_readable(&both) && !watch.has_changed());
                assert_eq!(libc::read(read.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1), 1);
            }
            assert!(!is_readable(&both) || watch.has_changed());
        }
    }
}
