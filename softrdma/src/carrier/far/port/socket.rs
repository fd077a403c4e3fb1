//! One of the sockets, as the process that receives there has it.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::error::Result;

use super::control::UDP_SEGMENT;
use super::forked;
use super::number::udp_port;
use super::options::{Options, get, set};

/// A socket has less room than it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallRoom {
    /// Bytes that were asked for.
    pub wanted: u32,
    /// Bytes that there are.
    pub got: u32,
}

impl fmt::Display for SmallRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SmallRoom { wanted, got } = self;
        write!(
            f,
            "UDP port {} has room for {got} bytes of packets that wait, not {wanted}: more are lost where \
             they come faster, unless net.core.rmem_max (sysctl) is raised to {wanted}",
            udp_port(),
        )
    }
}

/// See the module.
#[derive(Debug)]
pub struct Socket {
    descriptor: Descriptor,
    place: u16,
    trains: AtomicBool,
    small: Option<SmallRoom>,
}

impl Socket {
    /// That of a place, with as much room as can be had.
    pub(crate) fn adopt(socket: OwnedFd, place: u16, options: Options) -> Result<Self> {
        let fd = socket.as_raw_fd();
        let wanted = options.room.min(libc::c_int::MAX.cast_unsigned() / 2);
        let amount = wanted.cast_signed();
        let raise = |forced, option| {
            // The first is for those that may exceed the limit.
            set(fd, libc::SOL_SOCKET, forced, amount).or_else(|_| set(fd, libc::SOL_SOCKET, option, amount))
        };
        raise(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
        raise(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)?;
        // The kernel doubles what it is asked for.
        let got = get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)? / 2;
        let small = (got < wanted).then_some(SmallRoom { wanted, got });
        // Linux before 4.18 has none.
        let trains = options.trains && get(fd, libc::IPPROTO_UDP, UDP_SEGMENT).is_ok();
        let descriptor = Descriptor::new(socket)?;
        forked::give_up_in_children(&descriptor);
        Ok(Socket { descriptor, place, trains: AtomicBool::new(trains), small })
    }

    /// Throws away what has arrived, in so far as it is of before: as much as ever waits.
    pub(crate) fn drain(&self) {
        const MOST: u32 = 1 << 16;
        let fd = self.descriptor.raw();
        for _ in 0..MOST {
            // SAFETY: nothing is written without room. What does not fit is thrown away.
            let read = unsafe { libc::recv(fd, std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
            if read < 0 {
                return;
            }
        }
    }

    /// Which one of the set it is.
    #[must_use]
    pub fn place(&self) -> u16 {
        self.place
    }

    /// The descriptor, to wait for packets; -1 when the program has closed it.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.descriptor.raw_lately()
    }

    /// Where there is less room for packets that wait than was asked for, how much there is.
    #[must_use]
    pub fn small_room(&self) -> Option<SmallRoom> {
        self.small
    }

    /// Whether packets leave many at a time.
    #[must_use]
    pub fn sends_trains(&self) -> bool {
        self.trains.load(Ordering::Relaxed)
    }

    /// The way out has no trains.
    pub(super) fn stop_trains(&self) {
        self.trains.store(false, Ordering::Relaxed);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        forked::forget(&self.descriptor);
    }
}
