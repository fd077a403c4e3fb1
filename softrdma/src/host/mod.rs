//! Same-host transport: shared-memory segments, locks, payload copies and wake-ups.
pub mod alloc;
pub mod atomics;
pub mod bell;
pub mod copy;
pub mod error;
pub mod folder;
mod fork;
pub mod keys;
mod liveness;
pub mod lock;
pub mod memory;
pub mod objects;
pub mod segment;
pub mod slot;
mod sys;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
