//! Packets in: many by one system call, into memory that is there.

use std::mem::{MaybeUninit, zeroed};
use std::net::Ipv6Addr;

use ironverbs_os::growth::{try_box, try_room};

use crate::carrier::far::batch::Batch;
use crate::error::Error;
use crate::wire::opcode::Opcode;
use crate::wire::packet::{BTH_BYTES, is_positive};

use super::control::Control;
use super::flow::{Flow, NAME, name};
use super::groups::GROUPS;
use super::number::udp_port;
use super::pass::{self, Passed};
use super::set::place_of;
use super::share::errno;
use super::socket::Socket;

/// Datagrams of one call, each of which may be many packets that the kernel put together.
const MESSAGES: usize = 8;
/// Bytes of the longest.
const LONGEST: usize = 1 << 16;

/// Packets that are told together, at most: two messages of 64 KiB with the largest path MTU.
pub const TOGETHER: usize = 32;

/// A packet of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// What is behind the UDP header, whatever it is, and at least one byte.
    pub bytes: &'a [u8],
    /// Its number in the datagram that the kernel made of several.
    pub nth: u16,
}

/// What became of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets that were told.
    pub packets: usize,
    /// Packets of other places, which were passed on.
    pub passed: usize,
    /// Packets that were thrown away: cut off, or of a place to which none can be passed.
    pub lost: usize,
    /// There may be more, of which it is worth asking at once.
    pub more: bool,
    /// There may be more, whether that is worth it or not.
    pub may_be_more: bool,
}

/// Where packets arrive; kept, since it is large. Of its memory only what has ever been written to is there.
pub struct Inbox {
    bytes: Vec<MaybeUninit<u8>>,
    names: [libc::sockaddr_in6; MESSAGES],
    controls: [Control; MESSAGES],
    parts: [libc::iovec; MESSAGES],
    messages: [libc::mmsghdr; MESSAGES],
    /// Datagrams that the next call asks for: it takes the kernel as long to find that there is not another one
    /// as to find that there is none.
    asks_for: usize,
}

// SAFETY: its pointers are made, used and forgotten within one call of `receive`, which has it alone.
unsafe impl Send for Inbox {}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    /// One for any number of calls.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new() -> Result<Box<Self>, Error> {
        let mut bytes = try_room(MESSAGES * LONGEST)?;
        // SAFETY: there is room for as many, and any bytes are values of `MaybeUninit`.
        unsafe { bytes.set_len(MESSAGES * LONGEST) };
        Ok(try_box(Inbox {
            bytes,
            names: [name(Ipv6Addr::UNSPECIFIED, 0, 0); MESSAGES],
            controls: [Control::new(); MESSAGES],
            parts: [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES],
            // SAFETY: made of integers and pointers, for which all zeroes is a value.
            messages: unsafe { zeroed() },
            asks_for: 1,
        })?)
    }

    /// Tells the packets that have come for the socket's place, with the flow of each; waits for none. Those of
    /// one flow that came together are told together, at most [`TOGETHER`]. What the kernel put together with
    /// them although it is for another place is passed on there. Packets to a group are for the socket of
    /// [`groups`](super::groups), and it has no others.
    ///
    /// # Errors
    /// The `errno` value of `recvmsg`, but that nothing is there.
    pub fn receive(
        &mut self,
        socket: &Socket,
        mut tell: impl FnMut(&Flow, &[Segment<'_>]),
    ) -> Result<Received, i32> {
        let mut received = Received::default();
        let count = match self.fetch(socket) {
            Ok(count) => count,
            Err(libc::EAGAIN | libc::EINTR) => {
                self.asks_for = 1;
                return Ok(received);
            }
            Err(errno) => return Err(errno),
        };
        received.may_be_more = count == self.asks_for;
        received.more = received.may_be_more && count > 1;
        self.asks_for = (2 * count).min(MESSAGES);
        let mut together = (None, Batch::<_, TOGETHER>::new());
        let mut tell_all = |(flow, segments): &mut (Option<Flow>, Batch<_, TOGETHER>)| {
            if let Some(flow) = flow.as_ref().filter(|_| !segments.all().is_empty()) {
                tell(flow, segments.all());
                segments.truncate(0);
            }
        };
        for nth in 0..count {
            let Some((flow, bytes, length)) = self.message(nth) else {
                received.lost += 1;
                continue;
            };
            // No bytes are no segment.
            let is_for_groups = socket.place() == GROUPS;
            if flow.is_to_group() != is_for_groups {
                received.lost += 1;
                continue;
            }
            if together.0 != Some(flow) {
                tell_all(&mut together);
                together.0 = Some(flow);
            }
            for segment in in_order(bytes, length) {
                if together.1.all().len() == TOGETHER {
                    tell_all(&mut together);
                }
                if is_for_groups {
                    received.packets += 1;
                    together.1.push(segment);
                    continue;
                }
                if place_of(segment.bytes) != socket.place() {
                    let is_passed = pass::on(socket, &flow, segment.bytes);
                    *if is_passed { &mut received.passed } else { &mut received.lost } += 1;
                    continue;
                }
                match pass::opened(&flow, segment.bytes) {
                    Passed::No => together.1.push(segment),
                    Passed::From(from, packet) if place_of(packet) == socket.place() => {
                        tell_all(&mut together);
                        let mut alone = (Some(from), Batch::new());
                        alone.1.push(Segment { bytes: packet, nth: 0 });
                        tell_all(&mut alone);
                    }
                    Passed::From(..) => {
                        received.lost += 1;
                        continue;
                    }
                }
                received.packets += 1;
            }
        }
        tell_all(&mut together);
        Ok(received)
    }

    /// Has the kernel write what is there: how many messages.
    fn fetch(&mut self, socket: &Socket) -> Result<usize, i32> {
        let buffers = self.bytes.chunks_exact_mut(LONGEST);
        let beside = self.names.iter_mut().zip(&mut self.controls).zip(&mut self.parts);
        let messages = self.messages.iter_mut().take(self.asks_for);
        for ((message, buffer), ((name, control), part)) in messages.zip(buffers).zip(beside) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: LONGEST };
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut *name).cast();
            header.msg_namelen = NAME;
            header.msg_iov = &raw mut *part;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = Control::ROOM as _;
            header.msg_flags = 0;
            message.msg_len = 0;
        }
        let (fd, most) = (socket.raw(), self.asks_for as libc::c_uint);
        // The bare call is no cancellation point.
        // SAFETY: each header names memory of its own, writable for the lengths that it says, across the call.
        let count = unsafe {
            let (messages, no_time) = (self.messages.as_mut_ptr(), std::ptr::null_mut::<libc::timespec>());
            match most {
                // It is there sooner, also where nothing is there.
                1 => {
                    let header = &raw mut (*messages).msg_hdr;
                    let bytes = libc::syscall(libc::SYS_recvmsg, fd, header, libc::MSG_DONTWAIT);
                    (*messages).msg_len = bytes.max(0) as libc::c_uint;
                    if bytes < 0 { -1 } else { 1 }
                }
                _ => libc::syscall(libc::SYS_recvmmsg, fd, messages, most, libc::MSG_DONTWAIT, no_time),
            }
        };
        usize::try_from(count).map_err(|_| errno())
    }

    /// A message that the kernel has written: its flow, its bytes, and how long the packets in it are. `None`
    /// of one that is not whole.
    fn message(&self, nth: usize) -> Option<(Flow, &[u8], usize)> {
        let (message, name) = (self.messages.get(nth)?, self.names.get(nth)?);
        let header = &message.msg_hdr;
        let cut = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        if cut || header.msg_namelen != NAME || i32::from(name.sin6_family) != libc::AF_INET6 {
            return None;
        }
        let length = (message.msg_len as usize).min(LONGEST);
        let bytes = self.bytes.get(nth * LONGEST..)?.get(..length)?;
        // SAFETY: the kernel has written as many bytes there.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), length) };
        let beside = self.controls.get(nth)?.read(header.msg_controllen);
        let flow = Flow {
            source: Ipv6Addr::from(name.sin6_addr.s6_addr),
            destination: beside.destination?,
            source_port: u16::from_be(name.sin6_port),
            destination_port: udp_port(),
            interface: beside.interface,
            traffic_class: beside.traffic_class,
            hop_limit: beside.hop_limit,
            label: beside.label,
        };
        Some((flow, bytes, if beside.segment > 0 { beside.segment } else { LONGEST }))
    }
}

/// The packets that the kernel put together, each of this length but the last. Of requests and the
/// acknowledgement that left behind them the latter is first: what it ends has ended when the program has what
/// the requests bring. A negative one stays, since the queue pair may break over it.
fn in_order(bytes: &[u8], length: usize) -> impl Iterator<Item = Segment<'_>> {
    // Most are one packet, which is not worth a division.
    let count =
        if bytes.len() > length { bytes.len().div_ceil(length) } else { usize::from(!bytes.is_empty()) };
    let (before, last) = bytes.split_at(count.saturating_sub(1) * length);
    let is_request = |packet: &[u8]| opcode(packet).is_some_and(|opcode| !opcode.operation().is_response());
    let is_behind = is_acknowledgement(last) && before.chunks(length).all(is_request);
    let first = if is_behind { count - 1 } else { 0 };
    (first..count).chain(0..first).map(move |nth| {
        let bytes = &bytes[nth * length..];
        Segment { bytes: &bytes[..length.min(bytes.len())], nth: nth as u16 }
    })
}

/// Whether it is an acknowledgement, and says that nothing is missing.
fn is_acknowledgement(packet: &[u8]) -> bool {
    opcode(packet) == Some(Opcode::ACKNOWLEDGE)
        && packet.get(BTH_BYTES).is_some_and(|syndrome| is_positive(*syndrome))
}

fn opcode(packet: &[u8]) -> Option<Opcode> {
    packet.first().and_then(|byte| Opcode::from_byte(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of these packets, by opcode and syndrome, as they are told; the last is shorter.
    fn told(packets: &[(u8, u8)]) -> Vec<u16> {
        let mut bytes = Vec::new();
        for (opcode, syndrome) in packets {
            bytes.extend([*opcode; BTH_BYTES]);
            bytes.extend([*syndrome, 0, 0, 0]);
        }
        bytes.truncate(bytes.len().saturating_sub(2));
        let length = BTH_BYTES + 4;
        let segments: Vec<_> = in_order(&bytes, length).collect();
        for Segment { bytes: segment, nth } in &segments {
            let from = &bytes[usize::from(*nth) * length..];
            assert_eq!(*segment, &from[..length.min(from.len())]);
        }
        segments.iter().map(|segment| segment.nth).collect()
    }

    #[test]
    fn an_acknowledgement_comes_before_the_requests_that_it_came_with() {
        const SEND: (u8, u8) = (4, 0);
        const ANSWER: (u8, u8) = (0x10, 0);
        const ACKNOWLEDGED: (u8, u8) = (0x11, 0x1f);
        const NOT_READY: (u8, u8) = (0x11, 0x2e);
        const REFUSED: (u8, u8) = (0x11, 0x62);
        assert_eq!(told(&[SEND, ACKNOWLEDGED]), [1, 0]);
        assert_eq!(told(&[SEND, SEND, ACKNOWLEDGED]), [2, 0, 1]);
        // Others stay as they are: an answer before it ends by itself alone, and what it says may end the rest.
        for packets in [
            &[ANSWER, ACKNOWLEDGED][..],
            &[SEND, ANSWER, ACKNOWLEDGED],
            &[SEND, SEND],
            &[SEND, NOT_READY],
            &[SEND, SEND, REFUSED],
            &[ACKNOWLEDGED, ACKNOWLEDGED],
            &[ACKNOWLEDGED],
            &[SEND],
            &[],
        ] {
            assert_eq!(told(packets), (0..packets.len() as u16).collect::<Vec<_>>());
        }
    }
}
