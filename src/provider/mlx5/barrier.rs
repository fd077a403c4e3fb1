//! The order of this processor's accesses as the device sees them.

/// What is read from here on was written by the device before what was read last: completions after their
/// owner.
#[inline(always)]
pub fn after_owner() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a barrier, which every such processor has.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier changes no register and no memory.
    unsafe {
        core::arch::asm!("dsb ld", options(nostack, preserves_flags));
    }
    core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
}

/// What was written to memory is there before what is written from here on: requests before their doorbell
/// record.
#[inline(always)]
pub fn before_record() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
    // The processor keeps the order of stores on x86-64; this keeps the compiler from changing it.
    core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
}

/// What was written is there before a register of the device is written, and a register before the next.
#[inline(always)]
pub fn around_register() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
    core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
}
