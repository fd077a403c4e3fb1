//! Threads of the library in a program that does not know of them.
//!
//! Made by `pthread_create` itself: a thread of Rust's standard library allocates where it starts, and there
//! a lack of memory ends the process.
//!
//! UCX and libfabric write over the C library's `munmap`, `mmap` and the like while the program runs, to hear
//! of memory that goes. A thread that is just then within one of these comes back to half an instruction. The
//! allocator calls them where a thread first allocates, so a thread does that before whoever starts it goes on.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::growth::{try_arc, try_box};

const STACK: usize = 256 << 10;
/// How long it is waited for a thread's beginning: it may need what whoever starts it holds, the loader's lock
/// within a constructor.
const PATIENCE: Duration = Duration::from_secs(1);

/// A thread that was started; it runs on when this is dropped.
#[derive(Debug)]
pub struct Thread {
    id: libc::pthread_t,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// It has come to its work.
    began: Mutex<bool>,
    begins: Condvar,
    ended: AtomicBool,
}

/// What a thread is started with.
struct Start {
    work: Box<dyn FnOnce() + Send>,
    state: Arc<State>,
}

/// Starts a thread that gets none of the program's signals and keeps the library loaded. Its name tells whose
/// it is.
///
/// # Errors
/// No memory, or the system makes no thread.
pub fn start(name: &CStr, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    stay_loaded();
    let no_memory = |_| io::Error::from_raw_os_error(libc::ENOMEM);
    let state = try_arc(State::default()).map_err(no_memory)?;
    let work = try_box(work).map_err(no_memory)?;
    let start = Box::into_raw(try_box(Start { work, state: state.clone() }).map_err(no_memory)?);
    match without_signals(|| create(start)) {
        Ok(id) => {
            // SAFETY: a thread that was not joined, and a C string.
            unsafe { libc::pthread_setname_np(id, name.as_ptr()) };
            state.await_beginning();
            Ok(Thread { id, state })
        }
        Err(error) => {
            // SAFETY: no thread was made that would take it.
            drop(unsafe { Box::from_raw(start) });
            Err(error)
        }
    }
}

fn create(start: *mut Start) -> io::Result<libc::pthread_t> {
    // SAFETY: the attributes are initialised before they are used and destroyed once; the thread takes what
    // `start` points to.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut id: libc::pthread_t = std::mem::zeroed();
        let mut error = libc::pthread_attr_init(&raw mut attributes);
        if error == 0 {
            // A smaller stack than the system allows is refused, and the default stays.
            libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
            error = libc::pthread_create(&raw mut id, &raw const attributes, run, start.cast());
            libc::pthread_attr_destroy(&raw mut attributes);
            if error == libc::EINVAL {
                // The program's thread-local variables, which stand on the stack, take more than this.
                error = libc::pthread_create(&raw mut id, std::ptr::null(), run, start.cast());
            }
        }
        if error == 0 { Ok(id) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start` gave up what this points to.
    let Start { work, state } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    let _listed = Listed::add();
    prepare_allocator();
    state.begin();
    // A panic was reported when it happened.
    let _ = catch_unwind(AssertUnwindSafe(work));
    state.ended.store(true, Ordering::Release);
    std::ptr::null_mut()
}

/// Asks for short turns of the calling thread, in nanoseconds: where it shares a processor with threads that
/// run all the time, it runs when it wakes, not when theirs end (Linux 6.12 and later; before, it is a hint
/// without effect).
pub fn ask_for_short_turns(nanoseconds: u64) {
    // SAFETY: made of integers, for which all zeroes is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes as many bytes as it is told there are.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    // The parameters of other policies are whose choice these are.
    if got != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.sched_runtime = nanoseconds;
    // SAFETY: the kernel reads a struct, which says how long it is. Where it is refused, turns are as before.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Asks that the calling thread's sleeps end at most so many nanoseconds late, where it has a processor.
pub fn ask_for_short_sleeps(nanoseconds: u64) {
    // SAFETY: changes one number of the calling thread. Where it is refused, sleeps are as before.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds as libc::c_ulong) };
}

/// How many threads a [`List`] has places for.
pub const PLACES: usize = 16;

/// Threads of the library that there are, each as its process and its number; 0 for none. A child of a fork has
/// none of its parent's.
pub type List = [AtomicU64; PLACES];

/// Those of this shared library.
static OWN: List = [const { AtomicU64::new(0) }; PLACES];
/// The list that this library has in common with others of the process, once it [shares](share) one.
static COMMON: AtomicPtr<List> = AtomicPtr::new(null_mut());

/// Has threads that start from now on stand in a list that several shared libraries of the process know, each
/// of which has its own copy of this code.
pub fn share(list: &'static List) {
    COMMON.store(std::ptr::from_ref(list).cast_mut(), Ordering::Release);
}

/// The places of the common list, and of the own one.
fn places() -> impl Iterator<Item = &'static AtomicU64> {
    // SAFETY: it is null, or was a reference that never ends.
    let common = unsafe { COMMON.load(Ordering::Acquire).as_ref() };
    common.into_iter().flatten().chain(&OWN)
}

/// Whether a thread of this process, by its number in the kernel, is one of the library's, or of another one
/// that [shares](share) its list. A name does not tell: the program's own threads have the names that it gives
/// them.
#[must_use]
pub fn is_own_thread(thread: libc::pid_t) -> bool {
    let wanted = listed_as(thread);
    places().any(|place| place.load(Ordering::Acquire) == wanted)
}

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of the library's.
#[must_use]
pub fn is_own() -> bool {
    IS_OWN.get()
}

fn listed_as(thread: libc::pid_t) -> u64 {
    u64::from(std::process::id()) << 32 | u64::from(thread.unsigned_abs())
}

/// The calling thread is in the list as long as there is this. Without a place there it is taken for one of the
/// program's.
struct Listed(Option<&'static AtomicU64>);

impl Listed {
    fn add() -> Self {
        IS_OWN.set(true);
        let new = listed_as(nix::unistd::gettid().as_raw());
        let is_free = |old: u64| old == 0 || old >> 32 != new >> 32;
        Self(places().find(|place| {
            let old = place.load(Ordering::Relaxed);
            is_free(old) && place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Release);
        }
    }
}

/// Has the allocator map what it keeps for the calling thread.
fn prepare_allocator() {
    let mut memory = Vec::<u64>::new();
    // Where there is none, the thread finds that out when it needs some.
    let _ = memory.try_reserve_exact(1);
    black_box(memory);
}

impl State {
    fn begin(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.begins.notify_one();
    }

    fn await_beginning(&self) {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that takes longer comes to its work later.
        drop(self.begins.wait_timeout_while(began, PATIENCE, |began| !*began));
    }
}

impl Thread {
    /// Waits until it has ended.
    pub fn join(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: a thread that was neither joined nor detached; its handle is given up, part by part.
        unsafe {
            libc::pthread_join(this.id, std::ptr::null_mut());
            std::ptr::drop_in_place(&raw mut this.state);
        }
    }

    /// Whether the caller is this thread.
    pub fn is_current(&self) -> bool {
        // SAFETY: compares names of threads.
        unsafe { libc::pthread_equal(self.id, libc::pthread_self()) != 0 }
    }

    /// Whether its work is done.
    pub fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::Acquire)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: a thread that was neither joined nor detached.
        unsafe { libc::pthread_detach(self.id) };
    }
}

/// Keeps the library that this code is in loaded until the process ends: a program may unload it, and a
/// thread that runs in it would be left without its code.
fn stay_loaded() {
    // SAFETY: dladdr fills the struct for an address of this library; the name in it stays as long as that is
    // loaded, which it is during the call. RTLD_NOLOAD loads nothing.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let here = stay_loaded as fn() as *const libc::c_void;
        if libc::dladdr(here, &raw mut info) != 0 && !info.dli_fname.is_null() {
            libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// Runs this with all signals blocked, so that a thread made in it gets none of the program's.
fn without_signals<T>(run: impl FnOnce() -> T) -> T {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let result = run();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    static LIST: List = [const { AtomicU64::new(0) }; PLACES];

    #[test]
    fn libraries_that_share_a_list_know_each_others_threads() {
        let other = nix::unistd::gettid().as_raw();
        assert!(!is_own_thread(other));
        share(&LIST);
        // As another library does it.
        LIST[PLACES - 1].store(listed_as(other), Ordering::Release);
        assert!(is_own_thread(other) && !is_own_thread(other + 1));
        LIST[PLACES - 1].store(0, Ordering::Release);
        let (tell, told) = channel();
        let thread = start(c"any", move || tell.send(nix::unistd::gettid().as_raw()).unwrap()).unwrap();
        let number = told.recv().unwrap();
        thread.join();
        assert!(!is_own_thread(number));
        let (tell, told) = channel();
        let (ends, waits) = channel::<()>();
        let work = move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ended = waits.recv();
        };
        let thread = start(c"any", work).unwrap();
        let listed = listed_as(told.recv().unwrap());
        assert!(LIST.iter().any(|place| place.load(Ordering::Acquire) == listed));
        drop(ends);
        thread.join();
        // Who has no place there has one of the own.
        LIST.iter().for_each(|place| place.store(listed_as(other), Ordering::Release));
        let (tell, told) = channel();
        let work = move || tell.send(is_own() && is_own_thread(nix::unistd::gettid().as_raw())).unwrap();
        start(c"any", work).unwrap().join();
        assert!(told.recv().unwrap() && !is_own());
    }
}
