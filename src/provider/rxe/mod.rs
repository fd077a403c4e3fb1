//! soft-RoCE (`rdma_rxe`): the driver whose queues are rings in memory that it shares with the process.
//!
//! | file | what it does |
//! |---|---|
//! | [`ring`] | the rings: indices, slots, both sides |
//! | [`copy`] | completions out of a ring, in wide registers |
//! | [`mapping`] | the memory that a ring lies in |
//! | [`wqe`] | a work request as an entry of a ring |
//! | [`send`] [`recv`] | posting lists of requests |
//! | [`wr`] | building send requests by calls |
//! | [`cq`] [`cq_ex`] | completion queues, polled by arrays or one by one |
//! | [`explain`] | why a call failed, for the trace |
//! | [`qp`] [`srq`] [`mr`] [`mw`] [`ah`] [`mcast`] [`td`] | the other objects, one file each |

pub mod ah;
pub mod copy;
pub mod cq;
pub mod cq_ex;
pub mod explain;
pub mod mapping;
pub mod mcast;
pub mod mr;
pub mod mw;
pub mod qp;
pub mod recv;
pub mod ring;
pub mod send;
pub mod srq;
pub mod td;
pub mod wqe;
pub mod wr;

use core::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use super::data_path::{DataPath, no_srq_ops};
use super::verbs::*;
use super::{CommandFile, Context, Opened, Provider, kernel};
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;
use crate::errno::Result;
use crate::uverbs::Udata;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::discovery::DeviceInfo;

/// Versions of the driver's interface that this provider speaks; on 64-bit machines they are the same.
const ABI_VERSIONS: RangeInclusive<u32> = 1..=2;

/// The provider of soft-RoCE devices.
pub struct Rxe;

impl Provider for Rxe {
    fn name(&self) -> &'static str {
        "rxe"
    }

    fn takes(&self, device: &DeviceInfo) -> bool {
        // A kernel that names no drivers leaves the name, which the administrator chose.
        let ours = match device.driver_id {
            Some(driver_id) => driver_id == RDMA_DRIVER_RXE,
            None => device.ibdev_name.starts_with("rxe"),
        };
        ours && kernel::device::speaks("rxe", &ABI_VERSIONS, device)
    }

    fn open(&self, device: &DeviceInfo) -> Result<Opened> {
        open(DeviceFile::open(device)?)
    }

    fn import(&self, _device: &DeviceInfo, file: OwnedFd) -> Result<Opened> {
        let file = DeviceFile::from_fd(file);
        file.set_driver_id(RDMA_DRIVER_RXE);
        let got = kernel::device::join(&file, open)?;
        Ok(Opened::new(RxeContext::new(file), &got))
    }
}

/// Opens the device whose command file this is; it goes into the context, or is closed on an error.
fn open(file: DeviceFile) -> Result<Opened> {
    file.set_driver_id(RDMA_DRIVER_RXE);
    let got = file.get_context(None, Udata::none())?;
    Ok(Opened::new(RxeContext::new(file), &got))
}

/// An opened soft-RoCE device.
pub struct RxeContext {
    file: DeviceFile,
    on_demand: mr::OnDemand,
}

impl RxeContext {
    fn new(file: DeviceFile) -> Self {
        RxeContext { file, on_demand: mr::OnDemand::new() }
    }
}

impl CommandFile for RxeContext {
    fn file(&self) -> Option<&DeviceFile> {
        Some(&self.file)
    }
}

impl Context for RxeContext {
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
impl Bufs for RxeContext {}
impl Channels for RxeContext {}
impl CompCntrs for RxeContext {}
impl Counters for RxeContext {}
impl Devices for RxeContext {}
impl Dms for RxeContext {}
impl Dmahs for RxeContext {}
impl Events for RxeContext {}
impl Flows for RxeContext {}
impl Gids for RxeContext {}
impl Pds for RxeContext {}
impl Ports for RxeContext {}
impl Wqs for RxeContext {}
impl Xrcds for RxeContext {}

// Miri has no memory files that can be mapped.
#[cfg(all(test, not(miri)))]
mod tests;
