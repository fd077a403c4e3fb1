//! soft-iWARP (`siw`): reliable connections over TCP. Its queues are slots with a flag in each, in memory that the driver
//! shares with the process.
//!
//! | file | what it does |
//! |---|---|
//! | [`slots`] | a queue: slots, and the memory that they lie in |
//! | [`send`] [`recv`] | posting lists of requests |
//! | [`cq`] [`qp`] [`srq`] | the objects, one file each |

pub mod cq;
#[cfg(all(test, not(miri)))]
mod memory;
pub mod qp;
pub mod recv;
pub mod send;
pub mod slots;
pub mod srq;

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ops::RangeInclusive;

use super::object::{Handle, Object};
use super::{Context, DataPath, Opened, Provider, kernel, no_srq_ops};
use crate::abi::driver::verbs_mr;
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_SIW;
use crate::abi::uapi::siw_user::*;
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::{self, Udata};

const ABI_VERSIONS: RangeInclusive<u32> = SIW_ABI_VERSION..=SIW_ABI_VERSION;

/// The provider of soft-iWARP devices.
pub struct Siw;

impl Provider for Siw {
    fn name(&self) -> &'static str {
        "siw"
    }

    fn takes(&self, device: &DeviceInfo) -> bool {
        device.driver_id == Some(RDMA_DRIVER_SIW) && kernel::speaks("siw", &ABI_VERSIONS, device)
    }

    fn open(&self, file: DeviceFile) -> Result<Opened> {
        file.set_driver_id(RDMA_DRIVER_SIW);
        // The driver insists on room for its number of the device.
        let mut answer = siw_uresp_alloc_ctx::default();
        let got = file.get_context(Udata::answer(answer.as_bytes_mut()))?;
        Ok(Opened {
            context: Box::new(SiwContext { file }),
            num_comp_vectors: got.num_comp_vectors,
            core_support: got.core_support,
        })
    }
}

/// An opened soft-iWARP device.
pub struct SiwContext {
    file: DeviceFile,
}

#[repr(C)]
struct Pd {
    public: UnsafeCell<ibv_pd>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Pd {
    type Public = ibv_pd;
}

impl Context for SiwContext {
    fn file(&self) -> &DeviceFile {
        &self.file
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

    fn query_device(
        &self,
        input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        attr_size: usize,
    ) -> Result<()> {
        // The devices have one port, which the attributes say themselves.
        let answer = uverbs::device::query(&self.file, input, attr, attr_size, 0, Udata::none())?;
        kernel::put_version(&mut attr.orig_attr.fw_ver, answer.fw_ver);
        Ok(())
    }

    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        uverbs::device::query_port(&self.file, port_num, attr)
    }

    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        let handle = uverbs::pd::alloc(&self.file, Udata::none())?;
        let public = UnsafeCell::new(ibv_pd { context: core::ptr::null_mut(), handle });
        Ok(Handle::publish(Box::new(Pd { public })))
    }

    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        // SAFETY: a live handle.
        uverbs::pd::dealloc(&self.file, unsafe { (*pd.as_ptr()).handle })?;
        // SAFETY: the program gives up the handle, which was published as a Pd.
        drop(unsafe { pd.reclaim::<Pd>() });
        Ok(())
    }

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
        kernel::register_mr(&self.file, pd, addr, length, iova, access, udata)
    }

    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        kernel::deregister_mr(&self.file, mr)
    }

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
        unsafe { kernel::destroy_cq::<cq::Cq>(&self.file, cq) }
    }

    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        srq::create(&self.file, pd, attr)
    }

    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        srq::modify(&self.file, srq, attr, attr_mask)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        unsafe { kernel::destroy_srq::<srq::Srq>(&self.file, srq) }
    }

    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        qp::create(&self.file, pd, attr)
    }

    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        qp::modify(&self.file, qp, attr, attr_mask)
    }

    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        kernel::query_qp(&self.file, qp, attr, attr_mask, init_attr)
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        // SAFETY: queue pairs of this provider are published as Qp.
        unsafe { kernel::destroy_qp::<qp::Qp>(&self.file, qp) }
    }
}
