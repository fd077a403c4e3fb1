//! What drivers in Linux' own style have in common. Their objects are a number in the kernel, reached by
//! commands that every such driver takes; a provider adds what its driver alone has: queues in shared memory,
//! and what the two tell each other.
//!
//! | file | what it does |
//! |---|---|
//! | [`device`] | which drivers a provider speaks to, and what a device says of itself |
//! | [`pd`] [`mr`] [`mw`] [`channel`] [`cq`] [`srq`] [`qp`] [`mcast`] | the objects, one file each |

pub mod channel;
pub mod cq;
pub mod device;
pub mod mcast;
pub mod mr;
pub mod mw;
pub mod pd;
pub mod qp;
pub mod srq;
