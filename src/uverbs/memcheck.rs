//! Telling valgrind what the kernel has written: memcheck knows nothing of the uverbs ioctl, and would take the
//! answers for memory that nobody has set.
//!
//! A request to valgrind is a sequence of instructions that do nothing on a processor and that valgrind knows
//! (its `valgrind.h`); without valgrind it costs a few cycles.

/// `VG_USERREQ__MAKE_MEM_DEFINED`: the tool's letters, and the third of its requests.
const MAKE_MEM_DEFINED: usize = ((b'M' as usize) << 24 | (b'C' as usize) << 16) + 2;

/// Says that the `length` bytes at `start` have been written.
#[inline]
pub fn defined(start: usize, length: usize) {
    let request = [MAKE_MEM_DEFINED, start, length, 0, 0, 0];
    ask(&request);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(request: &[usize; 6]) {
    // SAFETY: the rotations add up to two turns, and a register is exchanged with itself. Valgrind reads the
    // request, and answers in rdx.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") 0_usize => _,
            in("rax") request.as_ptr(),
            options(nostack, readonly),
        );
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn ask(request: &[usize; 6]) {
    // SAFETY: as on x86-64; the answer is in x3.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") 0_usize => _,
            in("x4") request.as_ptr(),
            options(nostack, readonly),
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ask(_request: &[usize; 6]) {}
