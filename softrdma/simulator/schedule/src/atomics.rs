//! What the compiler calls in place of atomic instructions, in code that is built with `-Zsanitizer=thread`:
//! each is a step. All are sequentially consistent: one thread runs at a time.

use crate::turn::step_at;

macro_rules! atomics {
    ($type:ty, $atomic:ident, $load:ident, $store:ident, $exchange:ident, $compare:ident,
     $add:ident, $sub:ident, $and:ident, $or:ident, $xor:ident) => {
        atomics!(one $type, $atomic, $load, |word| word.load(SeqCst));
        atomics!(two $type, $atomic, $exchange, swap);
        atomics!(two $type, $atomic, $add, fetch_add);
        atomics!(two $type, $atomic, $sub, fetch_sub);
        atomics!(two $type, $atomic, $and, fetch_and);
        atomics!(two $type, $atomic, $or, fetch_or);
        atomics!(two $type, $atomic, $xor, fetch_xor);

        /// See the module.
        ///
        /// # Safety
        /// The word is there, as for the instruction.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(word: *mut $type, value: $type, _order: i32) {
            use std::sync::atomic::{$atomic, Ordering::SeqCst};
            step_at(word.addr(), true);
            // SAFETY: by the contract.
            unsafe { $atomic::from_ptr(word) }.store(value, SeqCst);
        }

        /// See the module.
        ///
        /// # Safety
        /// The word is there, as for the instruction.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $compare(
            word: *mut $type,
            old: $type,
            new: $type,
            _order: i32,
            _failed: i32,
        ) -> $type {
            use std::sync::atomic::{$atomic, Ordering::SeqCst};
            step_at(word.addr(), true);
            // SAFETY: by the contract.
            match unsafe { $atomic::from_ptr(word) }.compare_exchange(old, new, SeqCst, SeqCst) {
                Ok(seen) | Err(seen) => seen,
            }
        }
    };
    (one $type:ty, $atomic:ident, $name:ident, |$word:ident| $act:expr) => {
        /// See the module.
        ///
        /// # Safety
        /// The word is there, as for the instruction.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(word: *mut $type, _order: i32) -> $type {
            use std::sync::atomic::{$atomic, Ordering::SeqCst};
            step_at(word.addr(), false);
            // SAFETY: by the contract.
            let $word = unsafe { $atomic::from_ptr(word) };
            $act
        }
    };
    (two $type:ty, $atomic:ident, $name:ident, $act:ident) => {
        /// See the module.
        ///
        /// # Safety
        /// The word is there, as for the instruction.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(word: *mut $type, value: $type, _order: i32) -> $type {
            use std::sync::atomic::{$atomic, Ordering::SeqCst};
            step_at(word.addr(), true);
            // SAFETY: by the contract.
            unsafe { $atomic::from_ptr(word) }.$act(value, SeqCst)
        }
    };
}

atomics!(
    u8,
    AtomicU8,
    __tsan_atomic8_load,
    __tsan_atomic8_store,
    __tsan_atomic8_exchange,
    __tsan_atomic8_compare_exchange_val,
    __tsan_atomic8_fetch_add,
    __tsan_atomic8_fetch_sub,
    __tsan_atomic8_fetch_and,
    __tsan_atomic8_fetch_or,
    __tsan_atomic8_fetch_xor
);
atomics!(
    u16,
    AtomicU16,
    __tsan_atomic16_load,
    __tsan_atomic16_store,
    __tsan_atomic16_exchange,
    __tsan_atomic16_compare_exchange_val,
    __tsan_atomic16_fetch_add,
    __tsan_atomic16_fetch_sub,
    __tsan_atomic16_fetch_and,
    __tsan_atomic16_fetch_or,
    __tsan_atomic16_fetch_xor
);
atomics!(
    u32,
    AtomicU32,
    __tsan_atomic32_load,
    __tsan_atomic32_store,
    __tsan_atomic32_exchange,
    __tsan_atomic32_compare_exchange_val,
    __tsan_atomic32_fetch_add,
    __tsan_atomic32_fetch_sub,
    __tsan_atomic32_fetch_and,
    __tsan_atomic32_fetch_or,
    __tsan_atomic32_fetch_xor
);
atomics!(
    u64,
    AtomicU64,
    __tsan_atomic64_load,
    __tsan_atomic64_store,
    __tsan_atomic64_exchange,
    __tsan_atomic64_compare_exchange_val,
    __tsan_atomic64_fetch_add,
    __tsan_atomic64_fetch_sub,
    __tsan_atomic64_fetch_and,
    __tsan_atomic64_fetch_or,
    __tsan_atomic64_fetch_xor
);

/// A fence, which one thread at a time does not need.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_thread_fence(_order: i32) {}

/// A fence for the compiler.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_signal_fence(_order: i32) {}

/// Code that was built for it is in the program.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_init() {}
