//! How a library has its calls seen by `ironverbs trace`: what a call says of itself goes into a ring of the
//! thread, which the command reads.
//!
//! | module | what it has |
//! |---|---|
//! | [`state`] | whether calls are observed, as the environment says |
//! | [`demand`] | a trace that begins while the program runs |
//! | [`thread`] | what each thread has: its ring, and room for a record |
//! | [`line`] | the text of a call |
//! | [`record`], [`ring`] | what the command reads |
//!
//! Each shared library that is observed has a copy of its own of what is here, with rings of its own; the
//! command puts the calls of all rings in their order by time. A library knows its copy by its [`Observer`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod demand;
pub mod line;
pub mod record;
pub mod ring;
pub mod state;
pub mod thread;

pub use ironverbs_os::clock::now;

/// A library whose calls are observed.
#[derive(Debug)]
pub struct Observer {
    /// A short name that no other library of a process has: a part of the names of its rings.
    pub library: &'static str,
    /// Begins what observes calls even where there is no trace; whether that is so. Called once or twice,
    /// before anything else.
    pub begin: fn() -> bool,
    /// Whether calls are observed although there is no trace.
    pub is_anyway: fn() -> bool,
}

/// An observer that has nothing but the trace.
#[must_use]
pub const fn only_traced(library: &'static str) -> Observer {
    Observer { library, begin: || false, is_anyway: || false }
}
