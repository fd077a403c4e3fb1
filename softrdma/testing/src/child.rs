//! Tests, and parts of them, in processes of their own.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process is such a child.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Begins `work` in a child, which is killed with the thread that made it, and after five minutes by itself.
/// Its status is what `work` gives, 99 after a panic.
pub fn begin(work: impl FnOnce() -> i32) -> libc::pid_t {
    print_at_once_in_children();
    // SAFETY: the child uses nothing of the other threads, and never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system calls; the child ends without running what belongs to the parent.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::alarm(300);
            IS_CHILD.store(true, Ordering::Relaxed);
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
            libc::_exit(status);
        }
    }
    pid
}

/// What a test's own thread prints is kept for its end, which a child never comes to. Set before any fork: in a
/// child it would wait for ever, where another thread of the parent panicked at the fork.
fn print_at_once_in_children() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_CHILD.load(Ordering::Relaxed) {
                eprint_unkept(&format!("{panic}\n"));
            } else {
                others(panic);
            }
        }));
    });
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
