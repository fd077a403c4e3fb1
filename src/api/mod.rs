//! The C entry points, one file per verbs object. [`entry`] holds the conventions by which they report failure;
//! the tables in [`table`] lead the inline functions of `verbs.h` to the same places.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod ah;
pub mod buf;
pub mod channel;
pub mod comp_cntr;
mod compat_1_0;
pub mod counters;
pub mod cq;
pub mod device;
pub mod dm;
pub mod dmah;
pub mod entry;
pub mod event;
pub mod flow;
pub mod fork;
pub mod gid;
pub mod import;
pub mod marshall;
pub mod mcast;
pub mod mr;
pub mod mw;
mod old_slots;
pub mod pd;
pub mod port;
pub mod qp;
pub mod rate;
mod signatures;
pub mod srq;
pub mod strings;
pub mod sysfs;
mod table;
pub mod td;
pub mod wq;
pub mod xrcd;
