//! RDMA in software, between the processes of one host.
//!
//! | room | what lives there |
//! |---|---|
//! | [`core`] | the protocol: states, requester, responder, queues and their journalled transactions; no clock, no I/O |
//! | [`host`] | the transport: segments in shared memory, locks that survive their owner, payload copies, bells |
//! | [`device`] | the engine: a device and the objects of the verbs on it |
//!
//! # How a message travels
//!
//! The initiator executes. A process that works its send queue ([`core::requester`]) takes the lock of the target queue
//! pair in the target's segment, runs the target's rules there ([`core::respond`]), moves the payload, and gives the
//! lock back. Nothing runs in the target. Death at any instruction leaves a lock with a dead owner and a journal; whoever
//! takes the lock over repairs first ([`core::repair`]), and what was under way has then happened or not.
//!
//! # What is not there yet
//!
//! - A send queue handles one request after the other and keeps requests on the heap, and a receive request is decoded
//!   into a vector; a provider that wants millions of messages a second gives both a ring.
//! - Multicast: the sender is to run [`core::respond`] once for each member; who is a member is not known here.
//! - Completion queues are not resized; alternate paths are accepted as attributes and never migrated to.
//! - Persistent flush, tag matching, TSO, raw packets and Ethernet queue pairs.
//! - A request of a shared receive queue that a message had taken whose sender died within stays with its queue pair
//!   until the next message there, its error or its reset, as on hardware; it is not put back by itself.
//! - A process that is stopped (`SIGSTOP`) while it holds a lock holds up its peers until it goes on or dies.
//! - The simulator does not reset queue pairs, bind windows or invalidate; unit tests cover those rules.

pub mod core;
pub mod device;
pub mod host;
