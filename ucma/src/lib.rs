//! The device file of the RDMA connection manager, `/dev/infiniband/rdma_cm`, within the process that opens it:
//! librdmacm writes commands to it, and finds the software device without a kernel module.
//!
//! | file | subject |
//! |---|---|
//! | [`entry`] | what the preloaded shim calls |
//! | [`shim`] | what the shim offers; descriptors that the program shall not close |
//! | [`device`] | the device of a process: commands in, events out |
//! | [`abi`] | the bytes of commands and answers |
//! | [`memory`], [`stack`] | the program's memory, which may be anything |
//! | [`channel`] | a channel's descriptor |
//! | [`kernel`], [`sides`] | the kernel's own file, and which ids are there |
//! | [`net`] | the world that the connection manager (`ironverbs-cm`) asks |
//! | [`registry`] | ports and listeners of all processes of the folder |
//! | [`sockets`] | connections between processes |
//! | [`network`], [`mail`] | connections to other hosts |
//! | [`route`], [`soft`] | ways to addresses; the software device's GIDs |
//! | [`observe`] | what `ironverbs trace` shows of commands |
//! | [`sys`] | system calls |
//!
//! There is no daemon, and no thread but for other hosts. What a peer sends waits in a socket, which makes the
//! channel readable, until the program asks for an event.

// Nothing calls it: it is linked.
use glibc_floor as _;

mod abi;
mod channel;
mod device;
mod entry;
mod kernel;
mod mail;
mod memory;
mod net;
mod network;
mod observe;
mod registry;
mod route;
mod shim;
mod sides;
mod sockets;
mod soft;
mod stack;
mod sys;
