//! The connection manager that librdmacm talks to at `/dev/infiniband/rdma_cm`, as a state machine: commands of
//! programs and messages of other sides go in, answers and actions come out. It has no clock, no I/O, no
//! globals: what it needs of the host, time and chance too, it asks one trait for.
//!
//! | file | subject |
//! |---|---|
//! | `manager` | channels, and how a caller drives the machine |
//! | [`command`], [`answer`], [`event`], `errno` | what goes in and out at the device |
//! | [`address`], [`ports`] | addresses; who may have which port |
//! | [`world`] | what the machine asks of the world, and what it wants done there |
//! | [`wire`] | messages between two sides |
//! | [`network`] | messages to and from other hosts, on the way to which they get lost |

mod accept;
pub mod address;
pub mod answer;
mod bind;
pub mod command;
mod connect;
mod connection;
mod disconnect;
mod errno;
pub mod event;
mod events;
mod file;
mod id;
mod lifetime;
mod links;
mod listen;
mod manager;
mod migrate;
mod multicast;
pub mod network;
mod options;
pub mod ports;
mod qp_attr;
mod query;
mod requests;
mod resolve;
mod timers;
mod user_events;
pub mod wire;
pub mod world;

pub use address::Address;
pub use answer::Answer;
pub use command::Command;
pub use errno::Errno;
pub use event::Event;
pub use file::File;
pub use manager::Manager;
pub use world::{Action, Link, World};
