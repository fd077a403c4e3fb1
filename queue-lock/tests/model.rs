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

fn seen(lock: &Counter) -> u32 {
    // SAFETY: as in `count`.
    lock.lock().with(|n| unsafe { *n })
}

#[test]
fn two_threads_never_hold_it_together() {
    loom::model(|| {
        let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock))
        };
        count(&lock);
        other.join().unwrap();
        assert_eq!(seen(&lock), 2);
    });
}

#[test]
fn who_tries_in_vain_has_not_got_it() {
    loom::model(|| {
        let lock = Arc::new(Counter::new(UnsafeCell::new(0)));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || {
                // SAFETY: as in `count`.
                lock.try_lock().map(|guard| guard.with_mut(|n| unsafe { *n += 1 })).is_some()
            })
        };
        count(&lock);
        let more = u32::from(other.join().unwrap());
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
        let other = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock))
        };
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
        let other = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock))
        };
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
        let other = {
            let lock = lock.clone();
            thread::spawn(move || count(&lock))
        };
        other.join().unwrap();
        count(&lock);
        assert_eq!(seen(&lock), 3);
    });
}
