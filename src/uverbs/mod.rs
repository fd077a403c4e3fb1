//! What the kernel is asked: finding devices, opening their files, and giving commands.
//!
//! | file | what it does |
//! |---|---|
//! | [`discovery`] | which devices there are: RDMA netlink, then sysfs ([`netlink`] and [`sysfs`] read them) |
//! | [`device_file`] | an opened `/dev/infiniband/uverbsN` and what its kernel can do |
//! | [`command`] | the attribute builder of the uverbs ioctl, and the legacy commands |
//! | [`destroy`] | what the destruction of every kind of object has in common |
//! | [`device`] [`gid`] [`pd`] [`mr`] [`mw`] [`dm`] [`channel`] | the commands, one file per object |
//! | [`cq`] [`srq`] [`qp`] [`wq`] [`rwq_ind_table`] [`post`] | more of them |
//! | [`ah`] [`mcast`] [`xrcd`] [`flow`] [`flow_action`] [`counters`] [`event`] | more of them |
//! | [`comp_cntr`] [`dmah`] | the rest of them |
//! | [`neigh`] | link-layer address of a RoCE peer: route and neighbour tables |
//! | `memcheck` | telling valgrind what the kernel has written |
//! | `played` | a kernel for tests |
//!
//! Every function returns the error number that rdma-core 44 returns for the same failure. A failed system call
//! leaves its number in `errno` as well; a function that reports an error found without a system call leaves
//! `errno` alone, or sets it, as rdma-core does, and says so.

use core::sync::atomic::{AtomicBool, Ordering};

pub mod ah;
pub mod channel;
pub mod command;
pub mod comp_cntr;
pub mod counters;
pub mod cq;
pub mod destroy;
pub mod device;
pub mod device_file;
pub mod discovery;
pub mod dm;
pub mod dmah;
pub mod event;
pub mod flow;
pub mod flow_action;
pub mod gid;
pub mod mcast;
mod memcheck;
pub mod mr;
pub mod mw;
pub mod neigh;
pub mod netlink;
pub mod pd;
#[cfg(test)]
pub mod played;
pub mod post;
pub mod qp;
pub mod rwq_ind_table;
pub mod srq;
pub mod sysfs;
pub mod wq;
pub mod xrcd;

/// What a driver in the kernel and its provider tell each other inside a command, beside the core's own
/// structures.
#[derive(Default)]
pub struct Udata<'a> {
    /// From the provider to the driver.
    pub input: &'a [u8],
    /// From the driver to the provider.
    pub output: &'a mut [u8],
}

impl<'a> Udata<'a> {
    /// Nothing to tell.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Only an answer is expected.
    #[must_use]
    pub fn answer(output: &'a mut [u8]) -> Self {
        Self { input: &[], output }
    }
}

/// A plugin reads it by this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static verbs_allow_disassociate_destroy: AtomicBool = AtomicBool::new(false);

/// Whether destroying an object of a device that has gone away counts as success
/// (`RDMAV_ALLOW_DISASSOC_DESTROY`).
pub fn set_allow_disassociate_destroy(allow: bool) {
    verbs_allow_disassociate_destroy.store(allow, Ordering::Relaxed);
}

/// The last value given to [`set_allow_disassociate_destroy`]; false at first.
#[must_use]
pub fn allow_disassociate_destroy() -> bool {
    verbs_allow_disassociate_destroy.load(Ordering::Relaxed)
}
