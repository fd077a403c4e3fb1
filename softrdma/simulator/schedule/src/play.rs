//! The process that plays a run: it forks the others, kills and stops them when that is due, and sees how it
//! ends.

use std::collections::HashMap;

use crate::system::raw;
use crate::turn::{await_own, give, next, remove};
use crate::{Board, Why, turn};

/// What happens to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is killed.
    Dies,
    /// It is stopped for so many nanoseconds.
    Stops(u64),
}

/// The processes of a run.
pub struct Play<'a> {
    board: &'a Board,
    children: HashMap<u32, (libc::pid_t, usize)>,
    /// By steps.
    fates: Vec<(u64, u32, Fate)>,
    /// By time.
    goes_on: Vec<(u64, u32)>,
    end: u64,
    /// Processes that died.
    pub dead: Vec<u32>,
    /// How often one was stopped.
    pub stops: u64,
}

impl<'a> Play<'a> {
    /// A run that is over at this time at the latest. `fates`: what happens to which process at which step.
    pub fn new(board: &'a Board, mut fates: Vec<(u64, u32, Fate)>, end: u64) -> Self {
        fates.sort_unstable_by_key(|(step, _, _)| std::cmp::Reverse(*step));
        Self { board, children: HashMap::new(), fates, goes_on: Vec::new(), end, dead: Vec::new(), stops: 0 }
    }

    /// One more process, by its number. It begins in its turn.
    pub fn fork(&mut self, process: u32, work: impl FnOnce()) {
        let place = turn::add(self.board, process);
        // SAFETY: the caller has one thread; the child runs `work` and ends.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork");
        if pid > 0 {
            self.children.insert(process, (pid, place));
            return;
        }
        // SAFETY: a plain system call: no child outlives a run that was broken off.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        turn::take(self.board, place);
        work();
        turn::leave();
        loop {
            // It is killed at the end: threads of it may be at work.
            raw(libc::SYS_pause, [0; 6]);
        }
    }

    fn plan(&self) {
        self.board.due_step.set(self.fates.last().map_or(u64::MAX, |fate| fate.0));
        let next = self.goes_on.iter().map(|(time, _)| *time).min().unwrap_or(u64::MAX);
        self.board.due_time.set(next.min(self.end));
    }

    /// Goes on until the end time, until nobody has anything to do, or until something is wrong: why it came
    /// back.
    pub fn run(&mut self) -> Why {
        loop {
            self.plan();
            let first = next(self.board);
            if first != 0 {
                give(self.board, first);
                while !await_own(self.board) {
                    if let Some(process) = self.crashed() {
                        self.board.note(&format!("process {process} ended by itself"));
                        return Why::Wrong;
                    }
                }
            }
            match self.board.why.get() {
                Why::Due if self.board.now() >= self.end => return Why::Idle,
                Why::Due => self.strike(),
                why => return why,
            }
        }
    }

    /// Lets it go on beyond the end time until that one.
    pub fn extend(&mut self, end: u64) {
        self.end = end;
        turn::happened();
    }

    /// Whether the first thread of each process that lives has ended.
    pub fn is_over(&self) -> bool {
        self.children.values().all(|(_, place)| turn::is_over(self.board, *place))
    }

    fn crashed(&mut self) -> Option<u32> {
        self.children.iter().find_map(|(process, (pid, _))| {
            let mut status = 0;
            // SAFETY: a child of this process; `status` is writable.
            let ended = unsafe { libc::waitpid(*pid, &raw mut status, libc::WNOHANG) };
            (ended == *pid).then_some(*process)
        })
    }

    fn strike(&mut self) {
        let now = self.board.now();
        while let Some(at) = self.goes_on.iter().position(|(time, _)| *time <= now) {
            let (_, process) = self.goes_on.swap_remove(at);
            self.go_on(process);
        }
        while let Some((_, process, fate)) = self.fates.pop_if(|(step, _, _)| *step <= self.board.played()) {
            match fate {
                Fate::Dies => self.kill(process),
                Fate::Stops(time) => self.stop(process, time),
            }
        }
    }

    fn stop(&mut self, process: u32, time: u64) {
        let Some((pid, _)) = self.children.get(&process) else { return };
        let bit = 1 << process;
        if self.board.stopped.get() & bit != 0 {
            return;
        }
        let mut status = 0;
        // SAFETY: a child of this process; `status` is writable.
        unsafe {
            libc::kill(*pid, libc::SIGSTOP);
            libc::waitpid(*pid, &raw mut status, libc::WUNTRACED);
        }
        self.board.note(&format!("{process} is stopped"));
        self.board.stopped.set(self.board.stopped.get() | bit);
        self.goes_on.push((self.board.now().saturating_add(time), process));
        self.stops += 1;
    }

    fn go_on(&mut self, process: u32) {
        if let Some((pid, _)) = self.children.get(&process) {
            // SAFETY: a child of this process.
            unsafe { libc::kill(*pid, libc::SIGCONT) };
        }
        self.board.note(&format!("{process} goes on"));
        self.board.stopped.set(self.board.stopped.get() & !(1 << process));
    }

    fn kill(&mut self, process: u32) {
        let Some((pid, _)) = self.children.remove(&process) else { return };
        end(pid);
        self.board.note(&format!("{process} is dead"));
        remove(self.board, process);
        self.board.stopped.set(self.board.stopped.get() & !(1 << process));
        self.goes_on.retain(|(_, other)| *other != process);
        self.dead.push(process);
    }

    /// No process is stopped any more.
    pub fn all_go_on(&mut self) {
        for (_, process) in std::mem::take(&mut self.goes_on) {
            self.go_on(process);
        }
        self.fates.clear();
    }
}

/// Kills a child, and waits until nothing of it is left.
fn end(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of this process; `status` is writable.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &raw mut status, 0);
    }
}

impl Drop for Play<'_> {
    fn drop(&mut self) {
        self.children.values().for_each(|(pid, _)| end(*pid));
    }
}
