//! The lock under loom: every interleaving that C11's memory model allows, of few threads. `scripts/models`
//! runs it.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use queue_lock::{QueueLock, set_one_thread};

/// What two threads must never touch together: loom sees it when they do.
type Counter = QueueLock<UnsafeCell<u32>>;

fn count(lock: &Counter) {
    let guard = lock.lock();
    // SAFETY: the lock is held; loom ends the test where another access is not ordered with this one.
    guard.with_mut(|n| unsafe { *n += 1 });
}

/// Another thread, with the same lock.
fn beside<T: 'static>(
    lock: &Arc<Counter>,
    does: impl FnOnce(&Counter) -> T + 'static,
) -> thread::JoinHandle<T> {
    let lock = lock.clone();
    thread::spawn(move || does(&lock))
}

fn seen(lock: &Counter) -> u32 {
    // SAFETY: as in `count`.
    lock.lock().with(|n| unsafe { *n })
}

#[test]
fn two_threads_never_hold_it_together() {
    loom::model(|| {
        let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
        let other = beside(&lock, |lock| count(lock));
        count(&lock);
        other.join().unwrap();
        assert_eq!(seen(&lock), 2);
    });
}

#[test]
fn who_tries_in_vain_has_not_got_it() {
    loom::model(|| {
        let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
        let other = beside(&lock, |lock| tried(lock));
        count(&lock);
        let more = other.join().unwrap();
        assert_eq!(seen(&lock), 1 + more);
    });
}

#[test]
fn plain_stores_hold_it_against_a_thread_that_starts_later() {
    loom::model(|| {
        set_one_thread(true);
        let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
        let guard = lock.lock();
        // As the C library does it: before the second thread is there.
        set_one_thread(false);
        let other = beside(&lock, |lock| count(lock));
        // SAFETY: as in `count`.
        guard.with_mut(|n| unsafe { *n += 1 });
        drop(guard);
        count(&lock);
        other.join().unwrap();
        // Again with one thread, which sees what the other did.
        set_one_thread(true);
        count(&lock);
        assert_eq!(seen(&lock), 4);
    });
}

#[test]
fn a_lock_left_held_is_released_with_what_was_done_meanwhile() {
    loom::model(|| {
        let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
        lock.lock().leave_held();
        let other = beside(&lock, |lock| count(lock));
        // SAFETY: this thread left the lock held, and keeps no reference.
        unsafe {
            lock.held_mut().with_mut(|n| *n += 1);
            lock.release();
        }
        other.join().unwrap();
        assert_eq!(seen(&lock), 2);
    });
}

#[test]
fn a_lock_of_a_thread_domain_passes_with_what_orders_its_users() {
    loom::model(|| {
        let lock = Arc::new(Counter::of_domain(UnsafeCell::new(0), true));
        count(&lock);
        let other = beside(&lock, |lock| count(lock));
        other.join().unwrap();
        count(&lock);
        assert_eq!(seen(&lock), 3);
    });
}

/// A lock that this thread owns: it took it twice in a row.
fn owned() -> Arc<Counter> {
    let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
    count(&lock);
    count(&lock);
    assert!(lock.try_lock_alone().is_some());
    lock
}

#[test]
fn an_owner_and_who_asks_for_its_lock_never_hold_it_together() {
    loom::model(|| {
        let lock = owned();
        let other = beside(&lock, |lock| count(lock));
        count(&lock);
        count(&lock);
        other.join().unwrap();
        assert_eq!(seen(&lock), 5);
    });
}

/// Whether the lock was had at once, and what it guards counted.
fn tried(lock: &Counter) -> u32 {
    // SAFETY: as in `count`.
    u32::from(lock.try_lock().map(|guard| guard.with_mut(|n| unsafe { *n += 1 })).is_some())
}

#[test]
fn of_an_owner_and_two_who_ask_for_its_lock_one_has_it_at_a_time() {
    loom::model(|| {
        let lock = owned();
        let others = [(); 2].map(|()| beside(&lock, tried));
        let mut all = 2 + tried(&lock);
        for other in others {
            all += other.join().unwrap();
        }
        assert_eq!(seen(&lock), all);
    });
}

#[test]
fn a_lock_that_its_owner_left_held_is_not_had() {
    loom::model(|| {
        let lock = owned();
        lock.lock().leave_held();
        assert!(lock.try_lock().is_none());
        let other = beside(&lock, |lock| tried(lock));
        // SAFETY: this thread left the lock held, and keeps no reference.
        unsafe {
            lock.held_mut().with_mut(|n| *n += 1);
            lock.release();
        }
        let more = other.join().unwrap();
        count(&lock);
        assert_eq!(seen(&lock), 4 + more);
    });
}

#[test]
fn an_owner_is_not_disturbed_by_one_that_was_about_to_take_it() {
    loom::model(|| {
        let lock = owned();
        // As often as makes an owner of it, if anybody became one, and once more.
        let other = beside(&lock, |lock| (0..4).for_each(|_| count(lock)));
        count(&lock);
        other.join().unwrap();
        assert_eq!(seen(&lock), 7);
    });
}

#[test]
fn with_one_thread_a_lock_is_had_whoever_owns_it() {
    loom::model(|| {
        let lock = owned();
        let again = beside(&lock, |lock| (0..10).for_each(|_| count(lock)));
        again.join().unwrap();
        // As the C library says it once the other has ended.
        set_one_thread(true);
        count(&lock);
        let guard = lock.lock();
        set_one_thread(false);
        let other = beside(&lock, |lock| count(lock));
        // SAFETY: as in `count`.
        guard.with_mut(|n| unsafe { *n += 1 });
        drop(guard);
        other.join().unwrap();
        assert_eq!(seen(&lock), 15);
    });
}

#[test]
fn an_owner_does_not_get_what_it_holds_since_it_was_the_only_thread() {
    loom::model(|| {
        let lock = owned();
        set_one_thread(true);
        lock.lock().leave_held();
        set_one_thread(false);
        assert!(lock.try_lock().is_none());
        // SAFETY: this thread left the lock held.
        unsafe { lock.release() };
        count(&lock);
        assert_eq!(seen(&lock), 3);
    });
}
