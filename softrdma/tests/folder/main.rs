//! Devices of one folder: what shared memory brings with it, namespaces, and processes that are stopped, lie or
//! are kept from each other's memory.

mod bystander;
mod closed;
mod forged;
mod group;
mod hostile;
mod idle;
mod key_words;
mod moved;
mod networks;
mod stopped;
mod unpinnable;
