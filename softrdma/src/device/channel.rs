//! Completion channels: what a program sleeps on until a completion queue has something for it.
//!
//! Who completes something in an armed queue rings the channel's bell, one byte, and disarms the queue. Who
//! takes an event reads a byte and then looks which queues of the channel were disarmed by others. So a queue's
//! event is counted when its bell was rung, and not again before the queue is armed again; arming finds what
//! nobody has looked at yet.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ironverbs_os::growth::{TryPush, try_arc};

use crate::queues::completion::Armed;
use crate::queues::shared::{CqWord, Object, Word};
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport, acquire};
use crate::shm::bell::Bell;

use super::{Device, Result, busy};

/// A completion channel (`struct ibv_comp_channel`).
///
/// Its descriptor carries one byte for each event, so blocking, `O_NONBLOCK`, signals and `poll` act on it as
/// on a kernel's channel.
#[derive(Debug)]
pub struct Channel {
    device: Arc<Device>,
    bell: Bell,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<Queue>,
    /// Queues by index whose events nobody has taken, oldest first, with their cookies.
    pending: VecDeque<(u32, usize)>,
    bytes: Bytes,
}

/// A bell whose rings are counted: one for each event.
pub(super) trait Rings {
    /// Rings once.
    fn ring(&self);
    /// How many rings wait.
    fn waiting(&self) -> usize;
    /// Takes up to `count` rings.
    fn unring(&self, count: usize);
}

impl Rings for Bell {
    fn ring(&self) {
        self.ring();
    }
    fn waiting(&self) -> usize {
        self.waiting()
    }
    fn unring(&self, count: usize) {
        self.unring(count);
    }
}

/// Sees to it that there is a byte in a bell for every event that waits, and none too many: the descriptor must
/// not be readable when there is nothing to take.
///
/// A byte that is missing may have been lost to a full bell, or be in the hands of a thread that is about to
/// take its event. So one is put there, and once there are more than events, those who put them there take as
/// many back.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    /// Bytes put there for others that may come yet.
    extra: usize,
}

impl Bytes {
    /// Puts bytes there for events that have none. Else the number of bytes, when that may be too many: the
    /// caller looks for events that these are for, and then calls [`Bytes::give_up`].
    pub(super) fn level(&mut self, bell: &impl Rings, events: usize) -> usize {
        if events == 0 && self.extra == 0 {
            return 0;
        }
        let bytes = bell.waiting();
        for _ in bytes..events {
            bell.ring();
            self.extra += 1;
        }
        if bytes > events && self.extra > 0 { bytes } else { 0 }
    }

    /// Takes back what is too much of the bytes that were there when it was looked for events: so many were
    /// taken since, and so many events wait.
    pub(super) fn give_up(&mut self, bell: &impl Rings, bytes: usize, taken: usize, events: usize) {
        bell.unring(bytes.saturating_sub(taken + events).min(self.extra));
        self.extra = 0;
        // One byte may have stood for several events.
        self.level(bell, events);
    }
}

/// A completion queue of the channel.
#[derive(Debug)]
struct Queue {
    cq: u32,
    cookie: usize,
    /// Armed, and its event not seen yet.
    armed: bool,
}

impl Channel {
    /// A new channel.
    ///
    /// # Errors
    /// [`Error::Host`](super::Error::Host) without descriptors left.
    pub fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        let bell = Bell::new(&device.endpoint.segment)?;
        Ok(try_arc(Self { device: device.clone(), bell, state: Mutex::default() })?)
    }

    /// The descriptor that is readable while an event waits. The channel closes it when it is dropped.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.bell.fd()
    }

    /// Takes the oldest event: the cookie of its completion queue. Waits as the descriptor's flags say.
    ///
    /// # Errors
    /// That of `read` on the descriptor: `EAGAIN`, `EINTR`.
    pub fn next(&self) -> io::Result<usize> {
        loop {
            self.bell.take()?;
            if let Some(cookie) = self.rung(|_| {})? {
                return Ok(cookie);
            }
        }
    }

    /// As [`Channel::next`], for who has just read a byte of the descriptor; `None` when the event that it
    /// stood for is gone, and the next byte is to be read. `count` is told of the event before its queue can be
    /// destroyed, which takes events away that nobody was told of.
    ///
    /// # Errors
    /// `EAGAIN`, where the descriptor does not block and there may be an event at which nobody can look now.
    pub fn rung(&self, count: impl FnOnce(usize)) -> io::Result<Option<usize>> {
        self.device.endpoint.help_if_wanted();
        self.device.free_if_stuck();
        let mut state = self.state();
        let (event, found_all) = state.next(&self.device.endpoint.own, &self.bell);
        if let Some(cookie) = event {
            count(cookie);
        } else if !found_all {
            // Perhaps there is an event where nobody could look; whoever rang for it does not ring again.
            self.bell.ring();
            drop(state);
            self.bell.would_block()?;
        }
        Ok(event)
    }

    /// The number of the bell.
    pub(super) fn bell(&self) -> u32 {
        self.bell.number()
    }

    pub(super) fn add(&self, cq: u32, cookie: usize) -> Result<()> {
        self.state().add(cq, cookie)
    }

    /// Forgets a queue and its events.
    pub(super) fn remove(&self, cq: u32) {
        self.state().remove(&self.device.endpoint.own, &self.bell, cq);
    }

    /// Arms a queue of this channel. An event that nobody has taken stays.
    pub(super) fn arm(&self, cq: u32, solicited_only: bool) -> Result<()> {
        self.state().arm(&self.device.endpoint.own, cq, solicited_only)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, cq: u32, cookie: usize) -> Result<()> {
        Ok(self.queues.try_push(Queue { cq, cookie, armed: false })?)
    }

    /// The oldest event, for who has taken a ring; and whether it could be looked everywhere.
    fn next(&mut self, host: &impl Transport, bell: &impl Rings) -> (Option<usize>, bool) {
        let found_all = !self.pending.is_empty() || self.collect(host);
        let event = self.pending.pop_front();
        let surplus = self.bytes.level(bell, self.pending.len());
        if surplus > 0 && self.collect(host) {
            self.bytes.give_up(bell, surplus, 0, self.pending.len());
        }
        (event.map(|(_, cookie)| cookie), found_all)
    }

    /// Finds the queues whose bell was rung; `false` where it could not look everywhere.
    fn collect(&mut self, host: &impl Transport) -> bool {
        let mut found_all = true;
        for queue in self.queues.iter_mut().filter(|queue| queue.armed) {
            // Behind the lock: who rang may not have disarmed the queue yet.
            if let Err(e) = acquire(host, Object::Cq(queue.cq)) {
                found_all &= e == LockError::Gone;
                continue;
            }
            let fired = host.load(Word::Cq(queue.cq, CqWord::Armed)) == Armed::No as u64;
            host.unlock(Object::Cq(queue.cq));
            if fired {
                queue.armed = self.pending.try_push((queue.cq, queue.cookie)).is_err();
                found_all &= !queue.armed;
            }
        }
        found_all
    }

    fn remove(&mut self, host: &impl Transport, bell: &impl Rings, cq: u32) {
        self.collect(host);
        self.queues.retain(|queue| queue.cq != cq);
        let before = self.pending.len();
        self.pending.retain(|event| event.0 != cq);
        bell.unring(before - self.pending.len());
    }

    fn arm(&mut self, host: &impl Transport, cq: u32, solicited_only: bool) -> Result<()> {
        // For the event that there may be.
        self.pending.try_reserve(1)?;
        let object = Object::Cq(cq);
        acquire(host, object).map_err(busy)?;
        let word = Word::Cq(cq, CqWord::Armed);
        let before = host.load(word);
        host.store(word, Armed::request(before, solicited_only));
        host.unlock(object);
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.cq == cq) {
            if queue.armed && before == Armed::No as u64 {
                self.pending.push_reserved((cq, queue.cookie));
            }
            queue.armed = true;
        }
        Ok(())
    }
}

/// Every interleaving of who sleeps and who rings (`scripts/models`).
#[cfg(all(test, loom))]
mod model;
