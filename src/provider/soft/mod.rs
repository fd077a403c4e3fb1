//! The software device: RDMA between the processes of one host, without a kernel device. The engine is the
//! crate [`softrdma`]; this room shows it as a verbs device.
//!
//! | file | what it does |
//! |---|---|
//! | [`identity`] [`gids`] [`port`] | which devices there are; their addresses; their port |
//! | [`device`] [`command_file`] | the process's engine, what the device says of itself; a context's file |
//! | [`convert`] | the engine's words and errors into those of verbs |
//! | [`channel`] [`event`] | completion channels and asynchronous events |
//! | [`cq`] [`cq_ex`] | completion queues, polled by arrays or one by one |
//! | [`qp`] [`qp_attr`] | queue pairs, and their attributes |
//! | [`send`] [`wr`] | posting send requests: lists, and by calls |
//! | [`srq`] [`xrcd`] | shared receive queues; XRC domains and queue pairs opened by others |
//! | [`mr`] [`dm`] [`mw`] | memory regions, memory of the device, memory windows |
//! | [`ah`] [`grh`] | address handles, and the header that a datagram arrives with |
//!
//! The data path copies nothing but payload: scatter/gather lists go to the engine as the program wrote them,
//! completions from the engine into the program's array.

pub mod ah;
pub mod channel;
pub mod command_file;
pub mod convert;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod dm;
pub mod event;
pub mod grh;
pub mod identity;
pub mod mr;
pub mod mw;
pub mod port;
pub mod qp;
pub mod qp_attr;
pub mod send;
pub mod srq;
pub mod wr;
pub mod xrcd;

use core::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use softrdma::device::EventQueue;
use softrdma::host::{gids, guid};

use super::data_path::{DataPath, no_srq_ops};
use super::object::Handle;
use super::verbs::*;
use super::{CommandFile, Context, Opened, Provider, domain, kernel};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::gid::Want;
use convert::refused;
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
    let all_events = event::Events::new(&engine)?;
    let events = all_events.queue.clone();
    let guid = device.node_guid().unwrap_or_default();
    Ok(Opened {
        context: Box::new(SoftContext { events, all_events, guid, cmd_fd, engine }),
        num_comp_vectors: COMPLETION_VECTORS,
        core_support: CORE_SUPPORT,
    })
}

/// An opened software device.
pub struct SoftContext {
    /// Of its objects.
    events: Arc<EventQueue>,
    all_events: event::Events,
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

impl Ahs for SoftContext {
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        ah::create(&self.engine, pd, attr)
    }

    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        ah::destroy(&self.engine, ah);
        Ok(())
    }
}

impl Channels for SoftContext {
    fn create_comp_channel(&self) -> Result<Handle<ibv_comp_channel>> {
        channel::create(&self.engine)
    }

    fn destroy_comp_channel(&self, channel: Handle<ibv_comp_channel>) -> Result<()> {
        channel::destroy(channel);
        Ok(())
    }

    fn cq_event_source(&self, channel: Handle<ibv_comp_channel>) -> EventSource {
        channel::event_source(channel)
    }

    fn next_cq_event(
        &self,
        channel: Handle<ibv_comp_channel>,
        _record: &[u8],
    ) -> Result<Option<Handle<ibv_cq>>> {
        channel::next_event(channel)
    }
}

impl Cqs for SoftContext {
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        cq::create(&self.engine, &self.events, cqe, channel, comp_vector)
    }

    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        cq::create_ex(&self.engine, &self.events, attr)
    }

    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        cq::resize(cq, cqe)
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        cq::destroy(cq)
    }
}

impl Devices for SoftContext {
    fn query_device(
        &self,
        _input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        _attr_size: usize,
    ) -> Result<()> {
        device::query(&self.engine, self.guid, attr);
        Ok(())
    }

    fn query_rt_values(&self, values: &mut ibv_values_ex) -> Result<()> {
        device::query_rt_values(values)
    }
}

impl Dms for SoftContext {
    fn alloc_dm(&self, attr: &mut ibv_alloc_dm_attr) -> Result<Handle<ibv_dm>> {
        dm::alloc(&self.engine, attr)
    }

    fn free_dm(&self, dm: Handle<ibv_dm>) -> Result<()> {
        dm::free(dm)
    }

    fn reg_dm_mr(
        &self,
        pd: Handle<ibv_pd>,
        dm: Handle<ibv_dm>,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> Result<Handle<verbs_mr>> {
        dm::register(&self.engine, pd, dm, dm_offset, length, access)
    }

    fn import_dm(&self, context: Handle<ibv_context>, dm_handle: u32) -> Result<Handle<ibv_dm>> {
        dm::import(context, dm_handle)
    }

    fn unimport_dm(&self, dm: Handle<ibv_dm>) {
        dm::unimport(dm)
    }
}

impl Events for SoftContext {
    fn open_async_events(&self) -> Result<OwnedFd> {
        self.all_events.open()
    }

    fn async_event_source(&self, async_fd: RawFd) -> EventSource {
        EventSource { fd: async_fd, record: 0 }
    }

    fn next_async_event(&self, _record: &[u8], at_once: bool) -> Result<Option<AsyncEvent>> {
        Ok(self.all_events.next(&self.engine, at_once))
    }
}

impl Gids for SoftContext {
    fn query_gid_entry(
        &self,
        _device: &DeviceInfo,
        port_num: u32,
        gid_index: u32,
        entry: &mut [u8],
        flags: u32,
        _want: Want,
    ) -> Result<()> {
        device::query_gid_entry(&self.engine, port_num, gid_index, entry, flags)
    }

    fn query_gid_table(
        &self,
        _device: &DeviceInfo,
        entries: &mut [u8],
        entry_size: usize,
        flags: u32,
    ) -> Result<u64> {
        device::query_gid_table(&self.engine, entries, entry_size, flags)
    }
}

impl Mcasts for SoftContext {
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        qp::attach_multicast(&self.engine, qp, gid, lid)
    }

    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        qp::detach_multicast(&self.engine, qp, gid, lid)
    }
}

impl Mrs for SoftContext {
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        mr::register(&self.engine, pd, addr, length, iova, access)
    }

    fn rereg_mr(
        &self,
        mr: Handle<verbs_mr>,
        flags: c_int,
        pd: Option<Handle<ibv_pd>>,
        addr: usize,
        length: usize,
        access: c_int,
    ) -> Result<()> {
        mr::reregister(&self.engine, mr, flags, pd, addr, length, access)
    }

    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        mr::deregister(&self.engine, mr)
    }

    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        mr::advise(&self.engine, pd, advice, flags, ranges)
    }

    fn import_mr(&self, pd: Handle<ibv_pd>, mr_handle: u32) -> Result<Handle<ibv_mr>> {
        mr::import(&self.engine, pd, mr_handle)
    }

    fn unimport_mr(&self, mr: Handle<ibv_mr>) {
        mr::unimport(mr)
    }
}

impl Mws for SoftContext {
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        mw::alloc(&self.engine, pd, mw_type)
    }

    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        mw::dealloc(&self.engine, mw)
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, bind: &ibv_mw_bind) -> Result<()> {
        // SAFETY: the provider's own.
        unsafe { kernel::mw::bind(send::post_send, qp, mw, bind) }
    }
}

impl Pds for SoftContext {
    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        self.engine.alloc_pd().map(domain::publish).map_err(refused)
    }

    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        domain::dealloc(pd, |number| self.engine.free_pd(number).map_err(refused))
    }

    fn import_pd(&self, context: Handle<ibv_context>, pd_handle: u32) -> Result<Handle<ibv_pd>> {
        // Whether it is there.
        self.engine.hold_pd(pd_handle).map_err(|_| Errno::ENOENT.also_set())?;
        self.engine.release_pd(pd_handle);
        Ok(domain::publish_imported(context, pd_handle))
    }

    fn unimport_pd(&self, pd: Handle<ibv_pd>) {
        domain::unimport(pd)
    }
}

impl Ports for SoftContext {
    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        port::query(port_num, attr).map_err(Errno::also_set)
    }

    fn query_port_speed(&self, port_num: u32, speed: &mut u64) -> Result<()> {
        *speed = port::speed(port_num).map_err(Errno::also_set)?;
        Ok(())
    }

    fn query_pkey(&self, _device: &DeviceInfo, port_num: u8, index: c_int) -> Result<__be16> {
        port::pkey(port_num, index)
    }
}

impl Qps for SoftContext {
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        qp::create(&self.engine, &self.events, pd, attr)
    }

    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        qp::create_ex(&self.engine, &self.events, attr)
    }

    fn open_qp(&self, attr: &mut ibv_qp_open_attr) -> Result<Handle<ibv_qp>> {
        qp::open(&self.events, attr)
    }

    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        qp::extended(qp)
    }

    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        qp::modify(&self.engine, qp, attr, attr_mask)
    }

    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        qp::query(qp, attr, attr_mask, init_attr)
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        qp::destroy(qp)
    }
}

impl Srqs for SoftContext {
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        srq::create(&self.engine, &self.events, pd, attr)
    }

    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        srq::create_ex(&self.engine, &self.events, attr)
    }

    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        srq::modify(srq, attr, attr_mask)
    }

    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        srq::query(srq, attr);
        Ok(())
    }

    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        srq::number(srq)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        srq::destroy(srq)
    }
}

impl Tds for SoftContext {
    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        domain::alloc_td(attr)
    }

    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        domain::dealloc_td(td)
    }

    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        domain::alloc_parent(attr)
    }
}

impl Xrcds for SoftContext {
    fn open_xrcd(&self, attr: &mut ibv_xrcd_init_attr) -> Result<Handle<ibv_xrcd>> {
        xrcd::open(&self.engine, attr)
    }

    fn close_xrcd(&self, xrcd: Handle<ibv_xrcd>) -> Result<()> {
        xrcd::close(xrcd)
    }
}

// What this kind of device does as every other does, or not at all.
impl Bufs for SoftContext {}
impl CompCntrs for SoftContext {}
impl Counters for SoftContext {}
impl Dmahs for SoftContext {}
impl Flows for SoftContext {}
impl Wqs for SoftContext {}

#[cfg(test)]
mod tests;
