//! Tests, and parts of them, in processes of their own.

/// Begins `work` in a child, which is killed with the thread that made it, and after five minutes by itself.
/// Its status is what `work` gives, 99 after a panic.
pub fn begin(work: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the child uses nothing of the other threads, and never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system calls; the child ends without running what belongs to the parent.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::alarm(300);
            // What a test's own thread prints is kept for its end, which this process never comes to.
            std::panic::set_hook(Box::new(|panic| eprint_unkept(&format!("{panic}\n"))));
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
            libc::_exit(status);
        }
    }
    pid
}

/// Prints where nobody keeps it.
fn eprint_unkept(text: &str) {
    // SAFETY: a plain system call, with so many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Runs `test` in a process of its own; how it ended, as `waitpid` says it.
pub fn in_child(test: impl FnOnce()) -> i32 {
    let pid = begin(|| {
        test();
        0
    });
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}
