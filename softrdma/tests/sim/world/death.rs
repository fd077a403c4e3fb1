//! Deaths and stops.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::World;

/// A death to come, or a stop.
pub struct Death {
    pub process: usize,
    /// It is stopped for so long, and lives.
    pub stop: Option<u64>,
    /// Not before so many steps.
    pub after: u64,
    pub when: When,
}

/// At which of its steps it comes.
#[derive(Clone, Copy, PartialEq)]
pub enum When {
    /// The next.
    Now,
    /// Within a transaction on the segment of somebody else, if there is one soon.
    Within,
    /// While it closes a direct ring, if it does so soon.
    Closing,
}

impl Death {
    pub(super) fn due(&self, world: &World, steps: u64) -> bool {
        if steps < self.after {
            return false;
        }
        if self.when == When::Now || steps > self.after + 3000 {
            return true;
        }
        if self.when == When::Closing {
            let closes = world.processes[self.process].direct.iter().any(|own| own.closes.get());
            return closes && world.random.once_in(2);
        }
        let locks = world.locks.borrow();
        let busy = locks.iter().any(|((place, _), owner)| owner.0 == self.process && *place != self.process);
        let shared = locks.iter().any(|((place, object), owner)| {
            owner.0 == self.process && *place != self.process && world.is_shared(*place, *object)
        });
        if self.stop.is_some() {
            return shared && world.random.once_in(8);
        }
        busy && world.random.once_in(12)
    }
}

/// In how many of so many requests the sender dies, and after how many steps at most.
const MORTALITY: (u64, u64) = (50, 25);

impl World {
    pub(super) fn strike(&self, death: &Death) -> bool {
        let Some(time) = death.stop else { return self.die(death.process) };
        let process = &self.processes[death.process];
        if process.alive.get() {
            self.note(death.process, "stops", String::new);
            process.stopped_until.set(self.now.get() + time);
            self.stops.set(self.stops.get() + 1);
        }
        true
    }

    /// Kills a process between two of its steps.
    fn die(&self, process: usize) -> bool {
        self.note(process, "dies", String::new);
        self.processes[process].alive.set(false);
        let mut threads = self.threads.borrow_mut();
        for thread in threads.iter_mut().filter(|thread| thread.process == process) {
            thread.future = None;
        }
        true
    }

    /// Carries a request out for a sender that may die at any of its steps, and then begins anew: `None`. To
    /// others it looks like a process that died, and one that has its place.
    pub async fn mortal<T>(&self, me: (usize, usize), request: impl Future<Output = T>) -> Option<T> {
        let dies = self.random.once_in(MORTALITY.0).then(|| self.random.below(MORTALITY.1));
        let ended = {
            let (mut request, mut steps) = (pin!(request), 0);
            poll_fn(|context| {
                if dies == Some(steps) {
                    return Poll::Ready(None);
                }
                steps += 1;
                request.as_mut().poll(context).map(Some)
            })
            .await
        };
        if ended.is_none() {
            self.note(me.0, "begins anew", String::new);
            for owner in self.locks.borrow_mut().values_mut().filter(|owner| **owner == me) {
                *owner = (usize::MAX, 0);
            }
            self.places.borrow_mut().retain(|seen| seen.0 != me);
            self.fenced.borrow_mut().retain(|taken| taken.0 != me);
        }
        ended
    }
}
