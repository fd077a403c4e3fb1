//! Hints to the processor: cache lines that are used soon are fetched before that. The memory need not be
//! there: nothing is read or written, and nothing can fail.

/// The line of this address is read soon.
#[inline(always)]
pub(crate) fn to_read(addr: usize) {
    // SAFETY: a hint, whatever the address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) addr, options(nostack, nomem, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) addr, options(nostack, nomem, preserves_flags));
    }
}

/// The line of this address is written soon: other processors lose it now.
#[inline(always)]
pub(crate) fn to_write(addr: usize) {
    // SAFETY: a hint, whatever the address. Processors without it take it for no operation.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) addr, options(nostack, nomem, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) addr, options(nostack, nomem, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_fetched_in_vain() {
        for addr in [0, 1, 1 << 46, usize::MAX] {
            to_read(addr);
            to_write(addr);
        }
    }
}
