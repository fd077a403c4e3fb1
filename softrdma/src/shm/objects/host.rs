//! One segment as the transactions see it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use ironverbs_os::barrier;
use ironverbs_os::growth::{TryFill, TryInsert};

use super::layout::*;
use super::table::Objects;
use super::view::{Held, View};
use crate::queues::shared::{Memory, Object, QpWord, Word};
use crate::queues::transaction::{LockError, Locked};
use crate::queues::transport::Transport;
use crate::shm::bell::BellHandle;
use crate::shm::lock::{Acquired, Lock, Owner};
use crate::shm::memory::Memory as Mapping;
use crate::shm::segment::{Peer, Segment};
use crate::shm::sync;

/// What a [`Host`] knows of an object.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its entry, which stays where it is when the object goes away.
    entry: u64,
    /// Where its lock was last.
    body: u64,
    layout: Option<Layout>,
}

/// Whose segment a [`Host`] works on.
#[derive(Debug, Clone)]
pub(super) enum HostSegment {
    Own(Arc<Segment>),
    Peer(Arc<Peer>),
}

impl HostSegment {
    #[inline(always)]
    pub(super) fn memory(&self) -> &Mapping {
        match self {
            HostSegment::Own(me) => me.memory(),
            HostSegment::Peer(peer) => peer.memory(),
        }
    }
}

/// How long a lock is waited for while its owner lives, unless [`Host::with_limit`] says otherwise.
pub const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// How long a lock is waited for before it is asked whether its holder goes on.
pub const STUCK: Duration = Duration::from_millis(100);

/// How long a lock of a peer's queue is waited for that a third process has: it is asked for again, and says
/// nothing of the peer.
const HELD: Duration = Duration::from_millis(250);

/// How long an object is looked for again that a peer is moving. For an own one it is [`STUCK`]: the thread
/// that moves it goes on when this process does.
const PEERS_MOVE: Duration = Duration::from_millis(2);

/// Bells of one segment whose descriptors are kept open.
const HANDLES: usize = 32;

/// What the owner of a segment does when a living process keeps the lock of one of its objects for so long:
/// moves a queue ([`Objects::relocate`]), or takes the lock back ([`Host::revoke`]). `false`: it can do
/// nothing, and the lock is not to be waited for any longer.
type Rescue = dyn Fn(Object, Owner, Duration) -> bool + Send + Sync;

/// See [`Host::on_stuck`].
#[derive(Default)]
struct OnStuck(OnceLock<Box<Rescue>>);

impl std::fmt::Debug for OnStuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnStuck")
    }
}

/// One segment, own or a peer's, as the transactions see it.
///
/// A lock that a living process keeps for longer than the limit (it was stopped, or its memory lies) is an
/// error of the operation that waits, and of no other. The caller takes it for a peer that does not answer.
#[derive(Debug)]
pub struct Host {
    pub(super) limit: Duration,
    pub(super) me: Arc<Segment>,
    target: HostSegment,
    seen: Arc<Seen>,
}

/// What is known of a segment: shared by its hosts, which differ in how long they wait for locks.
#[derive(Debug, Default)]
struct Seen {
    /// By kind and index.
    entries: [RwLock<Vec<Option<Known>>>; 3],
    handles: Mutex<HashMap<u32, BellHandle>>,
    on_stuck: OnStuck,
    /// Completion queues whose bells were rung because of a holder that does not go on: that holder, by index.
    told: Mutex<HashMap<u32, Owner>>,
}

impl Host {
    /// This process's own segment.
    pub fn own(me: Arc<Segment>) -> Self {
        Self::of(me.clone(), HostSegment::Own(me))
    }

    /// A peer's segment.
    pub fn of_peer(me: Arc<Segment>, peer: Arc<Peer>) -> Self {
        Self::of(me, HostSegment::Peer(peer))
    }

    fn of(me: Arc<Segment>, target: HostSegment) -> Self {
        Host { limit: LOCK_LIMIT, me, target, seen: Arc::default() }
    }

    /// Sets what is done about an object of the own segment whose lock a living process keeps. Only the first
    /// call counts.
    pub fn on_stuck(&self, act: Box<Rescue>) {
        let _ = self.seen.on_stuck.0.set(act);
    }

    /// The same segment, whose locks are waited for at most so long. Allocates nothing.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Host { limit, me: self.me.clone(), target: self.target.clone(), seen: self.seen.clone() }
    }

    /// Waits for locks at most this long.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Host { limit, ..self }
    }

    #[inline(always)]
    pub(super) fn memory(&self) -> &Mapping {
        self.target.memory()
    }

    pub(super) fn target(&self) -> &HostSegment {
        &self.target
    }

    pub(super) fn owner(&self) -> Owner {
        match &self.target {
            HostSegment::Own(_) => self.me.owner(),
            HostSegment::Peer(peer) => peer.owner(),
        }
    }

    fn directory(&self, object: Object) -> Option<u64> {
        let root = Objects::ROOTS[kind(object).0];
        match &self.target {
            HostSegment::Own(_) => self.me.root(root).ok().map(|r| r.load(Ordering::Acquire)),
            HostSegment::Peer(peer) => peer.root(root).ok(),
        }
    }

    /// The checked copy of the object's entry, made anew when its generation is another.
    pub(super) fn layout(&self, object: Object) -> Option<Layout> {
        if let Some(known) = self.cached(object)
            && self.is_current(&known)
        {
            return Some(known);
        }
        let directory = self.directory(object)?;
        let mut fresh = self.settled(directory, object);
        if fresh.is_none()
            && let HostSegment::Peer(peer) = &self.target
        {
            // The segment may have grown since it was mapped.
            let before = self.memory().len();
            if peer.refresh().is_ok_and(|now| now > before) {
                fresh = self.settled(directory, object);
            }
        }
        let (kind, index) = kind(object);
        let mut entries = self.seen.entries[kind].write().unwrap_or_else(|e| e.into_inner());
        let index = index as usize;
        // Another thread may have found a later one meanwhile: what is known never becomes older.
        if fresh.is_some_and(|layout| !self.is_current(&layout)) {
            fresh = self.settled(directory, object);
        }
        match entries.get_mut(index) {
            // An entry that stands elsewhere than before is a lie.
            Some(Some(known)) => {
                known.layout = fresh.filter(|layout| layout.entry == known.entry);
                known.body = known.layout.map_or(known.body, |layout| layout.body);
                known.layout
            }
            _ => {
                let layout = fresh?;
                // Below MAX_OBJECTS: it was found.
                entries.try_fill(index + 1, || None).ok()?;
                entries[index] = Some(Known { entry: layout.entry, body: layout.body, layout: fresh });
                fresh
            }
        }
    }

    /// The copy of an entry, after the change that is under way. That takes a few stores, but the thread that
    /// makes them may have lost the processor, or, in another process, be stopped.
    fn settled(&self, directory: u64, object: Object) -> Option<Layout> {
        let generation = || generation(self.memory(), directory, object);
        let mut begun = None;
        loop {
            let before = generation();
            let fresh = copy(self.memory(), directory, object);
            let is_whole = before.is_none_or(|before| before & MOVING == 0) && generation() == before;
            if fresh.is_some() || is_whole {
                return fresh;
            }
            let limit = if matches!(self.target, HostSegment::Own(_)) { STUCK } else { PEERS_MOVE };
            if begun.get_or_insert_with(Instant::now).elapsed() >= limit {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// Whether the object is there, be it that it is moved just now; where it was `once` is told, it is to be
    /// the same.
    pub(super) fn is_there(&self, object: Object, once: Option<&Layout>) -> bool {
        match self.layout(object) {
            Some(now) => once.is_none_or(|once| once.is_same(&now)),
            None => {
                let word = self.directory(object).and_then(|d| generation(self.memory(), d, object));
                word.is_some_and(|word| word & MOVING != 0)
            }
        }
    }

    fn look(&self, object: Object) -> Option<Known> {
        let (kind, index) = kind(object);
        *self.seen.entries[kind].read().unwrap_or_else(|e| e.into_inner()).get(index as usize)?
    }

    /// Whether the object was looked up.
    #[cfg(test)]
    pub(super) fn is_known(&self, object: Object) -> bool {
        self.cached(object).is_some()
    }

    fn cached(&self, object: Object) -> Option<Layout> {
        self.look(object)?.layout
    }

    /// The copy that [`Memory::exists`] made, or one that is made now.
    pub(super) fn used(&self, object: Object) -> Option<Layout> {
        self.cached(object).or_else(|| self.layout(object))
    }

    /// Where the object's lock is, also after the object went away.
    pub(super) fn body(&self, object: Object) -> Option<u64> {
        Some(self.look(object)?.body)
    }

    /// The lock of a body; none for a forked child, which must not sign with its parent's name.
    fn lock_at(&self, body: u64) -> Option<&Lock> {
        if !self.me.is_mine() {
            return None;
        }
        self.memory().u64(body + LOCK).ok().map(Lock::at)
    }

    /// The process that has the object's lock.
    pub fn holder(&self, object: Object) -> Option<Owner> {
        self.layout(object).and_then(|layout| self.lock_at(layout.body)?.owner())
    }

    /// Takes the lock of an object, waiting as long as its holder lives, but not longer than the limit. The
    /// owner moves a queue whose holder does not go on; others tell it to.
    #[inline]
    pub(super) fn take(
        &self,
        object: Object,
        layout: &Layout,
        lock: &Lock,
    ) -> std::result::Result<Acquired, LockError> {
        match lock.lock(self.me.owner(), &*self.me, self.limit.min(STUCK)) {
            Some(acquired) => Ok(acquired),
            None => self.go_on_waiting(object, layout, lock),
        }
    }

    #[cold]
    fn go_on_waiting(
        &self,
        object: Object,
        layout: &Layout,
        lock: &Lock,
    ) -> std::result::Result<Acquired, LockError> {
        let first = self.limit.min(STUCK);
        let (start, me) = (Instant::now(), self.me.owner());
        let is_shared = !matches!(object, Object::Qp(_));
        let is_own = matches!(self.target, HostSegment::Own(_));
        let most = if is_own { self.limit } else { self.limit.min(HELD) };
        loop {
            let waited = first + start.elapsed();
            if lock.is_closed() {
                if !matches!(self.target, HostSegment::Own(_)) || !self.is_current(layout) {
                    return Err(LockError::Gone);
                }
                // Nobody but the owner closes it.
                lock.reopen();
            } else {
                let holder = lock.owner().filter(|holder| is_own || is_shared && *holder != me);
                let looked = holder.filter(|_| waited >= STUCK);
                let hopeless = looked.is_some_and(|holder| !self.tell(object, layout, holder, waited));
                let other = is_shared && holder.is_some_and(|holder| holder != self.owner());
                if hopeless || waited >= if other { most } else { self.limit } {
                    return Err(if other { LockError::Held } else { LockError::Busy });
                }
            }
            let left = self.limit.saturating_sub(waited).min(STUCK);
            if let Some(acquired) = lock.lock(me, &*self.me, left) {
                return Ok(acquired);
            }
        }
    }

    /// Sees to it that a queue is moved whose holder does not go on; whether it is to be waited for.
    fn tell(&self, object: Object, layout: &Layout, holder: Owner, waited: Duration) -> bool {
        match &self.target {
            HostSegment::Own(_) => {
                return self.seen.on_stuck.0.get().is_none_or(|act| act(object, holder, waited));
            }
            HostSegment::Peer(_) if holder == self.owner() => {}
            HostSegment::Peer(peer) => {
                if let Ok(stuck) = peer.stuck() {
                    stuck.store(1, Ordering::Release);
                }
                // It may sleep for this queue's next event. A bell for nothing is one too many for a program
                // that looks at the descriptor first, so it is rung once for each holder.
                if let Object::Cq(cq) = object
                    && self.seen.told.lock().unwrap_or_else(|e| e.into_inner()).try_set(cq, holder)
                        != Ok(Some(holder))
                {
                    self.ring_bell(layout.shape.bell);
                }
            }
        }
        true
    }

    /// Takes the lock of an object of the own segment from a process that does not have it, whatever stands
    /// there. `false` when somebody else has it by now.
    pub fn revoke(&self, object: Object, holder: Owner) -> bool {
        let lock = self.layout(object).and_then(|layout| self.lock_at(layout.body));
        matches!(self.target, HostSegment::Own(_)) && lock.is_some_and(|lock| lock.revoke(holder))
    }

    /// Whether the entry has still this generation.
    pub(super) fn is_current(&self, layout: &Layout) -> bool {
        self.memory()
            .u64(layout.entry + GENERATION)
            .is_ok_and(|g| g.load(Ordering::Acquire) == layout.generation)
    }

    /// Where a word stands in the segment: an owner's short cut to its own objects. It stays there as long as
    /// the object exists.
    pub fn offset(&self, word: Word) -> Option<u64> {
        self.layout(object_of(word)).map(|layout| place(&layout, word))
    }

    /// Looks up where these objects are; those that are not there are left out.
    pub fn find(&self, objects: [Option<Object>; 3]) -> Held {
        let mut held = Held::of(&self.target);
        for object in objects.into_iter().flatten() {
            held.set(object, self.layout(object));
        }
        held
    }

    /// The same segment for work on objects that were looked up before.
    #[inline(always)]
    pub fn with<'a>(&'a self, held: &'a Held) -> View<'a> {
        View::new(self, held)
    }

    /// Rings for the asynchronous events of the object with this entry. Its bell is another one when the
    /// context goes that the object was made in and others have it open, so it is looked up each time.
    pub(super) fn ring_alert(&self, entry: Option<u64>) {
        let word = entry.and_then(|entry| self.memory().u64(entry + BELLS).ok());
        self.ring_bell(word.and_then(|word| bell_number(word.load(Ordering::Acquire) >> 32)));
    }

    /// Rings; `false` when the bell is there and cannot be reached.
    pub(super) fn ring_bell(&self, number: Option<u32>) -> bool {
        number.is_none_or(|number| self.with_bell(number, BellHandle::ring).is_ok())
    }

    /// Finds the bell of a completion queue before it is rung, so that it is within reach when no descriptor is
    /// left.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn find_bell(&self, cq: u32) -> crate::shm::Result<()> {
        let bell = self.layout(Object::Cq(cq)).and_then(|layout| layout.shape.bell);
        match bell.map(|number| self.with_bell(number, |_| {})).transpose()? {
            Some(false) => Err(crate::shm::Error::NoMemory),
            _ => Ok(()),
        }
    }

    /// Acts on a bell; whether it will be within reach the next time.
    fn with_bell(&self, number: u32, act: impl FnOnce(&BellHandle)) -> crate::shm::Result<bool> {
        let mut handles = self.seen.handles.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(handle) = handles.get(&number) {
            act(handle);
            return Ok(true);
        }
        // One that is not found now is looked for again: descriptors may have run out.
        let handle = BellHandle::find(self.me.folder(), self.owner(), number)?;
        act(&handle);
        // Bells come and go, and nobody tells: those that are still there are found again.
        if handles.len() >= HANDLES {
            handles.clear();
        }
        Ok(handles.try_set(number, handle).is_ok())
    }
}

impl Memory for Host {
    #[inline(always)]
    fn is_stepwise(&self) -> bool {
        false
    }

    #[cold]
    fn fence_everywhere(&self) {
        if matches!(self.target(), HostSegment::Own(_)) && !barrier::is_registered() {
            // All of its threads fence.
            fence(Ordering::SeqCst);
        } else {
            barrier::everywhere();
        }
    }

    fn load(&self, word: Word) -> u64 {
        if let Word::Shared { srq, word } = word {
            return self.shared_word(srq, word).map_or(0, get);
        }
        let Some(layout) = self.used(object_of(word)) else { return 0 };
        self.memory().u64(place(&layout, word)).map_or(0, get)
    }

    fn compare_exchange(&self, word: Word, before: u64, now: u64) -> bool {
        let layout = self.used(object_of(word)).filter(|_| self.me.is_mine());
        let of_object = |layout: &Layout| self.memory().u64(place(layout, word)).ok();
        let to = match word {
            Word::Shared { srq, word } => layout.and_then(|_| self.shared_word(srq, word)),
            _ => layout.as_ref().and_then(of_object),
        };
        to.is_some_and(|to| exchange(to, before, now))
    }

    fn store(&self, word: Word, value: u64) {
        let Some(layout) = self.used(object_of(word)).filter(|_| self.me.is_mine()) else { return };
        if let Ok(to) = self.memory().u64(place(&layout, word)) {
            put(to, word, value);
        }
    }

    fn exists(&self, object: Object) -> bool {
        self.is_there(object, None)
    }

    fn capacity(&self, object: Object) -> u32 {
        self.used(object).map_or(0, |layout| layout.shape.capacity)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.used(queue).map_or(0, |layout| layout.shape.receive_words)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.used(Object::Cq(cq)).map_or(0, |layout| layout.shape.receive_words)
    }
}

impl Transport for Host {
    /// Waits as long as the owner lives, but not longer than the limit.
    fn lock(&self, object: Object) -> std::result::Result<Locked, LockError> {
        let me = self.me.owner();
        let mut layout = self.used(object).ok_or(LockError::Gone)?;
        loop {
            let lock = self.lock_at(layout.body).ok_or(LockError::Gone)?;
            let acquired = self.take(object, &layout, lock);
            if acquired == Err(LockError::Gone)
                && let Some(now) = self.layout(object).filter(|now| now.body != layout.body)
            {
                layout = now;
                continue;
            }
            let acquired = acquired?;
            // The object cannot go away from now on: its owner needs the lock for that.
            if self.is_current(&layout) {
                return Ok(locked(acquired));
            }
            match self.layout(object) {
                Some(now) if now.body == layout.body => return Ok(locked(acquired)),
                Some(now) => {
                    give_back(lock, me, acquired);
                    layout = now;
                }
                None => return Err(give_back(lock, me, acquired)),
            }
        }
    }

    /// Also when the object is gone.
    fn unlock(&self, object: Object) -> bool {
        let lock = self.body(object).and_then(|body| self.lock_at(body));
        lock.is_some_and(|lock| lock.unlock(self.me.owner()))
    }

    fn abandon(&self, object: Object) {
        if let Some(lock) = self.body(object).and_then(|body| self.lock_at(body)) {
            lock.abandon(self.me.owner());
        }
    }

    fn bell(&self, cq: u32) -> bool {
        self.ring_bell(self.used(Object::Cq(cq)).and_then(|layout| layout.shape.bell))
    }

    fn alert(&self, object: Object) {
        self.ring_alert(self.used(object).map(|layout| layout.entry));
    }
}

/// Writes a word that is as it was; whether it was.
#[inline(always)]
pub(super) fn exchange(to: &AtomicU64, before: u64, now: u64) -> bool {
    to.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Reads a word.
#[inline(always)]
pub(crate) fn get(from: &impl sync::Word) -> u64 {
    from.load(Ordering::Acquire)
}

/// Writes a word. A thread that changes the state of a queue pair looks then at what was posted to it, and one
/// that posts looks at the state afterwards, so that one of the two sees the other.
#[inline(always)]
pub(crate) fn put<W: sync::Word>(to: &W, word: Word, value: u64) {
    if let Word::Qp(_, QpWord::State) = word {
        to.swap(value, Ordering::SeqCst);
        W::fence_after_exchange();
    } else {
        to.store(value, Ordering::Release);
    }
}

pub(super) fn locked(acquired: Acquired) -> Locked {
    match acquired {
        Acquired::Clean => Locked::Clean,
        Acquired::Recovered => Locked::Recovered,
    }
}

/// Lets go of the lock of an object that went away.
#[cold]
pub(super) fn give_back(lock: &Lock, me: Owner, acquired: Acquired) -> LockError {
    match acquired {
        Acquired::Clean => lock.unlock(me),
        Acquired::Recovered => lock.abandon(me),
    };
    LockError::Gone
}
