//! A kernel that answers anything, for fuzz targets: netlink answers, and answers to commands.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use bolero::generator::{TypeGenerator, ValueGenerator, produce};

use super::netlink::Socket;
use crate::abi::uapi::rdma_user_ioctl_cmds::ib_uverbs_attr;
use crate::errno::{Errno, Result};

/// Up to `most` values: lists of lists stay small enough for many of them to be tried.
pub fn few<T: TypeGenerator>(most: usize) -> impl ValueGenerator<Output = Vec<T>> {
    produce::<Vec<T>>().with().len(0..=most)
}

/// An attribute of a netlink message.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Attr {
    kind: u8,
    flags: u8,
    /// Added to the length that the header says.
    lie: Option<u16>,
    body: Body,
}

/// The value of an attribute.
#[derive(Clone, Debug, TypeGenerator)]
enum Body {
    Bytes(#[generator(few(40))] Vec<u8>),
    Short(u16),
    Word(u32),
    Long(u64),
    Text(#[generator(few(80))] Vec<u8>),
    Address([u8; 16]),
    Inner(#[generator(few(4))] Vec<(u8, [u8; 6])>),
}

/// The messages of one datagram.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Datagram(#[generator(few(4))] Vec<Message>);

/// Datagrams; more than a socket holds would not be said.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Datagrams(#[generator(few(5))] Vec<Datagram>);

/// A netlink message.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Message {
    kind: u16,
    flags: u8,
    sequence: u8,
    /// Added to the length that the header says.
    lie: Option<u32>,
    /// What stands between the header and the attributes.
    #[generator(few(20))]
    family: Vec<u8>,
    #[generator(few(8))]
    attrs: Vec<Attr>,
}

fn put_attr(to: &mut Vec<u8>, kind: u16, body: &[u8], lie: u16) {
    let len = (body.len() as u16).wrapping_add(4).wrapping_add(lie);
    to.extend_from_slice(&len.to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(body);
    to.resize(to.len().next_multiple_of(4), 0);
}

impl Message {
    fn write(&self, to: &mut Vec<u8>, family: usize) {
        let mut payload = self.family.clone();
        payload.resize(family, 0);
        for attr in &self.attrs {
            let body = match &attr.body {
                Body::Bytes(bytes) => bytes.clone(),
                Body::Short(number) => number.to_ne_bytes().to_vec(),
                Body::Word(number) => number.to_ne_bytes().to_vec(),
                Body::Long(number) => number.to_ne_bytes().to_vec(),
                Body::Text(text) => [text.as_slice(), b"\0"].concat(),
                Body::Address(address) => address.to_vec(),
                Body::Inner(attrs) => {
                    let mut inner = Vec::new();
                    attrs.iter().for_each(|(kind, body)| put_attr(&mut inner, u16::from(*kind), body, 0));
                    inner
                }
            };
            let kind = u16::from_le_bytes([attr.kind, attr.flags & 0xc0]);
            put_attr(&mut payload, kind, &body, attr.lie.unwrap_or(0));
        }
        let len = (payload.len() as u32 + 16).wrapping_add(self.lie.unwrap_or(0));
        to.extend_from_slice(&len.to_ne_bytes());
        to.extend_from_slice(&self.kind.to_ne_bytes());
        to.extend_from_slice(&u16::from(self.flags).to_ne_bytes());
        to.extend_from_slice(&u32::from(self.sequence).to_ne_bytes());
        to.extend_from_slice(&0u32.to_ne_bytes());
        to.extend_from_slice(&payload);
        to.resize(to.len().next_multiple_of(4), 0);
    }
}

/// A netlink socket in which these answers wait; behind them it has nothing (EAGAIN). Messages
/// have a family header of `family` bytes. The second answer keeps the other end open.
pub fn socket(answers: &Datagrams, family: usize) -> (Socket, OwnedFd) {
    let mut ends = [0; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }, 0);
    // SAFETY: just opened, and nobody else has them.
    let (ours, kernel) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    for answer in &answers.0 {
        let mut bytes = Vec::new();
        answer.0.iter().for_each(|message| message.write(&mut bytes, family));
        // SAFETY: initialised memory of the stated length.
        unsafe { libc::send(kernel.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    }
    (Socket::over(ours), kernel)
}

/// An answer to a command.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Answer {
    /// What the command comes to; most go well.
    outcome: u8,
    /// Numbers of new objects and files.
    words: [u32; 2],
    /// What is written into the room for answers, again and again.
    #[generator(few(64))]
    bytes: Vec<u8>,
}

#[cfg(test)]
impl Answer {
    /// The command is done, and all that it says is this byte.
    pub fn filled_with(byte: u8) -> Self {
        Answer { outcome: 0, words: [0; 2], bytes: vec![byte] }
    }
}

/// Answers to one command after the other.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Answers(#[generator(few(12))] pub Vec<Answer>);

thread_local! {
    static ANSWERS: RefCell<Option<VecDeque<Answer>>> = const { RefCell::new(None) };
}

/// Has this thread's commands answered by `answers`, then by EIO, for as long as the result lives.
pub fn answer_with(answers: &[Answer]) -> impl Drop {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            ANSWERS.with_borrow_mut(|all| *all = None);
        }
    }
    ANSWERS.with_borrow_mut(|all| *all = Some(answers.iter().cloned().collect()));
    End
}

/// What came of a command where the kernel is played. `outputs` says which attributes point to room for an
/// answer.
pub fn execute(attrs: &mut [ib_uverbs_attr], outputs: u64) -> Option<Result<()>> {
    ANSWERS.with_borrow_mut(|all| {
        let answer = match all.as_mut()?.pop_front() {
            Some(answer) => answer,
            None => return Some(Err(Errno::EIO.also_set())),
        };
        match answer.outcome {
            250 => return Some(Err(Errno::EPROTONOSUPPORT.also_set())),
            251 => return Some(Err(Errno::ENOTTY.also_set())),
            252 => return Some(Err(Errno::EINVAL.also_set())),
            253.. => return Some(Err(Errno::ENOMEM.also_set())),
            _ => {}
        }
        let mut words = answer.words.iter().cycle();
        for (number, attr) in attrs.iter_mut().enumerate() {
            if outputs >> number & 1 == 1 {
                let source = answer.bytes.iter().copied().chain([0]).cycle();
                for (at, byte) in source.take(usize::from(attr.len)).enumerate() {
                    let to = core::ptr::with_exposed_provenance_mut::<u8>(attr.data as usize + at);
                    // SAFETY: the command borrows this room mutably, as long as the attribute says, and exposed
                    // it.
                    unsafe { to.write(byte) };
                }
            } else if attr.len == 0 {
                // As the kernel does it, also where the program named the object.
                attr.data = u64::from(*words.next().unwrap_or(&0));
            }
        }
        Some(Ok(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::verbs::*;
    use crate::uverbs::device_file::DeviceFile;
    use crate::uverbs::discovery::DeviceInfo;
    use crate::uverbs::{Udata, cq, device, gid, mr, mw, qp, srq};

    /// Any answer to the commands that ask: what is read from it stays within the room that the caller gave.
    #[test]
    fn fuzz_commands() {
        let null =
            || std::fs::File::options().read(true).write(true).open("/dev/null").expect("it is always there");
        let info = DeviceInfo::for_tests("fuzz0", "");
        corpus::check!().with_type::<(u8, Answers)>().for_each(|(command, answers)| {
            let file = DeviceFile::from_fd(null().into());
            let _kernel = answer_with(&answers.0);
            // SAFETY: plain C data of integers and arrays of them; all zeros is a value.
            let (mut attr, mut port, mut qp_attr): (ibv_device_attr_ex, ibv_port_attr, ibv_qp_attr) =
                unsafe { core::mem::zeroed() };
            match command % 10 {
                0 => {
                    for size in [size_of::<ibv_device_attr>(), size_of::<ibv_device_attr_ex>()] {
                        let _ = device::query(&file, None, &mut attr, size, 1, Udata::none());
                    }
                }
                1 => drop(device::query_port(&file, 1, &mut port)),
                2 => {
                    let mut entries = [0u8; 5 * 32 + 7];
                    for size in [0, 1, 32, 40] {
                        let _ = gid::query_table(&file, &info, &mut entries, size, 0);
                    }
                }
                3 => drop(gid::query_entry(&file, &info, 1, 0, 0, gid::Want::ALL)),
                4 => {
                    let mut most = 0;
                    let taken = cq::poll(&file, 1, 4, |at, _| most = most.max(at + 1));
                    assert!(most <= 4 && taken.is_ok_and(|taken| taken == most) | taken.is_err());
                }
                5 => {
                    let _ = qp::query(&file, 1, &mut qp_attr, 0, Udata::none());
                    let _ = qp::modify_ex(&file, 1, &qp_attr, 0, Udata::none());
                }
                6 => drop(srq::query(&file, 1, Udata::none())),
                7 => drop(mr::query(&file, 1)),
                8 => drop((mw::alloc(&file, 1, 1, Udata::none()), mw::dealloc(&file, 1))),
                _ => drop((
                    qp::destroy(&file, 1).is_ok(),
                    cq::destroy(&file, 1).is_ok(),
                    srq::destroy(&file, 1).is_ok(),
                )),
            }
        });
    }
}
