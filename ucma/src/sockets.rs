//! Connections between two ids: sockets in the software device's folder, one message a packet.
//!
//! Who cannot enter the folder cannot connect; who is at the other end, the kernel says besides
//! (`SO_PEERCRED`). It tells of a peer's death, too. Nothing here waits.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::{
    self, Backlog, MsgFlags, Shutdown, SockFlag, UnixAddr, accept4, bind, connect, recv, send, shutdown,
};
use nix::unistd::geteuid;
use softrdma::shm::error::Error;
use softrdma::shm::folder::Folder;

use crate::shim::Kept;
use crate::sys::{self, errno, made};

const KIND: i32 = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// A socket that was made or accepted.
#[derive(Debug)]
pub struct Socket(Kept);

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this length.
    Message(usize),
    /// Nothing is there.
    Nothing,
    /// The other end is gone, or sent what is no message.
    End,
}

impl Socket {
    fn new() -> Result<Socket, i32> {
        Kept::new(sys::socket(libc::AF_UNIX, KIND)?).map(Socket)
    }

    /// Listens under a name of the folder that nobody has.
    ///
    /// # Errors
    /// Those of the system.
    pub fn listen(folder: &Folder, name: &CStr) -> Result<Socket, i32> {
        let bound = folder.place(name, |folder, name| {
            let failed = |errno| Error::Os { call: "bind", errno };
            // Another one each time, since none can be bound twice.
            let socket = Socket::new().map_err(failed)?;
            let at = address(folder, name).map_err(failed)?;
            bind(socket.fd(), &at).map_err(|_| failed(errno()))?;
            folder.adopt_socket(name).inspect_err(|_| {
                let _ = folder.remove(name);
            })?;
            Ok(socket)
        });
        let socket = bound.map_err(|why| why.errno())?;
        if socket::listen(&socket.0, Backlog::MAXCONN).is_err() {
            let errno = errno();
            let _ = folder.remove(name);
            return Err(errno);
        }
        Ok(socket)
    }

    /// Connects to who listens under a name.
    ///
    /// # Errors
    /// EAGAIN where too many wait there; ECONNREFUSED and ENOENT where nobody listens; EACCES where it is
    /// somebody who has no business in the folder.
    pub fn connect(folder: &Folder, name: &CStr) -> Result<Socket, i32> {
        let socket = Socket::new()?;
        let at = folder.socket(name).map_err(|why| match why {
            Error::Corrupt(_) => libc::ECONNREFUSED,
            other => other.errno(),
        })?;
        let path = UnixAddr::new(format!("/proc/self/fd/{}", at.as_raw_fd()).as_str());
        connect(socket.fd(), &path.map_err(|_| libc::ENAMETOOLONG)?).map_err(|_| errno())?;
        socket.may_speak(folder).then_some(socket).ok_or(libc::EACCES)
    }

    /// The next connection that waits; `None` where there is none. Those of who may not enter the folder are
    /// closed.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM: it waits on.
    pub fn accept(&self, folder: &Folder) -> Result<Option<Socket>, i32> {
        loop {
            let fd = accept4(self.fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
            match made(fd.unwrap_or(-1)) {
                Ok(fd) => {
                    let socket = Socket(Kept::new(fd)?);
                    if socket.may_speak(folder) {
                        return Ok(Some(socket));
                    }
                }
                Err(libc::EAGAIN) => return Ok(None),
                Err(libc::ECONNABORTED | libc::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends a message, or loses it where the peer does not read.
    pub fn send(&self, message: &[u8]) {
        let _ = send(self.fd(), message, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
    }

    /// Reads a message. What is longer than the place is the end.
    pub fn receive(&self, place: &mut [u8]) -> Received {
        for _ in 0..2 {
            match recv(self.fd(), place, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC) {
                Ok(got) if got > 0 && got <= place.len() => return Received::Message(got),
                Ok(_) => return Received::End,
                Err(_) => match errno() {
                    libc::EAGAIN => return Received::Nothing,
                    // Said once where a peer did not read everything; what it sent before is there still.
                    libc::ECONNRESET | libc::EINTR => {}
                    _ => return Received::End,
                },
            }
        }
        Received::End
    }

    /// Ends the connection also for children that inherited it.
    pub fn end(&self) {
        let _ = shutdown(self.fd(), Shutdown::Both);
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether the other end is one of those for whom the folder is.
    fn may_speak(&self, folder: &Folder) -> bool {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        // SAFETY: the struct is writable for its size.
        let known =
            unsafe { self.option(libc::SO_PEERCRED, (&raw mut peer).cast(), size_of::<libc::ucred>()) };
        if known.is_some() && (peer.uid == 0 || peer.uid == geteuid().as_raw()) {
            return true;
        }
        let Some(group) = folder.group().filter(|_| known.is_some()) else { return false };
        let mut groups = [0_u32; 1024];
        // SAFETY: the array is writable for its size.
        let size = unsafe { self.option(SO_PEERGROUPS, groups.as_mut_ptr().cast(), size_of_val(&groups)) };
        let count = size.unwrap_or(0) / size_of::<u32>();
        peer.gid == group || groups.iter().take(count).any(|known| *known == group)
    }

    /// Asks for an option of the socket; how many bytes it has.
    ///
    /// # Safety
    /// `place` is writable for `size` bytes.
    unsafe fn option(&self, name: i32, place: *mut libc::c_void, size: usize) -> Option<usize> {
        let mut length = libc::socklen_t::try_from(size).ok()?;
        // SAFETY: by the contract; the length is writable.
        let got = unsafe { libc::getsockopt(self.fd(), libc::SOL_SOCKET, name, place, &raw mut length) };
        (got == 0).then_some(length as usize)
    }
}

/// Supplementary groups of the peer, as it connected or began to listen.
const SO_PEERGROUPS: i32 = 59;

/// The address of a name in the folder, by the folder's descriptor: its path may be longer than an address.
pub fn address(folder: &Folder, name: &CStr) -> Result<UnixAddr, i32> {
    let path = format!("/proc/self/fd/{}/{}", folder.descriptor(), name.to_str().map_err(|_| libc::EINVAL)?);
    UnixAddr::new(path.as_str()).map_err(|_| libc::ENAMETOOLONG)
}
