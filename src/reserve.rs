//! Memory for calls that have begun: running out of it must fail a verb with ENOMEM, and Rust's boxes and
//! collections end the process instead.
//!
//! What a verb allocates in proportion to something (queues, tables, lists of what the system has) is
//! allocated fallibly, with `try_reserve`, and refused there. What is left is a bounded number of small
//! allocations: the objects themselves, paths, lines of the trace, nodes of trees. For these the call sets a
//! block of static memory apart before it begins ([`begin`]). While the C library has memory, nothing is
//! taken from the block. When it has none, small allocations of this call come from there, so that it ends as
//! it would have: completely, or with the ENOMEM of an allocation that may fail. A verb that makes something
//! and finds no block is refused before it has done anything.
//!
//! What is in use when a call ends keeps its place, and the block serves further calls as long as half of it
//! is left. The last of the [`BLOCKS`] blocks are kept for verbs that make nothing, so that destroying
//! succeeds. Threads without a block (posting, polling, the device's own threads) share one.
//!
//! A verb that makes something and finds all blocks in use, because more calls than that run at once or
//! because memory ended before, gets a block of the C library's for as long as something in it is used. Only
//! with very many at once it goes on without one, if there is memory just then.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::hint;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::alloc::System;

use crate::errno::{Errno, Result};

/// Blocks for calls.
const BLOCKS: usize = 16;
/// Those of them that only verbs get that make nothing.
const FOR_OTHERS: usize = 2;
/// The block of threads that have none.
const SHARED: usize = BLOCKS;
/// The first of the blocks that are the C library's memory.
const FIRST_EXTRA: usize = BLOCKS + 1;
/// How many of those there can be.
const EXTRA: usize = 16;
/// All blocks.
const PLACES: usize = FIRST_EXTRA + EXTRA;
/// Bytes of a block.
const SIZE: usize = 32 << 10;
/// Bytes of a block that are enough for a call.
const ENOUGH: usize = SIZE / 2;
/// Larger allocations are such as may fail.
const LARGEST: usize = ironverbs_os::growth::SMALL;
/// Every place in a block is a multiple of this (bytes).
const ALIGNMENT: usize = 16;
/// The strictest alignment that a block, itself aligned so, can give.
const STRICTEST: usize = 128;

/// [`OWNERS`]: nobody has the block. No thread's name is 0 or 1.
const FREE: usize = 0;
/// [`OWNERS`]: its call has ended, and memory in it is still used.
const LEFT: usize = 1;

#[repr(C, align(128))]
struct Memory(UnsafeCell<[[u8; SIZE]; FIRST_EXTRA]>);

// SAFETY: each byte is given out to one user at a time, by the words below.
unsafe impl Sync for Memory {}

/// Not a page of it is touched while there is memory.
static MEMORY: Memory = Memory(UnsafeCell::new([[0; SIZE]; FIRST_EXTRA]));
/// Which thread's call has the block, by its `pthread_t`; not a thread-local, whose first use may allocate.
static OWNERS: [AtomicUsize; PLACES] = [const { AtomicUsize::new(FREE) }; PLACES];
/// How many bytes of the block were given out; only its owner changes it.
static USED: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
/// How many allocations in it are not freed. Only the owner adds, everybody takes away.
static LIVE: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
/// Where the C library's blocks are; null where there is none.
static EXTRAS: [AtomicPtr<u8>; EXTRA] = [const { AtomicPtr::new(null_mut()) }; EXTRA];
/// How many of them there are.
static EXTRAS_IN_USE: AtomicUsize = AtomicUsize::new(0);
/// Which thread is at work on the shared block, by its `pthread_t`, or [`FREE`].
static GATE: AtomicUsize = AtomicUsize::new(FREE);
/// Whether forked children put the blocks in order ([`in_order`]).
static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);

/// What a call sets apart; given back when it ends.
pub struct Ticket(Option<usize>);

fn this_thread() -> usize {
    // SAFETY: reads the thread's name.
    unsafe { libc::pthread_self() as usize }
}

/// Sets a block apart for the call that begins, unless it runs within another one of this thread, which is
/// looked for where it may be (`nested`). ENOMEM for a call that `makes` something when there is none.
pub fn begin(makes: bool, nested: bool) -> Result<Ticket> {
    if !WATCHES_FORKS.load(Ordering::Relaxed) {
        watch_forks();
    }
    let me = this_thread();
    if nested && OWNERS.iter().any(|owner| owner.load(Ordering::Relaxed) == me) {
        return Ok(Ticket(None));
    }
    let most = if makes { BLOCKS - FOR_OTHERS } else { BLOCKS };
    for (place, owner) in OWNERS[..most].iter().enumerate() {
        let seen = owner.load(Ordering::Relaxed);
        if (seen == FREE || seen == LEFT) && take_place(owner, seen, me) {
            if LIVE[place].load(Ordering::SeqCst) == 0 {
                USED[place].store(0, Ordering::Relaxed);
            }
            if USED[place].load(Ordering::Relaxed) <= SIZE - ENOUGH {
                return Ok(Ticket(Some(place)));
            }
            drop(Ticket(Some(place)));
        }
    }
    if !makes {
        return Ok(Ticket(None));
    }
    let (place, memory) = extra(me);
    if memory { Ok(Ticket(place)) } else { Err(Errno::ENOMEM.also_set()) }
}

/// Makes this thread the owner of a block that belonged to nobody; `false` where another thread was first. A
/// process with one thread needs no locked instruction.
#[inline]
fn take_place(owner: &AtomicUsize, seen: usize, me: usize) -> bool {
    if queue_lock::single_threaded() {
        owner.store(me, Ordering::Relaxed);
        return true;
    }
    // Acquire: the thread that freed memory of the block no longer uses it.
    owner.compare_exchange(seen, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Where there is no memory for that, the next call tries again. Two threads that come here at once have
/// children put in order twice, which does no harm.
#[cold]
fn watch_forks() {
    // SAFETY: the handler is a function of this library, which is never unloaded.
    if unsafe { libc::pthread_atfork(None, None, Some(in_order)) } == 0 {
        WATCHES_FORKS.store(true, Ordering::Relaxed);
    }
}

/// Runs in a forked child, in its only thread. The others stayed behind, wherever they were, and a new thread
/// may get the name of one of them: what they had set apart is left, and free where nothing in it is used.
extern "C" fn in_order() {
    let me = this_thread();
    let stayed_behind = |who: usize| who != FREE && who != LEFT && who != me;
    if stayed_behind(GATE.load(Ordering::Relaxed)) {
        GATE.store(FREE, Ordering::Relaxed);
    }
    // A thread that was making or freeing a block may not have counted it.
    let has_memory = |start: &AtomicPtr<u8>| !start.load(Ordering::Relaxed).is_null();
    EXTRAS_IN_USE.store(EXTRAS.iter().filter(|start| has_memory(start)).count(), Ordering::Relaxed);
    for (place, owner) in OWNERS.iter().enumerate() {
        if stayed_behind(owner.load(Ordering::Relaxed)) {
            let there = place.checked_sub(FIRST_EXTRA).is_none_or(|index| has_memory(&EXTRAS[index]));
            owner.store(if there { LEFT } else { FREE }, Ordering::Relaxed);
        }
        if owner.load(Ordering::Relaxed) == LEFT {
            give_up(place);
        }
    }
}

/// A block of the C library's, and whether that had the memory for it; no block also when there are too many.
#[cold]
fn extra(me: usize) -> (Option<usize>, bool) {
    // SAFETY: the alignment is a power of two of which the size is a multiple.
    let memory = unsafe { libc::aligned_alloc(STRICTEST, SIZE) }.cast::<u8>();
    if memory.is_null() {
        return (None, false);
    }
    for (index, start) in EXTRAS.iter().enumerate() {
        let place = FIRST_EXTRA + index;
        if OWNERS[place].compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            USED[place].store(0, Ordering::Relaxed);
            start.store(memory, Ordering::Relaxed);
            EXTRAS_IN_USE.fetch_add(1, Ordering::Relaxed);
            return (Some(place), true);
        }
    }
    // SAFETY: allocated above, and nobody else knows it.
    unsafe { libc::free(memory.cast()) };
    (None, true)
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(place) = self.0 else { return };
        // Only this thread gives memory of the block out: where none of it is used, nobody looks at it any
        // more. Acquire: whoever freed the last of it has done with it.
        if place < FIRST_EXTRA && LIVE[place].load(Ordering::Acquire) == 0 {
            OWNERS[place].store(FREE, Ordering::Release);
            return;
        }
        OWNERS[place].store(LEFT, Ordering::SeqCst);
        give_up(place);
    }
}

/// Frees a block that was left, when nothing in it is used.
fn give_up(place: usize) {
    if LIVE[place].load(Ordering::SeqCst) != 0 {
        return;
    }
    let Some(start) = place.checked_sub(FIRST_EXTRA).map(|index| &EXTRAS[index]) else {
        let _ = OWNERS[place].compare_exchange(LEFT, FREE, Ordering::SeqCst, Ordering::SeqCst);
        return;
    };
    // Only the thread that takes it from LEFT frees it, and looks again first: since the look above another
    // call may have had the place, and left it with memory in use.
    let me = this_thread();
    while LIVE[place].load(Ordering::SeqCst) == 0
        && OWNERS[place].compare_exchange(LEFT, me, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    {
        if LIVE[place].load(Ordering::SeqCst) == 0 {
            let memory = start.swap(null_mut(), Ordering::Relaxed);
            EXTRAS_IN_USE.fetch_sub(1, Ordering::Relaxed);
            OWNERS[place].store(FREE, Ordering::Release);
            // SAFETY: the C library's, by `extra`, and nothing in it is used or can be given out any more.
            unsafe { libc::free(memory.cast()) };
            return;
        }
        OWNERS[place].store(LEFT, Ordering::SeqCst);
    }
}

fn start_of(place: usize) -> *mut u8 {
    match place.checked_sub(FIRST_EXTRA) {
        Some(index) => EXTRAS[index].load(Ordering::Relaxed),
        None => MEMORY.0.get().cast::<u8>().wrapping_add(place * SIZE),
    }
}

/// The block that memory belongs to; None for what the C library gave out itself.
#[inline(always)]
fn block_of(memory: *mut u8) -> Option<usize> {
    let offset = (memory as usize).wrapping_sub(MEMORY.0.get() as usize);
    if offset < FIRST_EXTRA * SIZE {
        return Some(offset / SIZE);
    }
    // A thread that has memory of such a block got it after the block was counted.
    if EXTRAS_IN_USE.load(Ordering::Relaxed) == 0 { None } else { extra_of(memory) }
}

#[cold]
fn extra_of(memory: *mut u8) -> Option<usize> {
    let within = |start: &AtomicPtr<u8>| {
        let start = start.load(Ordering::Relaxed);
        !start.is_null() && (memory as usize).wrapping_sub(start as usize) < SIZE
    };
    EXTRAS.iter().position(within).map(|index| FIRST_EXTRA + index)
}

/// Memory from this call's block, or from the shared one.
#[cold]
#[inline(never)]
fn allocate(layout: Layout) -> *mut u8 {
    if layout.size() > LARGEST || layout.align() > STRICTEST {
        return null_mut();
    }
    let me = this_thread();
    match OWNERS.iter().position(|owner| owner.load(Ordering::Relaxed) == me) {
        Some(place) => take(place, layout),
        None => in_shared(|| {
            if LIVE[SHARED].load(Ordering::Relaxed) == 0 {
                USED[SHARED].store(0, Ordering::Relaxed);
            }
            take(SHARED, layout)
        }),
    }
}

fn take(place: usize, layout: Layout) -> *mut u8 {
    let start = USED[place].load(Ordering::Relaxed).next_multiple_of(layout.align());
    let end = start + layout.size().next_multiple_of(ALIGNMENT);
    if end > SIZE {
        return null_mut();
    }
    USED[place].store(end, Ordering::Relaxed);
    LIVE[place].fetch_add(1, Ordering::Relaxed);
    start_of(place).wrapping_add(start)
}

#[cold]
#[inline(never)]
fn free(place: usize, memory: *mut u8, size: usize) {
    let give_back = || {
        // What was given out last is given out again; so a string or list that grows takes its own place.
        let start = memory as usize - start_of(place) as usize;
        if USED[place].load(Ordering::Relaxed) == start + size.next_multiple_of(ALIGNMENT) {
            USED[place].store(start, Ordering::Relaxed);
        }
        // Release: this thread has done with the memory.
        LIVE[place].fetch_sub(1, Ordering::SeqCst);
    };
    if place == SHARED {
        in_shared(give_back);
    } else if OWNERS[place].load(Ordering::Relaxed) == this_thread() {
        give_back();
    } else if LIVE[place].fetch_sub(1, Ordering::SeqCst) == 1 {
        give_up(place);
    }
}

fn in_shared<R>(run: impl FnOnce() -> R) -> R {
    let me = this_thread();
    while GATE.compare_exchange_weak(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        hint::spin_loop();
    }
    let result = run();
    GATE.store(FREE, Ordering::Release);
    result
}

/// The C library's allocator with the blocks behind. They serve where it is the global one: in the library that
/// programs load (`libibverbs/`), and in tests.
pub struct Allocator;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: memory comes from the system's allocator and goes back there, or from a block: then it is aligned
// and as large as was asked for, nobody else has it until it is freed, and what it is freed to is told by its
// address. Nothing unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { allocate(layout) } else { memory }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let memory = allocate(layout);
        if !memory.is_null() {
            // SAFETY: as large as the layout says.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match block_of(memory) {
            // SAFETY: by the contract; the system's allocator gave it.
            None => unsafe { System.dealloc(memory, layout) },
            Some(place) => free(place, memory, layout.size()),
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if block_of(memory).is_none() {
            // SAFETY: by the contract; the system's allocator gave it.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: by the contract, `size` with this alignment is a layout, and neither is 0.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(memory, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::testing::in_child;

    /// Runs `test` in a child of which all blocks are free, and where no other test takes or leaves one.
    fn by_itself(test: impl FnOnce()) {
        let status = in_child(|| {
            // Nothing of the parent's is used here that stands in a block.
            for place in 0..PLACES {
                OWNERS[place].store(FREE, Ordering::Relaxed);
                USED[place].store(0, Ordering::Relaxed);
                LIVE[place].store(0, Ordering::Relaxed);
            }
            EXTRAS.iter().for_each(|start| start.store(null_mut(), Ordering::Relaxed));
            EXTRAS_IN_USE.store(0, Ordering::Relaxed);
            GATE.store(FREE, Ordering::Relaxed);
            test();
            0
        });
        assert_eq!(status, 0);
    }

    /// Keeps another thread within `hold` while `test` runs in a forked child; the child's answer.
    fn beside_a_thread<T>(hold: impl FnOnce(&dyn Fn()) -> T + Send, test: impl FnOnce() -> bool) -> bool {
        let (within, done) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|s| {
            s.spawn(|| {
                hold(&|| {
                    within.wait();
                    done.wait();
                });
            });
            within.wait();
            let status = in_child(|| i32::from(!test()));
            done.wait();
            status == 0
        })
    }

    #[test]
    fn a_child_goes_on_where_a_thread_held_the_shared_block() {
        by_itself(|| {
            drop(begin(false, true).unwrap());
            let small = Layout::from_size_align(100, 8).unwrap();
            let held = |wait: &dyn Fn()| in_shared(wait);
            assert!(beside_a_thread(held, || {
                let memory = allocate(small);
                let given = block_of(memory) == Some(SHARED);
                free(SHARED, memory, 100);
                given
            }));
        });
    }

    #[test]
    fn a_childs_blocks_are_those_that_nothing_uses() {
        by_itself(|| {
            drop(begin(false, true).unwrap());
            let layout = Layout::from_size_align(100, 8).unwrap();
            let (place, used) = (AtomicUsize::new(PLACES), AtomicPtr::new(null_mut()));
            let held = |wait: &dyn Fn()| {
                let ticket = begin(true, true).unwrap();
                let memory = allocate(layout);
                // SAFETY: as large as the layout says.
                unsafe { memory.write_bytes(7, 100) };
                place.store(ticket.0.expect("a block"), Ordering::Relaxed);
                used.store(memory, Ordering::Relaxed);
                wait();
                free(ticket.0.unwrap(), memory, 100);
            };
            assert!(beside_a_thread(held, || {
                let place = place.load(Ordering::Relaxed);
                let left = OWNERS[place].load(Ordering::Relaxed) == LEFT;
                let others = OWNERS.iter().filter(|owner| owner.load(Ordering::Relaxed) > LEFT).count();
                let used = used.load(Ordering::Relaxed);
                // As many calls, one after the other, as there are blocks.
                let untouched = (0..PLACES).all(|_| {
                    let ticket = begin(true, true).unwrap();
                    let memory = allocate(layout);
                    // SAFETY: as large as the layout says.
                    unsafe { memory.write_bytes(1, 100) };
                    free(ticket.0.expect("a block"), memory, 100);
                    // SAFETY: 100 bytes that a thread of the parent wrote.
                    unsafe { core::slice::from_raw_parts(used, 100) == [7; 100] }
                });
                free(place, used, 100);
                left && others == 0 && untouched && OWNERS[place].load(Ordering::Relaxed) == FREE
            }));
        });
    }

    /// A thread of the parent that was making, or freeing, a block of the C library's.
    #[test]
    fn a_half_made_block_is_none_in_a_child() {
        by_itself(|| {
            drop(begin(false, true).unwrap());
            let place = FIRST_EXTRA + EXTRA - 1;
            let held = |wait: &dyn Fn()| {
                OWNERS[place].store(this_thread(), Ordering::Relaxed);
                EXTRAS_IN_USE.fetch_add(1, Ordering::Relaxed);
                wait();
                EXTRAS_IN_USE.fetch_sub(1, Ordering::Relaxed);
                OWNERS[place].store(FREE, Ordering::Relaxed);
            };
            assert!(beside_a_thread(held, || {
                let there = EXTRAS.iter().filter(|start| !start.load(Ordering::Relaxed).is_null()).count();
                OWNERS[place].load(Ordering::Relaxed) == FREE
                    && EXTRAS_IN_USE.load(Ordering::Relaxed) == there
            }));
        });
    }

    #[test]
    fn a_block_is_kept_until_the_last_of_it_is_freed() {
        by_itself(|| {
            let small = Layout::from_size_align(100, 8).unwrap();
            let ticket = begin(true, true).unwrap();
            let place = ticket.0.expect("no call is running on this thread");
            assert!(begin(true, true).unwrap().0.is_none(), "a call within a call has its block");
            let (first, second) = (allocate(small), allocate(small));
            assert!(block_of(first) == Some(place) && block_of(second) == Some(place));
            assert_eq!(second as usize - first as usize, 112);
            assert!(allocate(Layout::from_size_align(LARGEST + 1, 8).unwrap()).is_null());
            assert!(allocate(Layout::from_size_align(8, 256).unwrap()).is_null());
            free(place, second, 100);
            assert_eq!(allocate(small), second, "what was given out last is given out again");
            drop(ticket);
            assert_eq!(OWNERS[place].load(Ordering::Relaxed), LEFT);
            std::thread::scope(|s| {
                let (first, second) = (first as usize, second as usize);
                s.spawn(move || free(place, first as *mut u8, 100));
                s.spawn(move || free(place, second as *mut u8, 100));
            });
            assert_ne!(OWNERS[place].load(Ordering::Relaxed), LEFT);
        });
    }

    #[test]
    fn who_finds_all_blocks_in_use_gets_one_for_as_long_as_it_is_used() {
        by_itself(|| {
            let (taken, done) = (Barrier::new(BLOCKS + 1), Barrier::new(BLOCKS + 1));
            let outcome = std::thread::scope(|s| {
                for _ in 0..BLOCKS {
                    s.spawn(|| {
                        let ticket = begin(true, true).unwrap();
                        taken.wait();
                        done.wait();
                        drop(ticket);
                    });
                }
                taken.wait();
                let outcome = uses_an_extra_block();
                done.wait();
                outcome
            });
            assert_eq!(outcome, Some(()));
        });
    }

    /// Takes a block of the C library's, leaves it with memory in use, and frees that; None where the block was
    /// another one, or was there too short or too long.
    fn uses_an_extra_block() -> Option<()> {
        let ticket = begin(true, true).ok()?;
        let place = ticket.0.filter(|place| *place >= FIRST_EXTRA)?;
        let memory = allocate(Layout::from_size_align(100, 8).ok()?);
        let given = block_of(memory) == Some(place);
        drop(ticket);
        let kept = (OWNERS[place].load(Ordering::Relaxed), block_of(memory)) == (LEFT, Some(place));
        free(place, memory, 100);
        let ended = OWNERS[place].load(Ordering::Relaxed) == FREE && block_of(memory).is_none();
        (given && kept && ended).then_some(())
    }

    #[test]
    fn a_block_ends() {
        by_itself(|| {
            let ticket = begin(true, true).unwrap();
            let place = ticket.0.expect("no call is running on this thread");
            let page = Layout::from_size_align(LARGEST, 16).unwrap();
            let all: Vec<_> = (0..SIZE / LARGEST).map(|_| allocate(page)).collect();
            assert!(all.iter().all(|memory| !memory.is_null()) && allocate(page).is_null());
            for memory in all {
                free(place, memory, LARGEST);
            }
        });
    }

    #[test]
    fn growing_out_of_a_block_keeps_the_content() {
        by_itself(|| {
            let ticket = begin(false, true).unwrap();
            let layout = Layout::from_size_align(16, 1).unwrap();
            let memory = allocate(layout);
            // SAFETY: 16 bytes were allocated, then 8192, which come from the system.
            unsafe {
                memory.copy_from_nonoverlapping(b"0123456789abcdef".as_ptr(), 16);
                let moved = ALLOCATOR.realloc(memory, layout, 8192);
                assert!(block_of(moved).is_none());
                assert_eq!(core::slice::from_raw_parts(moved, 16), b"0123456789abcdef");
                ALLOCATOR.dealloc(moved, Layout::from_size_align(8192, 1).unwrap());
            }
            drop(ticket);
        });
    }
}
