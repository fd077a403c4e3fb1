//! Completion channels: what a program sleeps on until a completion queue has something for it.
//!
//! Who completes something in an armed queue rings the channel's bell, one byte, and disarms the queue. Who takes an event
//! reads a byte and then looks which queues of the channel were disarmed by others. So a queue's event is counted when
//! its bell was rung, and not again before the queue is armed again; arming finds what nobody has looked at yet.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::completion::Armed;
use crate::core::shared::{CqWord, Memory, Object, Word};
use crate::core::transport::{LockError, Transport, acquire};
use crate::host::bell::Bell;

use super::{Device, Result};

/// A completion channel (`struct ibv_comp_channel`).
///
/// Its descriptor carries one byte for each event, so blocking, `O_NONBLOCK`, signals and `poll` act on it as on a
/// kernel's channel.
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

/// Sees to it that there is a byte in a bell for every event that waits, and none too many: the descriptor must not be
/// readable when there is nothing to take.
///
/// A byte that is missing may have been lost to a full bell, or be in the hands of a thread that is about to take its event.
/// So one is put there, and once there are more than events, those who put them there take as many back.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    /// Bytes put there for others that may come yet.
    extra: usize,
}

impl Bytes {
    /// Puts bytes there for events that have none. Else the number of bytes, when that may be too many: the caller looks for
    /// events that these are for, and then calls [`Bytes::give_up`].
    pub(super) fn level(&mut self, bell: &Bell, events: usize) -> usize {
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

    /// Takes back what is too much of the bytes that were there when it was looked for events: so many were taken since, and
    /// so many events wait.
    pub(super) fn give_up(&mut self, bell: &Bell, bytes: usize, taken: usize, events: usize) {
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
        let bell = Bell::new(&device.site.segment)?;
        Ok(Arc::new(Self { device: device.clone(), bell, state: Mutex::default() }))
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

    /// As [`Channel::next`], for who has just read a byte of the descriptor; `None` when the event that it stood for is gone,
    /// and the next byte is to be read. `count` is told of the event before its queue can be destroyed, which takes events
    /// away that nobody was told of.
    ///
    /// # Errors
    /// `EAGAIN`, where the descriptor does not block and there may be an event at which nobody can look now.
    pub fn rung(&self, count: impl FnOnce(usize)) -> io::Result<Option<usize>> {
        self.device.site.help_if_wanted();
        self.device.free_if_stuck();
        let mut state = self.state();
        let found_all = !state.pending.is_empty() || self.collect(&mut state);
        let event = state.pending.pop_front();
        let waiting = state.pending.len();
        let surplus = state.bytes.level(&self.bell, waiting);
        if surplus > 0 && self.collect(&mut state) {
            let waiting = state.pending.len();
            state.bytes.give_up(&self.bell, surplus, 0, waiting);
        }
        if let Some((_, cookie)) = event {
            count(cookie);
        } else if !found_all {
            // Perhaps there is an event where nobody could look; whoever rang for it does not ring again.
            self.bell.ring();
            drop(state);
            self.bell.would_block()?;
        }
        Ok(event.map(|(_, cookie)| cookie))
    }

    /// Finds the queues whose bell was rung; `false` where it could not look everywhere.
    fn collect(&self, state: &mut State) -> bool {
        let host = &self.device.site.own;
        let mut found_all = true;
        for queue in state.queues.iter_mut().filter(|queue| queue.armed) {
            // Behind the lock: who rang may not have disarmed the queue yet.
            if let Err(e) = acquire(host, Object::Cq(queue.cq)) {
                found_all &= e == LockError::Gone;
                continue;
            }
            let fired = host.load(Word::Cq(queue.cq, CqWord::Armed)) == Armed::No as u64;
            host.unlock(Object::Cq(queue.cq));
            if fired && state.pending.try_reserve(1).is_err() {
                found_all = false;
            } else if fired {
                queue.armed = false;
                state.pending.push_back((queue.cq, queue.cookie));
            }
        }
        found_all
    }

    /// The number of the bell.
    pub(super) fn bell(&self) -> u32 {
        self.bell.number()
    }

    pub(super) fn add(&self, cq: u32, cookie: usize) -> Result<()> {
        let mut state = self.state();
        state.queues.try_reserve(1)?;
        state.queues.push(Queue { cq, cookie, armed: false });
        Ok(())
    }

    /// Forgets a queue and its events.
    pub(super) fn remove(&self, cq: u32) {
        let mut state = self.state();
        self.collect(&mut state);
        state.queues.retain(|queue| queue.cq != cq);
        let before = state.pending.len();
        state.pending.retain(|event| event.0 != cq);
        let gone = before - state.pending.len();
        self.bell.unring(gone);
    }

    /// Arms a queue of this channel. An event that nobody has taken stays.
    pub(super) fn arm(&self, cq: u32, solicited_only: bool) -> std::result::Result<(), LockError> {
        let host = &self.device.site.own;
        let object = Object::Cq(cq);
        let mut state = self.state();
        acquire(host, object)?;
        let word = Word::Cq(cq, CqWord::Armed);
        let before = host.load(word);
        host.store(word, Armed::request(before, solicited_only));
        host.unlock(object);
        let State { queues, pending, .. } = &mut *state;
        if let Some(queue) = queues.iter_mut().find(|queue| queue.cq == cq) {
            if queue.armed && before == Armed::No as u64 {
                pending.push_back((cq, queue.cookie));
            }
            queue.armed = true;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
