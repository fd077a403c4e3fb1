//! soft-iWARP (`siw`): reliable connections over TCP. Its queues are slots with a flag in each, in memory that
//! the driver shares with the process.
//!
//! | file | what it does |
//! |---|---|
//! | [`slots`] | a queue: slots, and the memory that they lie in |
//! | [`send`] [`recv`] | posting lists of requests |
//! | [`cq`] [`qp`] [`srq`] | the objects, one file each |
//! | [`event`] | what the trace says of asynchronous errors |

pub mod cq;
pub mod event;
#[cfg(all(test, not(miri)))]
mod memory;
pub mod qp;
pub mod recv;
pub mod send;
pub mod slots;
pub mod srq;

use core::ffi::c_int;
use core::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use super::data_path::{DataPath, no_srq_ops};
use super::object::Handle;
use super::verbs::*;
use super::{CommandFile, Context, Opened, Provider, kernel};
use crate::abi::driver::verbs_mr;
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_SIW;
use crate::abi::uapi::siw_user::*;
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::log::{self, Level, trace};
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

impl Cqs for SiwContext {
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        cq::create(&self.file, cqe, channel, comp_vector)
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Cq.
        unsafe { kernel::cq::destroy::<cq::Cq>(&self.file, cq) }
    }
}

impl Events for SiwContext {
    fn async_event(&self, event: &mut ibv_async_event) {
        if log::enabled(Level::Error) {
            // SAFETY: just read from the kernel for this context, and not acknowledged yet.
            if let Some(failure) = unsafe { event::failure(event) } {
                trace!(Error, "siw: asynchronous event: {failure}");
            }
        }
    }
}

impl Mrs for SiwContext {
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        // A key of zero; the driver's answer is the region's key, which the core's answer has as well.
        let asked = siw_ureq_reg_mr::default();
        let mut answer = siw_uresp_reg_mr::default();
        let udata = Udata { input: asked.as_bytes(), output: answer.as_bytes_mut() };
        kernel::mr::register(&self.file, pd, addr, length, iova, access, udata)
    }
}

impl Qps for SiwContext {
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        qp::create(&self.file, pd, attr)
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        // SAFETY: queue pairs of this provider are published as Qp.
        unsafe { kernel::qp::destroy::<qp::Qp>(&self.file, qp) }
    }
}

impl Srqs for SiwContext {
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        srq::create(&self.file, pd, attr)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        unsafe { kernel::srq::destroy::<srq::Srq>(&self.file, srq) }
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
