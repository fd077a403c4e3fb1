//! libibverbs.so.1 in Rust: a program's verbs come in at `api`, go down through `provider` and `uverbs` to the
//! kernel.
//!
//! | room | what lives there |
//! |---|---|
//! | [`abi`] | layouts only: public C structs, kernel UAPI; every room may name them |
//! | [`api`] | the C entry points, one file per verbs object |
//! | [`provider`] | one room per kind of device, behind one trait |
//! | [`uverbs`] | the kernel's door: discovery, device files, commands, event channels |
//!
//! Dependencies point down only: `api` → `provider` → `uverbs` → kernel.

// Nothing calls it: it is linked.
use glibc_floor as _;

pub mod abi;
pub mod api;
mod environment;
pub mod errno;
mod guard;
pub mod log;
pub mod provider;
pub mod reserve;
#[cfg(test)]
mod testing;
pub mod uverbs;
