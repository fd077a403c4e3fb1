//! Netlink: requests, and answers read as untrusted bytes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::sys::socket::{MsgFlags, NetlinkAddr, bind, send};

use super::device_file::owned;
use crate::abi::uapi::Pod;
use crate::errno::{Errno, Result};

/// Netlink family of RDMA.
pub const NETLINK_RDMA: i32 = 20;

/// Bytes of a message header.
const HEADER: usize = 16;
/// Bytes of an attribute header.
const ATTR_HEADER: usize = 4;
/// Bits of an attribute type that are not flags.
const ATTR_TYPE_MASK: u16 = 0x3fff;
/// Room for one answer: the kernel never makes longer ones than the reader had room for the last time.
const ANSWER: usize = 32 * 1024;

const fn aligned(len: usize) -> usize {
    len.div_ceil(4) * 4
}

/// A socket that talks to the kernel.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket of a netlink family; EPROTONOSUPPORT when the kernel does not have it.
    pub fn open(family: i32) -> Result<Self> {
        // SAFETY: plain system call.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, family) };
        let fd = owned(fd)?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(ANSWER).map_err(|_| Errno::ENOMEM.also_set())?;
        buffer.resize(ANSWER, 0);
        Ok(Self { fd, sequence: 0, buffer })
    }

    /// Opens a socket that receives what the kernel tells everybody in `groups` (bits).
    pub fn open_groups(family: i32, groups: u32) -> Result<Self> {
        let socket = Self::open(family)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(|_| Errno::last())?;
        Ok(socket)
    }

    /// A socket whose other end a test plays.
    #[cfg(test)]
    pub fn over(fd: OwnedFd) -> Self {
        Self { fd, sequence: 0, buffer: vec![0; ANSWER] }
    }

    /// A request with the next sequence number, to be filled and sent.
    pub fn request(&mut self, kind: u16, flags: u16) -> Request {
        self.sequence = self.sequence.wrapping_add(1);
        Request::new(kind, flags | libc::NLM_F_REQUEST as u16, self.sequence)
    }

    /// Sends one or more requests in one piece.
    pub fn send(&self, requests: &[u8]) -> Result<()> {
        let sent = send(self.fd.as_raw_fd(), requests, MsgFlags::empty());
        if sent == Ok(requests.len()) { Ok(()) } else { Err(Errno::last()) }
    }

    /// Waits for the next answer of the kernel.
    pub fn receive(&mut self) -> Result<Messages<'_>> {
        self.receive_with(0)
    }

    /// The next answer of the kernel if there is one already; EAGAIN if not.
    pub fn receive_now(&mut self) -> Result<Messages<'_>> {
        self.receive_with(libc::MSG_DONTWAIT)
    }

    fn receive_with(&mut self, flags: i32) -> Result<Messages<'_>> {
        let len = loop {
            // SAFETY: a structure of integers: all zeros is a value.
            let mut sender: libc::sockaddr_nl = unsafe { core::mem::zeroed() };
            let mut sender_len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            // SAFETY: buffer and address are exclusively held memory of the stated lengths.
            let got = unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    libc::MSG_TRUNC | flags,
                    (&raw mut sender).cast(),
                    &raw mut sender_len,
                )
            };
            match usize::try_from(got) {
                Err(_) if Errno::last() == Errno(libc::EINTR) => {}
                Err(_) => return Err(Errno::last()),
                Ok(len) if len > self.buffer.len() => return Err(Errno(libc::EMSGSIZE)),
                // Only the kernel has port number 0; other processes may send to this socket as well.
                Ok(_) if sender.nl_pid != 0 => {}
                Ok(len) => break len,
            }
        };
        Ok(Messages { rest: &self.buffer[..len] })
    }

    /// Sends `request` and gives every message of the answer to `each`, up to its end. An error that the kernel
    /// reports, or that `each` returns, ends it.
    pub fn dump(
        &mut self,
        request: &Request,
        mut each: impl FnMut(&Message<'_>) -> Result<()>,
    ) -> Result<()> {
        self.send(request.as_bytes())?;
        let sequence = request.sequence();
        let mut interrupted = false;
        let end = |interrupted| if interrupted { Err(Errno(libc::EINTR)) } else { Ok(()) };
        loop {
            for message in self.receive()?.filter(|message| message.sequence == sequence) {
                // Read to the end all the same: the kernel refuses another dump while one is under way.
                interrupted |= message.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return end(interrupted),
                    libc::NLMSG_ERROR => return message.error(),
                    libc::NLMSG_NOOP => {}
                    _ => each(&message)?,
                }
                if message.flags & libc::NLM_F_MULTI as u16 == 0 {
                    return end(interrupted);
                }
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A request in the making.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&(HEADER as u32).to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&0_u32.to_ne_bytes());
        Self { bytes }
    }

    /// Appends the fixed header of the family, before any attribute.
    pub fn header(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.finish();
    }

    /// Appends an attribute.
    pub fn attr(&mut self, kind: u16, bytes: &[u8]) {
        self.bytes.extend_from_slice(&((ATTR_HEADER + bytes.len()) as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(bytes);
        self.finish();
    }

    /// Pads to the alignment and notes the length.
    fn finish(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
    }

    /// The request as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number by which its answers are known.
    pub fn sequence(&self) -> u32 {
        u32::read_from(&self.bytes[8..]).unwrap_or(0)
    }
}

/// One message of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Message type.
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// The request that it answers.
    pub sequence: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes behind a fixed header of `skip` bytes.
    pub fn attrs(&self, skip: usize) -> Attrs<'a> {
        Attrs { rest: self.payload.get(aligned(skip)..).unwrap_or_default() }
    }

    /// What an NLMSG_ERROR message reports; 0 is an acknowledgement.
    pub fn error(&self) -> Result<()> {
        match i32::read_from(self.payload) {
            Some(0) => Ok(()),
            Some(code) => Err(Errno(code.checked_neg().unwrap_or(libc::EIO))),
            None => Err(Errno::EIO),
        }
    }
}

/// The messages of one answer; ends at the first that does not fit.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Reads `bytes` as messages.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = u32::read_from(self.rest)? as usize;
        if len < HEADER || len > self.rest.len() {
            self.rest = &[];
            return None;
        }
        let message = Message {
            kind: u16::read_from(&self.rest[4..])?,
            flags: u16::read_from(&self.rest[6..])?,
            sequence: u32::read_from(&self.rest[8..])?,
            payload: &self.rest[HEADER..len],
        };
        self.rest = self.rest.get(aligned(len)..).unwrap_or_default();
        Some(message)
    }
}

/// The attributes of a message; ends at the first that does not fit.
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// Reads `bytes` as attributes, for example those inside another one.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The last attribute of this type.
    pub fn find_last(self, kind: u16) -> Option<Attr<'a>> {
        self.filter(|attr| attr.kind == kind).last()
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let len = usize::from(u16::read_from(self.rest)?);
        if len < ATTR_HEADER || len > self.rest.len() {
            self.rest = &[];
            return None;
        }
        let attr = Attr {
            kind: u16::read_from(&self.rest[2..])? & ATTR_TYPE_MASK,
            bytes: &self.rest[ATTR_HEADER..len],
        };
        self.rest = self.rest.get(aligned(len)..).unwrap_or_default();
        Some(attr)
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attr<'a> {
    /// Type, without flags.
    pub kind: u16,
    /// Value.
    pub bytes: &'a [u8],
}

impl<'a> Attr<'a> {
    /// The number that the value starts with; nothing if it is too short.
    pub fn number<T: Pod>(&self) -> Option<T> {
        T::read_from(self.bytes)
    }

    /// The text before the NUL; nothing without a NUL, or if it is not UTF-8.
    pub fn text(&self) -> Option<&'a str> {
        core::ffi::CStr::from_bytes_until_nul(self.bytes).ok()?.to_str().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Request {
        let mut request = Request::new(0x1401, 5, 77);
        request.attr(1, &9_u32.to_ne_bytes());
        request.attr(2, b"rxe0\0");
        request.attr(6 | 0x8000, &0x1122_u64.to_ne_bytes());
        request
    }

    #[test]
    fn what_is_built_is_read() {
        let request = sample();
        let mut messages = Messages::new(request.as_bytes());
        let message = messages.next().expect("one message");
        assert!(messages.next().is_none());
        assert_eq!((message.kind, message.flags, message.sequence), (0x1401, 5, 77));
        let attrs: Vec<_> = message.attrs(0).collect();
        assert_eq!(attrs.len(), 3);
        assert_eq!(attrs[0].number::<u32>(), Some(9));
        assert_eq!(attrs[1].text(), Some("rxe0"));
        assert_eq!((attrs[2].kind, attrs[2].number::<u64>()), (6, Some(0x1122)));
        assert!(attrs[0].number::<u64>().is_none() && attrs[0].text() == Some("\t"));
    }

    #[test]
    fn a_family_header_shifts_the_attributes() {
        let mut request = Request::new(26, 0, 1);
        request.header(&[2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        request.attr(1, &[10, 0, 0, 1]);
        let message = Messages::new(request.as_bytes()).next().expect("one message");
        let attr = message.attrs(12).find_last(1).expect("the attribute");
        assert_eq!(attr.bytes, [10, 0, 0, 1]);
    }

    #[test]
    fn errors_carry_their_number() {
        let mut request = Request::new(2, 0, 1);
        request.header(&(-libc::ENODEV).to_ne_bytes());
        let message = Messages::new(request.as_bytes()).next().expect("one message");
        assert_eq!(message.error(), Err(Errno::ENODEV));
    }

    #[test]
    fn the_routing_family_answers_a_dump() {
        let mut socket = Socket::open(libc::NETLINK_ROUTE).expect("rtnetlink");
        let mut request = socket.request(libc::RTM_GETLINK, libc::NLM_F_DUMP as u16);
        request.header(&[0; 16]);
        let mut names = Vec::new();
        socket
            .dump(&request, |message| {
                names.extend(
                    message
                        .attrs(16)
                        .find_last(libc::IFLA_IFNAME)
                        .and_then(|attr| attr.text().map(str::to_owned)),
                );
                Ok(())
            })
            .expect("a dump of the links");
        assert!(names.iter().any(|name| name == "lo"), "{names:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            for message in Messages::new(&bytes) {
                let _ = message.error();
                for attr in message.attrs(12) {
                    let _ = (attr.number::<u64>(), attr.text());
                }
            }
        }

        #[test]
        fn a_damaged_message_is_read_within_its_bounds(at in 0_usize..56, value: u8, cut in 0_usize..60) {
            let mut bytes = sample().as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(bytes.len().saturating_sub(cut));
            let within = |part: &[u8]| {
                part.is_empty() || bytes.as_ptr_range().contains(&part.as_ptr())
            };
            for message in Messages::new(&bytes) {
                prop_assert!(within(message.payload));
                for attr in message.attrs(0) {
                    prop_assert!(within(attr.bytes));
                }
            }
        }
    }
}
