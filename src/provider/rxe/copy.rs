//! Copies completions out of a ring with the widest registers that pay off: 48 bytes each, apart by the slot
//! size of the ring on one side and packed on the other.

/// Size of a completion: `struct ib_uverbs_wc` of the kernel, and `struct ibv_wc`, which has the same layout
/// (bytes).
pub const ENTRY: usize = 48;

/// Whether the machine has AVX2, and the system saves its registers.
///
/// Source: `__x86_get_cpuid_feature_leaf` of `sys/platform/x86.h`, the C library's answer since 2.33. To ask
/// the processor takes dozens of microseconds in a virtual machine, because each `cpuid` leaves it.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn avx2() -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 2;
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[repr(C)]
    struct Leaf {
        present: [u32; 4],
        active: [u32; 4],
    }
    /// The place of leaf 7 in the C library's list.
    const LEAF_7: u32 = 1;
    const EBX: usize = 1;
    const AVX2: u32 = 1 << 5;

    let found = FOUND.load(Ordering::Relaxed);
    if found != UNKNOWN {
        return found != 0;
    }
    // SAFETY: the name is a NUL-terminated string; dlsym with RTLD_DEFAULT only looks it up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__x86_get_cpuid_feature_leaf".as_ptr()) };
    let found = if symbol.is_null() {
        std::is_x86_feature_detected!("avx2")
    } else {
        // SAFETY: this is the type of the C library's function of that name. It gives a leaf of a table that
        // lives as long as the process, or one of zeros.
        unsafe {
            let leaf_of: unsafe extern "C" fn(u32) -> *const Leaf = core::mem::transmute(symbol);
            (*leaf_of(LEAF_7)).active[EBX] & AVX2 != 0
        }
    };
    FOUND.store(u8::from(found), Ordering::Relaxed);
    found
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

/// Copies `count` completions to an array at `target`; `slot` gives the place of one after the other.
///
/// # Safety
/// 48 bytes are readable at each of `count` places and writable at each of `count` entries of the array, and
/// the two do not overlap.
#[inline(always)]
pub unsafe fn baseline_run(mut slot: impl FnMut() -> *const u8, mut target: *mut u8, count: u32) {
    for _ in 0..count {
        // SAFETY: the next of `count` entries. The target is advanced without a claim to stay inside the array,
        // because behind the last entry it does not.
        unsafe { one(slot(), target) };
        target = target.wrapping_add(ENTRY);
    }
}

/// As [`baseline_run`], two entries by three 32-byte registers. Such a copy waits for its stores, most of all
/// those across the end of a cache line; an array that is aligned to 16 bytes, as most are, gets none of them.
///
/// # Safety
/// As [`baseline_run`], on a machine with [AVX2](avx2). The 16 bytes before and behind each entry are readable.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn avx2_run(mut slot: impl FnMut() -> *const u8, mut target: *mut u8, mut count: u32) {
    use core::arch::x86_64::{__m256i, _mm256_blend_epi32, _mm256_loadu_si256, _mm256_storeu_si256};

    if target as usize & 31 == 16 && count != 0 {
        // SAFETY: the first entry.
        unsafe { one(slot(), target) };
        target = target.wrapping_add(ENTRY);
        count -= 1;
    }
    while count >= 2 {
        let (first, second) = (slot(), slot());
        // SAFETY: two of the `count` entries. The second register has the end of the first and what follows it,
        // the third what comes before the second and its start. Three times 32 bytes are their place in the
        // target. The unaligned forms ask for no alignment.
        unsafe {
            let front = _mm256_loadu_si256(first.cast::<__m256i>());
            let end = _mm256_loadu_si256(first.add(32).cast::<__m256i>());
            let start = _mm256_loadu_si256(second.sub(16).cast::<__m256i>());
            let rest = _mm256_loadu_si256(second.add(16).cast::<__m256i>());
            _mm256_storeu_si256(target.cast::<__m256i>(), front);
            _mm256_storeu_si256(
                target.add(32).cast::<__m256i>(),
                _mm256_blend_epi32::<0b1111_0000>(end, start),
            );
            _mm256_storeu_si256(target.add(64).cast::<__m256i>(), rest);
        }
        target = target.wrapping_add(2 * ENTRY);
        count -= 2;
    }
    if count != 0 {
        // SAFETY: the last entry.
        unsafe { one(slot(), target) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are readable before the first slot, as the head of a ring is.
    const HEAD: usize = 16;

    fn copies_what_it_should(run: unsafe fn(&mut dyn FnMut() -> *const u8, *mut u8, u32)) {
        for shift in [6, 7, 9] {
            for count in 0..9 {
                let source: Vec<u8> = (0..HEAD + (count << shift)).map(|i| (i * 7 + i / 251) as u8).collect();
                for skew in [0, 8, 16, 24, 40] {
                    let mut target = vec![0xA5u8; skew + count * ENTRY + 8];
                    let mut places = (0..count).map(|i| source.as_ptr().wrapping_add(HEAD + (i << shift)));
                    // SAFETY: both buffers hold `count` entries, and the machine can run the function.
                    unsafe {
                        run(&mut || places.next().unwrap(), target.as_mut_ptr().add(skew), count as u32);
                    }
                    for i in 0..count {
                        assert_eq!(
                            target[skew + i * ENTRY..][..ENTRY],
                            source[HEAD + (i << shift)..][..ENTRY],
                            "{count} {shift} {skew} {i}"
                        );
                    }
                    assert!(
                        target[..skew]
                            .iter()
                            .chain(&target[skew + count * ENTRY..])
                            .all(|&byte| byte == 0xA5)
                    );
                }
            }
        }
    }

    #[test]
    fn every_copy_moves_the_same_bytes() {
        copies_what_it_should(|slot, target, count| {
            // SAFETY: handed on to the caller.
            unsafe { baseline_run(slot, target, count) }
        });
        #[cfg(target_arch = "x86_64")]
        {
            assert_eq!(avx2(), std::is_x86_feature_detected!("avx2"));
            if avx2() {
                copies_what_it_should(|slot, target, count| {
                    // SAFETY: handed on to the caller, on a machine with AVX2.
                    unsafe { avx2_run(slot, target, count) }
                });
            }
        }
    }
}
