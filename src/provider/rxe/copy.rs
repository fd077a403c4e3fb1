//! Copies completions out of a ring with the widest registers that pay off: 48 bytes each, apart by the slot
//! size of the ring on one side and packed on the other.

/// Size of a completion: `struct ib_uverbs_wc` of the kernel, and `struct ibv_wc`, which has the same layout
/// (bytes).
pub const ENTRY: usize = 48;

/// Copies `count` completions: entry `i` stands at `source + (i << shift)` and goes to `target + i * 48`.
///
/// # Safety
/// Each of the `count` entries is readable at its place in `source` and writable at its place in `target`, and
/// the two do not overlap. The machine has the instructions that the function was [chosen](widest) for.
pub type CopyRun = unsafe fn(source: *const u8, target: *mut u8, count: usize, shift: u32);

/// The fastest copy that this machine can run.
#[must_use]
pub fn widest() -> CopyRun {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        return avx2_run;
    }
    baseline_run
}

/// Copies one completion with registers that every machine of the architecture has.
///
/// # Safety
/// 48 bytes are readable at `source` and writable at `target`, and they do not overlap.
#[inline(always)]
pub unsafe fn one(source: *const u8, target: *mut u8) {
    // SAFETY: the three 16-byte thirds lie within the 48 bytes that the caller vouches for; SSE2 belongs to
    // x86-64, and the unaligned forms ask for no alignment.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
        let a = _mm_loadu_si128(source.cast::<__m128i>());
        let b = _mm_loadu_si128(source.add(16).cast::<__m128i>());
        let c = _mm_loadu_si128(source.add(32).cast::<__m128i>());
        _mm_storeu_si128(target.cast::<__m128i>(), a);
        _mm_storeu_si128(target.add(16).cast::<__m128i>(), b);
        _mm_storeu_si128(target.add(32).cast::<__m128i>(), c);
    }
    // SAFETY: as above; NEON belongs to AArch64, and byte vectors have no alignment.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        use core::arch::aarch64::{vld1q_u8, vst1q_u8};
        let a = vld1q_u8(source);
        let b = vld1q_u8(source.add(16));
        let c = vld1q_u8(source.add(32));
        vst1q_u8(target, a);
        vst1q_u8(target.add(16), b);
        vst1q_u8(target.add(32), c);
    }
    // SAFETY: the caller vouches for 48 readable and 48 writable bytes that do not overlap.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe {
        core::ptr::copy_nonoverlapping(source, target, ENTRY);
    }
}

/// A run of single copies.
///
/// # Safety
/// As [`CopyRun`].
unsafe fn baseline_run(mut source: *const u8, mut target: *mut u8, count: usize, shift: u32) {
    for _ in 0..count {
        // SAFETY: the pointers stand at the next of the `count` entries. They are advanced without a claim to
        // stay inside the buffers, because behind the last entry they may not.
        unsafe { one(source, target) };
        source = source.wrapping_add(1 << shift);
        target = target.wrapping_add(ENTRY);
    }
}

/// A run with one 32-byte and one 16-byte register per entry.
///
/// # Safety
/// As [`CopyRun`], on a machine with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_run(mut source: *const u8, mut target: *mut u8, count: usize, shift: u32) {
    use core::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
    };
    for _ in 0..count {
        // SAFETY: 32 and 16 bytes make up the entry that the pointers stand at; the unaligned forms ask for no
        // alignment.
        unsafe {
            let front = _mm256_loadu_si256(source.cast::<__m256i>());
            let back = _mm_loadu_si128(source.add(32).cast::<__m128i>());
            _mm256_storeu_si256(target.cast::<__m256i>(), front);
            _mm_storeu_si128(target.add(32).cast::<__m128i>(), back);
        }
        source = source.wrapping_add(1 << shift);
        target = target.wrapping_add(ENTRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies_what_it_should(run: CopyRun) {
        for shift in [6, 7, 9] {
            for count in 0..9 {
                let source: Vec<u8> = (0..count << shift).map(|i| (i * 7 + i / 251) as u8).collect();
                let mut target = vec![0xA5u8; count * ENTRY];
                // SAFETY: both buffers hold `count` entries, and the function was chosen for this machine.
                unsafe { run(source.as_ptr(), target.as_mut_ptr(), count, shift) };
                for i in 0..count {
                    assert_eq!(
                        target[i * ENTRY..][..ENTRY],
                        source[i << shift..][..ENTRY],
                        "{count} {shift} {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_copy_moves_the_same_bytes() {
        copies_what_it_should(baseline_run);
        copies_what_it_should(widest());
    }
}
