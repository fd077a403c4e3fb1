//! soft-iWARP (`siw`): reliable connections over TCP. Its queues are slots with a flag in each, in memory that
//! the driver shares with the process.
//!
//! | file | what it does |
//! |---|---|
//! | [`slots`] | a queue: slots, and the memory that they lie in |
//! | [`send`] [`recv`] | posting lists of requests |
//! | [`cq`] [`qp`] [`srq`] [`mr`] | the objects, one file each |
//! | [`event`] | what the trace says of asynchronous errors |

pub mod cq;
pub mod event;
#[cfg(all(test, not(miri)))]
mod memory;
pub mod mr;
pub mod qp;
pub mod recv;
pub mod send;
pub mod slots;
pub mod srq;

use core::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use super::data_path::{DataPath, no_srq_ops};
use super::verbs::*;
use super::{CommandFile, Context, Opened, Provider, kernel};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_SIW;
use crate::abi::uapi::siw_user::*;
use crate::errno::Result;
use crate::uverbs::Udata;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::discovery::DeviceInfo;

const ABI_VERSIONS: RangeInclusive<u32> = SIW_ABI_VERSION..=SIW_ABI_VERSION;

/// The provider of soft-iWARP devices.
pub struct Siw;

impl Provider for Siw {
    fn name(&self) -> &'static str {
        "siw"
    }

    fn takes(&self, device: &DeviceInfo) -> bool {
        device.driver_id == Some(RDMA_DRIVER_SIW) && kernel::device::speaks("siw", &ABI_VERSIONS, device)
    }

    fn open(&self, device: &DeviceInfo) -> Result<Opened> {
        open(DeviceFile::open(device)?)
    }

    fn import(&self, _device: &DeviceInfo, file: OwnedFd) -> Result<Opened> {
        let file = DeviceFile::from_fd(file);
        file.set_driver_id(RDMA_DRIVER_SIW);
        let got = kernel::device::join(&file, open)?;
        Ok(Opened::new(SiwContext { file }, &got))
    }
}

/// Opens the device whose command file this is; it goes into the context, or is closed on an error.
fn open(file: DeviceFile) -> Result<Opened> {
    file.set_driver_id(RDMA_DRIVER_SIW);
    // The driver insists on room for its number of the device.
    let mut answer = siw_uresp_alloc_ctx::default();
    let got = file.get_context(None, Udata::answer(answer.as_bytes_mut()))?;
    Ok(Opened::new(SiwContext { file }, &got))
}

/// An opened soft-iWARP device.
pub struct SiwContext {
    file: DeviceFile,
}

impl CommandFile for SiwContext {
    fn file(&self) -> Option<&DeviceFile> {
        Some(&self.file)
    }
}

impl Context for SiwContext {
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
impl Ahs for SiwContext {}
impl Bufs for SiwContext {}
impl Channels for SiwContext {}
impl CompCntrs for SiwContext {}
impl Counters for SiwContext {}
impl Devices for SiwContext {}
impl Dms for SiwContext {}
impl Dmahs for SiwContext {}
impl Flows for SiwContext {}
impl Gids for SiwContext {}
impl Mcasts for SiwContext {}
impl Mws for SiwContext {}
impl Pds for SiwContext {}
impl Ports for SiwContext {}
impl Tds for SiwContext {}
impl Wqs for SiwContext {}
impl Xrcds for SiwContext {}
