//! Packets out: many to one place by one system call.
//!
//! A packet is gathered from pieces, those of its payload where the program has them, and ends with the four
//! bytes of its invariant CRC. That covers IPv4's identification, which is the kernel's choice and known here
//! alone: 0 for a packet that leaves by itself, and counted from 0 in a train. So the caller gives no checksums
//! but a function that makes them, which is asked again where a train turns out not to go.
//!
//! A train is what one call of `sendmsg` with `UDP_SEGMENT` takes: packets of one length, of which the last may
//! be shorter. There are none where the way out cannot make UDP checksums (`EIO`): then packets leave one by
//! one from there on.

use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::ops::Range;

use ironverbs_os::growth::try_box;
use ironverbs_os::sys::uncancelled;

use crate::error::Error;

use super::control::Written;
use super::error::SendError;
use super::flow::{Flow, NAME, name};
use super::number::udp_port;
use super::share::errno;
use super::socket::Socket;

/// Pieces that one packet may have.
pub const PIECES: usize = PARTS - 1;
/// Bytes of a packet's invariant CRC.
pub(crate) const SEAL: usize = 4;
/// Pieces and checksums of one call.
const PARTS: usize = 256;
/// Messages of one call: trains, or packets that leave by themselves.
const MESSAGES: usize = 16;
/// Packets of one call.
const PACKETS: usize = 128;
/// Packets of a train (`UDP_MAX_SEGMENTS`, of Linux before 6.9).
const TRAIN: usize = 64;
/// Bytes of a train, which is one datagram at first, with the longer headers of IPv6.
const LONGEST: usize = 65_535 - 40 - 8;

/// Bytes to be sent, which the kernel reads while it sends.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Piece<'a>(libc::iovec, PhantomData<&'a [u8]>);

impl<'a> Piece<'a> {
    /// Those of a slice.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Self {
        Piece(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }, PhantomData)
    }

    /// Those of the program's memory. Where it is not there by then, the packet is not sent
    /// ([`SendError::Fault`]).
    #[must_use]
    pub fn at(address: usize, length: usize) -> Self {
        let iov_base = std::ptr::with_exposed_provenance_mut(address);
        Piece(libc::iovec { iov_base, iov_len: length }, PhantomData)
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.iov_len
    }
}

/// A packet without its invariant CRC.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(pub &'a [Piece<'a>]);

/// Packets to be sent, in their order.
pub(crate) trait Packets {
    /// How many.
    fn count(&self) -> usize;

    /// Bytes of one, with those of the invariant CRC.
    fn length(&self, nth: usize) -> usize;

    /// In how many parts it leaves.
    fn parts(&self, nth: usize) -> usize;

    /// Ends one with its invariant CRC, with this identification of IPv4, and says where its parts are. There
    /// are four bytes for the CRC beside.
    fn seal(&mut self, nth: usize, identification: u16, beside: &mut [u8; SEAL], parts: &mut [Part]);
}

/// Where bytes are that leave.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Part(libc::iovec);

impl Part {
    /// Those of a slice.
    ///
    /// # Safety
    /// It is there, and nobody writes to it, until the packets have left.
    #[inline(always)]
    pub(crate) unsafe fn of(bytes: &mut [u8]) -> Self {
        Part(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() })
    }
}

/// Packets made of pieces, and what says their checksums.
struct Pieced<'a, S> {
    packets: &'a [Packet<'a>],
    seal: S,
}

impl<S: FnMut(usize, u16) -> [u8; SEAL]> Packets for Pieced<'_, S> {
    fn count(&self) -> usize {
        self.packets.len()
    }

    fn length(&self, nth: usize) -> usize {
        self.packets[nth].0.iter().map(Piece::length).fold(SEAL, usize::saturating_add)
    }

    fn parts(&self, nth: usize) -> usize {
        self.packets[nth].0.len() + 1
    }

    fn seal(&mut self, nth: usize, identification: u16, beside: &mut [u8; SEAL], parts: &mut [Part]) {
        *beside = (self.seal)(nth, identification);
        let pieces = self.packets[nth].0.iter().map(|piece| Part(piece.0));
        // SAFETY: the bytes beside are the outbox's, as long as it sends.
        let last = unsafe { Part::of(beside) };
        parts.iter_mut().zip(pieces.chain([last])).for_each(|(to, part)| *to = part);
    }
}

/// What became of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Sent {
    /// So many have left, the first of them.
    pub packets: usize,
    /// Why the next one has not.
    pub error: Option<SendError>,
}

/// What a system call that sends is told; kept, since it is large.
pub struct Outbox {
    parts: [Part; PARTS],
    seals: [[u8; SEAL]; PACKETS],
    controls: [Written; MESSAGES],
    messages: [libc::mmsghdr; MESSAGES],
    /// Behind which packet each message ends.
    ends: [usize; MESSAGES],
}

// SAFETY: its pointers are made, used and forgotten within one call of `send`, which has it alone.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    /// One for any number of calls.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new() -> Result<Box<Self>, Error> {
        let nothing = Part(libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        Ok(try_box(Outbox {
            parts: [nothing; PARTS],
            seals: [[0; SEAL]; PACKETS],
            controls: [Written::new(); MESSAGES],
            // SAFETY: made of integers and pointers, for which all zeroes is a value.
            messages: unsafe { zeroed() },
            ends: [0; MESSAGES],
        })?)
    }

    /// Sends packets of one flow, in their order, each ending with what `seal` says: of the packet of this
    /// number, with this identification of IPv4. Waits for nothing.
    pub fn send(
        &mut self,
        socket: &Socket,
        flow: &Flow,
        packets: &[Packet<'_>],
        seal: impl FnMut(usize, u16) -> [u8; SEAL],
    ) -> Sent {
        self.send_in_trains(socket, flow, &mut Pieced { packets, seal }, TRAIN)
    }

    /// The same of packets however they are made, with so many in a message at most.
    #[inline]
    pub(crate) fn send_in_trains(
        &mut self,
        socket: &Socket,
        flow: &Flow,
        packets: &mut impl Packets,
        most: usize,
    ) -> Sent {
        let (mut sent, all) = (0, packets.count());
        // Those before leave by themselves, whatever the socket does.
        let mut singles = 0;
        while sent < all {
            let trains = socket.sends_trains();
            let (train, end) = match trains && sent >= singles {
                true => (most.clamp(1, TRAIN), all),
                false => (1, if trains { singles } else { all }),
            };
            let count = self.load(flow, packets, sent..end, train);
            if count == 0 {
                return Sent { packets: sent, error: Some(SendError::Shape) };
            }
            match self.launch(socket, count) {
                Ok(launched) => sent = self.ends[launched.clamp(1, count) - 1],
                Err(libc::EINTR) => {}
                Err(libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT | libc::ENOSYS)
                    if self.ends[0] > sent + 1 =>
                {
                    socket.stop_trains();
                }
                // Longer than the interface takes, for one: by themselves the packets show which is it.
                Err(libc::EINVAL | libc::EMSGSIZE) if self.ends[0] > sent + 1 => singles = self.ends[0],
                Err(errno) => return Sent { packets: sent, error: Some(SendError::of(errno)) },
            }
        }
        Sent { packets: sent, error: None }
    }

    /// Makes messages of these packets, with at most `train` in each: how many there is room for.
    #[inline]
    fn load(&mut self, flow: &Flow, packets: &mut impl Packets, which: Range<usize>, train: usize) -> usize {
        let (mut at, mut part, mut count) = (which.start, 0, 0);
        while count < MESSAGES {
            let (began, from) = (at, part);
            let (mut longest, mut length, mut is_last) = (0, 0, false);
            while at < which.end {
                let (size, parts) = (packets.length(at), packets.parts(at));
                let joins = at == began || !is_last && size <= longest && length + size <= LONGEST;
                let Some(beside) = self.seals.get_mut(at - which.start) else { break };
                let Some(to) = self.parts.get_mut(part..).and_then(|left| left.get_mut(..parts)) else {
                    break;
                };
                if at - began == train || !joins {
                    break;
                }
                packets.seal(at, (at - began) as u16, beside, to);
                part += parts;
                longest = longest.max(size);
                (length, is_last) = (length + size, size < longest);
                at += 1;
            }
            if at == began {
                break;
            }
            // A train is no longer than `LONGEST`.
            let segment = if at - began > 1 { longest as u16 } else { 0 };
            let (to, control) = self.controls[count].of(flow, segment);
            let header = &mut self.messages[count].msg_hdr;
            header.msg_name = (&raw mut *to).cast();
            header.msg_namelen = NAME;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = control.length() as _;
            header.msg_iov = self.parts[from..].as_mut_ptr().cast();
            header.msg_iovlen = (part - from) as _;
            self.ends[count] = at;
            count += 1;
        }
        count
    }

    /// Sends the first messages: how many have left, at least one.
    #[inline]
    fn launch(&mut self, socket: &Socket, count: usize) -> Result<usize, i32> {
        let (fd, flags) = (socket.raw(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // The bare call is no cancellation point.
        // SAFETY: headers, name, control and lists of parts live across the call, and what these point to does,
        // as who made them promised, or is the program's, of which the kernel says where it is not there.
        let sent = unsafe {
            let messages = self.messages.as_mut_ptr();
            match count {
                // It answers with bytes, and is there sooner.
                1 => libc::syscall(libc::SYS_sendmsg, fd, &raw mut (*messages).msg_hdr, flags).min(1),
                _ => libc::syscall(libc::SYS_sendmmsg, fd, messages, count as libc::c_uint, flags),
            }
        };
        usize::try_from(sent).map_err(|_| errno())
    }
}

/// Whether packets of these lengths, without their checksums, leave as one train with at most so many packets,
/// of which the last is shorter: behind one as long as the others the kernel of the other side may put what
/// comes next.
pub(crate) fn is_train(lengths: &[usize], most: usize) -> bool {
    let Some(([first, others @ ..], last)) = lengths.split_last().map(|(last, before)| (before, last)) else {
        return false;
    };
    let bytes = lengths.iter().map(|length| length + SEAL).sum::<usize>();
    others.iter().all(|length| length == first)
        && last < first
        && lengths.len() <= most.min(TRAIN)
        && bytes <= LONGEST
}

/// Sends two pieces as one datagram to an address of this host, without further ado: whether it has left.
pub(super) fn send_plain(socket: &Socket, to: std::net::Ipv6Addr, pieces: [&[u8]; 2]) -> bool {
    let mut name = name(to, udp_port(), 0);
    let mut parts = pieces.map(|piece| Piece::of(piece).0);
    // SAFETY: made of integers and pointers, for which all zeroes is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    let (fd, flags) = (socket.raw(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    // SAFETY: all that the message points to lives across the call, and is read there.
    uncancelled(|| unsafe { libc::sendmsg(fd, &raw const message, flags) }) >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_of_packets_of_one_length_and_a_shorter_one() {
        assert!(is_train(&[20, 16], 2));
        assert!(is_train(&[1036, 1036, 1036, 16], TRAIN));
        // As many bytes as a datagram has.
        let fits = (LONGEST - 16 - SEAL) / (4108 + SEAL);
        let mut lengths = vec![4108; fits];
        lengths.push(16);
        assert!(is_train(&lengths, TRAIN));
        lengths.insert(0, 4108);
        assert!(!is_train(&lengths, TRAIN));
        for lengths in [&[16, 16][..], &[12, 16], &[1036, 464, 16], &[1052, 1036, 16], &[16], &[]] {
            assert!(!is_train(lengths, TRAIN), "{lengths:?}");
        }
        assert!(!is_train(&[1036, 1036, 16], 2));
    }
}
