//! What tests of several rooms share.

use std::ffi::CStr;

/// Begins `work` in a thread, and waits until that sleeps, or has ended.
pub fn asleep<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: answers a number.
        let _ = tell.send(unsafe { libc::gettid() });
        work()
    });
    let stat = format!("/proc/self/task/{}/stat", told.recv().expect("it says its number first"));
    // The state follows the name in brackets; the file goes when the thread ends.
    while !thread.is_finished() && std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    thread
}

/// Runs `test` in a forked child, which has five minutes for it; the status that it answers, or -1 when the
/// child ended otherwise. The child may allocate, which glibc allows in a child of a process with threads.
pub fn in_child(test: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `test` and ends without what the parent would do at its end. A lock that a thread
    // of the parent has at the fork stays taken there: tests take none but the allocator's, which glibc sees
    // to, and those of the library, which its own handlers see to. A child that waits for another one
    // ends by its clock.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: only sets the clock of the child's end.
        unsafe { libc::alarm(300) };
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).unwrap_or_else(|why| {
            // What was printed of it stays with the test harness of this process.
            let why = why.downcast_ref::<String>().map_or("a child's test failed", String::as_str);
            // SAFETY: the text is readable for its length.
            unsafe { libc::write(2, why.as_ptr().cast(), why.len()) };
            255
        });
        // SAFETY: as above.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

/// Sets a variable of the environment, for a child that [`in_child`] made: the standard library would wait for
/// its own lock of the environment, which another test's thread may have had at the fork, to read a variable.
///
/// # Safety
/// The process has one thread.
pub unsafe fn set_variable(name: &CStr, value: &CStr) {
    // SAFETY: by the contract, nobody reads the environment meanwhile; the C library copies both.
    assert_eq!(unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) }, 0);
}
