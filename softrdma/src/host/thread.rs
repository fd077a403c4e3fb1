//! Threads of the library in a program that does not know of them.

use std::ffi::CString;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::{Builder, JoinHandle};

const STACK: usize = 256 << 10;

/// Starts a thread that gets none of the program's signals and keeps the library loaded. Its name tells whose it is.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    stay_loaded();
    let started = || Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work);
    without_signals(started).inspect(|thread| {
        // It names itself when it first runs; until then it would pass for one of the program's.
        if let Ok(name) = CString::new(name) {
            // SAFETY: a thread that was not joined, and a C string.
            unsafe { libc::pthread_setname_np(thread.as_pthread_t(), name.as_ptr()) };
        }
    })
}

/// Keeps the library that this code is in loaded until the process ends: a program may unload it, and a thread that runs
/// in it would be left without its code.
fn stay_loaded() {
    // SAFETY: dladdr fills the struct for an address of this library; the name in it stays as long as that is loaded, which
    // it is during the call. RTLD_NOLOAD loads nothing.
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
    // SAFETY: a signal set is plain memory; sigfillset and pthread_sigmask write only to what they are given.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
