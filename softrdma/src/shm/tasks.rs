//! Threads of a process, as `/proc` lists them.

/// The calling thread's number.
#[inline]
pub fn own() -> libc::pid_t {
    nix::unistd::gettid().as_raw()
}

/// Whether another thread of the process runs or waits for a processor. Without descriptors to look, one may.
pub(super) fn runs(pid: libc::pid_t) -> bool {
    let is_short = |e: &std::io::Error| matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    let own = own().to_string();
    match std::fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => {
            threads.flatten().filter(|thread| thread.file_name().to_str() != Some(&own)).any(|thread| {
                match std::fs::read(thread.path().join("stat")) {
                    // It follows the name, which may hold anything, in brackets.
                    Ok(stat) => stat.windows(3).rfind(|three| three.starts_with(b") ")) == Some(b") R"),
                    Err(e) => is_short(&e),
                }
            })
        }
        Err(e) => is_short(&e),
    }
}

/// The threads of a process but for its first, by their numbers in the namespace that `/proc` shows.
pub(super) fn others(pid: libc::pid_t) -> impl Iterator<Item = libc::pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let numbers = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(move |thread| *thread != pid)
}

#[cfg(test)]
mod tests {
    use super::super::testing::in_child;
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn who_wants_to_run_is_seen() {
        // SAFETY: the child stops itself and is ended by its parent; it uses nothing of the parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: both calls are allowed after a fork.
            unsafe {
                libc::raise(libc::SIGSTOP);
                loop {
                    std::hint::spin_loop();
                }
            }
        }
        let mut status = 0;
        let mut until = |flags| {
            // SAFETY: `status` is written by the call.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, flags) }, child);
        };
        until(libc::WUNTRACED);
        assert!(!runs(child));
        // SAFETY: plain system calls.
        unsafe { libc::kill(child, libc::SIGCONT) };
        until(libc::WCONTINUED);
        // From here on it runs or waits for a processor, or for a page.
        while !runs(child) {
            std::thread::yield_now();
        }
        // SAFETY: as above.
        unsafe { libc::kill(child, libc::SIGKILL) };
        until(0);
        assert!(!runs(child));
    }

    #[test]
    fn who_asks_does_not_count_and_others_of_the_process_do() {
        let status = in_child(|| {
            let own = std::process::id() as libc::pid_t;
            // It has one thread, which runs.
            let counts_itself = runs(own);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                // It may have to begin.
                while !runs(own) {
                    std::thread::yield_now();
                }
                over.store(true, Ordering::Relaxed);
            });
            !counts_itself
        });
        assert_eq!(status, 0);
    }
}
