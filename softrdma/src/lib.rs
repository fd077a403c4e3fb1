//! RDMA in software, between the processes of one host.
//!
//! | room | what lives there |
//! |---|---|
//! | [`core`] | the protocol: states, requester, responder, queues and their journalled transactions; no clock, no I/O |
//! | [`host`] | the transport: segments in shared memory, locks that survive their owner, payload copies, bells |

pub mod core;
pub mod host;
