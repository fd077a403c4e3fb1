//! Whose turn it is, and time.
//!
//! A thread that gives its turn away chooses the next itself, wakes it, and sleeps until it is woken. Time
//! stands still while a thread runs, but for a little at each step; when all wait it is moved to when the first
//! goes on.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::system::raw;
use crate::{Board, GONE, NEVER, Steps, THREADS, Why, board, shared_memory};

/// Nanoseconds that a step takes.
const STEP: u64 = 20;
/// Nanoseconds that a thread goes without a processor at most that does not wait.
const LONG: u64 = 20_000;

thread_local! {
    /// The place of the calling thread; 0: it is not one of a run.
    static ME: Cell<usize> = const { Cell::new(0) };
    static PROCESS: Cell<u32> = const { Cell::new(0) };
}

/// Whose thread the calling one is.
pub fn process() -> u32 {
    PROCESS.get()
}

/// Whether the calling thread is one of a run.
#[inline]
pub fn takes_turns() -> bool {
    ME.get() != 0
}

/// A place for a thread of this process, which has its turn some time.
pub fn add(board: &Board, process: u32) -> usize {
    let place = board.count.get();
    assert!(place < THREADS, "too many threads");
    board.count.set(place + 1);
    let own = &board.places[place];
    own.process.set(process);
    own.until.set(0);
    place
}

/// The calling thread takes this place, and waits for its turn.
pub fn take(board: &Board, place: usize) {
    ME.set(place);
    PROCESS.set(board.places[place].process.get());
    await_turn(board, place);
}

/// The calling thread has ended.
pub fn leave() {
    if let Some(board) = board()
        && takes_turns()
    {
        let me = ME.replace(0);
        board.places[me].until.set(GONE);
        happened();
        hand_on(board, me);
    }
}

/// Threads of a process that was killed.
pub(crate) fn remove(board: &Board, process: u32) {
    for place in board.places.iter().filter(|place| place.process.get() == process) {
        place.until.set(GONE);
    }
    happened();
}

/// Whether the thread with this place has ended.
pub(crate) fn is_over(board: &Board, place: usize) -> bool {
    board.places[place].until.get() == GONE
}

/// From here on a thread keeps its turn for so many steps in the mean, of those that count.
pub fn mix(board: &Board, mean: u64, counted: Steps) {
    board.mean.set(mean);
    board.counted.set(counted);
    board.begun.set(board.steps.get());
    draw(board);
}

/// From here on a thread keeps its turn until it waits.
pub fn unmix(board: &Board) {
    board.mean.set(0);
    board.budget.set(i64::MAX);
}

fn draw(board: &Board) {
    let mean = board.mean.get();
    let budget = if mean == 0 { i64::MAX } else { 1 + board.random.below(2 * mean) as i64 };
    board.budget.set(budget);
}

/// A step of the calling thread: others may come between it and what it does next.
#[inline]
pub fn step() {
    if !takes_turns() {
        return;
    }
    let Some(board) = board() else { return };
    let left = board.budget.get() - 1;
    board.budget.set(left);
    board.steps.set(board.steps.get() + 1);
    board.now.set(board.now.get() + STEP);
    if left <= 0 || board.played() >= board.due_step.get() {
        // Now and then it loses the processor for so long that others come far.
        let pause = if board.random.once_in(16) { board.random.below(LONG) } else { 0 };
        switch(board, board.now.get() + pause, false);
    }
}

/// A step at a word, which is written or only read; none where the turn goes on only at those of memory that
/// processes share, and this is not one.
#[inline]
pub fn step_at(word: usize, writes: bool) {
    let counts = |board: &Board| match board.counted.get() {
        Steps::All => true,
        Steps::Shared => shared_memory::has(word),
        Steps::Written => writes && shared_memory::has(word),
    };
    if takes_turns() && board().is_some_and(counts) {
        step();
    }
}

/// Others go on first.
pub fn give_way() {
    if let Some(board) = board().filter(|_| takes_turns()) {
        board.steps.set(board.steps.get() + 1);
        board.now.set(board.now.get() + STEP);
        switch(board, board.now.get() + STEP, false);
    }
}

/// Waits until that time.
pub fn sleep_until(time: u64) {
    if let Some(board) = board().filter(|_| takes_turns()) {
        switch(board, time, false);
    }
}

/// Waits until something [happened], at most until that time.
pub fn listen_until(time: u64) {
    if let Some(board) = board().filter(|_| takes_turns()) {
        switch(board, time.min(NEVER), true);
    }
}

/// Waits as [`listen_until`], for this word of the own process, or one that it shares.
pub fn await_word(word: usize, time: u64) {
    if let Some(board) = board().filter(|_| takes_turns()) {
        let own = &board.places[ME.get()].word;
        own.set(word);
        switch(board, time.min(NEVER), true);
        own.set(0);
    }
}

/// How many threads of this process wait for this word.
pub fn waiters(word: usize) -> usize {
    let Some(board) = board() else { return 0 };
    let waits = |place: &&crate::Place| {
        place.process.get() == process() && place.word.get() == word && place.listens.get()
    };
    board.places[..board.count.get()].iter().filter(waits).count()
}

/// Something happened that others may wait for.
pub fn happened() {
    let Some(board) = board() else { return };
    for place in &board.places[..board.count.get()] {
        if place.listens.replace(false) && place.until.get() != GONE {
            place.until.set(0);
        }
    }
}

#[cold]
fn switch(board: &Board, until: u64, listens: bool) {
    let me = ME.get();
    board.places[me].until.set(until);
    board.places[me].listens.set(listens);
    if hand_on(board, me) {
        await_turn(board, me);
    }
    draw(board);
}

/// Gives the turn to whoever is next; `false`: that is the calling thread.
fn hand_on(board: &Board, me: usize) -> bool {
    let next = next(board);
    if next == me {
        return false;
    }
    board.switches.set(board.switches.get() + 1);
    give(board, next);
    true
}

pub(crate) fn give(board: &Board, next: usize) {
    let word = &board.places[next].turn;
    word.store(1, Ordering::SeqCst);
    raw(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]);
}

fn await_turn(board: &Board, me: usize) {
    let word = &board.places[me].turn;
    while word.swap(0, Ordering::SeqCst) == 0 {
        raw(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAIT as usize, 0, 0, 0, 0]);
    }
}

/// The process that plays waits for its turn, at most for a second; whether it has it.
pub(crate) fn await_own(board: &Board) -> bool {
    let word = &board.places[0].turn;
    let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    for _ in 0..2 {
        if word.swap(0, Ordering::SeqCst) == 1 {
            return true;
        }
        let time = (&raw const second) as usize;
        raw(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAIT as usize, 0, time, 0, 0]);
    }
    word.swap(0, Ordering::SeqCst) == 1
}

/// Gives the turn for ever to the process that plays.
pub(crate) fn report(board: &Board, why: Why) -> ! {
    board.why.set(why);
    give(board, 0);
    loop {
        raw(libc::SYS_pause, [0; 6]);
    }
}

/// Who is next. Moves time on when all wait.
pub(crate) fn next(board: &Board) -> usize {
    let steps = board.steps.get();
    let call = |why| {
        board.why.set(why);
        0
    };
    if board.played() >= board.due_step.get() || board.now.get() >= board.due_time.get() {
        return call(Why::Due);
    }
    if steps >= board.most_steps.get() {
        return call(Why::Endless);
    }
    let stopped = board.stopped.get();
    let places = &board.places[..board.count.get()];
    let goes = |place: &crate::Place| stopped >> place.process.get() & 1 == 0;
    let ready = |now: u64| move |place: &crate::Place| place.until.get() <= now && goes(place);
    let mut now = board.now.get();
    let mut count = places.iter().filter(|place| ready(now)(place)).count();
    if count == 0 {
        let first = places.iter().filter(|place| goes(place)).map(|place| place.until.get()).min();
        let first = first.unwrap_or(NEVER).min(board.due_time.get());
        if first >= NEVER {
            return call(Why::Idle);
        }
        now = now.max(first);
        board.now.set(now);
        if now >= board.due_time.get() {
            return call(Why::Due);
        }
        count = places.iter().filter(|place| ready(now)(place)).count();
    }
    let chosen = board.random.below(count as u64) as usize;
    let mut among = (0..places.len()).filter(|place| ready(now)(&places[*place]));
    among.nth(chosen).unwrap_or(0)
}
