//! Payload straight from one process's memory to another's: `process_vm_readv` and `process_vm_writev`.
//!
//! One copy, no page of either process needs to be mapped in the other, and a bad address is an error of the
//! call, not a signal. This holds for a process's own memory too, so loopback takes the same way.
//!
//! The kernel asks for the rights of a debugger (`PTRACE_MODE_ATTACH_REALCREDS`):
//!
//! | target | answer |
//! |---|---|
//! | its real, effective and saved user and group ids are the caller's real ones, dumpable | allowed |
//! | another user's, without `CAP_SYS_PTRACE` | `EPERM` |
//! | not dumpable: set-user-id, started from an unreadable file, `prctl(PR_SET_DUMPABLE, 0)` | `EPERM` |
//! | Yama `ptrace_scope` 1: not a descendant, unless it named a tracer (`PR_SET_PTRACER`) | `EPERM` |
//! | Yama `ptrace_scope` 2 | only with `CAP_SYS_PTRACE` |
//! | Yama `ptrace_scope` 3 | `EPERM` for everybody (attaching), until reboot |
//! | behind a seccomp filter that knows neither call (older container runtimes) | `EPERM` or `ENOSYS` |
//! | no `CONFIG_CROSS_MEMORY_ATTACH` | `ENOSYS` |
//!
//! [`probe`] finds out per peer; where the answer is no, another way must carry the payload.
//!
//! # Whose memory it is
//! The calls name a process id, under which another program may run by now. So each call's first range in the
//! peer is eight bytes of a page that only the program has that is meant ([`Image`]). The kernel goes through
//! the ranges in order, all on the memory of one program: where that page is not, it ends before the first byte
//! of the payload. Nothing that happens between the look and the call, and no time in between, can make it copy
//! elsewhere.
//!
//! That range costs a call of eight bytes 120 ns beyond its 400 (Linux 6.18), and 340 beyond 800 in a virtual
//! machine. A descriptor of `/proc/PID/mem`, which stays with one program's memory, needs no such proof and is
//! not used all the same:
//!
//! - The program may close it behind the library's back and give its number to a file. A write needs a look at
//!   the descriptor first, and the two cost what this call does; another thread may come in between all the
//!   same.
//! - The kernel writes there where `process_vm_writev` refuses: into private mappings that may only be read,
//!   such as the program's text; and reads what nobody may read (`PROT_NONE`).
//! - It knows nothing of deregistered memory: what a process looked up before it was stopped would be reached
//!   when it goes on, identity page or not.
//! - It copies by way of a page of the kernel's: 64 KiB take nearly twice as long.

use super::error::{Error, Result, errno};
use super::image::Image;
use super::pages;
use super::segment::Peer;
use super::tasks;

/// A range of memory of either process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte, as its process addresses it.
    pub addr: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Bytes of an identity page that a transfer begins with.
const PROOF: usize = 8;

/// Where a transfer begins: the word is read, or the one behind it is written.
fn proof_of(image: &Image, direction: Direction) -> u64 {
    if direction == Direction::Read { image.at } else { image.at + PROOF as u64 }
}

/// Whether it is still there.
fn is_there(image: &Image) -> bool {
    let mut word = 0u64;
    let to = [libc::iovec { iov_base: (&raw mut word).cast(), iov_len: PROOF }];
    let from = [range(image.at, PROOF)];
    // SAFETY: the only bytes written are `word`.
    image.at == 0 || unsafe { call(image.pid, Direction::Read, &to, &from) } > 0 && word == image.word
}

fn range(addr: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut(addr as usize), iov_len: len }
}

/// Why a transfer stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This process's range is not mapped, or not with the access needed.
    Local,
    /// The peer's range is not mapped, or not with the access needed.
    Remote,
    /// The system forbids this way to the peer.
    Denied,
    /// The peer is dead, or its process id is not visible from here.
    Gone,
    /// Another program has the process id, or the peer has moved its identity page since the image was read.
    /// Nothing was written to it.
    Replaced,
    /// Another `errno` value, such as `ENOMEM`.
    Os(i32),
}

/// Result of a transfer.
pub type Moved = std::result::Result<(), Fault>;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer to this process.
    Read,
    /// From this process to the peer.
    Write,
}

/// Ranges handed to the kernel at once, on each side; as many as a work request may have.
pub(super) const BATCH: usize = 32;

/// Ranges that most transfers have no more of.
const FEW: usize = 2;

pub(super) const NO_RANGE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// A place in a list of ranges.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    spans: &'a [Span],
    skip: u64,
}

impl<'a> Cursor<'a> {
    /// At the first byte.
    pub(super) fn new(spans: &'a [Span]) -> Self {
        Cursor { spans, skip: 0 }
    }

    /// The next ranges, at most as many as `to` takes and `limit` bytes: their number and their bytes.
    #[inline]
    pub(super) fn fill(&self, to: &mut [libc::iovec], limit: u64) -> (usize, u64) {
        let (mut count, mut bytes, mut skip) = (0, 0, self.skip);
        for span in self.spans {
            let len = (span.len - skip).min(limit - bytes);
            if count == to.len() || bytes == limit {
                break;
            }
            if len > 0 {
                to[count] = libc::iovec {
                    iov_base: std::ptr::without_provenance_mut(span.addr.wrapping_add(skip) as usize),
                    iov_len: len as usize,
                };
                count += 1;
                bytes += len;
            }
            skip = 0;
        }
        (count, bytes)
    }

    /// Moves on by `bytes`, which are there.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.skip += bytes;
        while let Some((first, rest)) = self.spans.split_first() {
            if self.skip < first.len {
                break;
            }
            self.skip -= first.len;
            self.spans = rest;
        }
    }

    /// Address of the next byte.
    fn address(&self) -> Option<u64> {
        self.spans.iter().find(|s| s.len > 0).map(|s| s.addr.wrapping_add(self.skip))
    }
}

/// Bytes moved in one call at most: some milliseconds' worth, since the kernel does not end a copy that is
/// under way.
const CALL_LIMIT: u64 = 64 << 20;

/// Moves all bytes between this process's ranges and the peer's, in order; the shorter list ends it.
///
/// When it fails, a beginning of the bytes may have been moved, as with hardware.
///
/// # Safety
/// Bytes that are overwritten, in this process or (when `to` is its own) by way of the peer's ranges, must be
/// memory that a program gave away for this: no Rust reference to them may be live.
#[inline]
pub unsafe fn transfer(to: &Image, direction: Direction, local: &[Span], remote: &[Span]) -> Moved {
    if let ([here], [there]) = (local, remote) {
        // SAFETY: the caller's promise.
        let whole = unsafe { transfer_whole(to, direction, here, there) };
        if whole {
            return Ok(());
        }
    }
    // Lists are short, most of the time, and lists for many cost more than that to prepare.
    let few = local.len() <= FEW && remote.len() <= FEW;
    // SAFETY: the caller's promise.
    unsafe {
        if few {
            transfer_by::<{ FEW + 1 }>(to, direction, local, remote)
        } else {
            transfer_by::<{ BATCH + 1 }>(to, direction, local, remote)
        }
    }
}

/// One range to one range by one call, as most transfers are: whether all bytes were moved. After `false` the
/// caller begins again by the general way, which finds out why.
///
/// # Safety
/// As for [`transfer`].
#[inline(always)]
pub(crate) unsafe fn transfer_whole(to: &Image, direction: Direction, here: &Span, there: &Span) -> bool {
    let len = here.len.min(there.len);
    if len == 0 || len > CALL_LIMIT {
        return false;
    }
    let mut word = 0u64;
    let ours =
        [libc::iovec { iov_base: (&raw mut word).cast(), iov_len: PROOF }, range(here.addr, len as usize)];
    let theirs = [range(proof_of(to, direction), PROOF), range(there.addr, len as usize)];
    if to.at == 0 {
        // This process needs no proof.
        // SAFETY: as below.
        return unsafe { call(to.pid, direction, &ours[1..], &theirs[1..]) } == len as isize;
    }
    // SAFETY: the caller vouches for the bytes that are written, `word` and the word of the identity page are
    // there for it, and the kernel answers bad addresses with an error.
    let n = unsafe { call(to.pid, direction, &ours, &theirs) };
    n == (PROOF + len as usize) as isize && (direction == Direction::Write || word == to.word)
}

/// With so many ranges in a call, the first of which is the proof.
///
/// # Safety
/// As for [`transfer`].
unsafe fn transfer_by<const RANGES: usize>(
    to: &Image,
    direction: Direction,
    local: &[Span],
    remote: &[Span],
) -> Moved {
    let mut here = Cursor::new(local);
    let mut there = Cursor::new(remote);
    let (mut ours, mut theirs) = ([NO_RANGE; RANGES], [NO_RANGE; RANGES]);
    let mut word = 0u64;
    ours[0] = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: PROOF };
    theirs[0] = range(proof_of(to, direction), PROOF);
    let (first, proof) = if to.at == 0 { (1, 0) } else { (0, PROOF) };
    loop {
        let (mut their_count, available) = there.fill(&mut theirs[1..], CALL_LIMIT);
        let (our_count, bytes) = here.fill(&mut ours[1..], available);
        if bytes < available {
            their_count = there.fill(&mut theirs[1..], bytes).0;
        }
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both lists have as many entries as told. The caller vouches for the bytes that are written,
        // `word` and the word of the identity page are there for it, and the kernel answers bad addresses with
        // an error.
        let n = unsafe { call(to.pid, direction, &ours[first..=our_count], &theirs[first..=their_count]) };
        if n > proof as isize {
            if proof > 0 && direction == Direction::Read && word != to.word {
                return Err(Fault::Replaced);
            }
            let moved = n as u64 - proof as u64;
            here.advance(moved);
            there.advance(moved);
            continue;
        }
        return Err(match errno() {
            // The proof alone: what stopped the rest is not told, and is an address as a rule.
            _ if n > 0 => who_failed(to, direction, &here, &there),
            // Zero bytes without an error does not happen with ranges that are not empty.
            _ if n == 0 => Fault::Os(libc::EIO),
            libc::EFAULT => who_failed(to, direction, &here, &there),
            libc::EPERM | libc::ENOSYS => Fault::Denied,
            libc::ESRCH => Fault::Gone,
            other => Fault::Os(other),
        });
    }
}

/// Eight bytes of the program that has the process id now, whichever that is: a guess, until a [`transfer`] to
/// the same image succeeds afterwards. Then they were this program's, because a process id that was given out
/// again, a program that ended by `execve` and an identity page that was moved do not come back. `None` when
/// the bytes are not there, or when the image goes by a thread's number, which may come back.
#[inline]
pub(super) fn guess(of: &Image, addr: u64) -> Option<u64> {
    if of.by_thread {
        return None;
    }
    let mut word = 0u64;
    let to = [libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<u64>() }];
    // SAFETY: the only bytes written are `word`.
    let n = unsafe { call(of.pid, Direction::Read, &to, &[range(addr, size_of::<u64>())]) };
    (n == size_of::<u64>() as isize).then_some(word)
}

/// # Safety
/// As for [`transfer`].
#[inline]
unsafe fn call(
    pid: libc::pid_t,
    direction: Direction,
    local: &[libc::iovec],
    remote: &[libc::iovec],
) -> isize {
    let (l, r) = (local.as_ptr(), remote.as_ptr());
    let (ln, rn) = (local.len() as libc::c_ulong, remote.len() as libc::c_ulong);
    // SAFETY: the lists are readable for the lengths given; the rest is the caller's promise.
    unsafe {
        match direction {
            Direction::Read => libc::process_vm_readv(pid, l, ln, r, rn, 0),
            Direction::Write => libc::process_vm_writev(pid, l, ln, r, rn, 0),
        }
    }
}

/// `EFAULT` does not tell whose memory failed. The source only needs to be readable, which can be tried without
/// changing anything; when it is, the destination failed.
#[cold]
fn who_failed(to: &Image, direction: Direction, here: &Cursor<'_>, there: &Cursor<'_>) -> Fault {
    if !is_there(to) {
        return Fault::Replaced;
    }
    match direction {
        // As the process itself reads it, which reads frames of a device, too.
        Direction::Write if here.address().is_some_and(|addr| pages::check_own(addr, 1, false).is_err()) => {
            Fault::Local
        }
        Direction::Write => Fault::Remote,
        Direction::Read if there.address().is_some_and(|addr| !reads(to.pid, addr)) => Fault::Remote,
        Direction::Read => Fault::Local,
    }
}

/// Whether the kernel reads a byte at `addr` of the program that has this process id, or thread's number, now.
fn reads(pid: libc::pid_t, addr: u64) -> bool {
    let mut byte = 0u8;
    let into = [libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 }];
    // SAFETY: the only byte written is `byte`.
    unsafe { call(pid, Direction::Read, &into, &[range(addr, 1)]) == 1 }
}

/// Whether the kernel would reach this process's memory at `addr` for others whom it lets in. It does not reach
/// frames of a device, and `false` also where it lets nobody in.
pub fn reaches_own(addr: u64) -> bool {
    // Not by the process's number: its first thread may have ended.
    reads(tasks::own(), addr)
}

/// What [`probe`] found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The kernel copies between the two processes.
    Direct(Image),
    /// It does not; the `errno` value says why (0: the process id means another process, or none, here, or the
    /// peer cannot prove what is its own).
    Closed(i32),
}

/// Tries whether payload can go straight to the peer's memory and back, by reading the word of its identity
/// page. This also proves that the process id means the peer, in this PID namespace.
///
/// Errors: [`Error::Gone`] when the peer is dead.
pub fn probe(peer: &Peer) -> Result<Way> {
    let Some(pid) = peer.pid()? else { return Ok(Way::Closed(0)) };
    let image = peer.image();
    let mut word = 0u64;
    let to = [libc::iovec { iov_base: (&raw mut word).cast(), iov_len: PROOF }];
    // Without a page, the answer to an address that nobody has still says whether the kernel would let this
    // process in.
    let from = [range(image.map_or(0, |image| image.at), PROOF)];
    // SAFETY: the only bytes written are `word`.
    let n = unsafe { call(pid, Direction::Read, &to, &from) };
    let cause = errno();
    Ok(match image {
        Some(image) if n == PROOF as isize && word == image.word => Way::Direct(image),
        _ if n < 0 && cause == libc::ESRCH && !peer.lives() => return Err(Error::Gone),
        None if cause == libc::EFAULT => Way::Closed(0),
        _ => Way::Closed(if n < 0 { cause } else { 0 }),
    })
}

/// Whether the kernel reaches the peer's memory by this number of a thread.
pub(super) fn reaches(peer: &Peer, thread: libc::pid_t) -> bool {
    peer.image().is_some_and(|image| is_there(&image.by(thread)))
}

/// Lets every process of the user that the kernel would otherwise allow reach this process's memory, where Yama
/// restricts it to descendants. Also opens this process to debuggers, so it is for the program's user to ask
/// for. `false` when the kernel has no Yama.
pub fn admit_peers() -> bool {
    // SAFETY: plain system call.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) == 0 }
}

#[cfg(test)]
mod tests;
