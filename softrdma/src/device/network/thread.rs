//! The thread that takes packets where no program polls.
//!
//! A program that polls takes them itself, and sooner: woken by a packet, the thread may only take the
//! processor from the very thread that waits for it. So it sleeps while one polls, in naps, in case that stops.
//! Where none does, it lets the program come first every now and then, to learn whether it would. One that has
//! polled for long is believed though it seems not to for a while: what had its processor may be another.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::carrier::far::port::socket::Socket;
use crate::device::Device;

/// How long the thread runs at a time where others want its processor, in nanoseconds: as little as may be.
const TURN: u64 = 100_000;
/// So much later than it asked for may it be woken: by default it is 50 µs.
const SLACK: u64 = 5_000;
/// How long it sleeps where nothing comes, in nanoseconds: so long it may take it to end.
const SLEEP: u64 = 100_000_000;
/// How long it sleeps while a program polls: at first, since it may stop soon, and in the end.
const NAPS: [u64; 2] = [50_000, 1_000_000];
/// After so many sleeps it lets a program that polls now and then come first; after up to so many where that
/// was in vain.
const TRIES: [u32; 2] = [8, 256];
/// Of a program that has polled, naps at most in which it may poll less.
const TRUST: u32 = 8;
/// How long it lets it, in nanoseconds.
const TRY: u64 = 20_000;

/// What programs that poll have done.
#[derive(Debug, Clone, Copy, Default)]
struct Polling {
    /// Looks at the network that there were.
    looks: u64,
    /// Nanoseconds that they polled.
    polled: u64,
    /// At this time of the device's clock.
    now: u64,
}

/// What the thread makes of it.
#[derive(Debug)]
struct Sight {
    /// The program polls all the time.
    polls: bool,
    /// When the thread went to sleep.
    before: Polling,
    /// How long it sleeps while the program polls.
    nap: u64,
    /// Naps in which it may poll less than half of the time.
    trust: u32,
    /// Sleeps since the program was let come first, and after how many it is.
    sleeps: u32,
    tries: u32,
    /// Looks that there were by then.
    looks: u64,
}

impl Default for Sight {
    fn default() -> Self {
        let [tries, _] = TRIES;
        let (before, nap) = (Polling::default(), NAPS[0]);
        Self { polls: false, before, nap, trust: 0, sleeps: tries, tries, looks: 0 }
    }
}

impl Sight {
    /// The thread was woken: finds out whether the program takes what comes. `wait` lets it come first.
    ///
    /// Who waits for what is written to its memory does not poll for it, but now and then for something else.
    fn look(&mut self, polling: impl Fn() -> Polling, wait: impl FnOnce()) {
        let now = polling();
        let has_looked = now.looks != self.before.looks;
        if self.polls {
            self.sleeps = 0;
            let polled = now.polled.wrapping_sub(self.before.polled);
            if has_looked && polled >= now.now.saturating_sub(self.before.now) / 2 {
                (self.nap, self.trust) = (NAPS[1].min(2 * self.nap), TRUST.min(self.trust + 1));
                return;
            }
            self.polls = self.trust > 0 && {
                wait();
                polling().looks != now.looks
            };
            (self.nap, self.trust) = (NAPS[0], self.trust.saturating_sub(1));
            return;
        }
        self.sleeps = self.sleeps.saturating_add(1);
        // Not only since the last sleep: where this thread has the program's processor, that looks at nothing.
        if now.looks != self.looks && self.sleeps >= self.tries {
            wait();
            self.looks = polling().looks;
            self.polls = self.looks != now.looks;
            self.tries = if self.polls { TRIES[0] } else { TRIES[1].min(2 * self.tries) };
            (self.nap, self.trust, self.sleeps) = (NAPS[0], 0, 0);
        }
    }

    /// The program takes packets just now. It may have had to give way to the thread, and goes on when that
    /// sleeps.
    fn meet(&mut self) {
        if !self.polls {
            (self.polls, self.nap, self.trust) = (true, NAPS[0], 0);
        }
    }
}

/// Takes packets until the device ends.
pub(super) fn run(device: &Weak<Device>, ends: &AtomicBool) {
    ironverbs_os::thread::ask_for_short_turns(TURN);
    ironverbs_os::thread::ask_for_short_sleeps(SLACK);
    let (mut sight, mut is_asked, mut sent) = (Sight::default(), true, None);
    loop {
        let Some(device) = device.upgrade() else { return };
        let Some(net) = &device.net else { return };
        if ends.load(Ordering::Acquire) {
            return;
        }
        // What the program did not destroy keeps the device and its sockets though the process has left: then
        // others still come by it to theirs, and nothing that arrives is its own.
        let has_left = !device.is_mine();
        let polling = || Polling {
            looks: net.looks.load(Ordering::Relaxed),
            polled: net.polls.polled.load(Ordering::Relaxed),
            now: device.now(),
        };
        let let_come = || {
            wait(&[], TRY);
        };
        sight.look(polling, let_come);
        let mut more = false;
        // The program sees to all, unless it has left an acknowledgement since the last look. What this thread
        // locks costs the program more than that.
        let before = std::mem::replace(&mut sent, net.later.sent());
        if !sight.polls || has_left || before.is_some() && sent == before {
            net.later.turn(true);
            net.later.look_after(false);
            if !has_left {
                let looked = device.take_packets(net, None);
                more = looked.more;
                if looked.by_another {
                    sight.meet();
                }
            }
            net.later.turn(false);
        }
        let port = net.network.port();
        // Where that cannot be, later.
        let is_open = !is_asked || port.admit();
        let door = if is_open { port.door() } else { -1 };
        let fds = [door, port.own().raw(), port.groups().map_or(-1, Socket::raw)];
        net.later.look_after(sight.polls && !has_left);
        sight.before = polling();
        let resumes = net.resumes.load(Ordering::Relaxed).min(net.network.next_late());
        let pause = resumes.saturating_sub(sight.before.now).min(SLEEP);
        drop(device);
        is_asked = match (sight.polls, more) {
            _ if has_left => wait(&fds[..1], SLEEP),
            // Who polls takes what comes.
            (true, _) => wait(&fds[..1], sight.nap),
            (false, true) => wait(&fds[..1], 0),
            (false, false) => wait(&fds, pause),
        } || !is_open;
    }
}

/// Sleeps until one of these is readable, or so many nanoseconds have passed; whether it was the first.
fn wait(fds: &[i32], nanoseconds: u64) -> bool {
    let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 3];
    for (polled, fd) in polled.iter_mut().zip(fds) {
        polled.fd = *fd;
    }
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds as libc::c_long };
    // SAFETY: array and time live across the call, the first for as many as it has.
    unsafe { libc::ppoll(polled.as_mut_ptr(), fds.len() as libc::nfds_t, &raw const time, std::ptr::null()) };
    polled[0].revents != 0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A program, and the thread that looks at it.
    #[derive(Default)]
    struct Pair {
        polling: Cell<Polling>,
        sight: Sight,
    }

    impl Pair {
        /// So much time passes, of which the program polls so much with so many looks, and it looks as often
        /// again where it is let come first. Whether the thread lets it.
        fn pass(&mut self, time: u64, polled: u64, looks: u64) -> bool {
            let go_on = |time: u64, polled: u64| {
                let at = self.polling.get();
                let (looks, polled, now) = (at.looks + looks, at.polled + polled, at.now + time);
                self.polling.set(Polling { looks, polled, now });
            };
            self.sight.before = self.polling.get();
            go_on(time, polled);
            let tried = Cell::new(false);
            self.sight.look(
                || self.polling.get(),
                || {
                    tried.set(true);
                    go_on(TRY, TRY.min(polled));
                },
            );
            tried.get()
        }
    }

    #[test]
    fn who_polls_is_left_alone_and_looked_at_less_and_less() {
        let mut pair = Pair::default();
        assert!(pair.pass(1000, 1000, 2));
        assert_eq!((pair.sight.polls, pair.sight.nap), (true, NAPS[0]));
        for _ in 0..10 {
            let nap = pair.sight.nap;
            assert!(!pair.pass(nap, nap * 3 / 4, 20));
            assert!(pair.sight.polls);
        }
        assert_eq!(pair.sight.nap, NAPS[1]);
    }

    /// A program that polled and has stopped.
    fn stopped() -> Pair {
        let mut pair = Pair::default();
        pair.pass(1000, 1000, 2);
        pair.pass(NAPS[0], NAPS[0] / 4, 5);
        assert!(!pair.sight.polls);
        pair
    }

    #[test]
    fn who_stops_is_noticed_after_one_nap_and_tried_again() {
        let mut pair = stopped();
        // For all that, the thread takes what comes, but to the last.
        assert!((1..TRIES[0]).all(|_| !pair.pass(1000, 900, 2)));
        assert!(pair.pass(1000, 900, 2));
        assert!(pair.sight.polls);
    }

    #[test]
    fn who_has_polled_for_long_is_believed_for_a_while() {
        let mut pair = Pair::default();
        pair.pass(1000, 1000, 2);
        assert!((0..20).all(|_| !pair.pass(NAPS[0], NAPS[0], 20)));
        // Somebody else has its processor for most of the time.
        assert!((0..TRUST).all(|_| pair.pass(NAPS[0], NAPS[0] / 4, 5)));
        assert_eq!((pair.sight.polls, pair.sight.nap), (true, NAPS[0]));
        assert!(!pair.pass(NAPS[0], NAPS[0] / 4, 5));
        assert!(!pair.sight.polls);
    }

    #[test]
    fn who_has_polled_for_long_and_stops_is_noticed_at_once() {
        let mut pair = Pair::default();
        pair.pass(1000, 1000, 2);
        assert!((0..20).all(|_| !pair.pass(NAPS[0], NAPS[0], 20)));
        // It is let come first, and does not.
        assert!(pair.pass(NAPS[1], 0, 0));
        assert!(!pair.sight.polls);
    }

    #[test]
    fn who_has_no_processor_while_the_thread_takes_packets_is_let_come_too() {
        let mut pair = stopped();
        // Packets come all the time, so that the thread does not sleep.
        assert!((1..TRIES[0]).all(|_| !pair.pass(0, 0, 0)));
        let (at, looks) = (pair.polling.get(), pair.polling.get().looks + 1);
        pair.sight.before = at;
        pair.sight.look(|| pair.polling.get(), || pair.polling.set(Polling { looks, ..at }));
        assert!(pair.sight.polls);
    }

    #[test]
    fn who_is_met_at_work_goes_on_alone() {
        let mut pair = Pair::default();
        pair.pass(1000, 0, 0);
        pair.sight.meet();
        assert_eq!((pair.sight.polls, pair.sight.nap), (true, NAPS[0]));
        // It has had its processor back, and did nothing with it.
        pair.pass(NAPS[0], 0, 0);
        assert!(!pair.sight.polls);
    }

    #[test]
    fn who_never_polls_is_not_waited_for() {
        let mut pair = Pair::default();
        assert!((0..1000).all(|_| !pair.pass(1000, 0, 0)));
        assert!(!pair.sight.polls);
    }

    #[test]
    fn who_polls_for_something_else_is_waited_for_less_and_less() {
        let mut pair = Pair::default();
        let mut tries = 0;
        for _ in 0..10_000 {
            // It has looked, and does not while it is waited for.
            let at = pair.polling.get();
            pair.sight.before = at;
            pair.polling.set(Polling { looks: at.looks + 1, ..at });
            pair.sight.look(|| pair.polling.get(), || tries += 1);
            assert!(!pair.sight.polls);
        }
        assert!((10_000 / TRIES[1]..10_000 / TRIES[1] + 10).contains(&tries), "{tries}");
    }
}
