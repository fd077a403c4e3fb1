//! Whether bytes of the program can be read, and a checksum of them. They are read by a system call, which has
//! no fault where they are gone.

use core::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements of a request that are looked at.
pub const ELEMENTS: usize = 4;
/// Elements of at most so many bytes count whole.
const WHOLE: u64 = 4096;
/// Of longer ones, so many at each end,
const END: u64 = 1024;
/// and at so many places between them
const PLACES: u64 = 32;
/// so many.
const PART: u64 = 64;

/// The kernel has no such call, or a sandbox refuses it.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Parts of the process's memory: address and length.
pub type Parts = [(u64, u64); ELEMENTS];

/// What reading has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// A checksum.
    Of(u64),
    /// Not all can be read.
    Gone,
    /// Nothing can be said.
    Unknown,
}

/// Pieces of an element that are read.
fn pieces(first: u64, length: u64, mut each: impl FnMut(u64, u64)) {
    if length <= WHOLE {
        return each(first, length);
    }
    each(first, END);
    let between = length - 2 * END;
    let step = between / PLACES;
    for place in 0..PLACES {
        let at = first + END + place * step;
        each(at, PART.min(step));
    }
    each(first + length - END, END);
}

/// Reads what is looked at of these parts.
pub fn sum(parts: &[(u64, u64)]) -> Sum {
    const MOST: usize = ELEMENTS * (PLACES as usize + 2);
    const ROOM: usize = ELEMENTS * WHOLE as usize;
    if REFUSED.load(Ordering::Relaxed) {
        return Sum::Unknown;
    }
    let mut remote = [const { MaybeUninit::<libc::iovec>::uninit() }; MOST];
    let (mut count, mut bytes) = (0, 0);
    for (first, length) in parts {
        pieces(*first, *length, |at, length| {
            if let Some(place) = remote.get_mut(count) {
                place.write(libc::iovec { iov_base: at as *mut _, iov_len: length as usize });
                count += 1;
                bytes += length as usize;
            }
        });
    }
    let mut room = MaybeUninit::<[u64; ROOM / 8]>::uninit();
    debug_assert!(bytes <= ROOM, "each element has at most WHOLE bytes of pieces");
    let local = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: bytes.min(ROOM) };
    // SAFETY: the kernel writes at most so many bytes, for which there is room, and reads as many vectors as
    // were written; addresses that are not mapped end the call.
    let got = unsafe {
        // Words that are not filled whole.
        room.as_mut_ptr().cast::<u64>().add(bytes.min(ROOM - 8) / 8).write(0);
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, remote.as_ptr().cast(), count as u64, 0)
    };
    if got < 0 {
        let errno = ironverbs_os::errno::Errno::last();
        if errno.0 == libc::EFAULT {
            return Sum::Gone;
        }
        REFUSED.store(true, Ordering::Relaxed);
        return Sum::Unknown;
    }
    if got as usize != bytes {
        return Sum::Gone;
    }
    let words = bytes.div_ceil(8).min(ROOM / 8);
    // SAFETY: so many words were written, the last by zeros before.
    let words = unsafe { core::slice::from_raw_parts(room.as_ptr().cast::<u64>(), words) };
    Sum::Of(checksum(words))
}

/// Four sums, so that multiplications go on beside each other.
fn checksum(words: &[u64]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sums = [1_u64, 2, 3, 4];
    let (fours, rest) = words.as_chunks::<4>();
    for four in fours {
        for (sum, word) in sums.iter_mut().zip(four) {
            *sum = (sum.rotate_left(31) ^ word).wrapping_mul(FACTOR);
        }
    }
    for (sum, word) in sums.iter_mut().zip(rest) {
        *sum = (sum.rotate_left(31) ^ word).wrapping_mul(FACTOR);
    }
    sums.iter().fold(0, |all, sum| (all.rotate_left(17) ^ sum).wrapping_mul(FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Sum {
        sum(&[(bytes.as_ptr() as u64, bytes.len() as u64)])
    }

    #[test]
    fn each_byte_of_a_short_element_counts() {
        for length in [1, 7, 8, 33, 4096] {
            let mut bytes = vec![3_u8; length];
            let before = of(&bytes);
            assert_eq!(before, of(&bytes));
            for at in 0..length {
                bytes[at] ^= 1;
                assert_ne!(before, of(&bytes), "{at} of {length}");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn ends_of_a_long_element_count() {
        let mut bytes = vec![3_u8; 1 << 20];
        let before = of(&bytes);
        for at in [0, 1023, 1024, (1 << 20) - 1024, (1 << 20) - 1] {
            bytes[at] ^= 1;
            assert_ne!(before, of(&bytes), "{at}");
            bytes[at] ^= 1;
        }
        assert_eq!(before, of(&bytes));
    }

    #[test]
    fn what_is_unmapped_is_gone() {
        // SAFETY: a new mapping, and its end.
        let page = unsafe {
            let page = libc::mmap(
                core::ptr::null_mut(),
                8192,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            libc::munmap(page.add(4096), 4096);
            page as u64
        };
        assert_ne!(sum(&[(page, 4096)]), Sum::Gone);
        assert_eq!(sum(&[(page, 4097)]), Sum::Gone);
        assert_eq!(sum(&[(page + 4096, 8)]), Sum::Gone);
        assert_eq!(sum(&[(page, 64), (page + 4096, 8)]), Sum::Gone);
    }
}
