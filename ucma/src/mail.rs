//! Messages of other hosts between the processes of one user, since any of them may be the one that takes them
//! from the port: one that finds a message for another sends it there, with where it is from.
//!
//! Each has a socket in the folder of the network namespace, which only its user may send to, as
//! [`registry`](crate::registry) names it. A child of `fork`, which never reads, does not keep it.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use ironverbs_cm::network::Peer;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, UnixAddr, bind, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstat};
use nix::unistd::geteuid;
use softrdma::device::MAD_BYTES;
use softrdma::shm::error::Error;
use softrdma::shm::folder::Folder;

use crate::shim::{self, Kept};
use crate::sockets::address;
use crate::sys::{self, errno};

/// What stands before a message: listener, both addresses, interface.
const HEADER: usize = 8 + 16 + 16 + 4;
const LENGTH: usize = HEADER + MAD_BYTES;
const KIND: i32 = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// A message that somebody else took from the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The name of the listener's socket that a request is for; else 0.
    pub listener: u64,
    /// Where it is from.
    pub peer: Peer,
    /// The message.
    pub mad: [u8; MAD_BYTES],
}

/// The descriptor of this process's mailbox; -1 where there is none.
static OWN: AtomicI32 = AtomicI32::new(-1);

/// This is a child of `fork`: letters for its parent are the parent's. Asks for no memory.
pub fn forked() {
    let fd = OWN.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        shim::close(fd);
    }
}

/// A socket where letters arrive. A process has one.
#[derive(Debug)]
pub struct Mailbox(Kept);

impl Mailbox {
    /// Makes one of this name, for letters of the own user alone.
    ///
    /// # Errors
    /// EEXIST where something has the name; those of the system.
    pub fn new(folder: &Folder, name: &CStr) -> Result<Mailbox, i32> {
        let made = folder.place(name, |folder, name| {
            let failed = |errno| Error::Os { call: "bind", errno };
            let socket = sys::socket(libc::AF_UNIX, KIND).and_then(Kept::new).map_err(failed)?;
            setsockopt(&socket, sockopt::PassCred, &true).map_err(|_| failed(errno()))?;
            let at = address(folder, name).map_err(failed)?;
            bind(socket.as_raw_fd(), &at).map_err(|_| failed(errno()))?;
            // Nobody but this user can put anything else there: it is a folder of the user's, or a private one.
            let mode = Mode::S_IRUSR | Mode::S_IWUSR;
            fchmodat(folder.fd()?, name, mode, FchmodatFlags::FollowSymlink).map_err(|_| {
                let errno = errno();
                let _ = folder.remove(name);
                failed(errno)
            })?;
            Ok(socket)
        });
        let socket = made.map_err(|why| match why.errno() {
            libc::EADDRINUSE => libc::EEXIST,
            errno => errno,
        })?;
        OWN.store(socket.as_raw_fd(), Ordering::Relaxed);
        Ok(Mailbox(socket))
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sends a letter to the mailbox of this name; whether there is somebody who gets it.
    pub fn send(&self, folder: &Folder, name: &CStr, letter: &Letter) -> bool {
        let Ok(found) = folder.socket(name) else { return false };
        // In a group's folder others may have given the name to a socket of theirs.
        if fstat(&found).is_ok_and(|stat| stat.st_uid != geteuid().as_raw()) {
            return false;
        }
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        let Ok(address) = UnixAddr::new(path.as_str()) else { return false };
        let bytes = letter.bytes();
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let sent = sendmsg(self.fd(), &[IoSlice::new(&bytes)], &[], flags, Some(&address));
        // Of who has no room it is lost, as on the way.
        sent.is_ok() || !matches!(errno(), libc::ECONNREFUSED | libc::ENOENT)
    }

    /// The next letters, of as many messages at most: those of others than the own user, who may send without
    /// end, are thrown away, but count.
    pub fn receive(&self, most: usize) -> Vec<Letter> {
        let all = (0..most).map_while(|_| self.next());
        all.flatten().collect()
    }

    /// `None` where nothing has come; in that, `None` of what is no letter of the own user.
    fn next(&self) -> Option<Option<Letter>> {
        loop {
            let mut bytes = [0; LENGTH + 1];
            let mut beside = nix::cmsg_space!(libc::ucred);
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
            let Ok(got) = recvmsg::<UnixAddr>(self.fd(), &mut parts, Some(&mut beside), flags) else {
                if errno() == libc::EINTR {
                    continue;
                }
                return None;
            };
            let length = got.bytes;
            let is_own = got.cmsgs().is_ok_and(|mut all| {
                all.any(|one| match one {
                    ControlMessageOwned::ScmCredentials(who) => who.uid() == geteuid().as_raw(),
                    _ => false,
                })
            });
            return Some(bytes.get(..length).and_then(Letter::of).filter(|_| is_own));
        }
    }
}

impl Letter {
    fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.listener.to_ne_bytes());
        bytes[8..24].copy_from_slice(&self.peer.address);
        bytes[24..40].copy_from_slice(&self.peer.own);
        bytes[40..44].copy_from_slice(&self.peer.interface.to_ne_bytes());
        bytes[HEADER..].copy_from_slice(&self.mad);
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Letter> {
        let (listener, rest) = bytes.split_first_chunk()?;
        let (address, rest) = rest.split_first_chunk()?;
        let (own, rest) = rest.split_first_chunk()?;
        let (interface, mad) = rest.split_first_chunk()?;
        let peer = Peer { address: *address, own: *own, interface: u32::from_ne_bytes(*interface) };
        Some(Letter { listener: u64::from_ne_bytes(*listener), peer, mad: mad.try_into().ok()? })
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let _other = OWN.compare_exchange(self.fd(), -1, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::CString;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use softrdma::shm::folder::Config;

    /// A folder of its own, gone with the test.
    struct Place(PathBuf);

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn place(group: Option<u32>) -> (Place, Folder) {
        let path = std::env::temp_dir().join(format!("ironverbs-mail-{:x}", sys::random()));
        let folder = Folder::open(&Config { path: path.clone(), group }).unwrap();
        (Place(path), folder)
    }

    fn own(folder: &Folder) -> (Mailbox, CString) {
        let name = CString::new(format!("m{:016x}", sys::random())).unwrap();
        (Mailbox::new(folder, &name).unwrap(), name)
    }

    #[test]
    fn a_letter_arrives_as_it_was_sent() {
        let (_place, folder) = place(None);
        let (here, _) = own(&folder);
        let (there, to) = own(&folder);
        let peer = Peer { address: [1; 16], own: [2; 16], interface: 3 };
        let letter = Letter { listener: 4, peer, mad: [5; MAD_BYTES] };
        assert!(here.send(&folder, &to, &letter));
        assert_eq!(there.receive(2), [letter]);
        assert_eq!(there.receive(1), []);
        assert_eq!(Mailbox::new(&folder, &to).err(), Some(libc::EEXIST));
        drop(there);
        assert!(!here.send(&folder, &to, &letter));
        folder.remove(&to).unwrap();
        assert!(!here.send(&folder, &to, &letter));
        assert!(Mailbox::new(&folder, &to).is_ok());
    }

    #[test]
    fn letters_are_for_the_own_user_alone_whatever_the_umask() {
        // SAFETY: cannot fail; files of tests that run beside it are in folders of their own.
        let before = unsafe { libc::umask(0) };
        for group in [None, Some(nix::unistd::getegid().as_raw())] {
            let (place, folder) = place(group);
            let (_mailbox, name) = own(&folder);
            let mode = std::fs::metadata(place.0.join(name.to_str().unwrap())).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{group:?}");
        }
        // SAFETY: as above.
        unsafe { libc::umask(before) };
    }

    #[test]
    fn a_forked_child_does_not_keep_the_mailbox() {
        let (_place, folder) = place(None);
        let (here, _) = own(&folder);
        let letter = Letter {
            listener: 4,
            peer: Peer { address: [1; 16], own: [2; 16], interface: 3 },
            mad: [5; MAD_BYTES],
        };
        let (there, to) = own(&folder);
        let (read, write) = nix::unistd::pipe().unwrap();
        // SAFETY: the child makes system calls alone.
        let child = unsafe { libc::fork() };
        if child == 0 {
            OWN.store(there.fd(), Ordering::Relaxed);
            forked();
            drop(write);
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        }
        drop(write);
        // It ends when the child has done that.
        assert_eq!(nix::unistd::read(&read, &mut [0]), Ok(0));
        drop(there);
        let is_there = here.send(&folder, &to, &letter);
        // SAFETY: a child that was not awaited.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(!is_there);
    }

    #[test]
    fn one_look_has_an_end() {
        let (_place, folder) = place(None);
        let (here, _) = own(&folder);
        let (there, to) = own(&folder);
        let peer = Peer { address: [1; 16], own: [2; 16], interface: 3 };
        let letter = Letter { listener: 4, peer, mad: [5; MAD_BYTES] };
        let flags = MsgFlags::MSG_DONTWAIT;
        for _ in 0..3 {
            let to = address(&folder, &to).unwrap();
            sendmsg(here.fd(), &[IoSlice::new(b"no letter")], &[], flags, Some(&to)).unwrap();
        }
        assert!(here.send(&folder, &to, &letter));
        assert_eq!(there.receive(2), []);
        assert_eq!(there.receive(2), [letter]);
    }

    #[test]
    fn what_is_no_letter_is_thrown_away() {
        let letter = Letter {
            listener: 1,
            peer: Peer { address: [1; 16], own: [2; 16], interface: 3 },
            mad: [5; MAD_BYTES],
        };
        let bytes = letter.bytes();
        for length in 0..LENGTH {
            assert_eq!(Letter::of(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Letter::of(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Letter::of(&bytes), Some(letter));
    }
}
