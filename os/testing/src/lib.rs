//! What tests of several crates ask of Linux.

/// Runs `test` in a forked child that ends at once afterwards; 0 when it answered `true`.
pub fn in_child(test: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only runs `test` and ends. Other test threads are gone there; what the tests call takes
    // no lock that those could have held for long but the allocator's, which the C library keeps usable.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).unwrap_or(false);
        // SAFETY: ends the process without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(!ok)) };
    }
    let mut status = 0;
    // SAFETY: `pid` is our child, `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}
