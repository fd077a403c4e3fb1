//! What a kind of device must be able to do.
//!
//! A [`Provider`] recognises and opens devices ([`discovery`] asks each of them); the [`Context`] of an opened
//! device has one method per control operation. The default of what every device has is the way that drivers in
//! Linux' own style have in common ([`kernel`]); of anything else it is rdma-core's answer for a device that
//! lacks the feature. The data path does not go through here: a context gives its C functions once
//! ([`Context::data_path`]) and programs call them from then on.

pub mod buffer;
pub mod context;
pub mod cq_ex;
pub mod device;
pub mod discovery;
pub mod domain;
pub mod kernel;
pub mod mapping;
pub mod object;
pub mod plugin;
pub mod qp_ex;
pub mod rxe;
pub mod siw;
pub mod soft;
pub mod wait;

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::NonNull;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::uverbs;
use crate::uverbs::device_file::{DeviceFile, GotContext};
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::gid::Want;
use object::Handle;

/// A kind of RDMA device.
#[allow(unused_variables)]
pub trait Provider: Sync {
    /// The name that the trace shows, for example `rxe`.
    fn name(&self) -> &'static str;

    /// Whether this provider drives the device that discovery found.
    fn takes(&self, device: &DeviceInfo) -> bool;

    /// Opens the device that discovery found.
    fn open(&self, device: &DeviceInfo) -> Result<Opened>;

    /// Joins the context that somebody else, perhaps another process, made with this command file of the
    /// device; the file goes into the context, or is closed on an error.
    fn import(&self, device: &DeviceInfo, file: OwnedFd) -> Result<Opened>;

    /// The device (`DeviceInfo::sysfs_name`) whose command file this is, where that is no character device of
    /// the kernel.
    fn device_of(&self, cmd_fd: RawFd) -> Option<String> {
        None
    }
}

/// A device just opened: the context and what is known of the device.
pub struct Opened {
    /// The provider's side of the context.
    pub context: Box<dyn Context>,
    /// Completion vectors that a CQ may name, from 0.
    pub num_comp_vectors: u32,
    /// `IB_UVERBS_CORE_SUPPORT_*` bits.
    pub core_support: u64,
}

impl Opened {
    /// A device whose driver has just made its side of the context.
    pub fn new(context: impl Context + 'static, got: &GotContext) -> Self {
        Self {
            context: Box::new(context),
            num_comp_vectors: got.num_comp_vectors,
            core_support: got.core_support,
        }
    }

    /// What the kernel said about the device.
    pub fn got(&self) -> GotContext {
        GotContext { num_comp_vectors: self.num_comp_vectors, core_support: self.core_support }
    }
}

/// What `ibv_get_async_event` takes from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// `IBV_EVENT_*`.
    pub event_type: ibv_event_type_t,
    /// The address of the queue or queue pair that it is about, or the number of the port.
    pub element: u64,
}

/// Where the next event of a channel or a context is waited for: one record of `record` bytes is read from
/// `fd`, as its flags say. The reading is done above the provider, where the thread may be cancelled.
#[derive(Clone, Copy, Debug)]
pub struct EventSource {
    /// The descriptor that is readable while an event waits.
    pub fd: RawFd,
    /// Bytes of one record, at most [`EventSource::MOST`]; 0 where nothing is read, and the descriptor is only
    /// waited for.
    pub record: usize,
}

impl EventSource {
    /// The longest record: the kernel's of an asynchronous event.
    pub const MOST: usize = 16;
}

/// How a device was opened.
pub enum Opening {
    /// By a provider of the library, whose context still has to be made.
    Native(Opened),
    /// By a plugin, which made its context.
    Plugin(Handle<ibv_context>),
}

/// The C functions of the data path. They stand in the tables that the inline functions of `verbs.h` call
/// through, so nothing of ours lies between a program and a ring.
#[derive(Clone, Copy)]
pub struct DataPath {
    /// `ibv_poll_cq`: takes up to `num_entries` completions; their number, or negative.
    pub poll_cq: unsafe extern "C" fn(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int,
    /// `ibv_req_notify_cq`: arms the completion channel; 0 or an errno value.
    pub req_notify_cq: unsafe extern "C" fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int,
    /// `ibv_post_send`: 0 or an errno value with `*bad_wr` at the first request not posted.
    pub post_send: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
    /// `ibv_post_recv`: as `post_send`.
    pub post_recv: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    /// `ibv_post_srq_recv`: as `post_send`.
    pub post_srq_recv: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    /// `ibv_post_srq_ops` (tag matching): 0 or an errno value with `*bad_op` at the first operation not posted;
    /// [`no_srq_ops`] for a device without.
    pub post_srq_ops: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int,
}

/// `ibv_post_srq_ops` of a device that matches no tags: EOPNOTSUPP, with `*bad_op` as it was.
pub unsafe extern "C" fn no_srq_ops(
    _srq: *mut ibv_srq,
    _op: *mut ibv_ops_wr,
    _bad_op: *mut *mut ibv_ops_wr,
) -> c_int {
    Errno::EOPNOTSUPP.0
}

/// An opened device.
///
/// Every handle that a method gets belongs to this context. An error is the number that the C verb returns or
/// leaves in `errno`; a failed system call has left it in `errno` already, and methods that must leave one
/// there without a system call say so with [`Errno::also_set`]. On an error nothing has changed.
///
/// The defaults of `alloc_pd` and `dealloc_pd` belong together: whoever overrides one overrides the other.
/// `dereg_mr` takes what [`kernel::mr::register`] made.
#[allow(unused_variables)]
pub trait Context: Send + Sync {
    /// The command file, the way to the kernel; None for a device that is not the kernel's.
    fn file(&self) -> Option<&DeviceFile>;

    /// What stands in `ibv_context.cmd_fd`.
    fn cmd_fd(&self) -> RawFd {
        self.file().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// The command file, for what cannot do without; EOPNOTSUPP where there is none.
    fn kernel(&self) -> Result<&DeviceFile> {
        self.file().ok_or(Errno::EOPNOTSUPP)
    }

    /// The functions that programs call for every message.
    fn data_path(&self) -> DataPath;

    /// The library's side of a context that a plugin made; none for a native provider's.
    fn plugin(&self) -> Option<&plugin::context::PluginContext> {
        None
    }

    /// Opens the file that becomes readable with each asynchronous event. Called once, before anybody knows the
    /// context.
    fn open_async_events(&self) -> Result<OwnedFd> {
        uverbs::event::open_async(self.kernel()?)
    }

    /// What an asynchronous event is read from; `async_fd` is the file that [`Context::open_async_events`]
    /// opened.
    fn async_event_source(&self, async_fd: RawFd) -> EventSource {
        EventSource { fd: async_fd, record: uverbs::event::ASYNC_RECORD }
    }

    /// The event that a record read from there tells of; None if there is none behind it, and another one is to
    /// be read. A program that found the file readable and comes to take what is there, as `at_once` says that
    /// it may be, is better given something than made to wait.
    fn next_async_event(&self, record: &[u8], _at_once: bool) -> Result<Option<AsyncEvent>> {
        // The kernel gives back the address that the object was created with.
        let described = uverbs::event::async_event(record)?;
        let event_type = described.event_type as ibv_event_type_t;
        Ok(Some(AsyncEvent { event_type, element: described.element }))
    }

    /// Told of each event that `ibv_get_async_event` takes.
    fn async_event(&self, event: &mut ibv_async_event) {}

    /// Attributes of the device; `attr_size` bytes of the result are what the program has room for.
    fn query_device(
        &self,
        input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        attr_size: usize,
    ) -> Result<()> {
        kernel::device::query(self.kernel()?, input, attr, attr_size)
    }

    /// Attributes of a port, counted from 1.
    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        uverbs::device::query_port(self.kernel()?, port_num, attr)
    }

    /// Reads entry `gid_index` of a port's table into `entry`, the caller's structure of whatever size it
    /// knows; ENODATA for an empty entry. Errors are left in `errno`. `device` is the one that was opened.
    fn query_gid_entry(
        &self,
        device: &DeviceInfo,
        port_num: u32,
        gid_index: u32,
        entry: &mut [u8],
        flags: u32,
        want: Want,
    ) -> Result<()> {
        uverbs::gid::query_entry_bytes(self.kernel()?, device, port_num, gid_index, entry, flags, want)
    }

    /// Reads all entries of all ports that are not empty into `entries`, each `entry_size` bytes, and returns
    /// their number; EINVAL when they do not fit. `device` is the one that was opened.
    fn query_gid_table(
        &self,
        device: &DeviceInfo,
        entries: &mut [u8],
        entry_size: usize,
        flags: u32,
    ) -> Result<u64> {
        uverbs::gid::query_table(self.kernel()?, device, entries, entry_size, flags)
    }

    /// The partition key at `index` of a port's table, in network byte order. `device` is the one that was
    /// opened.
    fn query_pkey(&self, device: &DeviceInfo, port_num: u8, index: c_int) -> Result<__be16> {
        uverbs::sysfs::query_pkey(&device.ibdev_path, port_num, index)
    }

    /// Writes the speed of a port, counted from 1, in units of 100 Mb/s.
    fn query_port_speed(&self, port_num: u32, speed: &mut u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Real-time values such as the raw hardware clock; the method sets `comp_mask` to what it gave.
    fn query_rt_values(&self, values: &mut ibv_values_ex) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A protection domain with its kernel handle filled in.
    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        kernel::pd::alloc(self.kernel()?)
    }

    /// Frees a protection domain; EBUSY while something uses it.
    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        kernel::pd::dealloc(self.kernel()?, pd)
    }

    /// The protection domain of another process that has this number in the kernel, as one of `context`, which
    /// is this one.
    fn import_pd(&self, context: Handle<ibv_context>, pd_handle: u32) -> Result<Handle<ibv_pd>> {
        kernel::pd::import(self.kernel()?, context, pd_handle)
    }

    /// Forgets an imported protection domain.
    fn unimport_pd(&self, pd: Handle<ibv_pd>) {
        domain::unimport(pd)
    }

    /// The region of another process that has this number in the kernel.
    fn import_mr(&self, pd: Handle<ibv_pd>, mr_handle: u32) -> Result<Handle<ibv_mr>> {
        kernel::mr::import(self.kernel()?, pd, mr_handle)
    }

    /// Forgets an imported region.
    fn unimport_mr(&self, mr: Handle<ibv_mr>) {
        kernel::mr::unimport(mr)
    }

    /// The device memory of another process that has this number in the kernel, as one of `context`, which is
    /// this one.
    fn import_dm(&self, context: Handle<ibv_context>, dm_handle: u32) -> Result<Handle<ibv_dm>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Forgets imported device memory.
    fn unimport_dm(&self, dm: Handle<ibv_dm>) {}

    /// Registers `length` bytes at `addr`, known to remote peers by addresses from `iova`.
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Registers what `attr` describes, whose mask never names a buffer. Without hints for direct memory access
    /// that is one of [`Context::reg_mr`] and [`Context::reg_dmabuf_mr`].
    fn reg_mr_ex(&self, pd: Handle<ibv_pd>, attr: &mut ibv_mr_init_attr) -> Result<Handle<verbs_mr>> {
        kernel::mr::register_described(
            pd,
            attr,
            |pd, addr, length, iova, access| self.reg_mr(pd, addr, length, iova, access),
            |pd, offset, length, iova, fd, access| self.reg_dmabuf_mr(pd, offset, length, iova, fd, access),
        )
    }

    /// Memory of `size` bytes at a page's start that suits the device; `buf` gets its handle.
    fn alloc_buf(&self, pd: Handle<ibv_pd>, size: usize, buf: &mut *mut ibv_buf) -> Result<*mut c_void> {
        buffer::allocate(pd, size, buf)
    }

    /// Frees what [`Context::alloc_buf`] made.
    fn free_buf(&self, buf: Handle<ibv_buf>) {
        buffer::free(buf)
    }

    /// Hints for direct memory access that registrations share.
    fn alloc_dmah(&self, attr: &mut ibv_dmah_init_attr) -> Result<Handle<ibv_dmah>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees such hints.
    fn dealloc_dmah(&self, dmah: Handle<ibv_dmah>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Registers part of a dma-buf.
    fn reg_dmabuf_mr(
        &self,
        pd: Handle<ibv_pd>,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes translation, protection domain or rights of a region, as `flags` (IBV_REREG_MR_*) say.
    fn rereg_mr(
        &self,
        mr: Handle<verbs_mr>,
        flags: c_int,
        pd: Option<Handle<ibv_pd>>,
        addr: usize,
        length: usize,
        access: c_int,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Ends a registration.
    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        kernel::mr::deregister(self.kernel()?, mr)
    }

    /// A memory window of type 1 or 2.
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees a memory window.
    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Posts the binding of a type 1 window.
    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, bind: &ibv_mw_bind) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A completion channel, without the context that it belongs to; its `fd` becomes readable with each event.
    fn create_comp_channel(&self) -> Result<Handle<ibv_comp_channel>> {
        kernel::channel::create(self.kernel()?)
    }

    /// Closes a channel that no queue uses.
    fn destroy_comp_channel(&self, channel: Handle<ibv_comp_channel>) -> Result<()> {
        kernel::channel::destroy(channel)
    }

    /// What an event of a channel is read from.
    fn cq_event_source(&self, channel: Handle<ibv_comp_channel>) -> EventSource {
        // SAFETY: a live channel.
        EventSource { fd: unsafe { (*channel.as_ptr()).fd }, record: uverbs::event::COMPLETION_RECORD }
    }

    /// The queue that a record read from there is about; None if there is no event behind it, and another
    /// record is to be read.
    fn next_cq_event(
        &self,
        channel: Handle<ibv_comp_channel>,
        record: &[u8],
    ) -> Result<Option<Handle<ibv_cq>>> {
        kernel::channel::event(record).map(Some)
    }

    /// A completion queue of at least `cqe` entries.
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A completion queue with the extended polling functions that `wc_flags` ask for.
    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes the capacity; completions already there are kept.
    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys the queue after every event got from it has been acknowledged; EBUSY while a QP uses it.
    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Told of each event that `ibv_get_cq_event` takes from a channel.
    fn cq_event(&self, cq: Handle<ibv_cq>) {}

    /// A shared receive queue; `attr` gets the capacities really given.
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A shared receive queue of any type.
    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Resizes, or arms the limit event.
    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        kernel::srq::modify(self.kernel()?, srq, attr, attr_mask)
    }

    /// Capacities and limit.
    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys the queue after its events have been acknowledged; EBUSY while a QP uses it.
    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The number of an XRC shared receive queue.
    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A queue pair; `attr.cap` gets the capacities really given.
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A queue pair with the extended attributes, perhaps with `ibv_wr_*` builders.
    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The builder side of a queue pair, if it was created with one.
    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        None
    }

    /// Moves a queue pair through its states and sets attributes; an illegal mask or step changes nothing.
    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        kernel::qp::modify(self.kernel()?, qp, attr, attr_mask)
    }

    /// State, attributes and creation attributes.
    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        kernel::qp::query(self.kernel()?, qp, attr, attr_mask, init_attr)
    }

    /// Destroys the queue pair after its events have been acknowledged.
    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Bits of `ibv_query_qp_data_in_order_caps`: what of the operation's data lands in memory in order.
    fn query_qp_data_in_order(&self, qp: Handle<ibv_qp>, op: c_uint, flags: u32) -> c_int {
        0
    }

    /// The enhanced connection establishment values of the local side.
    fn query_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets the enhanced connection establishment values agreed with the peer.
    fn set_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// An address handle: the way to a peer for datagrams.
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees an address handle.
    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Joins a UD queue pair to a multicast group.
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Leaves a multicast group.
    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A thread domain: objects made under it are used by one thread at a time.
    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees a thread domain; EBUSY while a parent domain names it.
    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A protection domain that stands for `attr.pd` and adds a thread domain or allocators to it. `dealloc_pd`
    /// frees it.
    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A region that reads as zeros and drops writes.
    fn alloc_null_mr(&self, pd: Handle<ibv_pd>) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Advice (`IBV_ADVISE_MR_ADVICE_*`) about ranges of regions.
    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Memory on the device.
    fn alloc_dm(&self, attr: &mut ibv_alloc_dm_attr) -> Result<Handle<ibv_dm>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees device memory; EBUSY while a region lies in it.
    fn free_dm(&self, dm: Handle<ibv_dm>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A new descriptor of a dma-buf over device memory.
    fn dm_export_dmabuf_fd(&self, dm: Handle<ibv_dm>) -> Result<c_int> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Registers `length` bytes from `dm_offset` of device memory.
    fn reg_dm_mr(
        &self,
        pd: Handle<ibv_pd>,
        dm: Handle<ibv_dm>,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> Result<Handle<verbs_mr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes the moderation of completion events.
    fn modify_cq(&self, cq: Handle<ibv_cq>, attr: &mut ibv_modify_cq_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Opens or makes an extended connection domain.
    fn open_xrcd(&self, attr: &mut ibv_xrcd_init_attr) -> Result<Handle<ibv_xrcd>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Closes an extended connection domain; EBUSY while something uses it.
    fn close_xrcd(&self, xrcd: Handle<ibv_xrcd>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Opens a queue pair of an extended connection domain that another process made.
    fn open_qp(&self, attr: &mut ibv_qp_open_attr) -> Result<Handle<ibv_qp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Limits the rate at which a queue pair sends.
    fn modify_qp_rate_limit(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_rate_limit_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A work queue, with its kernel handle and number filled in.
    fn create_wq(&self, attr: &mut ibv_wq_init_attr) -> Result<Handle<ibv_wq>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Moves a work queue through its states and sets attributes.
    fn modify_wq(&self, wq: Handle<ibv_wq>, attr: &mut ibv_wq_attr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys a work queue after its events have been acknowledged; EBUSY while a table names it.
    fn destroy_wq(&self, wq: Handle<ibv_wq>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A table that spreads received packets over work queues.
    fn create_rwq_ind_table(
        &self,
        attr: &mut ibv_rwq_ind_table_init_attr,
    ) -> Result<Handle<ibv_rwq_ind_table>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Destroys such a table; EBUSY while a queue pair uses it.
    fn destroy_rwq_ind_table(&self, table: Handle<ibv_rwq_ind_table>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Leads the packets that the rule describes to a queue pair. The rule's specifications follow it in
    /// memory.
    fn create_flow(&self, qp: Handle<ibv_qp>, attr: NonNull<ibv_flow_attr>) -> Result<Handle<ibv_flow>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Ends a rule.
    fn destroy_flow(&self, flow: Handle<ibv_flow>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// IPsec (ESP) as an action of rules.
    fn create_flow_action_esp(&self, attr: &mut ibv_flow_action_esp_attr) -> Result<Handle<ibv_flow_action>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Changes such an action.
    fn modify_flow_action_esp(
        &self,
        action: Handle<ibv_flow_action>,
        attr: &mut ibv_flow_action_esp_attr,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees an action; EBUSY while a rule uses it.
    fn destroy_flow_action(&self, action: Handle<ibv_flow_action>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A set of counters.
    fn create_counters(&self, attr: &mut ibv_counters_init_attr) -> Result<Handle<ibv_counters>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees counters; EBUSY while a rule uses them.
    fn destroy_counters(&self, counters: Handle<ibv_counters>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Lets a counter of the set count what a rule sees; without a rule the set is prepared for one.
    fn attach_counters_point_flow(
        &self,
        counters: Handle<ibv_counters>,
        attr: &mut ibv_counter_attach_attr,
        flow: Option<Handle<ibv_flow>>,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The values of the first counters of a set.
    fn read_counters(&self, counters: Handle<ibv_counters>, values: &mut [u64], flags: u32) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// What completion counters can do, into the bytes of the caller's `ibv_comp_cntr_caps`, which are zero.
    fn query_comp_cntr_caps(&self, caps: &mut [u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// A counter of completed and of failed operations.
    fn create_comp_cntr(&self, attr: &mut ibv_comp_cntr_init_attr) -> Result<Handle<ibv_comp_cntr>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Frees such a counter.
    fn destroy_comp_cntr(&self, counter: Handle<ibv_comp_cntr>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets the number of completions.
    fn set_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets the number of failures.
    fn set_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Adds to the number of completions.
    fn inc_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Adds to the number of failures.
    fn inc_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Writes the number of completions.
    fn read_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Writes the number of failures.
    fn read_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Has a counter count the operations of a queue pair that `attr` names.
    fn qp_attach_comp_cntr(
        &self,
        qp: Handle<ibv_qp>,
        counter: Handle<ibv_comp_cntr>,
        attr: &mut ibv_qp_attach_comp_cntr_attr,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
