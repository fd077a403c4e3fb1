//! Messages of other hosts between the processes of one user, since any of them may be the one that takes them
//! from the port: one that finds a message for another sends it there, with where it is from.
//!
//! Processes have abstract names (unix(7)) of the network namespace, which the kernel takes back at any death:
//! by the upper bits of the numbers that their connections have, and by what names their listeners.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};

use ironverbs_cm::network::Peer;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrLike, UnixAddr, bind, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::unistd::geteuid;
use softrdma::device::MAD_BYTES;

use crate::shim::Kept;
use crate::sys::{self, errno};

/// What stands before a message: listener, both addresses, interface.
const HEADER: usize = 8 + 16 + 16 + 4;
const LENGTH: usize = HEADER + MAD_BYTES;
const KIND: i32 = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// Whom a letter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The process whose connections have numbers with these upper bits.
    Connections(u16),
    /// The process that has this number in the folder of the network namespace.
    Owner(u64),
}

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

/// A socket where letters arrive.
#[derive(Debug)]
pub struct Mailbox(Kept);

impl Mailbox {
    /// One for what is addressed so.
    ///
    /// # Errors
    /// EADDRINUSE where somebody has it; those of the system.
    pub fn new(to: To) -> Result<Mailbox, i32> {
        let socket = Kept::new(sys::socket(libc::AF_UNIX, KIND)?)?;
        setsockopt(&socket, sockopt::PassCred, &true).map_err(|_| errno())?;
        bind(socket.as_raw_fd(), &address(to)?).map_err(|_| errno())?;
        Ok(Mailbox(socket))
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sends a letter; whether there is somebody who gets it.
    pub fn send(&self, to: To, letter: &Letter) -> bool {
        let Ok(address) = address(to) else { return false };
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

fn address(to: To) -> Result<UnixAddr, i32> {
    let uid = geteuid();
    let name = match to {
        To::Connections(bits) => format!("ironverbs-cm-{uid}-{bits:04x}"),
        To::Owner(owner) => format!("ironverbs-cm-{uid}-o{owner:016x}"),
    };
    let address = UnixAddr::new_abstract(name.as_bytes()).map_err(|_| libc::EINVAL)?;
    debug_assert!(address.len() > 2);
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (Mailbox, To) {
        let to = To::Owner(sys::random());
        (Mailbox::new(to).unwrap(), to)
    }

    #[test]
    fn a_letter_arrives_as_it_was_sent() {
        let (here, _) = own();
        let (there, to) = own();
        let peer = Peer { address: [1; 16], own: [2; 16], interface: 3 };
        let letter = Letter { listener: 4, peer, mad: [5; MAD_BYTES] };
        assert!(here.send(to, &letter));
        assert_eq!(there.receive(2), [letter]);
        assert_eq!(there.receive(1), []);
        assert_eq!(Mailbox::new(to).err(), Some(libc::EADDRINUSE));
        drop(there);
        assert!(!here.send(to, &letter));
        assert!(Mailbox::new(to).is_ok());
    }

    #[test]
    fn one_look_has_an_end() {
        let (here, _) = own();
        let (there, to) = own();
        let peer = Peer { address: [1; 16], own: [2; 16], interface: 3 };
        let letter = Letter { listener: 4, peer, mad: [5; MAD_BYTES] };
        let flags = MsgFlags::MSG_DONTWAIT;
        for _ in 0..3 {
            sendmsg(here.fd(), &[IoSlice::new(b"no letter")], &[], flags, Some(&address(to).unwrap()))
                .unwrap();
        }
        assert!(here.send(to, &letter));
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
