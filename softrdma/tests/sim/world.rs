//! Processes, locks, time, and the scheduler that interleaves their steps.
//!
//! A thread of a process is a future that gives way between any two steps of a transaction. Death is dropping
//! the futures of a process: nothing of it runs any more, its locks stay taken.

mod death;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use softrdma::queues::fence::{Resolve, cut};
use softrdma::queues::repair::Repair;
use softrdma::queues::shared::{Fence, Memory, Object, QpWord, Word};
use softrdma::queues::transaction::LockError;
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::rules::verbs::QpType;
use softrdma_testing::segment::{Queue, Seen};

pub use crate::config::{Act, Config, Process};
use crate::fault::Fault;
use crate::ledger::{End, Ledger};
use crate::random::Random;
use crate::rings::Rings;

pub use death::{Death, When};

#[derive(Clone, Copy, PartialEq)]
enum Wake {
    Runnable,
    Until(u64),
    Never,
}

struct Thread {
    process: usize,
    thread: usize,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    wake: Wake,
    stalled_until: u64,
}

/// A thread, a process, and a queue of that whose lock the thread took.
type Taken = ((usize, usize), usize, Object);

/// The same, and where the queue was.
type Place = ((usize, usize), usize, Object, Rc<Queue>);

/// Everything.
pub struct World {
    pub seed: u64,
    pub random: Random,
    pub now: Cell<u64>,
    pub processes: Vec<Process>,
    pub ledger: RefCell<Ledger>,
    /// Completion queues are small enough to overrun.
    pub small_queues: bool,
    /// Nearly all requests are sends of connections.
    pub sends: bool,
    pub recoveries: Cell<u64>,
    /// Payloads that came in completion entries.
    pub staged: Cell<u64>,
    /// Bursts that delivered something, and messages that they delivered.
    pub bursts: Cell<u64>,
    pub in_bursts: Cell<u64>,
    /// Requests tried before their time, in vain.
    pub early: Cell<u64>,
    /// Queues that got another ring.
    pub resized: Cell<u64>,
    /// Requests that met one in the midst.
    pub outdated: Cell<u64>,
    /// Stops, queues that were moved away from a holder, and how holders found their transactions then.
    pub stops: Cell<u64>,
    pub moved: Cell<u64>,
    pub found: [Cell<u64>; 5],
    /// Messages that invalidated a key and were undone afterwards.
    pub undone: RefCell<HashSet<u64>>,
    /// Bursts of which not everything arrived.
    pub lost: Cell<u64>,
    /// Datagrams that met a queue pair kept by a process that was stopped.
    pub kept: Cell<u64>,
    /// What happened in direct rings, and what is wrong there.
    pub rings: Rings,
    pub fault: Option<Fault>,
    threads: RefCell<Vec<Thread>>,
    wakes: RefCell<Vec<(usize, Option<usize>)>>,
    sleep: Cell<Option<Wake>>,
    locks: RefCell<HashMap<(usize, Object), (usize, usize)>>,
    /// Where queues were when a thread took their locks.
    places: RefCell<Vec<Place>>,
    /// Locks that were taken away from a thread.
    fenced: RefCell<HashSet<Taken>>,
    /// Queues that are being moved: their owner does not look into them.
    moving: RefCell<HashSet<(usize, Object)>>,
    trace: RefCell<VecDeque<(u64, usize, &'static str, String)>>,
}

const STEP_LIMIT: u64 = 1_000_000;

impl World {
    pub fn new(
        seed: u64,
        random: Random,
        processes: Vec<Process>,
        ledger: Ledger,
        small_queues: bool,
    ) -> Self {
        Self {
            seed,
            random,
            now: Cell::new(0),
            processes,
            ledger: RefCell::new(ledger),
            small_queues,
            sends: false,
            recoveries: Cell::new(0),
            staged: Cell::new(0),
            bursts: Cell::new(0),
            in_bursts: Cell::new(0),
            early: Cell::new(0),
            resized: Cell::new(0),
            outdated: Cell::new(0),
            stops: Cell::new(0),
            moved: Cell::new(0),
            found: Default::default(),
            lost: Cell::new(0),
            kept: Cell::new(0),
            rings: Rings::default(),
            fault: None,
            undone: RefCell::default(),
            places: RefCell::default(),
            fenced: RefCell::default(),
            moving: RefCell::default(),
            threads: RefCell::default(),
            wakes: RefCell::default(),
            sleep: Cell::new(None),
            locks: RefCell::default(),
            trace: RefCell::default(),
        }
    }

    pub fn alive(&self, process: usize) -> bool {
        // Nobody is dead.
        self.processes.get(process).is_some_and(|process| process.alive.get())
    }

    pub fn note(&self, process: usize, what: &'static str, detail: impl FnOnce() -> String) {
        let mut trace = self.trace.borrow_mut();
        if trace.len() == 60 {
            trace.pop_front();
        }
        trace.push_back((self.now.get(), process, what, detail()));
    }

    /// Whether a queue pair was destroyed.
    pub fn is_gone(&self, end: End) -> bool {
        self.processes[end.0].direct[end.1 as usize].reset.get() == Some(u64::MAX)
    }

    /// Whether a queue pair was reset or destroyed.
    pub fn was_reset(&self, end: End) -> bool {
        self.processes[end.0].direct[end.1 as usize].reset.get().is_some()
    }

    /// Whether this is wrong.
    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Ends the test with the seed and what happened last; silently where that is expected.
    pub fn violated(&self, invariant: &str) -> ! {
        if self.fault.is_some() {
            std::panic::resume_unwind(Box::new(invariant.to_string()));
        }
        eprintln!("seed {}: {invariant}", self.seed);
        for (now, process, what, detail) in self.trace.borrow().iter() {
            eprintln!("  {now:>9} ns  process {process}  {what}  {detail}");
        }
        panic!("seed {}: {invariant}", self.seed);
    }

    pub fn spawn(&self, process: usize, thread: usize, future: impl Future<Output = ()> + 'static) {
        self.threads.borrow_mut().push(Thread {
            process,
            thread,
            future: Some(Box::pin(future)),
            wake: Wake::Runnable,
            stalled_until: 0,
        });
    }

    /// Rings for the threads of a process, or one of them. A bell stays until it was heard.
    pub fn wake(&self, process: usize, thread: Option<usize>) {
        for (index, bell) in self.processes[process].bells.iter().enumerate() {
            if thread.is_none_or(|thread| thread == index) {
                bell.set(true);
            }
        }
        self.wakes.borrow_mut().push((process, thread));
    }

    /// Runs until nobody has anything left to do, or dies as planned.
    pub fn run(&self, mut deaths: Vec<Death>) {
        let mut context = Context::from_waker(Waker::noop());
        let mut steps = 0;
        let mut runnable = Vec::new();
        loop {
            deaths.retain(|death| !(death.due(self, steps) && self.strike(death)));
            let now = self.now.get();
            runnable.clear();
            let mut next = u64::MAX;
            for (index, thread) in self.threads.borrow().iter().enumerate() {
                let stopped_until = self.processes[thread.process].stopped_until.get();
                let from = match thread.wake {
                    _ if thread.future.is_none() => continue,
                    Wake::Never => continue,
                    Wake::Runnable => thread.stalled_until,
                    Wake::Until(until) => until.max(thread.stalled_until),
                };
                let from = from.max(stopped_until);
                if from <= now { runnable.push(index) } else { next = next.min(from) }
            }
            if runnable.is_empty() {
                if next == u64::MAX {
                    return;
                }
                self.now.set(next);
                continue;
            }
            let index = self.random.pick(&runnable);
            self.now.set(now + 10 + self.random.below(50));
            let Some(mut future) = self.threads.borrow_mut()[index].future.take() else { continue };
            self.sleep.set(None);
            let done = future.as_mut().poll(&mut context).is_ready();
            let mut threads = self.threads.borrow_mut();
            threads[index].wake = self.sleep.take().unwrap_or(Wake::Runnable);
            threads[index].future = (!done).then_some(future);
            if self.random.once_in(200) {
                threads[index].stalled_until = self.now.get() + self.random.below(40_000);
            }
            for (process, which) in self.wakes.borrow_mut().drain(..) {
                for thread in threads.iter_mut().filter(|thread| thread.process == process) {
                    if which.is_none_or(|which| which == thread.thread) {
                        thread.wake = Wake::Runnable;
                    }
                }
            }
            drop(threads);
            steps += 1;
            if steps > STEP_LIMIT {
                self.violated("somebody never comes to an end");
            }
        }
    }

    /// Lets go of the threads, which hold the world.
    pub fn clear(&self) {
        self.threads.borrow_mut().clear();
    }

    /// Whether others than its owner and one peer take the lock of an object.
    fn is_shared(&self, place: usize, object: Object) -> bool {
        let Object::Qp(qp) = object else { return true };
        self.processes[place].configs[qp as usize].qp_type == QpType::Ud
    }

    /// Whether a datagram is lost, as a process that is stopped keeps the queue pair that it is for.
    pub fn is_kept(&self, place: usize, qp: u32) -> bool {
        let object = Object::Qp(qp);
        let owner = self.locks.borrow().get(&(place, object)).copied();
        let is_kept = self.is_shared(place, object)
            && owner.is_some_and(|owner| self.alive(owner.0) && self.is_stopped(owner.0))
            && self.random.once_in(2);
        self.kept.set(self.kept.get() + u64::from(is_kept));
        is_kept
    }

    fn is_stopped(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|process| process.stopped_until.get() > self.now.get())
    }

    /// Gives way to the others.
    pub async fn pause(&self) {
        Yield(false).await;
    }

    /// Sleeps until then, or until woken.
    pub async fn sleep(&self, until: Option<u64>) {
        self.sleep.set(Some(until.map_or(Wake::Never, Wake::Until)));
        Yield(false).await;
    }

    /// Sleeps until then unless a bell rings or has rung.
    pub async fn idle(&self, me: (usize, usize), until: Option<u64>) {
        let bell = &self.processes[me.0].bells[me.1];
        if !bell.get() {
            self.sleep(until).await;
        }
        bell.set(false);
    }

    /// Takes a lock, over from the dead where it must, and repairs then.
    pub fn acquire(
        &self,
        me: (usize, usize),
        place: usize,
        object: Object,
    ) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            loop {
                let owner = self.locks.borrow().get(&(place, object)).copied();
                match owner {
                    Some(owner) if owner == me => self.violated("a lock is taken twice"),
                    Some(owner) if self.alive(owner.0) => {
                        let shared =
                            !matches!(object, Object::Qp(_)) && owner.0 != place && self.alive(place);
                        // Now and then also one that is only slow.
                        if shared && (self.is_stopped(owner.0) || self.random.once_in(40)) {
                            if me.0 == place {
                                self.relocate(me, owner, object).await;
                                continue;
                            }
                            self.processes[place].asked.set(true);
                            self.wake(place, None);
                        }
                        self.sleep(Some(self.now.get() + 50 + self.random.below(200))).await;
                    }
                    other => {
                        self.locks.borrow_mut().insert((place, object), me);
                        self.remember(me, place, object);
                        if other.is_some() {
                            self.recoveries.set(self.recoveries.get() + 1);
                            self.note(me.0, "recovers", || format!("{object:?} of process {place}"));
                            self.pause().await;
                            if self.carry_for(me, place, Repair::new(object), object).await.is_err() {
                                self.abandon(me, place, object);
                                self.pause().await;
                                continue;
                            }
                        }
                        return;
                    }
                }
            }
        })
    }

    /// A thread that has a lock goes by where the queue is now, whatever becomes of it.
    fn remember(&self, me: (usize, usize), place: usize, object: Object) {
        if !matches!(object, Object::Qp(_)) {
            let queue = self.processes[place].segment.queue(object);
            self.places.borrow_mut().push((me, place, object, queue));
        }
    }

    fn forget(&self, me: (usize, usize), place: usize, object: Object) {
        self.places.borrow_mut().retain(|seen| (seen.0, seen.1, seen.2) != (me, place, object));
    }

    /// A segment as a thread sees it.
    pub fn memory(&self, me: (usize, usize), place: usize) -> Seen<'_> {
        let places = self.places.borrow();
        let mine = places.iter().filter(|seen| (seen.0, seen.1) == (me, place));
        Seen {
            segment: &self.processes[place].segment,
            places: mine.map(|seen| (seen.2, seen.3.clone())).collect(),
        }
    }

    /// Whether a queue is being moved, so that its owner's other threads do not look into it.
    pub fn is_moving(&self, place: usize, object: Object) -> bool {
        self.moving.borrow().contains(&(place, object))
    }

    /// Moves a queue of this process away from a holder of its lock, which may go on at any time.
    async fn relocate(&self, me: (usize, usize), holder: (usize, usize), object: Object) {
        let place = me.0;
        let segment = &self.processes[place].segment;
        let held = |holder: usize| {
            let locks = self.locks.borrow();
            let mut held: Vec<_> = locks
                .iter()
                .filter(|((at, _), owner)| *at == place && owner.0 == holder)
                .filter_map(|((_, object), _)| if let Object::Qp(qp) = object { Some(*qp) } else { None })
                .collect();
            held.sort_unstable();
            held
        };
        if cut(segment, object, &held(holder.0)).is_none() || self.is_moving(place, object) {
            self.sleep(Some(self.now.get() + 100)).await;
            return;
        }
        self.note(place, "moves", || format!("{object:?} away from {holder:?}"));
        self.moving.borrow_mut().insert((place, object));
        self.fenced.borrow_mut().insert((holder, place, object));
        self.locks.borrow_mut().insert((place, object), me);
        self.pause().await;
        let whole = cut(segment, object, &held(holder.0));
        self.note(place, "cuts", || format!("{:?} of {:?}", whole, held(holder.0)));
        self.pause().await;
        for (qp, fence) in whole.iter().flat_map(|cut| &cut.fences) {
            segment.store(Word::Qp(*qp, QpWord::Fence), fence.pack());
            self.pause().await;
        }
        segment.relocate(object, whole.as_ref());
        let claim = matches!(object, Object::Srq(_)) && whole.as_ref().is_none_or(|cut| cut.words[0] != 0);
        self.moved.set(self.moved.get() + 1);
        self.moving.borrow_mut().remove(&(place, object));
        if claim || whole.is_none() {
            self.locks.borrow_mut().insert((place, object), (usize::MAX, 0));
        } else {
            self.locks.borrow_mut().remove(&(place, object));
        }
        self.wake(place, None);
    }

    /// Gives a lock back; `false` when it was taken away before.
    pub fn release(&self, me: (usize, usize), place: usize, object: Object) -> bool {
        self.forget(me, place, object);
        if self.fenced.borrow_mut().remove(&(me, place, object)) {
            return false;
        }
        if self.locks.borrow_mut().remove(&(place, object)) != Some(me) {
            self.violated("a lock is given back by somebody else");
        }
        true
    }

    /// What became of a transaction of a queue pair when a lock was taken away.
    pub fn resolve(
        &self,
        me: (usize, usize),
        place: usize,
        qp: u32,
        object: Object,
    ) -> Pin<Box<dyn Future<Output = Option<Fence>> + '_>> {
        Box::pin(async move {
            let found = loop {
                // When that lock is taken away too, what was found is so nevertheless.
                match self.carry_for(me, place, Resolve::new(qp, object), object).await {
                    Ok(found) => break found,
                    Err(_) => self.pause().await,
                }
            };
            let kind = match found {
                None => 0,
                Some(Fence::Delivery(delivery)) => 1 + usize::from(delivery.published),
                Some(Fence::Claim { held, .. }) => 3 + usize::from(held),
            };
            self.found[kind].set(self.found[kind].get() + 1);
            self.note(me.0, "finds", || format!("{found:?}"));
            found
        })
    }

    /// As the operations of the engine: whether a transaction goes on whose lock was taken away.
    pub async fn fenced(
        &self,
        me: (usize, usize),
        place: usize,
        qp: u32,
        object: Object,
    ) -> Result<(), LockError> {
        match self.resolve(me, place, qp, object).await {
            None => Ok(()),
            Some(Fence::Delivery(delivery)) if delivery.published => Ok(()),
            Some(_) => Err(LockError::Gone),
        }
    }

    /// Lets go of a lock as death would.
    pub fn abandon(&self, me: (usize, usize), place: usize, object: Object) {
        self.forget(me, place, object);
        if self.fenced.borrow_mut().remove(&(me, place, object)) {
            return;
        }
        if self.locks.borrow_mut().insert((place, object), (usize::MAX, 0)) != Some(me) {
            self.violated("a lock is abandoned by somebody else");
        }
    }

    /// Carries a transaction through on the own segment, of which nobody takes a lock away.
    pub async fn carry<M: Machine>(&self, me: (usize, usize), place: usize, machine: M) -> M::Outcome {
        match self.carry_for(me, place, machine, Object::Cq(u32::MAX)).await {
            Ok(outcome) => outcome,
            Err(_) => self.violated("a process takes a lock away from itself"),
        }
    }

    /// Carries a transaction through on the segment of a process, for an object whose lock the caller has.
    async fn carry_for<M: Machine>(
        &self,
        me: (usize, usize),
        place: usize,
        mut machine: M,
        of: Object,
    ) -> Result<M::Outcome, LockError> {
        loop {
            let progress = machine.step(&self.memory(me, place));
            match progress {
                Progress::Done(outcome) => return Ok(outcome),
                Progress::Continue => {}
                Progress::Lock(object) => self.acquire(me, place, object).await,
                Progress::Unlock(object) => {
                    if !self.release(me, place, object)
                        && let Object::Qp(qp) = of
                    {
                        self.fenced(me, place, qp, object).await?;
                    }
                }
                Progress::Bell(cq) => self.bell(place, cq),
                Progress::Alert(object) => self.alert(place, object),
            }
            self.pause().await;
        }
    }

    /// Rings for whoever sleeps on a completion queue.
    pub fn bell(&self, place: usize, cq: u32) {
        self.wake(place, Some(self.processes[place].pollers[cq as usize]));
    }

    /// Rings for the owner of an object.
    pub fn alert(&self, place: usize, object: Object) {
        self.processes[place].alerts.borrow_mut().push(object);
        self.wake(place, None);
    }

    /// Whether a lock is held, and by whom.
    pub fn held(&self) -> Vec<((usize, Object), usize)> {
        self.locks.borrow().iter().map(|(lock, owner)| (*lock, owner.0)).collect()
    }

    /// After the run: everything of the survivors is locked once, as its owner would sooner or later.
    pub fn touch_everything(&self) {
        let mut context = Context::from_waker(Waker::noop());
        for place in (0..self.processes.len()).filter(|&place| self.alive(place)) {
            for object in self.processes[place].segment.objects() {
                let me = (place, 9);
                let mut visit = self.acquire(me, place, object);
                let mut tries = 0;
                while visit.as_mut().poll(&mut context).is_pending() {
                    tries += 1;
                    if tries > 10_000 {
                        self.violated("a lock cannot be had after the run");
                    }
                }
                self.release(me, place, object);
            }
        }
    }
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        Poll::Pending
    }
}
