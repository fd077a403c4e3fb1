//! A test in a process of its own.

/// Runs `test` in a process of its own; how it ended.
pub fn in_child(test: impl FnOnce()) -> i32 {
    // SAFETY: the child uses nothing of the other threads, and never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system call; a test that hangs ends.
        unsafe { libc::alarm(300) };
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_err();
        // SAFETY: ends the process without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(failed)) };
    }
    let mut status = 0;
    // SAFETY: the process is our child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}
