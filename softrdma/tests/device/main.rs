//! The engine's objects, in one process and between processes.

mod control;
mod counters;
mod direct;
mod events;
mod faults;
mod lists;
mod messages;
mod processes;
mod random;
mod refusals;
mod shared;
mod stress;
mod windows;
