//! Asynchronous events of one context.
//!
//! Whoever raises an event rings the bell of the context first and then says so in the object's words; who takes an event
//! reads a byte of the bell and looks at all objects of the context, behind their locks. What this process notices by itself
//! (a send queue that drained) goes into the queue directly.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::core::breaks::collect;
use crate::core::shared::Object;
use crate::core::transport::{Transport, acquire};
use crate::core::verbs::{Event, QpState};
use crate::host::bell::Bell;

use super::{Device, Result};

/// The asynchronous events of a context, and the descriptor that tells of them (`async_fd`).
#[derive(Debug)]
pub struct EventQueue {
    device: Arc<Device>,
    bell: Bell,
    pending: Mutex<VecDeque<Waiting>>,
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
        let subscribers = self.all().get(&object).cloned().unwrap_or_default();
        for subscriber in subscribers {
            if let Some(queue) = subscriber.queue.upgrade() {
                let mut pending = queue.pending();
                pending.push_back(Waiting { event, object, cookie: subscriber.cookie });
                // Whoever counts both finds them equal.
                queue.bell.ring();
            }
        }
    }

    pub(super) fn add(&self, object: Object, queue: &Arc<EventQueue>, cookie: usize) {
        let subscriber = Subscriber { queue: Arc::downgrade(queue), cookie };
        self.all().entry(object).or_default().push(subscriber);
    }

    /// Forgets one subscriber, and its events of the object that nobody has taken.
    pub(super) fn remove(&self, object: Object, queue: &EventQueue, cookie: usize) {
        let mut all = self.all();
        if let Some(subscribers) = all.get_mut(&object) {
            let of_queue = |s: &Subscriber| std::ptr::eq(s.queue.as_ptr(), queue) && s.cookie == cookie;
            if let Some(place) = subscribers.iter().position(of_queue) {
                subscribers.remove(place);
            }
            if subscribers.is_empty() {
                all.remove(&object);
            }
        }
        drop(all);
        let mut pending = queue.pending();
        let before = pending.len();
        pending.retain(|waiting| (waiting.object, waiting.cookie) != (object, cookie));
        let gone = before - pending.len();
        drop(pending);
        queue.bell.unring(gone);
    }

    /// The objects whose events come to this queue's bell. Causes first: the overrun of a completion queue breaks queue pairs.
    fn of(&self, queue: &EventQueue) -> Vec<Object> {
        let first = |subscribers: &Vec<Subscriber>| {
            subscribers.first().is_some_and(|s| std::ptr::eq(s.queue.as_ptr(), queue))
        };
        let all = self.all();
        let mut found: Vec<_> =
            all.iter().filter(|(_, subscribers)| first(subscribers)).map(|(object, _)| *object).collect();
        found.sort_unstable_by_key(|object| match *object {
            Object::Cq(index) => (0, index),
            Object::Srq(index) => (1, index),
            Object::Qp(index) => (2, index),
        });
        found
    }
}

impl EventQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// [`Error::Host`](super::Error::Host) without descriptors left.
    pub fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        let bell = Bell::new(&device.site.segment)?;
        Ok(Arc::new(Self { device: device.clone(), bell, pending: Mutex::default() }))
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
        self.next_with(|_, _| {})
    }

    /// As [`EventQueue::next`]; `count` is told of the event before its object can be destroyed, which takes events away that
    /// nobody was told of.
    ///
    /// # Errors
    /// As those of [`EventQueue::next`].
    pub fn next_with(&self, count: impl FnOnce(Event, usize)) -> io::Result<(Event, usize)> {
        loop {
            self.bell.take()?;
            let waits = !self.pending().is_empty();
            if !waits {
                self.collect();
            }
            let mut pending = self.pending();
            let first = pending.pop_front();
            // A bell that was full lost rings, and one ring may stand for several events: each that waits has one.
            for _ in self.bell.waiting()..pending.len() {
                self.bell.ring();
            }
            if let Some(waiting) = first {
                count(waiting.event, waiting.cookie);
                return Ok((waiting.event, waiting.cookie));
            }
        }
    }

    /// Finds what others raised.
    fn collect(&self) {
        let host = &self.device.site.own;
        for object in self.device.subscribers.of(self) {
            // Who rang may not have raised the event yet, but holds the lock.
            if acquire(host, object).is_err() {
                continue;
            }
            let raised = collect(host, object);
            host.unlock(object);
            if let Object::Qp(index) = object
                && let Some(qp) = self.device.queue_pair(index)
                && qp.state() == QpState::Err
            {
                // Whoever broke it may have died before everything was flushed.
                qp.tend();
            }
            for event in Event::ALL.iter().filter(|event| raised >> **event as u32 & 1 == 1) {
                self.tell(object, *event);
            }
        }
    }

    /// Tells all subscribers; the own bell was rung already.
    fn tell(&self, object: Object, event: Event) {
        let subscribers = self.device.subscribers.all().get(&object).cloned().unwrap_or_default();
        for subscriber in subscribers {
            let Some(queue) = subscriber.queue.upgrade() else { continue };
            let mut pending = queue.pending();
            pending.push_back(Waiting { event, object, cookie: subscriber.cookie });
            if !std::ptr::eq(&*queue, self) {
                queue.bell.ring();
            }
        }
    }

    /// The number of the bell.
    pub(super) fn bell(&self) -> u32 {
        self.bell.number()
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
