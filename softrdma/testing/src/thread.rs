//! What the kernel says of a thread: whether it sleeps, and how often it has.
//!
//! A test that needs a thread to be within a call waits until it is seen asleep there, in place of a time after
//! which it may or may not have come so far. How often a thread slept is a measure of what it waited for that a
//! busy machine does not make greater: who is kept from its processor does not sleep.

use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// One thread of any process.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    process: libc::pid_t,
    thread: libc::pid_t,
}

impl Task {
    /// The calling thread.
    pub fn current() -> Self {
        // SAFETY: both answer a number.
        unsafe { Task { process: libc::getpid(), thread: libc::gettid() } }
    }

    /// The first thread of a process.
    pub fn first_of(process: libc::pid_t) -> Self {
        Task { process, thread: process }
    }

    /// All threads of a process.
    pub fn all_of(process: libc::pid_t) -> Vec<Self> {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let number = |task: std::fs::DirEntry| task.file_name().to_str().unwrap().parse().unwrap();
        tasks.map(|task| Task { process, thread: number(task.unwrap()) }).collect()
    }

    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(format!("/proc/{}/task/{}/{name}", self.process, self.thread)).ok()
    }

    /// Whether it sleeps, until a signal at most; one that has ended does not.
    pub fn is_asleep(&self) -> bool {
        // The state follows the name, which may hold anything, in brackets.
        self.file("stat")
            .is_some_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")))
    }

    /// How often it gave up its processor to wait, so far; 0 of one that has ended.
    pub fn sleeps(&self) -> u64 {
        let status = self.file("status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |number| number.trim().parse().unwrap())
    }

    /// How often it was made to give up its processor, so far; 0 of one that has ended.
    pub fn preemptions(&self) -> u64 {
        let status = self.file("status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        line.map_or(0, |number| number.trim().parse().unwrap())
    }

    /// The number of the system call that it is in; none while it runs.
    pub fn call(&self) -> Option<i64> {
        self.file("syscall")?.split_whitespace().next()?.parse().ok()
    }

    pub fn wait_asleep(&self) {
        until(|| self.is_asleep());
    }
}

/// Waits until something is so that somebody else brings about.
pub fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Begins `work` in a thread, and waits until that sleeps, or has ended.
pub fn asleep<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> (ScopedJoinHandle<'s, T>, Task) {
    let (tell, told) = mpsc::channel();
    let thread = scope.spawn(move || {
        tell.send(Task::current()).unwrap();
        work()
    });
    let task = told.recv().unwrap();
    until(|| task.is_asleep() || thread.is_finished());
    (thread, task)
}

/// How often the calling thread gave up its processor to wait, so far.
pub fn sleeps() -> u64 {
    Task::current().sleeps()
}
