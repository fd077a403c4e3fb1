//! Connections to other hosts: what brings their messages (MADs) out and in, and to the process that they are
//! for.
//!
//! A thread takes what comes, and sends again what was lost, as the kernel's connection manager does by itself:
//! the program may never ask for an event after its last message, which the other side waits for.

use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use ironverbs_cm::address::Address;
use ironverbs_cm::network::{Exchanges, Output, Peer};
use ironverbs_cm::world::Message;
use nix::unistd::{read, write};
use softrdma::device::{Between, MAD_BYTES, Management, is_link_down};

use crate::mail::{Letter, Mailbox};
use crate::net::is_lost;
use crate::shim::Kept;
use crate::sys::{self, made};

/// Messages that one look takes at most.
const AT_ONCE: usize = 256;
/// Requests at most that wait for who may be about to listen, and when it is looked whether one does.
const MOST_HELD: usize = 16;
const LISTENS_SOON: Duration = Duration::from_millis(5);
/// When the thread goes on after a panic.
const AFTER_PANIC: Duration = Duration::from_millis(100);
/// When a process that could not be answered is answered, if then.
const ADMITS_LATER: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Debug)]
pub struct Network {
    management: Management,
    /// The connections.
    pub exchanges: Exchanges,
    /// The upper bits of the numbers of this process's connections, and where it gets what others took from the
    /// port; `None` where it does not know the folder.
    pub named: Option<(u16, Mailbox)>,
    /// Requests for which somebody may be about to listen.
    held: Vec<Held>,
    /// Wakes the thread.
    wake: Kept,
    /// Until when it sleeps.
    sleeps_until: Option<Duration>,
    /// A process that asks for the port could not be answered.
    admits_later: bool,
}

/// A request that waits for who may be about to listen.
#[derive(Debug)]
struct Held {
    came: Came,
    service: u64,
    to: Address,
    until: Duration,
    /// It is looked at just now.
    is_out: bool,
}

/// What the thread waits for.
#[derive(Debug)]
pub struct Waits {
    /// Descriptors, or -1.
    pub fds: [RawFd; 4],
    /// A time of `CLOCK_MONOTONIC`.
    pub until: Option<Duration>,
}

impl Waits {
    /// Waits for a while and nothing else.
    pub fn a_while() -> Waits {
        Waits { fds: [-1; 4], until: Some(sys::now() + AFTER_PANIC) }
    }
}

/// A message that came.
#[derive(Clone, Debug)]
pub struct Came {
    /// Between which addresses.
    pub peer: Peer,
    /// The message.
    pub mad: Box<[u8; MAD_BYTES]>,
    /// The listener that somebody else found for it; else 0.
    pub listener: u64,
    /// Whether somebody else has taken it from the port.
    pub is_passed_on: bool,
}

impl Network {
    /// One that shares the port with the other processes of this user.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(management: Management) -> Result<Network, i32> {
        // SAFETY: the call takes no pointer.
        let wake = made(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Network {
            management,
            exchanges: Exchanges::default(),
            named: None,
            held: Vec::new(),
            wake: Kept::new(wake)?,
            sleeps_until: None,
            admits_later: false,
        })
    }

    /// Sends a message to another host.
    pub fn send(&mut self, peer: &Peer, message: &Message) {
        if is_lost(message) {
            return;
        }
        let (source, destination) = (Ipv6Addr::from(peer.own), Ipv6Addr::from(peer.address));
        let between = Between { source, destination, interface: peer.interface };
        self.management.send(&between, message);
    }

    /// Whether this is the number of a connection of this process.
    pub fn is_own(&self, number: u32) -> bool {
        self.named.as_ref().is_some_and(|(process, _)| u32::from(*process) == number >> 16)
    }

    /// The next thing to be done but packets, which are sent.
    pub fn next_output(&mut self) -> Option<Output> {
        loop {
            match self.exchanges.next_output()? {
                Output::Packet { peer, message } => self.send(&peer, &message),
                other => return Some(other),
            }
        }
    }

    /// Keeps a request for this long at most, while somebody may be about to listen; whether it is kept.
    pub fn hold(&mut self, came: &Came, service: u64, to: &Address, time: Duration) -> bool {
        let now = sys::now();
        let is_same = |held: &&mut Held| (held.came.peer, &held.came.mad) == (came.peer, &came.mad);
        if let Some(held) = self.held.iter_mut().find(is_same) {
            held.is_out = now >= held.until;
            return !held.is_out;
        }
        if self.held.len() == MOST_HELD {
            return false;
        }
        let (came, to, until) = (came.clone(), *to, now + time);
        self.held.push(Held { came, service, to, until, is_out: false });
        true
    }

    /// Whether requests are kept.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The requests that are kept, to be looked at again: those whose time is over, or where somebody may have
    /// begun to listen (`may_listen`) all. Those that are not kept anew after that are forgotten.
    pub fn held_requests(&mut self, may_listen: bool) -> Vec<(Came, u64, Address)> {
        let now = sys::now();
        let (mut looked_at, rest) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<Vec<_>, _>(|held| may_listen || now >= held.until);
        let found = looked_at.iter_mut().map(|held| {
            held.is_out = true;
            (held.came.clone(), held.service, held.to)
        });
        let found = found.collect();
        self.held = looked_at;
        self.held.extend(rest);
        found
    }

    /// Says the last word of each connection. Asks for no memory.
    pub fn end(&mut self) {
        let Network { management, exchanges, .. } = self;
        for (peer, message) in exchanges.farewells().filter(|(_, message)| !is_lost(message)) {
            let (source, destination) = (Ipv6Addr::from(peer.own), Ipv6Addr::from(peer.address));
            management.send(&Between { source, destination, interface: peer.interface }, message);
        }
    }

    /// What has come, and whether there may be more. Processes that ask for the port are answered.
    pub fn take(&mut self, takes_from_port: bool) -> (Vec<Came>, bool) {
        self.admits_later = !self.management.admit();
        let _none = read(&self.wake, &mut [0; 8]);
        let mut all = Vec::new();
        let more = takes_from_port
            && self.management.receive(|between, mad| {
                if is_link_down() {
                    return;
                }
                let Between { source, destination, interface } = *between;
                let interface = if source.is_unicast_link_local() { interface } else { 0 };
                let peer = Peer { address: source.octets(), own: destination.octets(), interface };
                all.push(Came { peer, mad: Box::new(*mad), listener: 0, is_passed_on: false });
            });
        if let Some((_, mailbox)) = &self.named {
            for Letter { listener, peer, mad } in mailbox.receive(AT_ONCE) {
                all.push(Came { peer, mad: Box::new(mad), listener, is_passed_on: true });
            }
        }
        (all, more)
    }

    /// What the thread waits for from now on.
    pub fn waits(&mut self, takes_from_port: bool, more: bool) -> Waits {
        let [common, door] = self.management.descriptors();
        let letters = self.named.as_ref().map_or(-1, |(_, mailbox)| mailbox.fd());
        let common = if takes_from_port { common } else { -1 };
        self.held.retain(|held| !held.is_out);
        let soon = (!self.held.is_empty()).then(|| sys::now() + LISTENS_SOON);
        // The door stays readable until there is a descriptor for who waits there.
        let admits = self.admits_later.then(|| sys::now() + ADMITS_LATER);
        let door = if self.admits_later { -1 } else { door };
        let due = self.exchanges.next_due().into_iter().chain(soon).chain(admits).min();
        self.sleeps_until = if more { Some(Duration::ZERO) } else { due };
        let fds = [common, door, letters, self.wake.as_raw_fd()];
        Waits { fds, until: self.sleeps_until }
    }

    /// The thread shall look: what it waits for may have changed.
    pub fn look_again(&mut self) {
        let _awake = write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// The same where something is due before the thread looks.
    pub fn look_in_time(&mut self) {
        let due = self.exchanges.next_due();
        if due.is_some_and(|due| self.sleeps_until.is_none_or(|until| due < until)) {
            self.sleeps_until = due;
            self.look_again();
        }
    }
}

/// Sleeps as the thread does.
pub fn wait(waits: &Waits) {
    let mut polled = waits.fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = waits.until.map(|until| {
        let left = until.saturating_sub(sys::now());
        libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(left.subsec_nanos().cast_signed()),
        }
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array and the time live across the call, and the length is the array's.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout, std::ptr::null()) };
}
