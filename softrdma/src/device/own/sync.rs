//! What own completions are made of: the standard library, or the model checker in its place (`cfg(loom)`).

#[cfg(loom)]
pub(super) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(in crate::device) use loom::sync::atomic::fence;
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub(in crate::device) use std::sync::atomic::fence;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// That of the standard library, used as that of the model checker.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(super) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    #[inline(always)]
    pub(super) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}
