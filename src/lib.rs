//! libibverbs.so.1 in Rust: a program's calls come in at `api`, go down through `provider` and `uverbs` to the
//! kernel.
//!
//! | module | what it has |
//! |---|---|
//! | [`abi`] | layouts only: public C structs, kernel UAPI; every module may use them |
//! | [`api`] | the C entry points, one file per verbs object |
//! | [`provider`] | the kinds of devices, a folder each, behind the same traits |
//! | [`uverbs`] | what the kernel is asked: discovery, device files, commands, event files |
//! | [`observe`] | what `ironverbs trace` sees of calls, by the C entry points |
//! | [`check`] | the rules that `ironverbs check` finds broken |
//! | [`errno`] [`log`] [`reserve`] | error numbers; the trace; memory set apart for calls |
//! | `event_subject` | which object an asynchronous event names |
//! | `guard` `environment` | what lies between a C caller and Rust; variables and whether they are believed |
//!
//! Dependencies point down only: `api` → `provider` → `uverbs` → kernel.

// Nothing calls it: it is linked.
use glibc_floor as _;

pub mod abi;
pub mod api;
pub mod check;
mod environment;
pub mod errno;
mod event_subject;
mod guard;
pub mod log;
pub mod observe;
pub mod provider;
pub mod reserve;
#[cfg(test)]
mod testing;
pub mod uverbs;
