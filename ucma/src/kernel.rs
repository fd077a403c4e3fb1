//! The kernel's own `/dev/infiniband/rdma_cm`, for ids of its devices: one open file behind a channel.

use std::mem::size_of_val;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use ironverbs_cm::address::{Address, PortSpace};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::abi::addresses;
use crate::abi::decode::GET_EVENT;
use crate::abi::layout::{self, Header};
use crate::shim::Kept;
use crate::sys::{errno, made};

/// Numbers of commands.
const CREATE_ID: u32 = 0;
const DESTROY_ID: u32 = 1;
const LISTEN: u32 = 7;
const SET_OPTION: u32 = 14;
const MIGRATE_ID: u32 = 18;
const QUERY: u32 = 19;
const BIND: u32 = 20;

/// The value of an option that a program set: level, name and bytes.
pub type Setting = (u32, u32, Vec<u8>);

/// An open file. Copies share it; it is closed with the last one, where the kernel destroys its ids and may
/// sleep for that.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<Kept>);

impl Kernel {
    /// Opens the file, past the shim.
    ///
    /// # Errors
    /// ENOENT, ENXIO and ENODEV where the kernel has no `rdma_cm`; EACCES where the program may not; EMFILE,
    /// ENFILE, ENOMEM.
    pub fn open() -> Result<Kernel, i32> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let name = c"/dev/infiniband/rdma_cm".as_ptr();
        // SAFETY: the name is a C string constant.
        let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name, flags) };
        let fd = made(fd as libc::c_int)?;
        Kept::new(fd).map(|file| Kernel(Arc::new(file)))
    }

    /// Another file in its place, which takes what is written.
    #[cfg(test)]
    pub fn instead(file: std::os::fd::OwnedFd) -> Kernel {
        Kernel(Arc::new(Kept::new(file).unwrap()))
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Gives the kernel a command as a program wrote it, of `length` bytes at the address `from` of the
    /// program's memory. The answer goes where the command says.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pass(&self, from: u64, length: usize) -> Result<(), i32> {
        // SAFETY: the kernel checks the address, and those that the command names.
        let written = unsafe { libc::syscall(libc::SYS_write, self.descriptor(), from, length) };
        if written < 0 { Err(errno()) } else { Ok(()) }
    }

    fn command<B: IntoBytes + Immutable>(&self, number: u32, body: B, room: usize) -> Result<(), i32> {
        let (input, output) = (size_of::<B>() as u16, room as u16);
        let mut bytes = Header { command: number, input, output }.as_bytes().to_vec();
        bytes.extend_from_slice(body.as_bytes());
        self.pass(bytes.as_ptr() as u64, bytes.len())
    }

    /// A new id.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create(&self, uid: u64, space: u16, qp_type: u8) -> Result<u32, i32> {
        let mut answer = layout::Created::new_zeroed();
        let response = address_of(&mut answer);
        let body = layout::CreateId { uid, response, ps: space, qp_type, reserved: [0; 5] };
        self.command(CREATE_ID, body, size_of_val(&answer))?;
        Ok(answer.id)
    }

    /// Destroys an id; how many of its events were delivered. The kernel may sleep.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn destroy(&self, id: u32) -> Result<u32, i32> {
        let mut answer = layout::Reported::new_zeroed();
        let body = layout::DestroyId { response: address_of(&mut answer), id, reserved: 0 };
        self.command(DESTROY_ID, body, size_of_val(&answer))?;
        Ok(answer.events_reported)
    }

    /// Binds an id.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind(&self, id: u32, address: &Address) -> Result<(), i32> {
        let (storage, addr_size) = addresses::write(address);
        self.command(BIND, layout::Bind { id, addr_size, reserved: 0, address: storage }, 0)
    }

    /// The port that a bound id has.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn port(&self, id: u32) -> Result<u16, i32> {
        let mut answer = layout::QueryAddr::new_zeroed();
        let body = layout::Query { response: address_of(&mut answer), id, option: 0 };
        self.command(QUERY, body, size_of_val(&answer))?;
        Ok(addresses::read(answer.source.as_bytes()).0.port())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_option(&self, id: u32, (level, name, value): &Setting) -> Result<(), i32> {
        let (optval, optlen) = (value.as_ptr() as u64, value.len() as u32);
        self.command(SET_OPTION, layout::SetOption { optval, id, level: *level, optname: *name, optlen }, 0)
    }

    /// Listens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(&self, id: u32, backlog: i32) -> Result<(), i32> {
        self.command(LISTEN, layout::Listen { id, backlog: backlog.cast_unsigned() }, 0)
    }

    /// Takes an id over from another channel; how many of its events were delivered there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn migrate(&self, id: u32, from: &Kernel) -> Result<u32, i32> {
        let mut answer = layout::Reported::new_zeroed();
        let fd = from.descriptor().cast_unsigned();
        let body = layout::Migrate { response: address_of(&mut answer), id, fd };
        self.command(MIGRATE_ID, body, size_of_val(&answer))?;
        Ok(answer.events_reported)
    }

    /// The next event.
    ///
    /// # Errors
    /// EAGAIN where there is none.
    pub fn event(&self) -> Result<layout::Event, i32> {
        let mut answer = layout::Event::new_zeroed();
        let body = layout::GetEvent { response: address_of(&mut answer) };
        self.command(GET_EVENT, body, size_of_val(&answer))?;
        Ok(answer)
    }

    /// Whether there is an event.
    pub fn has_event(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.descriptor(), events: libc::POLLIN, revents: 0 };
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mask: *const libc::sigset_t = std::ptr::null();
        // A system call, because poll() is the shim's.
        // SAFETY: one struct and the time are writable.
        unsafe { libc::syscall(libc::SYS_ppoll, &raw mut poll, 1, &raw mut now, mask, 0) == 1 }
    }

    /// Whether a device of the kernel has this local address: whether an id can be bound to it.
    ///
    /// # Errors
    /// What the kernel says where it makes no id: EACCES after the program changed its user, ENOMEM.
    pub fn has(&self, address: &Address) -> Result<bool, i32> {
        let id = self.create(0, PortSpace::Tcp as u16, 0)?;
        let bound = self.bind(id, &address.with_port(0));
        let _ = self.destroy(id);
        Ok(bound.is_ok())
    }
}

/// The address of a place for the kernel's answer.
fn address_of<T>(place: &mut T) -> u64 {
    std::ptr::from_mut(place).expose_provenance() as u64
}
