//! Which network namespace the calling thread is in: 127.0.0.1 and its like mean something within it alone.

use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// A network namespace of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network([u64; 2]);

/// Says that a number is the kernel's cookie of a namespace, which no other one gets until the next start.
const COOKIE: u64 = 1;
/// Says that it is a file's number, which a later namespace may get.
const FILE: u64 = 2;

impl Network {
    /// That of the calling thread; `None` where the kernel does not tell.
    #[must_use]
    pub fn current() -> Option<Self> {
        cookie().map(|cookie| Network([COOKIE, cookie])).or_else(|| {
            let place = std::fs::metadata("/proc/thread-self/ns/net").ok()?;
            Some(Network([FILE | place.dev() << 2, place.ino()]))
        })
    }

    /// The two words that stand for it, [`NOWHERE`](Self::NOWHERE) for none.
    #[must_use]
    pub fn words(network: Option<Self>) -> [u64; 2] {
        network.map_or(Self::NOWHERE, |network| network.0)
    }

    /// What no namespace has.
    pub const NOWHERE: [u64; 2] = [0; 2];

    /// Whether these words, which a peer may have written, stand for this namespace.
    #[must_use]
    pub fn is(self, words: [u64; 2]) -> bool {
        self.0 == words
    }
}

/// The kernel's number for the namespace of a socket, and so of the thread that makes one (Linux 5.14).
fn cookie() -> Option<u64> {
    /// `SO_NETNS_COOKIE`
    const NETNS_COOKIE: libc::c_int = 71;
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let (mut cookie, mut len) = (0u64, size_of::<u64>() as libc::socklen_t);
    let place = (&raw mut cookie).cast();
    let fd = socket.as_raw_fd();
    // SAFETY: `cookie` is writable for the length given.
    let known = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, NETNS_COOKIE, place, &raw mut len) } == 0;
    (known && cookie != 0).then_some(cookie)
}

#[cfg(test)]
mod tests {
    use ironverbs_os_testing::in_child;

    use super::*;

    #[test]
    fn threads_of_a_process_are_in_the_same() {
        let own = Network::current().unwrap();
        assert_eq!(std::thread::spawn(Network::current).join().unwrap(), Some(own));
        assert!(own.is(Network::words(Some(own))) && !own.is(Network::words(None)));
    }

    #[test]
    #[ignore = "needs root"]
    fn another_namespace_is_another() {
        let own = Network::current().unwrap();
        let status = in_child(|| {
            // SAFETY: plain system call; the child does nothing else.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            Network::current().is_some_and(|other| other != own)
        });
        assert_eq!(status, 0);
    }
}
