//! The engine's objects, in one process and between processes.

mod bystander;
mod closed;
mod control;
mod counters;
mod direct;
mod events;
mod faults;
mod forged;
mod group;
mod hostile;
mod idle;
mod key_words;
mod lists;
mod messages;
mod moved;
mod networks;
mod processes;
mod random;
mod refusals;
mod shared;
mod stopped;
mod stress;
mod unpinnable;
mod windows;
