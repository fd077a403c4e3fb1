//! The UDP port of RoCE v2, 4791 unless another is asked for, shared by the processes of one user in one
//! network namespace, without rights.
//!
//! | file | what |
//! |---|---|
//! | [`set`] | the sockets, and the program by which the kernel chooses one for a packet |
//! | [`share`] | how a process comes to the sockets that others have: who makes them, who hands them on |
//! | [`groups`] | what comes for multicast groups |
//! | [`claim`] | which process has which place |
//! | [`forked`] | what a forked child inherits of all this, and gives up |
//! | [`options`] | what may be asked of the sockets |
//! | [`socket`] | one of the sockets: its room, whether it sends trains |
//! | [`flow`] | addresses and ports of a packet |
//! | [`control`] | what stands beside a datagram: addresses, traffic class, length of segments |
//! | [`send`], [`receive`] | packets out and in, many at a time |
//! | [`pass`] | packets that arrived at another process's socket |
//! | [`number`] | which UDP port it is |
//! | [`mtu`] | the largest RoCE MTU that goes through an interface |
//! | [`examination`] | what a host has for all this |
//! | [`holder`], [`error`] | who has the port where it is not to be had, in words |
//!
//! # Places
//!
//! All sockets have the same port and address (`SO_REUSEPORT`), and the kernel runs a program over each packet
//! that says the index of the socket that gets it: `number >> 14` of the destination queue pair, which is the
//! slot of its process ([`number`](crate::carrier::near::number)). The index counts in the order in which
//! sockets were bound, and when one is closed the last takes its place. So all [`SOCKETS`] are made at once by
//! whoever comes first, and none is ever closed while a process lives: the maker sends them into a socket pair,
//! where they stay in flight. Each process has the end at which they could be received, looks at them
//! (`MSG_PEEK`), keeps its own, and closes the others. When the last process has ended, the kernel closes them
//! all.
//!
//! Place [`COMMON`] has no process: there are packets to queue pair 1, where connections are asked for, and
//! those that name no process with a place. Every process has that socket, and whoever receives first has the
//! packet.
//!
//! # What is believed
//!
//! Whoever runs as the same user, by the kernel's word (`SO_PEERCRED`); that is who could bind the port beside
//! these sockets, too. Nothing that comes by the port is, but what [`pass`] proves to be from there.

pub mod claim;
pub mod control;
pub mod error;
pub mod examination;
pub mod flow;
pub mod forked;
pub mod groups;
pub mod holder;
pub mod mtu;
pub mod number;
pub mod options;
pub mod pass;
pub mod receive;
pub mod send;
pub mod set;
pub mod share;
pub mod socket;

use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use ironverbs_os::error::Error;

use claim::Claim;
use error::PortError;
use options::Options;
use set::COMMON;
use share::Shared;
use socket::Socket;

/// The port as one process has it.
#[derive(Debug)]
pub struct Port {
    own: Socket,
    common: Socket,
    shared: Shared,
    options: Options,
    /// What comes for multicast groups, once the process was in one.
    groups: OnceLock<Socket>,
    /// Given up last.
    claim: Mutex<Option<Claim>>,
}

impl Port {
    /// Takes the place of the process with this slot of the folder, whatever has arrived there before. Waits
    /// for other processes that begin or end at the same time, some seconds at most.
    ///
    /// The process has one port at a time for a slot. Others wait for it until it [admits](Self::admit) them.
    ///
    /// # Errors
    /// Why the port is not to be had.
    pub fn open(slot: u16, options: Options) -> Result<Self, PortError> {
        if slot >= COMMON {
            return Err(PortError::NoPlace { slot });
        }
        number::asked_for().ok_or(PortError::NotAPort)?;
        let claim = Claim::take(slot)?;
        let shared = Shared::join(options)?;
        let [own, common] = shared.take([slot, COMMON])?;
        let own = Socket::adopt(own, slot, options)?;
        own.drain();
        let common = Socket::adopt(common, COMMON, options)?;
        let groups = OnceLock::new();
        Ok(Port { own, common, shared, options, groups, claim: Mutex::new(Some(claim)) })
    }

    /// What comes for multicast groups, where the process is, or was, in one.
    #[must_use]
    pub fn groups(&self) -> Option<&Socket> {
        self.groups.get()
    }

    /// The same, made where there is none yet.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn open_groups(&self) -> Result<&Socket, Error> {
        if let Some(groups) = self.groups.get() {
            return Ok(groups);
        }
        // Of two that are made at once the second ends here.
        let made = groups::open(self.options)?;
        Ok(self.groups.get_or_init(|| made))
    }

    /// What comes for this process, and by which it sends.
    #[must_use]
    pub fn own(&self) -> &Socket {
        &self.own
    }

    /// What comes for no process in particular: each packet arrives at one of those that receive here.
    #[must_use]
    pub fn common(&self) -> &Socket {
        &self.common
    }

    /// A descriptor that is readable when a process asks for the sockets: then one that lives has to
    /// [admit](Self::admit) it.
    #[must_use]
    pub fn door(&self) -> RawFd {
        self.shared.door()
    }

    /// Another port of this process or of another one may have the place from now on. What arrives is not this
    /// one's any more.
    pub fn leave(&self) {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Answers the processes that ask for the sockets. Waits for nothing. `false` where some could not be
    /// answered now, for want of a descriptor for one: the door stays readable then.
    pub fn admit(&self) -> bool {
        self.shared.admit()
    }
}
