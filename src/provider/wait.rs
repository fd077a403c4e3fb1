//! Destroying an object waits until the program has acknowledged every event it got about it: the kernel says
//! how many it reported, the object counts how many were acknowledged (`man ibv_get_async_event`, `man
//! ibv_get_cq_event`).

use libc::{pthread_cond_t, pthread_mutex_t};

use super::object::Handle;
use crate::abi::verbs::{ibv_cq, ibv_qp, ibv_srq, ibv_wq};

/// Waits until the queue has seen `completion` acknowledged completion events and `asynchronous` other events.
pub fn for_cq_events(cq: Handle<ibv_cq>, completion: u32, asynchronous: u32) {
    let cq = cq.as_ptr();
    // SAFETY: a live CQ has an initialised mutex and condition; the counters are read under that mutex.
    unsafe {
        wait(&raw mut (*cq).mutex, &raw mut (*cq).cond, || {
            (*cq).comp_events_completed == completion && (*cq).async_events_completed == asynchronous
        });
    }
}

/// Waits until the shared receive queue has seen `events` acknowledged events.
pub fn for_srq_events(srq: Handle<ibv_srq>, events: u32) {
    let srq = srq.as_ptr();
    // SAFETY: as in `for_cq_events`.
    unsafe { wait(&raw mut (*srq).mutex, &raw mut (*srq).cond, || (*srq).events_completed == events) }
}

/// Waits until the queue pair has seen `events` acknowledged events.
pub fn for_qp_events(qp: Handle<ibv_qp>, events: u32) {
    let qp = qp.as_ptr();
    // SAFETY: as in `for_cq_events`.
    unsafe { wait(&raw mut (*qp).mutex, &raw mut (*qp).cond, || (*qp).events_completed == events) }
}

/// Waits until the work queue has seen `events` acknowledged events.
pub fn for_wq_events(wq: Handle<ibv_wq>, events: u32) {
    let wq = wq.as_ptr();
    // SAFETY: as in `for_cq_events`.
    unsafe { wait(&raw mut (*wq).mutex, &raw mut (*wq).cond, || (*wq).events_completed == events) }
}

/// # Safety
/// `mutex` and `cond` are initialised and live, and `done` reads only what the mutex guards.
unsafe fn wait(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t, done: impl Fn() -> bool) {
    // SAFETY: by the contract; the mutex is held by this thread whenever the condition waits and when it is
    // unlocked.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !done() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
