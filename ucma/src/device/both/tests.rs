//! A device with a kernel that takes every command and answers with zeros.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use ironverbs_cm::address::Address;
use zerocopy::{FromZeros, Immutable};

use super::*;
use crate::abi::addresses;
use crate::abi::decode::GET_EVENT;

const CREATE_ID: u32 = 0;
const REJECT: u32 = 9;
const DISCONNECT: u32 = 10;
const BIND: u32 = 20;
const WRITE_EVENT: u32 = 24;
/// The number that the kernel gives in these tests.
const THERE: u32 = 5;

struct Host {
    device: Device,
    /// The other ends of the kernel's files, by the channels' descriptors.
    kernels: Vec<(i32, UnixStream)>,
}

impl Host {
    fn new() -> Host {
        Host { device: Device::new(Some(Rule::Devices)), kernels: Vec::new() }
    }

    fn open(&mut self) -> (i32, File) {
        let (kernel, end) = UnixStream::pair().unwrap();
        end.set_nonblocking(true).unwrap();
        let (fd, file) = self.open_with(OwnedFd::from(kernel));
        self.kernels.push((fd, end));
        (fd, file)
    }

    fn open_with(&mut self, kernel: OwnedFd) -> (i32, File) {
        // No interface is the kernel's, where that is asked for later.
        let rule = self.device.rule.take();
        let (fd, _) = self.device.open(libc::O_CLOEXEC | libc::O_NONBLOCK).unwrap();
        self.device.rule = rule.and(Some(Rule::Interfaces(Vec::new())));
        let file = self.device.files[&fd];
        let channel = self.device.net.channels.remove(&file).unwrap();
        let channel = channel.with_kernel(Kernel::instead(kernel)).unwrap();
        self.device.net.channels.insert(file, channel);
        (fd, file)
    }

    fn close(&mut self, fd: i32) {
        drop(self.device.close(fd));
        // SAFETY: the channel's descriptor, which this test has from `open`.
        assert_eq!(unsafe { libc::close(fd) }, 0);
    }

    fn write<B: IntoBytes + Immutable>(&mut self, fd: i32, number: u32, body: &B) -> Result<Outcome, i32> {
        let header = Header { command: number, input: size_of::<B>() as u16, output: u16::MAX };
        let bytes = [header.as_bytes(), body.as_bytes()].concat();
        self.device.write(fd, bytes.as_ptr() as u64, bytes.len())
    }

    fn create(&mut self, fd: i32, uid: u64) -> u32 {
        let mut made = layout::Created::new_zeroed();
        let response = (&raw mut made).expose_provenance() as u64;
        let body = layout::CreateId { uid, response, ps: 0x106, qp_type: 2, reserved: [0; 5] };
        assert!(matches!(self.write(fd, CREATE_ID, &body), Ok(Outcome::Done)));
        made.id
    }

    /// A command of a destruction that the kernel has not got yet.
    fn destroy(&mut self, fd: i32, id: u32, answer: &mut layout::Reported) -> Box<Errand> {
        let response = std::ptr::from_mut(answer).expose_provenance() as u64;
        match self.write(fd, DESTROY_ID, &layout::DestroyId { response, id, reserved: 0 }) {
            Ok(Outcome::Kernel(errand)) => errand,
            other => panic!("{other:?}"),
        }
    }

    /// How many bytes the kernel got by a channel.
    fn passed(&self, fd: i32) -> usize {
        let (_, end) = self.kernels.iter().find(|(of, _)| *of == fd).unwrap();
        let mut bytes = [0; 4096];
        (&*end).read(&mut bytes).unwrap_or(0)
    }
}

fn bind(id: u32, address: &str) -> layout::Bind {
    let (address, addr_size) = addresses::write(&Address::ip(address.parse().unwrap(), 7471));
    layout::Bind { id, addr_size, reserved: 0, address }
}

fn command(number: u32, input: u16, body: &[u8]) -> Vec<u8> {
    [Header { command: number, input, output: 0 }.as_bytes(), body].concat()
}

#[test]
fn a_copy_has_all_that_the_kernel_reads() {
    // Whatever the lengths say, the kernel reads the whole struct.
    let body = [7; size_of::<layout::Reject>()];
    let bytes = command(REJECT, 0, &body);
    let copy = Copied::with_id(bytes.as_ptr() as u64, 12, THERE).unwrap();
    let got = &copy.bytes[size_of::<Header>()..][..body.len()];
    assert_eq!((copy.length, &got[..4], &got[4..]), (12, &THERE.to_ne_bytes()[..], &body[4..]));
    assert!(copy.bytes[size_of::<Header>() + body.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_copy_has_nothing_that_the_kernel_does_not_read() {
    // At the end of what is mapped.
    const PAGE: usize = 4096;
    // SAFETY: two new pages, of which the second one becomes a hole.
    let page = unsafe {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), 2 * PAGE, rights, kind, -1, 0);
        assert!(at != libc::MAP_FAILED && libc::munmap(at.byte_add(PAGE), PAGE) == 0);
        at.cast::<u8>()
    };
    let bytes = command(DISCONNECT, 4, &[0; 4]);
    // SAFETY: the end of the page, which nobody else uses.
    let from = unsafe {
        let from = page.add(PAGE - bytes.len());
        from.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        from as u64
    };
    let copy = Copied::with_id(from, 300, THERE).unwrap();
    assert_eq!((copy.length, &copy.bytes[..12]), (300, &command(DISCONNECT, 4, &THERE.to_ne_bytes())[..]));
    assert_eq!(Copied::with_id(from + 8, 300, THERE).unwrap_err(), libc::EFAULT);
}

#[test]
fn an_id_stays_what_it_is_where_the_software_device_refuses() {
    let mut host = Host::new();
    let (fd, _) = host.open();
    let id = host.create(fd, 7);
    // Nobody's address.
    let refused = host.write(fd, BIND, &bind(id, "203.0.113.9"));
    assert!(matches!(refused, Err(libc::EADDRNOTAVAIL)), "{refused:?}");
    assert_eq!(host.device.sides.get(id).map(|id| id.there), Some(There::Not));
    // The same of one that is there, too.
    host.device.sides.set(id, There::Too(THERE));
    let (source, src_size) = addresses::write(&Address::ip("203.0.113.9".parse().unwrap(), 0));
    let (destination, dst_size) = addresses::write(&Address::ip("127.0.0.1".parse().unwrap(), 7471));
    let resolve =
        layout::ResolveAddr { id, timeout_ms: 100, src_size, dst_size, reserved: 0, source, destination };
    let refused = host.write(fd, 21, &resolve);
    assert!(matches!(refused, Err(libc::EADDRNOTAVAIL)), "{refused:?}");
    assert_eq!(host.device.sides.get(id).map(|id| id.there), Some(There::Too(THERE)));
    assert_eq!(host.passed(fd), 0);
    host.close(fd);
}

#[test]
fn a_number_that_is_given_out_again_is_another_ids() {
    let mut host = Host::new();
    for fails in [false, true] {
        let ((fd, _), mut answer) = (host.open(), layout::Reported::new_zeroed());
        let id = host.create(fd, 7);
        host.device.sides.set(id, There::Alone(THERE));
        let mut errand = host.destroy(fd, id, &mut answer);
        // Another thread closes the channel while the kernel sleeps, and a third one opens one.
        host.close(fd);
        let (other, file) = host.open();
        assert_eq!(host.create(other, 8), id);
        let answered = if fails { Err(libc::EINTR) } else { errand.run() };
        assert_eq!(host.device.returned(&errand, answered), answered);
        let new = host.device.sides.get(id).expect("the new id");
        assert_eq!((new.file, new.uid, new.there), (file, 8, There::Not));
        host.close(other);
    }
}

#[test]
fn a_request_that_is_refused_for_its_number_is_none_that_the_program_waits_for() {
    let mut host = Host::new();
    let (fd, file) = host.open();
    let id = host.create(fd, 7);
    host.device.sides.set(id, There::Alone(THERE));
    host.device.sides.unseen(file, 8);
    host.device.sides.unseen(file, 7);
    let mut answer = layout::Reported { events_reported: u32::MAX };
    let mut errand = host.destroy(fd, id, &mut answer);
    errand.run().unwrap();
    // As a kernel that counted two.
    if let What::Destroy { answered, .. } = &mut errand.what {
        *answered = Some(2);
    }
    assert_eq!(host.device.returned(&errand, Ok(())), Ok(()));
    assert_eq!(answer.events_reported, 1);
    host.close(fd);
}

#[test]
fn each_channel_takes_events_of_both_sides_in_turn() {
    let mut host = Host::new();
    let ((one, _), (other, _)) = (host.open(), host.open());
    for (fd, uid) in [(one, 7), (other, 8)] {
        let id = host.create(fd, uid);
        let happens = layout::WriteEvent { id, event: 18, ..layout::WriteEvent::new_zeroed() };
        for _ in 0..2 {
            assert!(matches!(host.write(fd, WRITE_EVENT, &happens), Ok(Outcome::Done)));
        }
    }
    // The kernel has events of the one channel on and on.
    std::io::Write::write_all(&mut &host.kernels[0].1, &[0]).unwrap();
    let mut seen = Vec::new();
    for fd in [other, one, other, one] {
        let mut event = layout::Event::new_zeroed();
        let response = (&raw mut event).expose_provenance() as u64;
        let asked = host.write(fd, GET_EVENT, &layout::GetEvent { response });
        assert!(matches!(asked, Ok(Outcome::Done)), "{asked:?}");
        seen.push(event.uid);
    }
    // The kernel's are zeros.
    assert_eq!(seen, [8, 7, 8, 0]);
    assert!(host.device.kernel_has_event(host.device.files[&one]));
    host.close(one);
    host.close(other);
}

/// As one of which the program has another user by now.
#[test]
fn a_kernel_that_refuses_leaves_no_address_to_the_software_device() {
    let mut host = Host::new();
    let (read_only, _end) = std::io::pipe().unwrap();
    let (fd, _) = host.open_with(OwnedFd::from(read_only));
    host.device.rule = Some(Rule::Devices);
    let id = host.create(fd, 7);
    let refused = host.write(fd, BIND, &bind(id, "203.0.113.9"));
    assert!(matches!(refused, Err(libc::EBADF)), "{refused:?}");
    assert_eq!(host.device.sides.get(id).map(|id| id.there), Some(There::Not));
    host.close(fd);
}
