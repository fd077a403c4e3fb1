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
//! | [`qp`] [`srq`] [`mr`] [`ah`] | the other objects, one file each |

pub mod ah;
pub mod copy;
pub mod cq;
pub mod cq_ex;
pub mod explain;
pub mod mapping;
pub mod mr;
pub mod qp;
pub mod recv;
pub mod ring;
pub mod send;
pub mod srq;
pub mod wqe;
pub mod wr;

use core::ffi::{c_int, c_uint};
use core::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use super::object::Handle;
use super::{Context, DataPath, Opened, Provider, domain, kernel, no_srq_ops};
use crate::abi::driver::verbs_mr;
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;
use crate::abi::verbs::*;
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
        Ok(Opened::new(RxeContext { file }, &got))
    }
}

/// Opens the device whose command file this is; it goes into the context, or is closed on an error.
fn open(file: DeviceFile) -> Result<Opened> {
    file.set_driver_id(RDMA_DRIVER_RXE);
    let got = file.get_context(None, Udata::none())?;
    Ok(Opened::new(RxeContext { file }, &got))
}

/// An opened soft-RoCE device.
pub struct RxeContext {
    file: DeviceFile,
}

impl Context for RxeContext {
    fn file(&self) -> Option<&DeviceFile> {
        Some(&self.file)
    }

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

    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        domain::alloc_td(attr)
    }

    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        domain::dealloc_td(td)
    }

    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        domain::alloc_parent(attr)
    }

    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        mr::register(&self.file, pd, addr, length, iova, access)
    }

    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        kernel::mw::alloc(&self.file, pd, mw_type)
    }

    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        kernel::mw::dealloc(&self.file, mw)
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, bind: &ibv_mw_bind) -> Result<()> {
        // SAFETY: the provider's own.
        unsafe { kernel::mw::bind(send::post_send, qp, mw, bind) }
    }

    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        cq::create(&self.file, cqe, channel, comp_vector)
    }

    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        cq::create_ex(&self.file, attr)
    }

    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        cq::resize(&self.file, cq, cqe)
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Cq.
        unsafe { kernel::cq::destroy::<cq::Cq>(&self.file, cq) }
    }

    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        srq::create(&self.file, pd, attr)
    }

    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        srq::create_ex(&self.file, attr)
    }

    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        srq::modify(&self.file, srq, attr, attr_mask)
    }

    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        kernel::srq::query(&self.file, srq, attr)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        unsafe { kernel::srq::destroy::<srq::Srq>(&self.file, srq) }
    }

    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        qp::create(&self.file, pd, attr)
    }

    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        qp::create_ex(&self.file, attr)
    }

    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        qp::extended(qp)
    }

    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        qp::modify(&self.file, qp, attr, attr_mask)
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        // SAFETY: queue pairs of this provider are published as Qp.
        unsafe { kernel::qp::destroy::<qp::Qp>(&self.file, qp) }
    }

    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        ah::create(&self.file, pd, attr)
    }

    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        ah::destroy(&self.file, ah)
    }

    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        kernel::mcast::attach(&self.file, qp, gid, lid)
    }

    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        kernel::mcast::detach(&self.file, qp, gid, lid)
    }
}

// Miri has no memory files that can be mapped.
#[cfg(all(test, not(miri)))]
mod tests;
