//! The software device: RDMA between the processes of one host, without a kernel device. The engine is the
//! crate [`softrdma`]; this room shows it as a verbs device.
//!
//! | file | what it does |
//! |---|---|
//! | [`identity`] [`port`] [`link`] | which devices there are; their port; its link layer |
//! | [`gid`] | the port's table of addresses |
//! | [`device`] [`command_file`] | the process's engine, what the device says of itself; a context's file |
//! | [`convert`] | the engine's words and errors into those of verbs |
//! | [`channel`] [`event`] | completion channels and asynchronous events |
//! | [`cq`] [`cq_ex`] | completion queues, polled by arrays or one by one |
//! | [`comp_cntr`] | completion counters |
//! | [`qp`] [`qp_attr`] | queue pairs, and their attributes |
//! | [`send`] [`inline_data`] [`wr`] | posting send requests: lists, their inline data, and by calls |
//! | [`srq`] [`xrcd`] | shared receive queues; XRC domains |
//! | [`pd`] [`td`] | protection domains and thread domains |
//! | [`mr`] [`dm`] [`mw`] | memory regions, memory of the device, memory windows |
//! | [`ah`] [`grh`] | address handles, and the header that a datagram arrives with |
//! | [`mcast`] | multicast groups |
//! | [`threads`] | what other threads do when the process ends |
//!
//! The data path copies nothing but payload: scatter/gather lists go to the engine as the program wrote them,
//! completions from the engine into the program's array.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod ah;
pub mod channel;
pub mod command_file;
pub mod comp_cntr;
pub mod convert;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod dm;
pub mod event;
pub mod gid;
pub mod grh;
pub mod identity;
pub mod inline_data;
pub mod link;
pub mod mcast;
pub mod mr;
pub mod mw;
pub mod network;
pub mod pd;
pub mod port;
pub mod qp;
pub mod qp_attr;
pub mod send;
pub mod srq;
pub mod td;
pub mod threads;
pub mod wr;
pub mod xrcd;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use ironverbs_os::growth::small_box;
use ironverbs_os::{gids, guid};
use softrdma::device::EventQueue;
use softrdma::shm::named::Named;

use super::data_path::{DataPath, no_srq_ops};
use super::verbs::*;
use super::{CommandFile, Context, Opened, Provider};
use crate::errno::Result;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::discovery::DeviceInfo;
use device::Engine;

/// Completion vectors: one, since nothing interrupts.
const COMPLETION_VECTORS: u32 = 1;
/// `IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS`: optional rights of regions are accepted.
const CORE_SUPPORT: u64 = 1 << 0;

/// The provider of software devices.
pub struct Soft;

impl Provider for Soft {
    fn name(&self) -> &'static str {
        "soft"
    }

    fn takes(&self, device: &DeviceInfo) -> bool {
        device.software
    }

    fn open(&self, device: &DeviceInfo) -> Result<Opened> {
        open(device, command_file::create(&device.sysfs_name)?)
    }

    /// Contexts of one process share everything but their events.
    fn import(&self, device: &DeviceInfo, file: OwnedFd) -> Result<Opened> {
        open(device, file)
    }

    fn device_of(&self, cmd_fd: RawFd) -> Option<String> {
        command_file::device_of(cmd_fd)
    }
}

fn open(device: &DeviceInfo, cmd_fd: OwnedFd) -> Result<Opened> {
    let engine = device::engine()?;
    let named = identity::of_name(&device.ibdev_name);
    link::LinkLayer::choose();
    let all_events = event::AllEvents::new(&engine, &named)?;
    let events = all_events.queue.clone();
    let guid = device.node_guid().unwrap_or_default();
    Ok(Opened {
        context: small_box(SoftContext { events, all_events, named, guid, cmd_fd, engine }),
        num_comp_vectors: COMPLETION_VECTORS,
        core_support: CORE_SUPPORT,
    })
}

/// An opened software device.
pub struct SoftContext {
    /// Of its objects.
    events: Arc<EventQueue>,
    all_events: event::AllEvents,
    /// Which interfaces it has.
    named: Named,
    /// Of the node, in host byte order.
    guid: u64,
    cmd_fd: OwnedFd,
    /// After what uses it, so that nothing is left when it ends.
    engine: Arc<Engine>,
}

impl CommandFile for SoftContext {
    fn file(&self) -> Option<&DeviceFile> {
        None
    }

    fn cmd_fd(&self) -> RawFd {
        self.cmd_fd.as_raw_fd()
    }
}

impl Context for SoftContext {
    fn data_path(&self) -> DataPath {
        DataPath {
            poll_cq: cq::poll_cq,
            req_notify_cq: cq::req_notify_cq,
            post_send: send::post_send,
            post_recv: qp::post_recv,
            post_srq_recv: srq::post_srq_recv,
            post_srq_ops: no_srq_ops,
        }
    }
}

// What this kind of device does as every other does, or not at all.
impl Bufs for SoftContext {}
impl Counters for SoftContext {}
impl Dmahs for SoftContext {}
impl Flows for SoftContext {}
impl Wqs for SoftContext {}

#[cfg(test)]
mod tests;
