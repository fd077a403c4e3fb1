//! Hears of changes of the addresses of the network namespace, without a thread: a netlink socket beside a bell
//! in one descriptor that is readable when one of the two is.

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::descriptor::Descriptor;
use super::epoll;
use super::error::{Error, Result, errno};
use super::network::Network;
use super::sys;

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

    /// A descriptor that is readable while `other` is, or while a change was told of and not
    /// [looked at](Watch::has_changed). It is to be polled, and cannot be read.
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub fn beside(&self, other: RawFd) -> Result<OwnedFd> {
        let both = epoll::create(libc::EPOLL_CLOEXEC);
        if both < 0 {
            return Err(Error::last("epoll_create1"));
        }
        // SAFETY: epoll_create1 returned this descriptor, and nobody else owns it.
        let both = unsafe { OwnedFd::from_raw_fd(both) };
        for fd in [Some(other), self.socket.as_ref().map(Descriptor::raw)].into_iter().flatten() {
            let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            if epoll::control(both.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, Some(event)) != 0 {
                return Err(Error::last("epoll_ctl"));
            }
        }
        Ok(both)
    }

    /// Whether the kernel told of a change since this was asked last. Never waits.
    pub fn has_changed(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| has_told(socket.raw()))
    }
}

/// Whether the kernel told of a change at a [`socket`] since this was asked last. Never waits.
pub fn has_told(socket: RawFd) -> bool {
    let mut changed = false;
    loop {
        // What it says is not read: the addresses are looked up.
        let mut bytes = [0u8; 16];
        let place = bytes.as_mut_ptr().cast();
        // SAFETY: `bytes` is writable for its length; the call does not wait.
        let n = sys::uncancelled(|| unsafe { libc::recv(socket, place, bytes.len(), libc::MSG_DONTWAIT) });
        match (n, errno()) {
            (0.., _) => changed = true,
            // More was told than there was room for.
            (_, libc::ENOBUFS) => changed = true,
            (_, libc::EINTR) => {}
            _ => return changed,
        }
    }
}

/// A socket at which the kernel tells of changes in the calling thread's network namespace.
///
/// # Errors
/// Descriptors or memory have run out, or the system has no such sockets for this process.
pub fn socket() -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(Error::last("socket"));
    }
    // SAFETY: socket returned this descriptor, and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: sockaddr_nl is made of integers, for which all zeroes is a value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    // Of links, since one that goes down takes its addresses out of the table.
    address.nl_groups = (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
    let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: the address lives across the call and has that length.
    if unsafe { libc::bind(fd, (&raw const address).cast(), len) } != 0 {
        return Err(Error::last("bind"));
    }
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
            let both = watch.beside(read.as_raw_fd()).unwrap();
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
