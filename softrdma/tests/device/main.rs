//! The engine's objects, in one process and between processes.

mod closed;
mod common;
mod control;
mod events;
mod messages;
mod processes;
mod random;
mod stopped;
mod stress;
