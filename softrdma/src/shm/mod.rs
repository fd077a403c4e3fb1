//! Same-host transport: shared-memory segments, locks, payload copies and wake-ups.
//!
//! Every process owns one segment, which others find by a folder that only its user (or a group that asked for
//! it) may enter. The segment has the process's queues and memory keys. A process that sends to it carries the
//! operation out itself: the receiving process need not run, and no helper process or thread is needed, except
//! where the kernel forbids to reach the receiver's memory ([`bounce`]) or its descriptors (`handout`).
//!
//! | file | what |
//! |---|---|
//! | [`folder`] | the folder: found, made, verified |
//! | [`slot`] | names in it: claimed by processes, removed when their process is dead |
//! | `liveness` | whether a process lives: a record lock that the kernel drops at any death |
//! | [`segment`] | the own segment, growing without ever failing at an access; a peer's segment |
//! | `memfd` | memory that nobody can shorten, and how it is known from other files |
//! | [`addresses`] | the addresses that others find a process at, with its network namespace |
//! | [`watch`] | tells when the addresses of the machine change |
//! | `announcement` | what stands in a slot's file: whose it is, and where the segment is |
//! | `handout` | how a peer gets a segment whose owner's descriptors it may not open |
//! | `sealed` | what peers check before they copy to or from the process directly; the owner alone writes it |
//! | [`memory`], [`alloc`] | checked access to a mapped segment; which parts of the own one are in use |
//! | [`lock`] | locks that survive their owner's death |
//! | [`objects`] | queue pairs, receive and completion queues in a segment, for [`crate::queues`] |
//! | `numbering` | how numbers are chosen by which others name queue pairs and keys |
//! | [`keys`] | memory keys: looked up without a lock, pinned while in use |
//! | `tasks` | threads of a process, as `/proc` lists them |
//! | [`threads`] | how a process is reached whose first thread has ended |
//! | [`image`] | whose memory payload is copied to or from |
//! | [`pages`] | whether memory that is to be registered is there |
//! | [`copy`], [`atomics`] | payload and atomic operations between the memories of two processes |
//! | [`bounce`] | payload and atomic operations where the kernel refuses those, by way of shared memory |
//! | `sync` | what locks and keys are made of, so that a model checker can run them |
//! | [`bell`] | waking a process that sleeps in `poll` |
//! | `room` | room for files, before it is used |
//! | `error` | what can go wrong |
//!
//! # What is believed
//! The kernel is believed: which process lives, how long a file is, who may enter the folder. Nothing that
//! stands in a segment is: offsets are checked against the mapping at every access, words are copied once and
//! then checked, and names of lock owners are looked up. Where the kernel copies to stands in memory that its
//! owner alone can write (`sealed`). Nothing is mapped that others could shorten (`memfd`). What remains: a
//! program that closes descriptors it does not own counts as dead (`liveness`).
//!
//! # What is not here yet
//! - An answer to a lock that was lost: a program that closes descriptors it does not own counts as dead, and
//!   its locks are taken over while it still works. [`lock::Lock::unlock`] returns that, and no caller looks at
//!   it yet; the device should stop then.
//! - Descriptors of a peer's bells, a few at a time, stay open in [`objects::Host`] after the peer took them
//!   down.
//! - Ends of processes without destructors (`_exit`, a signal), or while other threads run: the next process
//!   that claims a slot removes what they left. Whoever embeds this may [leave](segment::Segment::leave_if) at
//!   exit.
#![deny(clippy::undocumented_unsafe_blocks)]

pub(crate) mod addresses;
pub(crate) mod alloc;
mod announcement;
pub mod atomics;
pub mod bell;
pub mod bounce;
pub mod copy;
pub mod error;
pub(crate) mod fetch;
pub mod folder;
mod handout;
pub(crate) mod image;
pub mod keys;
mod liveness;
pub mod lock;
mod memfd;
pub mod memory;
pub mod named;
pub(crate) mod numbering;
pub mod objects;
pub(crate) mod pages;
pub mod pool;
pub(crate) mod room;
mod sealed;
pub mod segment;
pub mod slot;
pub(crate) mod sync;
mod tasks;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod threads;
pub mod watch;

pub use error::{Error, Result};
