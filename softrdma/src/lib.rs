//! RDMA in software, between the processes of one host.
//!
//! | module | what it has |
//! |---|---|
//! | [`rules`] | what RDMA says: states, requester, responder, keys; no clock, no I/O |
//! | [`wire`] | RoCE v2 as it is between hosts: packets and their fields; no clock, no I/O |
//! | [`queues`] | words that processes share, and the transactions that change them |
//! | [`shm`] | shared memory, locks that survive their owner, payload copies, bells |
//! | `carrier` | what brings a request to its target; `carrier/near/`: another process of the folder |
//! | [`device`] | a device and the objects of the verbs on it |
//! | [`capture`] | packets in a file, for who looks at what moved |
//! | [`faults`] | faults on request |
//! | [`inventory`] | what the processes of a folder have, for who looks from outside |
//!
//! # How a message travels
//!
//! The initiator executes. A process that works its send queue takes the lock of the target queue pair in the
//! target's segment, runs the target's rules there ([`queues::respond`]), moves the payload, and gives the
//! lock back (`carrier/near/execute.rs`). Nothing runs in the target. Death at any
//! instruction leaves a lock with a dead owner and a journal; whoever takes the lock over repairs first
//! ([`queues::repair`]), and what was under way has then happened or not. A process that is stopped within is
//! fenced off from the queues that others use, too (`queues/fence.rs`).
//!
//! A small send of a connection takes no shared lock: the initiator writes it to a ring in the target's
//! segment, which the target's owner looks at when it polls ([`queues::direct`]). One that its target may sleep
//! for, and the first of a connection, goes as all others do.
//!
//! The payload of other small sends travels in the completion entry, and the target's owner moves it to its
//! buffer when it takes the completion: no system call on either side. Everything else the kernel copies
//! between the two processes ([`shm::copy`]), and where it refuses, both sides do through shared memory
//! ([`shm::bounce`]).
//!
//! # Where an 8 byte send goes
//!
//! From `post_send` of whoever shows the device (`src/provider/soft/send.rs`) on:
//!
//! 1. A send of one piece of memory, while nothing waits and a message went by the ring before, is posted by
//!    `QueuePair::post_word` in `device/plain.rs` where it has eight bytes and is alone, or else by
//!    `Sending::post_plain` there. Any other request is accepted first, or refused with the rule that it
//!    breaks: `Sending::accept` in `device/send.rs`, [`rules::request`].
//! 2. The queue pair starts it: `Carrier::send_word`, `Carrier::send_plain` or, any other, `Carrier::start` in
//!    `carrier/mod.rs`.
//! 3. Any other: the way is chosen (ring, burst, or executed by itself) by `Near::start` in
//!    `carrier/near/mod.rs`.
//! 4. Whether the target is ready, alive and awake, and its ring has room: `send_word` and `send_prepared` in
//!    `carrier/near/direct/prepared_send.rs` ask whether all is as it was (`prepared.rs` there); `send` looks
//!    anew.
//! 5. What the bytes are: `gather.rs` in `carrier/near/bytes/`, by the key that is remembered in
//!    `carrier/near/key_cache.rs`.
//! 6. The words of a slot are stored, last the one that says that the message is there: `Sender::send_word` in
//!    `queues/direct/sender.rs`, by `DirectRing::publish_slot` in `shm/objects/direct.rs`.
//! 7. What follows, a completion, another try or an error: [`rules::requester`], `follow_outcome` in
//!    `device/send.rs`. The own completion: `carrier/near/completion_order.rs`, [`queues::deliver`].
//! 8. The target polls, and its bytes go to the buffer of its receive request: `device/completion.rs`,
//!    `carrier/near/direct/reader.rs`.
//!
//! # When no answer comes
//!
//! A target that is gone, or does not receive, gives
//! [`Outcome::NoAnswer`](rules::requester::Outcome::NoAnswer); one without a receive request
//! `ReceiverNotReady`. [`rules::requester`] says what follows: how long it is waited for, how often it is tried
//! again, with which error it ends. The request waits in the ring of `device/send.rs` meanwhile;
//! `device/retry.rs` comes back to it, from polls and from a thread.
//!
//! # What is not there yet
//!
//! - Between hosts: datagrams, multicast, XRC, marks of congestion, and another path in SQD.
//! - An XRC target and the shared receive queue that a request names must belong to the same process.
//! - Alternate paths: they are refused, as by every RoCE device.
//! - Persistent flush, tag matching, TSO, raw packets and Ethernet queue pairs.
//! - A request of a shared receive queue that a message had taken whose sender died within stays with its queue
//!   pair until the next message there, its error or its reset, as on hardware; it is not put back by itself.
//! - A sender that dies in the moment in which its message is in a direct ring, while the receiver asks for an
//!   event and finds nothing in that same moment, wakes nobody: whoever polls next finds the message. Nobody
//!   was told that it was sent.
//! - A process that is stopped (`SIGSTOP`) while it has the lock of another's completion queue or shared
//!   receive queue keeps nobody else from it: the queue is moved away (`queues/fence.rs`). What it holds for
//!   longer, until it goes on or dies: its own queue pair, whose reset or change waits and fails; a datagram
//!   queue pair, whose other senders' datagrams are lost (moved, the buffer that the stopped sender may write
//!   to later would have to be kept out of use); an atomic operation, for which others at the same place of a
//!   page wait; what is destroyed, which keeps its memory and its number. One that is stopped while it repairs
//!   after a process that died keeps the queue, too.
//! - A lock word that names the process itself is believed, whoever wrote it: the call that waits for it fails
//!   after ten seconds, and later ones soon. So is one that names the peer of the queue pair, while that is
//!   stopped, has another PID namespace, or seems to use memory here. What is destroyed with such a lock keeps
//!   its memory and its number.
//! - A queue is moved by its owner: when that waits for the queue itself, or polls. While it does neither,
//!   senders wait.
//! - Memory that a program unmaps while it is registered: few bytes are read and written there in place, and
//!   that is a fault of the program, where a real device has the pages pinned. Regions with pages on demand
//!   have holes by design, and there the kernel copies.
//! - The simulator (`softrdma/simulator`) runs requests between processes of one user with one address. It
//!   binds windows of type 2, for sends that invalidate them; it invalidates nothing locally, binds no windows
//!   of type 1, flushes no memory, sends to no groups, and registers all memory once. Other tests cover those.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod capture;
mod carrier;
pub mod device;
mod error;
pub mod faults;
pub mod inventory;
pub mod queues;
pub mod rules;
pub mod shm;
pub mod wire;

/// What the crate's own tests take from inside, and no part of its interface.
#[doc(hidden)]
pub mod testing {
    pub use crate::carrier::far::port;
    pub use crate::carrier::initiator::Initiator;
    pub use crate::carrier::near::Near;
    pub use crate::carrier::near::attributes::{QpAttributes, SrqAttributes};
    pub use crate::carrier::near::bytes::place;
    pub use crate::carrier::near::completion_order::{CompletionOrder, complete};
    pub use crate::carrier::near::endpoint::Endpoint;
    pub use crate::carrier::near::number::number;
    pub use crate::carrier::outgoing::Outgoing;
}
