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
        self.next_with(|_| {})
    }

    /// As [`Channel::next`]; `count` is told of the event before its queue can be destroyed, which takes events away that
    /// nobody was told of.
    ///
    /// # Errors
    /// As those of [`Channel::next`].
    pub fn next_with(&self, count: impl FnOnce(usize)) -> io::Result<usize> {
        loop {
            self.bell.take()?;
            self.device.site.help_if_wanted();
            let mut state = self.state();
            if state.pending.is_empty() {
                self.collect(&mut state);
            }
            let event = state.pending.pop_front();
            // A bell that was full lost rings: each event that waits has one.
            for _ in self.bell.waiting()..state.pending.len() {
                self.bell.ring();
            }
            if let Some((_, cookie)) = event {
                count(cookie);
                return Ok(cookie);
            }
        }
    }

    /// Finds the queues whose bell was rung.
    fn collect(&self, state: &mut State) {
        let host = &self.device.site.own;
        for queue in state.queues.iter_mut().filter(|queue| queue.armed) {
            // Behind the lock: who rang may not have disarmed the queue yet.
            if acquire(host, Object::Cq(queue.cq)).is_err() {
                continue;
            }
            let fired = host.load(Word::Cq(queue.cq, CqWord::Armed)) == Armed::No as u64;
            host.unlock(Object::Cq(queue.cq));
            if fired {
                queue.armed = false;
                state.pending.push_back((queue.cq, queue.cookie));
            }
        }
    }

    /// The number of the bell.
    pub(super) fn bell(&self) -> u32 {
        self.bell.number()
    }

    pub(super) fn add(&self, cq: u32, cookie: usize) {
        self.state().queues.push(Queue { cq, cookie, armed: false });
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
        let State { queues, pending } = &mut *state;
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
