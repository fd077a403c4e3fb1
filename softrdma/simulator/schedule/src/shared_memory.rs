//! The memory that this process shares with others, as far as it was mapped.

use std::sync::atomic::{AtomicUsize, Ordering};

const MOST: usize = 64;

/// Beginnings and ends. What is unmapped stays in the list: it costs a step too many where other memory is
/// there.
static RANGES: [[AtomicUsize; 2]; MOST] = [const { [const { AtomicUsize::new(0) }; 2] }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// So many bytes are mapped there.
pub(crate) fn add(at: usize, length: usize) {
    let n = COUNT.load(Ordering::Relaxed);
    // Where there is no place left, the last one grows.
    let range = &RANGES[n.min(MOST - 1)];
    let last = if n < MOST { at } else { range[0].load(Ordering::Relaxed).min(at) };
    range[0].store(last, Ordering::Relaxed);
    range[1].store(range[1].load(Ordering::Relaxed).max(at + length), Ordering::Relaxed);
    COUNT.store((n + 1).min(MOST), Ordering::Relaxed);
}

/// Whether the word there is in it.
#[inline]
pub(crate) fn has(at: usize) -> bool {
    RANGES[..COUNT.load(Ordering::Relaxed)]
        .iter()
        .rev()
        .any(|[from, to]| from.load(Ordering::Relaxed) <= at && at < to.load(Ordering::Relaxed))
}
