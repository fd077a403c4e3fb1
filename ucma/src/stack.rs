//! The calling thread's stack, where callers' frames are.

use std::cell::Cell;
use std::ops::Range;

/// How far above a frame of this crate those of its callers are looked for, in bytes.
const FRAMES: usize = 16 << 10;
/// How long the first thread's stack is believed to be, in bytes. What else a program runs on is mapped, or
/// allocated, further below its end.
const FIRST: usize = 16 << 20;

thread_local! {
    /// Its lowest address and its end; the end is 0 before it was looked for, and 1 where it cannot be had.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Whether these bytes are a part of the calling thread's stack, above the caller's frame and near it. Such a
/// part is mapped, can be read and can be written, unless the program took these rights from its own stack.
///
/// A thread may run on another stack than its own (a coroutine, a signal's handler): then they are not.
#[inline(never)]
pub fn holds(at: u64, length: usize) -> bool {
    let mark = 0_u8;
    let here = (&raw const mark).addr();
    let stack = own();
    let at = usize::try_from(at).ok().filter(|at| *at > here);
    let end = at.and_then(|at| at.checked_add(length));
    stack.contains(&here) && end.is_some_and(|end| end <= stack.end && end - here <= FRAMES)
}

/// From its lowest address to where frames end.
fn own() -> Range<usize> {
    let (mut low, mut end) = STACK.get();
    if end == 0 {
        (low, end) = if is_first() { first() } else { other() }.unwrap_or((0, 1));
        STACK.set((low, end));
    }
    low..end
}

fn is_first() -> bool {
    // SAFETY: both answer a number.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) }
}

/// The first thread's, which grows: above its frames the kernel put bytes for the program (getauxval(3)).
fn first() -> Option<(usize, usize)> {
    // SAFETY: answers a number.
    let end = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    Some((end.checked_sub(FIRST)?, end))
}

/// Another one's: at the upper end of its stack the C library keeps the thread's own data.
fn other() -> Option<(usize, usize)> {
    // SAFETY: an all-zero struct is a place for the attributes of a thread that lives; they are given back, and
    // the calls write where they are told.
    unsafe {
        let (mut attributes, mut low, mut size) = (std::mem::zeroed(), std::ptr::null_mut(), 0);
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let got = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        let (low, data) = (low.addr(), libc::pthread_self() as usize);
        (got == 0 && (low..low.checked_add(size)?).contains(&data)).then_some((low, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_callers_are_held() {
        let frame = [0_u8; 64];
        let (at, heap, far) = (frame.as_ptr() as u64, vec![0_u8; 64], FRAMES as u64);
        assert!(holds(at, 64) && holds(at + 63, 1));
        for bad in [0, at - far, at + far, heap.as_ptr() as u64, u64::MAX - 32, 0xffff_8000_0000_0000] {
            assert!(!holds(bad, 64), "{bad:#x}");
        }
        for length in [FRAMES, usize::MAX] {
            assert!(!holds(at, length), "{length}");
        }
    }

    #[test]
    fn a_stack_ends_at_the_data_of_its_thread() {
        // SAFETY: answers a number.
        let end = unsafe { libc::pthread_self() } as usize;
        assert_eq!(own().end, end);
        assert!(own().contains(&(&raw const end).addr()));
    }
}
