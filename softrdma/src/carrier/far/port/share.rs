//! How a process comes to the sockets: from one that has them, or by making them.
//!
//! All processes of a user meet at a name of the network namespace (an abstract address of unix(7)). Whoever
//! binds it makes the sockets and sends them into a socket pair; every process listens there from then on by
//! the same socket, so that it lives as long as one of them. A process that comes connects, and is sent both
//! the listening socket and the end of the pair where the sockets are in flight.
//!
//! Of two that begin at the same time one binds the name. The other connects to it and waits: for the answer,
//! or for the end of the connection, when the first has failed or died, and then begins anew.

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::error::Error;
use ironverbs_os::growth::{TryPush, try_room};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::unistd::geteuid;

use super::error::PortError;
use super::forked;
use super::holder::{self, Holder};
use super::number::udp_port;
use super::options::Options;
use super::set::{self, SOCKETS};
use crate::wire::flow::ROCE_PORT;

/// How long an answer is waited for, which takes microseconds unless all that could give it are stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// How long before something is tried again that no event announces.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// What processes agree upon: how many sockets there are, and what each is for.
const VERSION: u8 = 1;
/// Processes that are answered by one call.
const AT_ONCE: usize = 16;

/// What the processes have in common.
#[derive(Debug)]
pub struct Shared {
    /// Where they meet: others connect here.
    door: Descriptor,
    /// Where the sockets are in flight.
    keeper: Descriptor,
}

impl Shared {
    /// From whoever has it, or made.
    ///
    /// # Errors
    /// Why it is not to be had.
    pub fn join(options: Options) -> Result<Self, PortError> {
        let uid = geteuid().as_raw();
        let address = address(uid, None)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let asked = ask(&address, uid)?;
            let shared = match asked {
                Asked::Given(shared) => return Ok(shared),
                Asked::Ended => None,
                Asked::Nobody => make(&address, options)?,
            };
            if let Some(shared) = shared {
                return Ok(shared);
            }
            if Instant::now() >= until {
                return Err(PortError::NoAnswer { pid: 0 });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn new(door: OwnedFd, keeper: OwnedFd) -> Result<Self, Error> {
        let (door, keeper) = (Descriptor::new(door)?, Descriptor::new(keeper)?);
        forked::give_up_in_children(&door);
        forked::give_up_in_children(&keeper);
        Ok(Shared { door, keeper })
    }

    /// See [`Port::door`](super::Port::door).
    pub(crate) fn door(&self) -> RawFd {
        self.door.raw_lately()
    }

    /// The sockets of these places.
    ///
    /// # Errors
    /// `EMFILE` where the process has not as many descriptors left as there are sockets;
    /// [`PortError::OtherVersion`] where they are others.
    pub fn take<const N: usize>(&self, places: [u16; N]) -> Result<[OwnedFd; N], PortError> {
        let mut all = receive(self.keeper.raw(), SOCKETS, libc::MSG_PEEK)?.sockets;
        if all.len() != SOCKETS {
            return Err(PortError::OtherVersion);
        }
        // From behind, so that the places of those before stay as they are.
        let mut taken = [const { None }; N];
        for place in (0..SOCKETS).rev() {
            let socket = all.pop();
            if let Some(at) = places.iter().position(|wanted| usize::from(*wanted) == place) {
                taken[at] = socket;
            }
        }
        if taken.iter().any(Option::is_none) {
            return Err(PortError::OtherVersion);
        }
        Ok(taken.map(|socket| socket.unwrap_or_else(|| unreachable!("was looked at"))))
    }

    /// See [`Port::admit`](super::Port::admit).
    pub(crate) fn admit(&self) -> bool {
        for _ in 0..AT_ONCE {
            let (door, keeper) = (self.door.raw(), self.keeper.raw());
            let Ok(client) = socket::accept4(door, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK) else {
                return !matches!(errno(), libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS);
            };
            // SAFETY: accept4 returned this descriptor, and nobody else owns it.
            let client = unsafe { OwnedFd::from_raw_fd(client) };
            let is_own = credentials(&client).is_ok_and(|who| who.uid == geteuid().as_raw());
            if is_own && keeper >= 0 {
                // One that does not take it has gone.
                let _ = send(client.as_raw_fd(), &[door, keeper]);
            }
        }
        true
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        forked::forget(&self.door);
        forked::forget(&self.keeper);
    }
}

/// The name at which processes of a user meet, or that of a place.
pub(super) fn address(uid: libc::uid_t, place: Option<u16>) -> Result<UnixAddr, Error> {
    use std::io::Write;
    let mut name = [0u8; 48];
    let room = name.len();
    let mut rest = &mut name[..];
    // There is room for any three numbers.
    let _ = write!(rest, "ironverbs-roce-{uid}");
    let port = udp_port();
    if port != ROCE_PORT {
        let _ = write!(rest, ":{port}");
    }
    if let Some(place) = place {
        let _ = write!(rest, "-{place}");
    }
    let length = room - rest.len();
    UnixAddr::new_abstract(&name[..length]).map_err(|_| Error { call: "bind", errno: libc::EINVAL })
}

/// What became of asking.
enum Asked {
    Given(Shared),
    /// Nobody has the name, or does not listen yet.
    Nobody,
    /// Who was asked has ended, or failed.
    Ended,
}

/// Asks those that have the sockets.
fn ask(address: &UnixAddr, uid: libc::uid_t) -> Result<Asked, PortError> {
    let own = socket::socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )
    .map_err(|_| Error::last("socket"))?;
    if socket::connect(own.as_raw_fd(), address).is_err() {
        return match errno() {
            libc::ECONNREFUSED => Ok(Asked::Nobody),
            // As many wait as can.
            libc::EAGAIN | libc::EINTR => Ok(Asked::Ended),
            _ => Err(Error::last("connect").into()),
        };
    }
    let who = credentials(&own)?;
    if who.uid != uid {
        return Err(PortError::NameTaken { uid: who.uid });
    }
    if !poll(own.as_raw_fd(), PATIENCE)? {
        return Err(PortError::NoAnswer { pid: who.pid });
    }
    let received = match receive(own.as_raw_fd(), 2, 0) {
        Ok(received) => received,
        Err(PortError::Os(Error { errno: libc::ECONNRESET | libc::EAGAIN, .. })) => return Ok(Asked::Ended),
        Err(error) => return Err(error),
    };
    let mut sockets = received.sockets;
    match (received.version, sockets.pop(), sockets.pop()) {
        (None, ..) => Ok(Asked::Ended),
        (Some(VERSION), Some(keeper), Some(door)) => Ok(Asked::Given(Shared::new(door, keeper)?)),
        _ => Err(PortError::OtherVersion),
    }
}

/// Makes the sockets, unless somebody else has the name by now: `None`.
fn make(address: &UnixAddr, options: Options) -> Result<Option<Shared>, PortError> {
    let door = socket::socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )
    .map_err(|_| Error::last("socket"))?;
    if socket::bind(door.as_raw_fd(), address).is_err() {
        return if errno() == libc::EADDRINUSE { Ok(None) } else { Err(Error::last("bind").into()) };
    }
    // Others wait from now on.
    socket::listen(&door, Backlog::MAXCONN).map_err(|_| Error::last("listen"))?;
    let sockets = make_alone(options)?;
    let (keeper, sender) = socket::socketpair(
        AddressFamily::Unix,
        SockType::Datagram,
        None,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
    )
    .map_err(|_| Error::last("socketpair"))?;
    let mut numbers = [-1; SOCKETS];
    for (number, socket) in numbers.iter_mut().zip(&sockets) {
        *number = socket.as_raw_fd();
    }
    send(sender.as_raw_fd(), &numbers)?;
    Ok(Some(Shared::new(door, keeper)?))
}

/// Makes the sockets once those before them are gone: of processes that are ending, the kernel closes
/// descriptors one after the other.
fn make_alone(options: Options) -> Result<Vec<OwnedFd>, PortError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match set::make(options) {
            Ok(sockets) => return Ok(sockets),
            Err(Error { call: "bind", errno: libc::EADDRINUSE }) => {}
            Err(error) => return Err(error.into()),
        }
        match holder::look() {
            Some(Holder::Unseen) if Instant::now() < until => std::thread::sleep(PAUSE),
            Some(holder) => return Err(PortError::Held(holder)),
            // Gone since, or hidden.
            None if Instant::now() < until => std::thread::sleep(PAUSE),
            None => return Err(PortError::Held(Holder::Unseen)),
        }
    }
}

/// The process at the other end of a connection: who connected, or who listened first.
pub(super) fn credentials(socket: &OwnedFd) -> Result<libc::ucred, Error> {
    let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let place = (&raw mut who).cast();
    // SAFETY: `who` is writable for the length given, and made of integers.
    let done = unsafe {
        let fd = socket.as_raw_fd();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut length)
    };
    if done == 0 { Ok(who) } else { Err(Error::last("getsockopt")) }
}

/// Waits until something is to be read, or the connection has ended; `false` when neither came in time.
pub(crate) fn poll(fd: RawFd, patience: Duration) -> Result<bool, Error> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as libc::c_int;
        let mut place = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `place` is one writable entry.
        match unsafe { libc::poll(&raw mut place, 1, left) } {
            0 => return Ok(false),
            n if n > 0 => return Ok(true),
            _ if errno() == libc::EINTR => {}
            _ => return Err(Error::last("poll")),
        }
    }
}

/// This thread's `errno`.
pub(super) fn errno() -> i32 {
    ironverbs_os::errno::Errno::last().0
}

/// Room for the descriptors of a whole set beside a message, with their header, aligned as that must be.
#[repr(C, align(8))]
struct Beside([u8; 16 + 4 * SOCKETS + 4]);

/// The message of one byte, with room for so many descriptors beside it.
fn with_message<R>(version: &mut u8, count: usize, run: impl FnOnce(&mut libc::msghdr) -> R) -> R {
    let mut beside = Beside([0; 16 + 4 * SOCKETS + 4]);
    let mut part = libc::iovec { iov_base: (&raw mut *version).cast(), iov_len: 1 };
    // SAFETY: msghdr is made of integers and pointers, for which all zeroes is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    // SAFETY: computes a number. With room for more the kernel would give more descriptors.
    let length = unsafe { libc::CMSG_LEN((count.min(SOCKETS) * size_of::<RawFd>()) as u32) };
    message.msg_controllen = (length as usize).min(beside.0.len()) as _;
    run(&mut message)
}

/// Sends descriptors, at most [`SOCKETS`], without waiting.
fn send(to: RawFd, descriptors: &[RawFd]) -> Result<(), Error> {
    let mut version = VERSION;
    with_message(&mut version, descriptors.len(), |message| {
        // SAFETY: the message has room for one header and as many descriptors behind it as there are, and all
        // that it points to lives across the call.
        let sent = unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = message.msg_controllen;
            let place = libc::CMSG_DATA(header);
            for (nth, descriptor) in descriptors.iter().take(SOCKETS).enumerate() {
                place.cast::<RawFd>().add(nth).write_unaligned(*descriptor);
            }
            libc::sendmsg(to, message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
        };
        if sent < 0 { Err(Error::last("sendmsg")) } else { Ok(()) }
    })
}

/// What a message brought.
struct Received {
    /// Its byte; `None` where the connection was closed.
    version: Option<u8>,
    sockets: Vec<OwnedFd>,
}

/// Receives a message with at most so many descriptors, without waiting.
fn receive(from: RawFd, most: usize, flags: libc::c_int) -> Result<Received, PortError> {
    let mut sockets = try_room(most).map_err(|_| Error { call: "recvmsg", errno: libc::ENOMEM })?;
    let mut version = 0;
    let (read, lost) = with_message(&mut version, most, |message| {
        let flags = flags | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: all that the message points to is writable and lives across the call.
        let read = unsafe { libc::recvmsg(from, message, flags) };
        if read < 0 {
            return Err(Error::last("recvmsg"));
        }
        // SAFETY: the kernel filled what lies beside the message, no more than there is room for. A header is
        // whole, and what it says stands behind it. Descriptors that came belong to nobody else.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            if !header.is_null()
                && (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_RIGHTS
            {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let place = libc::CMSG_DATA(header).cast::<RawFd>();
                for nth in 0..(bytes / size_of::<RawFd>()).min(most) {
                    sockets.push_reserved(OwnedFd::from_raw_fd(place.add(nth).read_unaligned()));
                }
            }
        }
        Ok((read, message.msg_flags & libc::MSG_CTRUNC != 0))
    })?;
    if lost {
        // There was no number for some.
        return Err(Error { call: "recvmsg", errno: libc::EMFILE }.into());
    }
    Ok(Received { version: (read > 0).then_some(version), sockets })
}
