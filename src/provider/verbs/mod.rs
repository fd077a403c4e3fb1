//! The control operations of a device: a trait for each object, in the file that has the object's name.
//!
//! The default of what every device has is the way that drivers in Linux' own style have in common
//! ([`kernel`](super::kernel)); of anything else it is rdma-core's answer for a device that lacks the feature.
//!
//! Every handle that a method gets belongs to its context. An error is the number that the C verb returns or
//! leaves in `errno`; a failed system call has left it in `errno` already, and methods that must leave one
//! there without a system call say so with [`Errno::also_set`](crate::errno::Errno::also_set). On an error
//! nothing has changed.

mod ah;
mod buf;
mod channel;
mod comp_cntr;
mod counters;
mod cq;
mod device;
mod dm;
mod dmah;
mod event;
mod flow;
mod gid;
mod mcast;
mod mr;
mod mw;
mod pd;
mod port;
mod qp;
mod srq;
mod td;
mod wq;
mod xrcd;

pub use ah::Ahs;
pub use buf::Bufs;
pub use channel::Channels;
pub use comp_cntr::CompCntrs;
pub use counters::Counters;
pub use cq::Cqs;
pub use device::Devices;
pub use dm::Dms;
pub use dmah::Dmahs;
pub use event::{AsyncEvent, EventSource, Events};
pub use flow::Flows;
pub use gid::Gids;
pub use mcast::Mcasts;
pub use mr::Mrs;
pub use mw::Mws;
pub use pd::Pds;
pub use port::Ports;
pub use qp::Qps;
pub use srq::Srqs;
pub use td::Tds;
pub use wq::Wqs;
pub use xrcd::Xrcds;
