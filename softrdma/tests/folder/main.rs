//! Devices of one folder: what shared memory brings with it, namespaces, and processes that are stopped, lie,
//! leave or are kept from each other's memory. What holds however devices meet is in `tests/device`.

mod bystander;
mod closed;
mod datagram_rings;
mod direct;
mod faults;
mod forged;
mod given_back;
mod group;
mod hostile;
mod idle;
mod inventory;
mod key_words;
mod leaving;
mod lists;
mod moved;
mod networks;
mod one_sided;
mod pool;
mod processes;
mod srq;
mod stopped;
mod unpinnable;
