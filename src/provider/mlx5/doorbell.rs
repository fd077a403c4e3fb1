//! The device's registers: where sends are announced, and where completion queues are armed.
//!
//! A register for sends has two halves, used in turn. Written with the first 8 bytes of a request, it makes
//! the device read the requests; a single small request is written there whole and need not be read.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use queue_lock::QueueLock;

use super::barrier;

/// Where in the page of registers completion queues are armed (bytes).
const CQ_DOORBELL: usize = 0x20;

/// A register for sends, which several queue pairs may share.
pub struct Register {
    base: NonNull<u8>,
    /// Bytes of one half; 0 where requests do not fit.
    half: usize,
    /// Where the half is that is next.
    offset: QueueLock<usize>,
    whole: Whole,
    /// libmlx5 writes there, too: then requests are not written whole, which would need one lock for both.
    shared: AtomicBool,
}

/// When a request is written to the register as a whole, if it is single and fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    /// Never (`MLX5_SHUT_UP_BF`).
    Never,
    /// With data inside (`MLX5_POST_SEND_PREFER_BF=0`).
    WithData,
    /// Always.
    Always,
}

// SAFETY: the pointer is to a register of the device, which is written under the lock.
unsafe impl Send for Register {}
// SAFETY: as above.
unsafe impl Sync for Register {}

/// A list of requests just written.
pub struct Announced {
    /// The start of the last request.
    pub last: NonNull<u8>,
    /// How long it is, in units of 16 bytes.
    pub units: usize,
    /// It is the only one.
    pub single: bool,
    /// One of them holds data.
    pub data: bool,
    /// Where the ring begins ...
    pub start: NonNull<u8>,
    /// ... and ends.
    pub end: NonNull<u8>,
}

impl Register {
    /// The register there, with halves of so many bytes (0: none).
    pub fn new(base: NonNull<u8>, half: usize, whole: Whole) -> Self {
        Self { base, half, offset: QueueLock::new(0), whole, shared: AtomicBool::new(false) }
    }

    /// Where it is.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// libmlx5 writes there, too.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Announces a list.
    ///
    /// # Safety
    /// The register is mapped, the last request lies in the ring at a multiple of 64 bytes from its start,
    /// and the ring is a multiple of 64 bytes long.
    #[inline(always)]
    pub unsafe fn announce(&self, list: &Announced) {
        let mut offset = self.offset.lock();
        barrier::around_register();
        let suits = match self.whole {
            Whole::Never => false,
            Whole::WithData => list.data,
            Whole::Always => true,
        };
        // SAFETY: by the contract; a half has room for the request rounded up to 64 bytes, as its size is a
        // multiple of 64 as well.
        unsafe {
            let mut to = self.base.add(*offset);
            if suits
                && !self.shared.load(Ordering::Relaxed)
                && list.single
                && list.units > 1
                && list.units * 16 <= self.half
            {
                let mut from = list.last;
                for _ in 0..(list.units * 16).div_ceil(64) {
                    for at in (0..64).step_by(8) {
                        to.add(at).cast::<u64>().write_volatile(from.add(at).cast::<u64>().read());
                    }
                    (from, to) = (from.add(64), to.add(64));
                    if from == list.end {
                        from = list.start;
                    }
                }
            } else {
                to.cast::<u64>().write_volatile(list.last.cast::<u64>().read());
            }
        }
        barrier::around_register();
        *offset ^= self.half;
    }
}

/// The word with which a queue is armed: its number of events, what counts as one, and what was consumed.
pub fn arming(events: u32, solicited_only: bool, consumed: u32) -> u32 {
    (events & 3) << 28 | u32::from(solicited_only) << 24 | consumed & 0xff_ffff
}

/// Arms the completion queue `cqn`, whose record has the word already.
///
/// # Safety
/// `page` is the mapped page of registers with which completion queues are armed.
pub unsafe fn arm(page: NonNull<u8>, word: u32, cqn: u32) {
    barrier::around_register();
    // SAFETY: by the contract.
    unsafe {
        let register = page.add(CQ_DOORBELL).cast::<u64>();
        register.write_volatile((u64::from(word) << 32 | u64::from(cqn)).to_be());
    }
    barrier::around_register();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Area<const N: usize>([u8; N]);

    fn announce(register: &Register, ring: &Area<256>, at: usize, units: usize, single: bool, data: bool) {
        let start = NonNull::from(&ring.0).cast::<u8>();
        // SAFETY: inside the ring and at its end.
        let (last, end) = unsafe { (start.add(at), start.add(256)) };
        // SAFETY: the register is memory of the test.
        unsafe { register.announce(&Announced { last, units, single, data, start, end }) };
    }

    #[test]
    fn halves_take_turns_and_a_small_request_goes_there_whole() {
        let mut page = Area([0_u8; 512]);
        let mut ring = Area([0; 256]);
        for (at, byte) in ring.0.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let base = NonNull::from(&mut page.0).cast();
        let register = Register::new(base, 256, Whole::Always);
        // Five units from the last block on: the second block is the ring's first.
        announce(&register, &ring, 192, 5, true, false);
        announce(&register, &ring, 64, 4, false, true);
        // SAFETY: the page of the test, which nobody else uses.
        let read =
            |at: usize, length: usize| unsafe { core::slice::from_raw_parts(base.as_ptr().add(at), length) };
        assert_eq!((read(0, 64), read(64, 64)), (&ring.0[192..256], &ring.0[..64]));
        assert_eq!((read(256, 8), read(264, 8)), (&ring.0[64..72], &[0; 8][..]));
        announce(&register, &ring, 0, 17, true, true);
        assert_eq!((read(0, 8), read(8, 8)), (&ring.0[..8], &ring.0[200..208]), "too long for a half");
    }

    #[test]
    fn the_word_that_arms_has_three_parts() {
        assert_eq!(arming(7, true, 0x0123_4567), 0x3123_4567 & 0x30ff_ffff | 1 << 24);
        assert_eq!(arming(4, false, 5), 5);
    }
}
