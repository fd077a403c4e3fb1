//! A consumer arms its queue, looks again and sleeps; senders complete, and may die over it. Every
//! interleaving, on the queue's real lock and words: a wake-up that is lost ends the model as a deadlock.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;
use crate::queues::completion::HEAD_WORDS;
use crate::queues::deliver::{Deliver, Delivered};
use crate::queues::shared::{Memory, slot};
use crate::queues::transaction::Locked;
use crate::queues::transaction::{Machine, Progress};
use crate::queues::transport::{Operation, run};
use crate::rules::completion::Completion;
use crate::rules::verbs::{Status, WcOpcode};
use crate::shm::lock::{Acquired, Liveness, Lock, Owner};
use crate::shm::objects::{get, put};

const CAPACITY: u32 = 2;
const ENTRY: usize = HEAD_WORDS as usize;
const CONSUMER: u16 = 1;
/// The process that is dead for everybody else.
const DEAD: u16 = 9;
const COOKIE: usize = 7;

/// A completion queue and the bell of its channel.
struct Shared {
    lock: Lock,
    words: [AtomicU64; CqWord::COUNT as usize],
    entries: [[AtomicU64; ENTRY]; CAPACITY as usize],
    rings: Mutex<usize>,
    rung: Condvar,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: Lock::default(),
            words: Default::default(),
            entries: Default::default(),
            rings: Mutex::new(0),
            rung: Condvar::new(),
        })
    }

    fn rings(&self) -> loom::sync::MutexGuard<'_, usize> {
        self.rings.lock().unwrap()
    }

    /// Reads a byte of the descriptor, for which it waits.
    fn take(&self) {
        let mut rings = self.rings();
        while *rings == 0 {
            rings = self.rung.wait(rings).unwrap();
        }
        *rings -= 1;
    }
}

impl Rings for Shared {
    fn ring(&self) {
        *self.rings() += 1;
        self.rung.notify_one();
    }
    fn waiting(&self) -> usize {
        *self.rings()
    }
    fn unring(&self, count: usize) {
        let mut rings = self.rings();
        *rings -= count.min(*rings);
    }
}

/// The queue as one process sees it.
struct Process {
    shared: Arc<Shared>,
    me: Owner,
    /// So many bells are not heard: no descriptor is left for them.
    deaf: Cell<u32>,
}

impl Process {
    fn new(shared: &Arc<Shared>, slot: u16) -> Self {
        Self { shared: shared.clone(), me: Owner::new(slot, 7).unwrap(), deaf: Cell::new(0) }
    }

    fn word(&self, word: Word) -> Option<&AtomicU64> {
        match word {
            Word::Cq(0, word) => self.shared.words.get(word as usize),
            Word::Entry { cq: 0, slot, word } => self.shared.entries.get(slot as usize)?.get(word as usize),
            // Nobody wants anything else.
            _ => None,
        }
    }

    fn deliver(&self, wr_id: u64) {
        assert_eq!(run(self, Deliver::append(0, &completion(wr_id))), Ok(Delivered::Published));
    }

    /// Looks for completions without the lock.
    fn poll(&self) -> Option<u64> {
        let head = self.load(Word::Cq(0, CqWord::Head)) as u32;
        let entry = |word| self.load(Word::Entry { cq: 0, slot: slot(head, CAPACITY), word });
        let first = entry(0);
        if first as u32 != head.wrapping_add(1) {
            return None;
        }
        let words = std::array::from_fn(|word| if word == 0 { first } else { entry(word as u32) });
        self.store(Word::Cq(0, CqWord::Head), u64::from(head.wrapping_add(1)));
        Some(Completion::unpack(&words).expect("a whole entry").0.wr_id)
    }
}

impl Liveness for Process {
    fn lives(&self, owner: Owner) -> bool {
        owner.slot() != DEAD
    }
}

impl Memory for Process {
    fn load(&self, word: Word) -> u64 {
        self.word(word).map_or(0, get)
    }
    fn store(&self, word: Word, value: u64) {
        put(self.word(word).unwrap(), word, value);
    }
    /// As a view of the segment does.
    fn store_all(&self, first: Word, values: &[u64]) {
        for (value, count) in values.iter().zip(0..) {
            self.word(first.after(count)).unwrap().store(*value, Ordering::Relaxed);
        }
    }
    fn exists(&self, object: Object) -> bool {
        object == Object::Cq(0)
    }
    fn capacity(&self, _: Object) -> u32 {
        CAPACITY
    }
    fn receive_words(&self, _: Object) -> u32 {
        0
    }
    fn entry_words(&self, _: u32) -> u32 {
        HEAD_WORDS
    }
}

impl Transport for Process {
    fn lock(&self, _: Object) -> std::result::Result<Locked, LockError> {
        match self.shared.lock.lock(self.me, self, Duration::from_secs(1000)) {
            Some(Acquired::Clean) => Ok(Locked::Clean),
            Some(Acquired::Recovered) => Ok(Locked::Recovered),
            None => Err(LockError::Busy),
        }
    }
    fn unlock(&self, _: Object) -> bool {
        self.shared.lock.unlock(self.me)
    }
    fn abandon(&self, _: Object) {
        self.shared.lock.abandon(self.me);
    }
    fn bell(&self, _: u32) -> bool {
        if self.deaf.get() > 0 {
            self.deaf.set(self.deaf.get() - 1);
            return false;
        }
        self.shared.ring();
        true
    }
    fn alert(&self, _: Object) {}
}

fn completion(wr_id: u64) -> Completion {
    Completion { status: Status::Success, ..Completion::flushed(wr_id, WcOpcode::Send, 5) }
}

fn sender(shared: &Arc<Shared>, slot: u16) -> thread::JoinHandle<()> {
    let process = Process::new(shared, slot);
    thread::spawn(move || process.deliver(slot.into()))
}

fn consumer(shared: &Arc<Shared>) -> (Process, State) {
    // What a fresh queue has: nothing was published in any place.
    for (slot, entry) in (0..).zip(&shared.entries) {
        put(&entry[0], Word::Entry { cq: 0, slot, word: 0 }, u64::from(slot.wrapping_sub(CAPACITY)));
    }
    let mut state = State::default();
    state.add(0, COOKIE).unwrap();
    (Process::new(shared, CONSUMER), state)
}

/// Sleeps until there is an event.
fn sleep(me: &Process, state: &mut State) {
    loop {
        me.shared.take();
        match state.next(me, &*me.shared) {
            (Some(cookie), _) => return assert_eq!(cookie, COOKIE),
            // Whoever rang may be at work still, and rings no second time.
            (None, true) => {}
            (None, false) => me.shared.ring(),
        }
    }
}

/// Nobody is at work any more: there is a byte for each event, and an event for each byte.
fn settled(me: &Process, state: &mut State) -> usize {
    let mut events = 0;
    while me.shared.waiting() > 0 {
        me.shared.take();
        events += usize::from(state.next(me, &*me.shared).0.is_some());
    }
    state.collect(me);
    assert!(state.pending.is_empty(), "an event without a byte");
    events
}

#[test]
fn who_arms_and_looks_again_sleeps_over_nothing() {
    loom::model(|| {
        let shared = Shared::new();
        let (me, mut state) = consumer(&shared);
        let other = sender(&shared, 2);
        state.arm(&me, 0, false).unwrap();
        if let Some(found) = me.poll() {
            assert_eq!(found, 2);
            other.join().unwrap();
            assert!(settled(&me, &mut state) <= 1);
        } else {
            sleep(&me, &mut state);
            assert_eq!(me.poll(), Some(2), "woken for nothing");
            other.join().unwrap();
            assert_eq!(settled(&me, &mut state), 0);
        }
        assert_eq!(me.poll(), None);
    });
}

#[test]
fn two_completions_of_a_queue_that_was_armed_once_are_one_event() {
    loom::model(|| {
        let shared = Shared::new();
        let (me, mut state) = consumer(&shared);
        state.arm(&me, 0, false).unwrap();
        let other = Process::new(&shared, 2);
        let other = thread::spawn(move || (2..4).for_each(|wr_id| other.deliver(wr_id)));
        sleep(&me, &mut state);
        assert_eq!(me.poll(), Some(2), "woken for nothing");
        other.join().unwrap();
        assert_eq!(me.poll(), Some(3));
        assert_eq!(settled(&me, &mut state), 0);
    });
}

#[test]
fn who_arms_again_before_it_takes_the_event_keeps_both() {
    loom::model(|| {
        let shared = Shared::new();
        let (me, mut state) = consumer(&shared);
        state.arm(&me, 0, false).unwrap();
        Process::new(&shared, 2).deliver(2);
        let other = sender(&shared, 3);
        state.arm(&me, 0, false).unwrap();
        assert_eq!(me.poll(), Some(2));
        sleep(&me, &mut state);
        // The second event comes when the queue was armed before the second completion.
        let found = me.poll();
        if found.is_none() {
            sleep(&me, &mut state);
            assert_eq!(me.poll(), Some(3));
        }
        other.join().unwrap();
        assert!(settled(&me, &mut state) <= usize::from(found.is_some()));
    });
}

/// A process that dies after so many steps, or, at odd numbers, before it does what the last one asked for;
/// whether it came to its end before.
fn dies_after(process: &Process, halves: u32) -> bool {
    let mut machine = Deliver::append(0, &completion(DEAD.into()));
    let mut operation = Operation::new(process);
    let mut is_done = false;
    for half in (0..halves).step_by(2) {
        let progress = machine.step(process);
        is_done = matches!(progress, Progress::Done(_));
        if is_done || half + 1 == halves || !operation.proceed(&progress).unwrap() {
            break;
        }
    }
    // What it holds stays as it is.
    std::mem::forget(operation);
    is_done
}

#[test]
fn a_sender_that_dies_at_any_step_keeps_nobody_asleep() {
    let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for halves in 0.. {
        let seen = ends.clone();
        loom::model(move || {
            let shared = Shared::new();
            let (me, mut state) = consumer(&shared);
            state.arm(&me, 0, false).unwrap();
            let is_done = dies_after(&Process::new(&shared, DEAD), halves);
            seen.store(is_done, Ordering::Relaxed);
            let other = sender(&shared, 2);
            let mut found = 0;
            // It was woken, found what is there, and goes on as long as something is to come.
            while found != 2 {
                while let Some(id) = me.poll() {
                    assert!(id == 2 || id == u64::from(DEAD), "{id}");
                    found = id;
                }
                if found != 2 {
                    sleep(&me, &mut state);
                    if let Some(id) = me.poll() {
                        found = id;
                    }
                }
                if found != 2 {
                    state.arm(&me, 0, false).unwrap();
                }
            }
            other.join().unwrap();
            settled(&me, &mut state);
        });
        if ends.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn a_bell_that_cannot_be_rung_leaves_the_queue_armed_for_the_next() {
    loom::model(|| {
        let shared = Shared::new();
        let (me, mut state) = consumer(&shared);
        state.arm(&me, 0, false).unwrap();
        let other = Process::new(&shared, 2);
        other.deaf.set(1);
        let other = thread::spawn(move || {
            other.deliver(2);
            other.deliver(3);
        });
        sleep(&me, &mut state);
        assert_eq!((me.poll(), me.poll()), (Some(2), Some(3)));
        other.join().unwrap();
        assert_eq!(settled(&me, &mut state), 0);
    });
}
