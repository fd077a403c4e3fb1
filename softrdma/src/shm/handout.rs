//! How peers get a segment's memory that may not look at its owner's descriptors: other users of a group,
//! processes of other PID or user namespaces, all where `/proc` is missing or the owner is closed to its like
//! (`PR_SET_DUMPABLE`).
//!
//! The owner has a socket in the folder and a thread that sleeps until somebody connects, sends the descriptor
//! of the memory (`SCM_RIGHTS`) and closes the connection. It reads nothing from it and never waits for it, so
//! a client can take up some time of the thread; one that connects a thousand times is answered a thousand
//! times, and others in between. A descriptor that was sent and not taken counts for the sender's user, of whom
//! the kernel lets only so many be under way: another user has no more than [`UNTAKEN`] of them at a time, and
//! asks again. Whether somebody may have the memory is the kernel's to
//! decide at first, by the modes of folder and socket, and then by the client's credentials.
//!
//! The client believes nothing either: it looks whether what answers is the process that has the slot, as far
//! as its number can be seen from here, and maps what it got only when it is [sealed](super::memfd) and that
//! process's own. It waits [`PATIENCE`] at most.
//!
//! Nobody needs this among the processes of one user in one PID namespace, where there is neither socket nor
//! thread: with a second thread a program would pay for locks that it does not need now
//! ([`Segment`](super::segment::Segment) says when it begins).

use std::ffi::{CStr, CString};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::growth::{TryPush, try_arc};
use ironverbs_os::thread::{self, Thread};
use nix::sys::socket::{
    self, AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr, accept4, bind, connect, shutdown,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;

use super::error::{Error, Result, errno};
use super::folder::Folder;
use super::liveness::PeerFile;
use super::lock::Owner;
use super::memfd;
use super::slot;

/// How long a client waits for its answer, which takes microseconds unless the owner is stopped or the machine
/// is busy.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long before what failed for lack of something is tried again.
const PAUSE: Duration = Duration::from_millis(5);
/// Answers that one other user may leave untaken.
const UNTAKEN: usize = 16;
/// Answers that all other users together may.
const UNTAKEN_BY_ALL: usize = 64;
/// Groups that a client may be in and still be looked up.
const GROUPS: usize = 1024;

/// The owner's side.
#[derive(Debug)]
pub(super) struct Handout {
    server: Arc<Server>,
    thread: Thread,
}

#[derive(Debug)]
struct Server {
    socket: Descriptor,
    /// Not kept from being closed: its record lock says that the process lives.
    memory: Weak<Descriptor>,
    folder: Arc<Folder>,
    name: CString,
}

impl Handout {
    /// Begins to hand out.
    ///
    /// Errors: those of the system calls; [`Error::NoMemory`] where no thread can be had.
    pub(super) fn start(folder: &Arc<Folder>, owner: Owner, memory: &Arc<Descriptor>) -> Result<Self> {
        let name = slot::socket_name(owner);
        let socket = folder.place(&name, listen)?;
        let server = || -> Result<_> {
            let (socket, memory) = (Descriptor::new(socket)?, Arc::downgrade(memory));
            let server = try_arc(Server { socket, memory, folder: folder.clone(), name: name.clone() })?;
            let work = server.clone();
            let thread = thread::start(c"ironverbs-mem", move || work.run()).map_err(|_| Error::NoMemory)?;
            Ok(Handout { server, thread })
        };
        server().inspect_err(|_| {
            let _ = folder.remove(&name);
        })
    }

    /// Hands out no more.
    pub(super) fn stop(self) {
        let _ = self.server.folder.remove(&self.server.name);
        // Wakes the thread.
        let told = shutdown(self.server.socket.raw(), Shutdown::Both).is_ok();
        // Where the program closed the socket the thread sleeps on, without anything that others need.
        if told && !self.thread.is_current() {
            self.thread.join();
        }
    }

    /// In a forked child, where the thread does not exist and the socket is the parent's, too.
    pub(super) fn forget(self) {
        std::mem::forget(self.thread);
        // What that thread has of the socket is never given back here.
        // SAFETY: the descriptor is this process's, and means the socket or nothing.
        unsafe { libc::close(self.server.socket.raw()) };
    }
}

/// An answer to another user.
struct Answer {
    client: Descriptor,
    uid: libc::uid_t,
}

impl Answer {
    /// Whether it was sent and neither taken nor given up.
    fn is_untaken(&self) -> bool {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer.
        unsafe { libc::ioctl(self.client.raw(), libc::TIOCOUTQ, &raw mut bytes) == 0 && bytes > 0 }
    }
}

impl Server {
    fn run(&self) {
        let mut untaken = Vec::new();
        loop {
            let fd = self.socket.raw();
            if fd < 0 {
                // The program closed it.
                return;
            }
            let mut place = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: `place` is one writable entry.
            let ready = unsafe { libc::poll(&raw mut place, 1, -1) };
            if place.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
                return;
            }
            if ready < 0 {
                continue;
            }
            let client = accept4(self.socket.raw(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
            match client.map_err(|_| errno()) {
                // SAFETY: accept4 returned this descriptor, and nobody else owns it.
                Ok(client) => self.answer(unsafe { OwnedFd::from_raw_fd(client) }, &mut untaken),
                Err(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => {}
                // Descriptors or memory may be there again in a moment.
                Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS) => std::thread::sleep(PAUSE),
                // The program closed it.
                Err(_) => return,
            }
        }
    }

    /// Sends the memory to a client that may have it, unless other users leave too much `untaken`.
    fn answer(&self, client: OwnedFd, untaken: &mut Vec<Answer>) {
        let Some(uid) = admitted(client.as_raw_fd(), self.folder.group()) else { return };
        let is_stranger = uid != geteuid().as_raw();
        if is_stranger {
            untaken.retain(Answer::is_untaken);
            let by_this_one = untaken.iter().filter(|answer| answer.uid == uid).count();
            let is_too_much = by_this_one >= UNTAKEN || untaken.len() >= UNTAKEN_BY_ALL;
            if is_too_much || untaken.try_reserve(1).is_err() {
                return;
            }
        }
        // Nobody gets a file of the program that has the number by now.
        let Some(memory) = self.memory.upgrade() else { return };
        let fd = memory.raw();
        if fd < 0 {
            return;
        }
        send(client.as_raw_fd(), fd);
        if is_stranger && let Ok(client) = Descriptor::new(client) {
            untaken.push_reserved(Answer { client, uid });
        }
    }
}

/// The user of the process at the other end, when that is this one, or in the group that the folder is for.
/// Root is in every group.
fn admitted(client: RawFd, group: Option<u32>) -> Option<libc::uid_t> {
    let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    if option(client, libc::SO_PEERCRED, std::slice::from_mut(&mut who)) != Some(1) {
        return None;
    }
    let is_in_group = |group: u32| {
        let mut groups = [0u32; GROUPS];
        who.gid == group
            || option(client, libc::SO_PEERGROUPS, &mut groups)
                .and_then(|count| groups.get(..count))
                .is_some_and(|groups| groups.contains(&group))
    };
    let is_own = who.uid == geteuid().as_raw() || who.uid == 0;
    (is_own || group.is_some_and(is_in_group)).then_some(who.uid)
}

/// Reads an option of a socket into `to`: how many of them there are.
fn option<T: Copy>(socket: RawFd, name: libc::c_int, to: &mut [T]) -> Option<usize> {
    let mut len = size_of_val(to) as libc::socklen_t;
    // SAFETY: `to` is writable for the length given, and made of integers, for which all bits are values.
    let r = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, to.as_mut_ptr().cast(), &raw mut len) };
    (r == 0).then_some(len as usize / size_of::<T>())
}

/// Room for one descriptor beside a message and for no more, aligned as its header must be.
#[repr(C, align(8))]
struct Beside([u8; 24]);

/// A message of one byte, and what lies beside it.
fn with_message<R>(beside: &mut Beside, run: impl FnOnce(&mut libc::msghdr) -> R) -> R {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: msghdr is made of integers and pointers, for which all zeroes is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    // SAFETY: computes a number. With room for more, padding included, the kernel would give more descriptors.
    message.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as _;
    run(&mut message)
}

/// Sends a descriptor without waiting. A client that does not take it has gone.
fn send(client: RawFd, fd: RawFd) {
    with_message(&mut Beside([0; 24]), |message| {
        // SAFETY: the message has room for one header and one descriptor behind it, and all that it points to
        // lives across the call.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = message.msg_controllen;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
            libc::sendmsg(client, message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        }
    });
}

/// Takes what was sent, without waiting; `None` when the connection was closed without an answer.
fn receive(server: RawFd) -> Result<Option<OwnedFd>> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    with_message(&mut Beside([0; 24]), |message| {
        // SAFETY: all that the message points to is writable and lives across the call.
        let n = unsafe { libc::recvmsg(server, message, flags) };
        if n < 0 {
            return Err(Error::last("recvmsg"));
        }
        if n == 0 {
            return Ok(None);
        }
        // SAFETY: the kernel filled what lies beside the message, no more than there is room for.
        let header = unsafe { libc::CMSG_FIRSTHDR(message) };
        if header.is_null() {
            let lost = message.msg_flags & libc::MSG_CTRUNC != 0;
            // Sent, and there was no number for it.
            return Err(if lost { Error::Os { call: "recvmsg", errno: libc::EMFILE } } else { Error::Gone });
        }
        // SAFETY: the header is whole, and a descriptor stands behind it when it says so.
        unsafe {
            let fits = (*header).cmsg_len >= libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            if (*header).cmsg_level != libc::SOL_SOCKET || (*header).cmsg_type != libc::SCM_RIGHTS || !fits {
                return Err(Error::Gone);
            }
            Ok(Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned())))
        }
    })
}

/// A socket of the kind that both sides have.
fn socket() -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(|_| Error::last("socket"))
}

/// An address that means `name` in an open folder, or the open file itself without one. By the descriptor: the
/// folder's own path may be longer than an address, and mean another folder by now. Without `/proc` by the path
/// after all.
#[expect(clippy::disallowed_methods, reason = "a path, and gone when this returns")]
fn address(folder: &Folder, fd: RawFd, name: &CStr) -> Result<UnixAddr> {
    let mut path = format!("/proc/thread-self/fd/{fd}").into_bytes();
    if std::fs::symlink_metadata("/proc/thread-self/fd").is_err() {
        use std::os::unix::ffi::OsStrExt;
        path = folder.path().as_os_str().as_bytes().to_vec();
    } else if fd != folder.raw() {
        return to_address(&path);
    }
    path.push(b'/');
    path.extend_from_slice(name.to_bytes());
    to_address(&path)
}

fn to_address(path: &[u8]) -> Result<UnixAddr> {
    UnixAddr::new(path).map_err(|_| Error::Folder("its path is too long for a socket, and there is no /proc"))
}

/// A socket that listens under this name, with the mode and group that the folder's users need.
fn listen(folder: &Folder, name: &CStr) -> Result<OwnedFd> {
    let socket = socket()?;
    let address = address(folder, folder.raw(), name)?;
    // What the name will have, so that it is never open to more users than at the end.
    let _ = fchmod(&socket, Mode::from_bits_retain(folder.file_mode()));
    bind(socket.as_raw_fd(), &address).map_err(|_| match errno() {
        libc::ENOSPC | libc::EDQUOT | libc::ENOMEM => Error::NoMemory,
        errno => Error::Os { call: "bind", errno },
    })?;
    let ready = folder
        .adopt_socket(name)
        .and_then(|()| socket::listen(&socket, Backlog::MAXCONN).map_err(|_| Error::last("listen")));
    ready.inspect_err(|_| {
        let _ = folder.remove(name);
    })?;
    Ok(socket)
}

/// Asks for the memory of a claim, which the process `pid` holds: a number of this PID namespace, not positive
/// where it cannot be seen.
///
/// Errors: [`Error::Gone`] when nobody answers; [`Error::Corrupt`] when what answers is not that process, or
/// what it sends not its own sealed memory; those of the system calls.
pub(super) fn ask(folder: &Folder, owner: Owner, pid: libc::pid_t) -> Result<PeerFile> {
    let until = Instant::now() + PATIENCE;
    let name = slot::socket_name(owner);
    let (found, stat) = match folder.look(&name) {
        Err(Error::Os { errno: libc::ENOENT, .. }) => return Err(Error::Gone),
        other => other?,
    };
    if stat.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(Error::Corrupt("not a socket"));
    }
    let address = address(folder, found.as_raw_fd(), &name)?;
    let memory = loop {
        if let Some(memory) = ask_once(&address, pid, until)? {
            break memory;
        }
        // Others have left too many answers untaken.
        if Instant::now() >= until {
            return Err(Error::Gone);
        }
        std::thread::sleep(PAUSE);
    };
    if !memfd::is_sealed(memory.as_raw_fd(), memfd::LASTING) {
        discard(memory);
        return Err(Error::Corrupt("not a sealed file"));
    }
    // It may be of this process: then it is not closed.
    memfd::verified(PeerFile::new(memory)?, pid, memfd::LASTING)
}

/// What the process sends over one connection; `None` when it closes that without an answer.
fn ask_once(address: &UnixAddr, pid: libc::pid_t, until: Instant) -> Result<Option<OwnedFd>> {
    let socket = socket()?;
    let fd = socket.as_raw_fd();
    while connect(fd, address).is_err() {
        match errno() {
            libc::EINTR => {}
            // As many wait as can.
            libc::EAGAIN if Instant::now() < until => std::thread::sleep(PAUSE),
            libc::EAGAIN | libc::ECONNREFUSED | libc::ENOENT => return Err(Error::Gone),
            _ => return Err(Error::last("connect")),
        }
    }
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let told = option(fd, libc::SO_PEERCRED, std::slice::from_mut(&mut who)) == Some(1);
    if !told || who.pid.max(0) != pid.max(0) {
        return Err(Error::Corrupt("another process's socket"));
    }
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as libc::c_int;
        let mut place = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `place` is one writable entry.
        match unsafe { libc::poll(&raw mut place, 1, left) } {
            0 => return Err(Error::Gone),
            n if n < 0 && errno() != libc::EINTR => return Err(Error::last("poll")),
            n if n < 0 => {}
            _ => break,
        }
    }
    receive(fd)
}

/// Closes what is no memory, where nobody waits: closing a file of somebody's own file system (FUSE) asks that
/// somebody.
fn discard(fd: OwnedFd) {
    let fd = std::mem::ManuallyDrop::new(fd);
    let number = fd.as_raw_fd();
    // Without a thread it stays open.
    let _ = thread::start(c"ironverbs-close", move || {
        // One of this process's own files is kept.
        // SAFETY: nobody else knows the descriptor.
        drop(PeerFile::new(unsafe { OwnedFd::from_raw_fd(number) }));
    });
}

#[cfg(test)]
mod tests;
