//! What verbs promise between devices, however requests get from one to the other.

mod control;
mod counters;
mod events;
mod holes;
mod lists;
mod messages;
mod order;
mod processes;
mod random;
mod refusals;
mod srq;
mod stress;
mod windows;
