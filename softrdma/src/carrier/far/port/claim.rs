//! Which process has which place: it holds a name that the kernel gives to one at a time, and takes back at any
//! death.
//!
//! The folder gives every process another slot, but two folders may meet in one network namespace: containers
//! of a pod, for one. Then the first has the place.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::error::Error;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType};
use nix::unistd::geteuid;

use super::error::PortError;
use super::forked;
use super::share::{PATIENCE, PAUSE, address, credentials, errno, poll};

/// The claim of a place, as long as it lives.
#[derive(Debug)]
pub struct Claim(Descriptor);

impl Claim {
    /// Claims a place for this process. One that is about to end is waited for.
    ///
    /// # Errors
    /// [`PortError::PlaceTaken`], and those of the system calls.
    pub fn take(place: u16) -> Result<Self, PortError> {
        let address = address(geteuid().as_raw(), Some(place))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let own = stream()?;
            if socket::bind(own.as_raw_fd(), &address).is_ok() {
                socket::listen(&own, Backlog::new(1).unwrap_or(Backlog::MAXCONN))
                    .map_err(|_| Error::last("listen"))?;
                let own = Descriptor::new(own)?;
                forked::give_up_in_children(&own);
                return Ok(Claim(own));
            }
            if errno() != libc::EADDRINUSE {
                return Err(Error::last("bind").into());
            }
            // A connection to its holder ends with that.
            let other = stream()?;
            if socket::connect(other.as_raw_fd(), &address).is_err() {
                match errno() {
                    // Has ended, or not begun to listen. Others may wait for the same.
                    libc::ECONNREFUSED | libc::EAGAIN | libc::EINTR if Instant::now() < until => {
                        std::thread::sleep(PAUSE);
                    }
                    libc::ECONNREFUSED | libc::EAGAIN => return Err(PortError::NoAnswer { pid: 0 }),
                    _ => return Err(Error::last("connect").into()),
                }
                continue;
            }
            let holder = credentials(&other)?;
            if !poll(other.as_raw_fd(), PATIENCE)? {
                return Err(PortError::PlaceTaken { place, pid: holder.pid, uid: holder.uid });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        forked::forget(&self.0);
    }
}

fn stream() -> Result<OwnedFd, Error> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(|_| Error::last("socket"))
}
