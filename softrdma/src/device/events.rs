//! Asynchronous events of one context.
//!
//! Whoever raises an event rings the bell of the context first and then says so in the object's words; who
//! takes an event reads a byte of the bell and looks at all objects of the context, behind their locks. What
//! this process notices by itself (a send queue that drained) goes into the queue directly.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ironverbs_os::growth::{TryInsert, TryPush, try_arc, try_collect};

use crate::queues::breaks::collect;
use crate::queues::shared::Object;
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport, acquire};
use crate::rules::verbs::{Event, QpState};
use crate::shm::bell::Bell;

use super::channel::Bytes;
use super::stuck::SOON;
use super::{Device, Result};

/// The asynchronous events of a context, and the descriptor that tells of them (`async_fd`).
#[derive(Debug)]
pub struct EventQueue {
    device: Arc<Device>,
    bell: Bell,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Events that nobody has taken, oldest first.
    pending: VecDeque<Waiting>,
    bytes: Bytes,
    /// Bytes that were taken with an event or in vain.
    taken: u64,
}

/// An event that nobody has taken.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    event: Event,
    object: Object,
    cookie: usize,
}

/// Who is told of an object's events.
#[derive(Debug, Clone)]
pub(super) struct Subscriber {
    queue: Weak<EventQueue>,
    cookie: usize,
}

/// Who is told of which object's events. The first subscriber's bell is the one that is rung.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Mutex<HashMap<Object, Vec<Subscriber>>>);

impl Subscribers {
    fn all(&self) -> MutexGuard<'_, HashMap<Object, Vec<Subscriber>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the subscribers of an event.
    pub(super) fn raise(&self, object: Object, event: Event) {
        self.tell(object, event, std::ptr::null());
    }

    /// The same; the bell of the queue `rung` was rung already.
    fn tell(&self, object: Object, event: Event, rung: *const EventQueue) {
        // Kept until all are told: whoever is forgotten gets nothing afterwards.
        let all = self.all();
        for subscriber in all.get(&object).into_iter().flatten() {
            if let Some(queue) = subscriber.queue.upgrade() {
                let mut state = queue.state();
                // Without memory the event is lost: whoever raises it cannot fail.
                if state.pending.try_push(Waiting { event, object, cookie: subscriber.cookie }).is_err() {
                    continue;
                }
                if !std::ptr::eq(&*queue, rung) {
                    // Whoever counts both finds them equal.
                    queue.bell.ring();
                }
            }
        }
    }

    pub(super) fn add(&self, object: Object, queue: &Arc<EventQueue>, cookie: usize) -> Result<()> {
        let subscriber = Subscriber { queue: Arc::downgrade(queue), cookie };
        let mut all = self.all();
        let subscribers = all.try_entry(object)?.or_default();
        let added = subscribers.try_push(subscriber);
        if subscribers.is_empty() {
            all.remove(&object);
        }
        Ok(added?)
    }

    /// Forgets one subscriber, and its events of the object that nobody has taken. The number of the bell that
    /// is to be rung from now on, when that changes.
    #[must_use]
    fn remove(&self, object: Object, queue: &EventQueue, cookie: usize) -> Option<u32> {
        let mut all = self.all();
        let mut bell = None;
        if let Some(subscribers) = all.get_mut(&object) {
            let of_queue = |s: &Subscriber| std::ptr::eq(s.queue.as_ptr(), queue) && s.cookie == cookie;
            if let Some(place) = subscribers.iter().position(of_queue) {
                subscribers.remove(place);
                let first = subscribers.first().filter(|_| place == 0);
                bell = first.and_then(|first| first.queue.upgrade()).map(|queue| queue.bell());
            }
            if subscribers.is_empty() {
                all.remove(&object);
            }
        }
        drop(all);
        let mut state = queue.state();
        let before = state.pending.len();
        state.pending.retain(|waiting| (waiting.object, waiting.cookie) != (object, cookie));
        let gone = before - state.pending.len();
        drop(state);
        queue.bell.unring(gone);
        bell
    }

    /// Whether the object's events come to this queue's bell.
    fn ring(&self, object: Object, queue: &EventQueue) -> bool {
        self.all().get(&object).is_some_and(|subscribers| is_first(subscribers, queue))
    }

    /// The objects whose events come to this queue's bell. Causes first: the overrun of a completion queue
    /// breaks queue pairs.
    fn of(&self, queue: &EventQueue) -> Result<Vec<Object>> {
        let all = self.all();
        let its = all.iter().filter(|(_, subscribers)| is_first(subscribers, queue));
        let mut found = try_collect(its.map(|(object, _)| *object))?;
        found.sort_unstable_by_key(|object| match *object {
            Object::Cq(index) => (0, index),
            Object::Srq(index) => (1, index),
            Object::Qp(index) => (2, index),
        });
        Ok(found)
    }
}

/// Whether this queue's bell is the one that is rung.
fn is_first(subscribers: &[Subscriber], queue: &EventQueue) -> bool {
    subscribers.first().is_some_and(|s| std::ptr::eq(s.queue.as_ptr(), queue))
}

impl Device {
    /// Forgets who is told of an object's events, with events that nobody has taken. Others may be told of them
    /// still.
    pub(super) fn unsubscribe(&self, object: Object, queue: &EventQueue, cookie: usize) {
        // What was rung for is found first, so that its byte goes too.
        if queue.bell.waiting() > 0 && self.subscribers.ring(object, queue) {
            self.collect(object, queue);
        }
        let Some(bell) = self.subscribers.remove(object, queue, cookie) else { return };
        // Those who stay are told by their own bell, also of what was raised when the other one was rung.
        if self.endpoint.objects.set_alert(object, bell).is_ok() {
            self.collect(object, std::ptr::null());
        }
    }

    /// Tells of what others raised of an object; `false` when its lock cannot be had now.
    fn collect(&self, object: Object, rung: *const EventQueue) -> bool {
        let host = &self.endpoint.own.within(SOON);
        // Who rang may not have raised the event yet, but holds the lock.
        match acquire(host, object) {
            Err(LockError::Gone) => return true,
            Err(_) => return false,
            Ok(()) => {}
        }
        let raised = collect(host, object);
        host.unlock(object);
        if let Object::Qp(index) = object
            && let Some(qp) = self.queue_pair(index)
            && qp.state() == QpState::Err
        {
            // Whoever broke it may have died before everything was flushed.
            qp.flush_if_broken();
        }
        for event in Event::ALL.iter().filter(|event| raised >> **event as u32 & 1 == 1) {
            self.subscribers.tell(object, *event, rung);
        }
        true
    }
}

impl EventQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// [`Error::Host`](super::Error::Host) without descriptors left.
    pub fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        let bell = Bell::new(&device.endpoint.segment)?;
        Ok(try_arc(Self { device: device.clone(), bell, state: Mutex::default() })?)
    }

    /// The descriptor that is readable while an event waits. The queue closes it when it is dropped.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.bell.fd()
    }

    /// Takes the oldest event, with the cookie of the object it is about. Waits as the descriptor's flags say.
    ///
    /// # Errors
    /// That of `read` on the descriptor: `EAGAIN`, `EINTR`.
    pub fn next(&self) -> io::Result<(Event, usize)> {
        loop {
            self.bell.take()?;
            if let Some(found) = self.rung(|_, _| {})? {
                return Ok(found);
            }
        }
    }

    /// As [`EventQueue::next`], for who has just read a byte of the descriptor; `None` when the event that it
    /// stood for is gone, and the next byte is to be read. `count` is told of the event before its object can
    /// be destroyed, which takes events away that nobody was told of.
    ///
    /// # Errors
    /// `EAGAIN`, where the descriptor does not block and there may be an event at which nobody can look now.
    pub fn rung(&self, count: impl FnOnce(Event, usize)) -> io::Result<Option<(Event, usize)>> {
        let waits = !self.state().pending.is_empty();
        let found_all = waits || self.collect();
        let mut state = self.state();
        let State { pending, bytes, taken } = &mut *state;
        *taken += 1;
        let first = pending.pop_front();
        let surplus = bytes.level(&self.bell, pending.len());
        if let Some(Waiting { event, cookie, .. }) = first {
            count(event, cookie);
            let taken = *taken;
            drop(state);
            if surplus > 0 && self.collect() {
                let State { pending, bytes, taken: now } = &mut *self.state();
                bytes.give_up(&self.bell, surplus, (*now - taken) as usize, pending.len());
            }
            return Ok(Some((event, cookie)));
        }
        drop(state);
        if !found_all {
            // Perhaps there is an event where nobody could look; whoever rang for it does not ring again.
            self.bell.ring();
            self.bell.would_block()?;
        }
        Ok(None)
    }

    /// As [`EventQueue::rung`], for who has read nothing and does not wait: `None` when no event is there, or
    /// none can be looked at now. The descriptor stays readable in the second case.
    pub fn take(&self, count: impl FnOnce(Event, usize)) -> Option<(Event, usize)> {
        if !self.bell.try_take() {
            return None;
        }
        self.rung(count).ok().flatten()
    }

    /// Finds what others raised; `false` where it could not look everywhere.
    fn collect(&self) -> bool {
        let Ok(objects) = self.device.subscribers.of(self) else { return false };
        let busy = objects.into_iter().filter(|object| !self.device.collect(*object, self));
        busy.count() == 0
    }

    /// The number of the bell.
    pub(super) fn bell(&self) -> u32 {
        self.bell.number()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::device::{Copying, Settings};
    use crate::shm::folder::Config;
    use crate::shm::testing::TestDir;

    #[test]
    fn nothing_comes_for_who_was_forgotten() {
        let dir = TestDir::new("events");
        let folder = Config { path: dir.path().join("f"), group: None };
        let device = Device::open(&Settings { folder, copying: Copying::Auto, network: false }).unwrap();
        let queue = EventQueue::new(&device).unwrap();
        let (object, subscribers) = (Object::Qp(0), &device.subscribers);
        let ends = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    subscribers.raise(object, Event::CommEst);
                }
            });
            let mut forgotten = true;
            for cookie in 0..20_000 {
                subscribers.add(object, &queue, cookie).unwrap();
                std::hint::spin_loop();
                device.unsubscribe(object, &queue, cookie);
                forgotten &= (0..20).all(|_| queue.state().pending.is_empty());
            }
            ends.store(true, Ordering::Relaxed);
            assert!(forgotten);
        });
        assert_eq!(queue.bell.waiting(), 0);
    }
}
