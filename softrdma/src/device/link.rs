//! The port's link, as far as faults on request take it down (`ironverbs run --faults link=…`).

use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use ironverbs_os::descriptor::Descriptor;
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use super::Result;
use crate::faults::{self, Faults};
use crate::shm::error::Error;

/// Whether the link is down just now.
#[must_use]
pub fn is_link_down() -> bool {
    faults::active().is_some_and(Faults::is_link_down)
}

/// Tells a context when the link goes down and comes back, by a timer that needs no thread.
#[derive(Debug)]
pub struct LinkWatch {
    faults: &'static Faults,
    timer: Descriptor,
    /// Changes that were told, or had happened when it began.
    told: Mutex<u32>,
}

impl LinkWatch {
    /// Tells what happens from now on; `None` where the link stays as it is.
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub fn new() -> Result<Option<Self>> {
        let Some(faults) = faults::active().filter(|faults| faults.has_link()) else { return Ok(None) };
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(|_| Error::last("timerfd_create"))?;
        let told = faults.begin_link();
        let watch = Self { faults, timer: Descriptor::new(OwnedFd::from(timer))?, told: told.into() };
        watch.wait_after(told);
        Ok(Some(watch))
    }

    /// A descriptor that is readable while a change waits to be told.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.timer.raw()
    }

    /// The oldest change that was not told: whether the link has come back by it, or has gone.
    pub fn next(&self) -> Option<bool> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.faults.link_changes();
        let is_new = *told < changes;
        *told += u32::from(is_new);
        if *told == changes {
            self.wait_after(changes);
        }
        is_new.then_some(told.is_multiple_of(2))
    }

    /// Has the timer wait for the change after so many, and for none behind the last.
    fn wait_after(&self, changes: u32) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // All zero is no time.
        let time = self.faults.until_link_change(changes).map_or(none, |time| libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(time.subsec_nanos().max(1).cast_signed()),
        });
        let spec = libc::itimerspec { it_interval: none, it_value: time };
        // SAFETY: the struct is readable; the old value is not asked for.
        unsafe { libc::timerfd_settime(self.timer.raw(), 0, &raw const spec, std::ptr::null_mut()) };
    }
}
