//! A channel's descriptor: an epoll set, readable while one of its members is.
//!
//! | member | readable |
//! |---|---|
//! | an eventfd | while the channel has an event |
//! | sockets of its ids | when a peer sends, connects or goes away |
//! | a timerfd | when the manager or a connect in progress is to be asked again |
//! | the kernel's own file, where addresses are left to it | while that has an event |

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use ironverbs_os::epoll;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{read, write};

use crate::kernel::Kernel;
use crate::shim::Kept;
use crate::sys::{checked, errno, made};

/// What the set tells of its own events: `IRONVERBS_UCMA_MEMBER`.
const EVENTS: u64 = u64::MAX;

/// What a member of the set stands for, as the epoll set tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The channel's own events.
    Events,
    /// The timer.
    Timer,
    /// The kernel's file.
    Kernel,
    /// A socket of this number.
    Socket(u64),
}

impl Member {
    fn to_word(self) -> u64 {
        match self {
            Member::Events => EVENTS,
            Member::Timer => EVENTS - 1,
            Member::Kernel => EVENTS - 2,
            Member::Socket(number) => number,
        }
    }

    fn of_word(word: u64) -> Member {
        match word {
            EVENTS => Member::Events,
            word if word == EVENTS - 1 => Member::Timer,
            word if word == EVENTS - 2 => Member::Kernel,
            number => Member::Socket(number),
        }
    }
}

/// One epoll set, and the program's descriptors of it.
#[derive(Debug)]
pub struct Channel {
    /// At least one as long as the channel lives, and the one first that was used last. Some may be other files
    /// by now: what the program closes past the shim nobody tells.
    shown: Vec<RawFd>,
    events: Kept,
    timer: Kept,
    kernel: Option<Kernel>,
    /// Whose event is looked for first, so that neither side holds up the other.
    pub kernel_first: bool,
    readable: bool,
    /// Events that were shown, of all that ever came.
    arrivals: u64,
    armed: Option<Duration>,
}

impl Channel {
    /// A channel, and the descriptor that the program gets.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new(cloexec: bool, nonblocking: bool) -> Result<(Channel, OwnedFd), i32> {
        let flags = if cloexec { libc::EPOLL_CLOEXEC } else { 0 };
        let shown = made(epoll::create(flags))?;
        if nonblocking {
            fcntl(&shown, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|_| errno())?;
        }
        // SAFETY: the call takes no pointer.
        let events = made(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: as above.
        let timer = made(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        let (events, timer) = (Kept::new(events)?, Kept::new(timer)?);
        let shows = vec![shown.as_raw_fd()];
        let channel = Channel {
            shown: shows,
            events,
            timer,
            kernel: None,
            kernel_first: false,
            readable: false,
            arrivals: 0,
            armed: None,
        };
        add(shown.as_raw_fd(), channel.events.as_raw_fd(), Member::Events)?;
        channel.add(channel.timer.as_raw_fd(), Member::Timer)?;
        Ok((channel, shown))
    }

    /// The kernel's file is behind the channel, too.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC.
    pub fn with_kernel(mut self, kernel: Kernel) -> Result<Channel, i32> {
        self.add(kernel.descriptor(), Member::Kernel)?;
        self.kernel = Some(kernel);
        Ok(self)
    }

    /// The kernel's file.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// Has the set look at the kernel's file again: with an id events come to it, and the kernel wakes nobody
    /// for them.
    pub fn look_at_kernel(&self) {
        if let Some(kernel) = &self.kernel {
            let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: Member::Kernel.to_word() };
            epoll::control(self.set(), libc::EPOLL_CTL_MOD, kernel.descriptor(), Some(event));
        }
    }

    /// The program has another descriptor of the channel.
    pub fn copied(&mut self, fd: RawFd) {
        self.shown.push(fd);
    }

    /// The program is about to close a descriptor of the channel; whether it was the last one. That one is good
    /// for as long as this value is, unless it was closed past the shim.
    pub fn closed(&mut self, fd: RawFd) -> bool {
        let last = !self.shown.iter().any(|other| *other != fd && self.is(*other));
        self.shown.retain(|known| (*known == fd) == last);
        last
    }

    /// The descriptor that the set has for its own events: a set in which it is a member is this one.
    pub fn own_member(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Whether a descriptor is one of the channel, and no other file that has its number by now. What the set
    /// tells of its member stays as it is.
    pub fn is(&self, fd: RawFd) -> bool {
        let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: EVENTS };
        epoll::control(fd, libc::EPOLL_CTL_MOD, self.own_member(), Some(event)) == 0
    }

    /// The program uses this descriptor, of which the shim has seen that it is the channel's.
    pub fn used(&mut self, fd: RawFd) {
        if let Some(at) = self.shown.iter().position(|known| *known == fd) {
            self.shown.swap(0, at);
        }
    }

    fn set(&self) -> RawFd {
        self.shown.iter().copied().find(|fd| self.is(*fd)).unwrap_or(-1)
    }

    /// Makes a descriptor a member of the set.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC; EBADF where the program has closed the channel past the shim.
    pub fn add(&self, fd: RawFd, member: Member) -> Result<(), i32> {
        add(self.set(), fd, member)
    }

    /// Takes a member out; nothing where it is none.
    pub fn remove(&self, fd: RawFd) {
        epoll::control(self.set(), libc::EPOLL_CTL_DEL, fd, None);
    }

    /// A member that is readable and has more to say than that there is an event. For a call of the program on
    /// this channel alone, see [`Channel::used`].
    pub fn next(&self) -> Option<Member> {
        let mut found = [libc::epoll_event { events: 0, u64: 0 }; 3];
        let set = self.shown.first().copied().unwrap_or(-1);
        let count = epoll::ready(set, &mut found);
        let found = found.iter().take(usize::try_from(count).unwrap_or(0));
        let mut found = found.map(|event| Member::of_word(event.u64));
        found.find(|member| !matches!(member, Member::Events | Member::Kernel))
    }

    /// Shows whether there is an event, of `arrivals` that ever came: what came since the last call is an edge
    /// for who waits with `EPOLLET`, also where the channel is readable already.
    pub fn show(&mut self, ready: bool, arrivals: u64) {
        let came = std::mem::replace(&mut self.arrivals, arrivals) != arrivals;
        if self.readable == ready && !(ready && came) {
            return;
        }
        let mut word = 1_u64.to_ne_bytes();
        let done = if ready { write(&self.events, &word) } else { read(&self.events, &mut word) };
        if done == Ok(8) {
            self.readable = ready;
        }
    }

    /// Becomes readable at a time of `CLOCK_MONOTONIC`, or at none.
    pub fn wake_at(&mut self, at: Option<Duration>) {
        if self.armed == at {
            return;
        }
        // All zero disarms it, which no time that is asked for should do.
        let at = at.map(|at| at.max(Duration::from_nanos(1)));
        let value = at.map_or(libc::timespec { tv_sec: 0, tv_nsec: 0 }, |at| libc::timespec {
            tv_sec: libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(at.subsec_nanos().cast_signed()),
        });
        let spec =
            libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: the struct is readable; the old value is not asked for.
        unsafe {
            let fd = self.timer.as_raw_fd();
            libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const spec, std::ptr::null_mut());
        }
        self.armed = at;
    }

    /// The timer was seen: it is not readable until it is asked for again.
    pub fn woken(&mut self) {
        let _ = read(&self.timer, &mut [0; 8]);
        self.armed = None;
    }
}

fn add(set: RawFd, fd: RawFd, member: Member) -> Result<(), i32> {
    let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: member.to_word() };
    checked(epoll::control(set, libc::EPOLL_CTL_ADD, fd, Some(event))).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(fd: RawFd) -> bool {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one struct is writable.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    #[test]
    fn a_channel_is_readable_while_it_has_an_event() {
        let (mut channel, shown) = Channel::new(true, false).unwrap();
        assert!(!readable(shown.as_raw_fd()));
        channel.show(true, 1);
        channel.show(true, 2);
        assert!(readable(shown.as_raw_fd()) && channel.next().is_none());
        channel.show(false, 2);
        assert!(!readable(shown.as_raw_fd()));
    }

    #[test]
    fn each_event_is_an_edge_and_nothing_else_is() {
        let (mut channel, shown) = Channel::new(true, false).unwrap();
        let watch = made(epoll::create(libc::EPOLL_CLOEXEC)).unwrap();
        let event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 1 };
        epoll::control(watch.as_raw_fd(), libc::EPOLL_CTL_ADD, shown.as_raw_fd(), Some(event));
        let edge = || epoll::ready(watch.as_raw_fd(), &mut [event; 1]) == 1;
        assert!(!edge());
        for (ready, arrivals, is_one) in [
            (true, 1, true),
            (true, 1, false),
            (true, 2, true),
            (true, 4, true),
            (false, 4, false),
            // It came and was taken at once.
            (false, 5, false),
            (true, 6, true),
        ] {
            channel.show(ready, arrivals);
            assert_eq!((edge(), edge()), (is_one, false), "{arrivals}");
        }
    }

    #[test]
    fn the_timer_wakes_once_at_its_time() {
        let (mut channel, shown) = Channel::new(true, true).unwrap();
        channel.wake_at(Some(crate::sys::now() + Duration::from_secs(1000)));
        assert!(!readable(shown.as_raw_fd()));
        channel.wake_at(Some(Duration::ZERO));
        let mut poll = libc::pollfd { fd: shown.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one struct is writable.
        assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 300_000) }, 1);
        assert_eq!(channel.next(), Some(Member::Timer));
        channel.woken();
        assert!(!readable(shown.as_raw_fd()) && channel.next().is_none());
    }
}
