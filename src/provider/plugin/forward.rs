//! The trait of devices for a plugin: each method calls the plugin's operation.
//!
//! A plugin reports as C does. NULL means that the error is in `errno`; a value that is not 0 is what the verb
//! returns, as it is, even where it is negative.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::{NonNull, null, null_mut};
use std::os::fd::{AsRawFd, RawFd};

use super::cmd::LongPortAttr;
use super::context::PluginContext;
use super::dummy::DUMMY;
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::data_path::DataPath;
use crate::provider::object::Handle;
use crate::provider::verbs::*;
use crate::provider::{CommandFile, Context};
use crate::uverbs::device_file::DeviceFile;

/// Calls an operation of the plugin's, or the dummy.
macro_rules! call {
    ($self:ident.$operation:ident($($argument:expr),* $(,)?)) => {{
        let operation = $self.operations().$operation.or(DUMMY.$operation).expect("dummies are complete");
        // SAFETY: the plugin's own function of that type. The handles are live and belong to this context,
        // which the plugin made; references are valid for the call.
        unsafe { operation($($argument),*) }
    }};
}

/// The handle of what an operation made, or the error that it left in `errno`.
fn made<T>(object: *mut T) -> Result<Handle<T>> {
    // SAFETY: null, or the object that the plugin has just made.
    unsafe { Handle::optional(object) }.ok_or_else(Errno::last)
}

/// The same for a region, which a plugin makes as a `verbs_mr` and shows as its first field.
fn region(mr: *mut ibv_mr) -> Result<Handle<verbs_mr>> {
    made(mr.cast())
}

/// 0 or the value that the verb returns.
fn done(value: c_int) -> Result<()> {
    if value == 0 { Ok(()) } else { Err(Errno(value)) }
}

fn pointer<T>(handle: Option<Handle<T>>) -> *mut T {
    handle.map_or(null_mut(), Handle::as_ptr)
}

/// Room for the answer of a plugin whose release knows a longer `ibv_port_attr` than this library.
#[repr(C)]
struct PortRoom {
    attr: ibv_port_attr,
    beyond: [u32; 8],
}

impl CommandFile for PluginContext {
    fn file(&self) -> Option<&DeviceFile> {
        Some(&self.file)
    }

    fn cmd_fd(&self) -> RawFd {
        if self.without_file { -1 } else { self.file.as_raw_fd() }
    }
}

impl Context for PluginContext {
    fn data_path(&self) -> DataPath {
        macro_rules! functions {
            ($($name:ident)+) => {
                DataPath { $($name: self.operations().$name.or(DUMMY.$name).expect("dummies are complete")),+ }
            };
        }
        functions!(poll_cq req_notify_cq post_send post_recv post_srq_recv post_srq_ops)
    }

    fn plugin(&self) -> Option<&PluginContext> {
        Some(self)
    }
}

impl Ahs for PluginContext {
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        made(call!(self.create_ah(pd.as_ptr(), attr)))
    }

    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        done(call!(self.destroy_ah(ah.as_ptr())))
    }
}

impl Bufs for PluginContext {
    fn alloc_buf(&self, pd: Handle<ibv_pd>, size: usize, buf: &mut *mut ibv_buf) -> Result<*mut c_void> {
        let addr = call!(self.alloc_buf(pd.as_ptr(), size, buf));
        if addr.is_null() { Err(Errno::last()) } else { Ok(addr) }
    }

    fn free_buf(&self, buf: Handle<ibv_buf>) {
        call!(self.free_buf(buf.as_ptr()));
    }
}

impl CompCntrs for PluginContext {
    fn query_comp_cntr_caps(&self, caps: &mut [u8]) -> Result<()> {
        done(call!(self.query_comp_cntr_caps(self.context, caps.as_mut_ptr().cast(), caps.len())))
    }

    fn create_comp_cntr(&self, attr: &mut ibv_comp_cntr_init_attr) -> Result<Handle<ibv_comp_cntr>> {
        made(call!(self.create_comp_cntr(self.context, attr)))
    }

    fn destroy_comp_cntr(&self, counter: Handle<ibv_comp_cntr>) -> Result<()> {
        done(call!(self.destroy_comp_cntr(counter.as_ptr())))
    }

    fn set_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        done(call!(self.set_comp_cntr(counter.as_ptr(), value)))
    }

    fn set_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        done(call!(self.set_err_comp_cntr(counter.as_ptr(), value)))
    }

    fn inc_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        done(call!(self.inc_comp_cntr(counter.as_ptr(), amount)))
    }

    fn inc_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        done(call!(self.inc_err_comp_cntr(counter.as_ptr(), amount)))
    }

    fn read_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        done(call!(self.read_comp_cntr(counter.as_ptr(), value)))
    }

    fn read_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        done(call!(self.read_err_comp_cntr(counter.as_ptr(), value)))
    }

    fn qp_attach_comp_cntr(
        &self,
        qp: Handle<ibv_qp>,
        counter: Handle<ibv_comp_cntr>,
        attr: &mut ibv_qp_attach_comp_cntr_attr,
    ) -> Result<()> {
        done(call!(self.qp_attach_comp_cntr(qp.as_ptr(), counter.as_ptr(), attr)))
    }
}

impl Counters for PluginContext {
    fn create_counters(&self, attr: &mut ibv_counters_init_attr) -> Result<Handle<ibv_counters>> {
        made(call!(self.create_counters(self.context, attr)))
    }

    fn destroy_counters(&self, counters: Handle<ibv_counters>) -> Result<()> {
        done(call!(self.destroy_counters(counters.as_ptr())))
    }

    fn attach_counters_point_flow(
        &self,
        counters: Handle<ibv_counters>,
        attr: &mut ibv_counter_attach_attr,
        flow: Option<Handle<ibv_flow>>,
    ) -> Result<()> {
        done(call!(self.attach_counters_point_flow(counters.as_ptr(), attr, pointer(flow))))
    }

    fn read_counters(&self, counters: Handle<ibv_counters>, values: &mut [u64], flags: u32) -> Result<()> {
        let count = values.len() as u32;
        done(call!(self.read_counters(counters.as_ptr(), values.as_mut_ptr(), count, flags)))
    }
}

impl Cqs for PluginContext {
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        made(call!(self.create_cq(self.context, cqe, pointer(channel), comp_vector)))
    }

    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        made(call!(self.create_cq_ex(self.context, core::ptr::from_ref(attr).cast_mut())))
    }

    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        done(call!(self.resize_cq(cq.as_ptr(), cqe)))
    }

    fn modify_cq(&self, cq: Handle<ibv_cq>, attr: &mut ibv_modify_cq_attr) -> Result<()> {
        done(call!(self.modify_cq(cq.as_ptr(), attr)))
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        done(call!(self.destroy_cq(cq.as_ptr())))
    }

    fn cq_event(&self, cq: Handle<ibv_cq>) {
        call!(self.cq_event(cq.as_ptr()));
    }
}

impl Devices for PluginContext {
    fn query_device(
        &self,
        input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        attr_size: usize,
    ) -> Result<()> {
        done(call!(self.query_device_ex(
            self.context,
            input.map_or(null(), core::ptr::from_ref),
            attr,
            attr_size
        )))
    }

    fn query_rt_values(&self, values: &mut ibv_values_ex) -> Result<()> {
        done(call!(self.query_rt_values(self.context, values)))
    }
}

impl Dms for PluginContext {
    fn alloc_dm(&self, attr: &mut ibv_alloc_dm_attr) -> Result<Handle<ibv_dm>> {
        made(call!(self.alloc_dm(self.context, attr)))
    }

    fn free_dm(&self, dm: Handle<ibv_dm>) -> Result<()> {
        done(call!(self.free_dm(dm.as_ptr())))
    }

    fn reg_dm_mr(
        &self,
        pd: Handle<ibv_pd>,
        dm: Handle<ibv_dm>,
        dm_offset: u64,
        length: usize,
        access: c_uint,
    ) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_dm_mr(pd.as_ptr(), dm.as_ptr(), dm_offset, length, access)))
    }

    fn dm_export_dmabuf_fd(&self, dm: Handle<ibv_dm>) -> Result<c_int> {
        let fd = call!(self.dm_export_dmabuf_fd(dm.as_ptr()));
        if fd < 0 { Err(Errno::last()) } else { Ok(fd) }
    }

    fn import_dm(&self, _context: Handle<ibv_context>, dm_handle: u32) -> Result<Handle<ibv_dm>> {
        made(call!(self.import_dm(self.context, dm_handle)))
    }

    fn unimport_dm(&self, dm: Handle<ibv_dm>) {
        call!(self.unimport_dm(dm.as_ptr()));
    }
}

impl Dmahs for PluginContext {
    fn alloc_dmah(&self, attr: &mut ibv_dmah_init_attr) -> Result<Handle<ibv_dmah>> {
        made(call!(self.alloc_dmah(self.context, attr)))
    }

    fn dealloc_dmah(&self, dmah: Handle<ibv_dmah>) -> Result<()> {
        done(call!(self.dealloc_dmah(dmah.as_ptr())))
    }
}

impl Events for PluginContext {
    fn async_event(&self, event: &mut ibv_async_event) {
        call!(self.async_event(self.context, event));
    }
}

impl Flows for PluginContext {
    fn create_flow(&self, qp: Handle<ibv_qp>, attr: NonNull<ibv_flow_attr>) -> Result<Handle<ibv_flow>> {
        made(call!(self.create_flow(qp.as_ptr(), attr.as_ptr())))
    }

    fn destroy_flow(&self, flow: Handle<ibv_flow>) -> Result<()> {
        done(call!(self.destroy_flow(flow.as_ptr())))
    }

    fn create_flow_action_esp(&self, attr: &mut ibv_flow_action_esp_attr) -> Result<Handle<ibv_flow_action>> {
        made(call!(self.create_flow_action_esp(self.context, attr)))
    }

    fn modify_flow_action_esp(
        &self,
        action: Handle<ibv_flow_action>,
        attr: &mut ibv_flow_action_esp_attr,
    ) -> Result<()> {
        done(call!(self.modify_flow_action_esp(action.as_ptr(), attr)))
    }

    fn destroy_flow_action(&self, action: Handle<ibv_flow_action>) -> Result<()> {
        done(call!(self.destroy_flow_action(action.as_ptr())))
    }
}

impl Mcasts for PluginContext {
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        done(call!(self.attach_mcast(qp.as_ptr(), gid, lid)))
    }

    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        done(call!(self.detach_mcast(qp.as_ptr(), gid, lid)))
    }
}

impl Mrs for PluginContext {
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_mr(pd.as_ptr(), addr as *mut c_void, length, iova, access)))
    }

    fn reg_mr_ex(&self, pd: Handle<ibv_pd>, attr: &mut ibv_mr_init_attr) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_mr_ex(pd.as_ptr(), attr)))
    }

    fn reg_dmabuf_mr(
        &self,
        pd: Handle<ibv_pd>,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        region(call!(self.reg_dmabuf_mr(pd.as_ptr(), offset, length, iova, fd, access)))
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
        let value =
            call!(self.rereg_mr(mr.as_ptr(), flags, pointer(pd), addr as *mut c_void, length, access));
        // Whatever the value, the verb says that the command failed, and `errno` why.
        if value == 0 { Ok(()) } else { Err(Errno::last()) }
    }

    fn dereg_mr(&self, mr: Handle<verbs_mr>) -> Result<()> {
        done(call!(self.dereg_mr(mr.as_ptr())))
    }

    fn alloc_null_mr(&self, pd: Handle<ibv_pd>) -> Result<Handle<verbs_mr>> {
        region(call!(self.alloc_null_mr(pd.as_ptr())))
    }

    fn advise_mr(
        &self,
        pd: Handle<ibv_pd>,
        advice: c_uint,
        flags: u32,
        ranges: &mut [ibv_sge],
    ) -> Result<()> {
        let count = ranges.len() as u32;
        done(call!(self.advise_mr(pd.as_ptr(), advice, flags, ranges.as_mut_ptr(), count)))
    }

    fn import_mr(&self, pd: Handle<ibv_pd>, mr_handle: u32) -> Result<Handle<ibv_mr>> {
        made(call!(self.import_mr(pd.as_ptr(), mr_handle)))
    }

    fn unimport_mr(&self, mr: Handle<ibv_mr>) {
        call!(self.unimport_mr(mr.as_ptr()));
    }
}

impl Mws for PluginContext {
    fn alloc_mw(&self, pd: Handle<ibv_pd>, mw_type: c_uint) -> Result<Handle<ibv_mw>> {
        made(call!(self.alloc_mw(pd.as_ptr(), mw_type)))
    }

    fn dealloc_mw(&self, mw: Handle<ibv_mw>) -> Result<()> {
        done(call!(self.dealloc_mw(mw.as_ptr())))
    }

    fn bind_mw(&self, qp: Handle<ibv_qp>, mw: Handle<ibv_mw>, bind: &ibv_mw_bind) -> Result<()> {
        done(call!(self.bind_mw(qp.as_ptr(), mw.as_ptr(), core::ptr::from_ref(bind).cast_mut())))
    }
}

impl Pds for PluginContext {
    fn alloc_pd(&self) -> Result<Handle<ibv_pd>> {
        made(call!(self.alloc_pd(self.context)))
    }

    fn dealloc_pd(&self, pd: Handle<ibv_pd>) -> Result<()> {
        done(call!(self.dealloc_pd(pd.as_ptr())))
    }

    fn import_pd(&self, context: Handle<ibv_context>, pd_handle: u32) -> Result<Handle<ibv_pd>> {
        made(call!(self.import_pd(context.as_ptr(), pd_handle)))
    }

    fn unimport_pd(&self, pd: Handle<ibv_pd>) {
        call!(self.unimport_pd(pd.as_ptr()));
    }
}

impl Ports for PluginContext {
    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        let mut room = PortRoom { attr: *attr, beyond: [0; 8] };
        let place = (&raw mut room).cast::<ibv_port_attr>();
        let _long = LongPortAttr::at(place);
        let value = call!(self.query_port(self.context, port_num, place));
        *attr = room.attr;
        done(value)
    }

    fn query_port_speed(&self, port_num: u32, speed: &mut u64) -> Result<()> {
        done(call!(self.query_port_speed(self.context, port_num, speed)))
    }
}

impl Qps for PluginContext {
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        made(call!(self.create_qp(pd.as_ptr(), attr)))
    }

    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        made(call!(self.create_qp_ex(self.context, attr)))
    }

    fn open_qp(&self, attr: &mut ibv_qp_open_attr) -> Result<Handle<ibv_qp>> {
        made(call!(self.open_qp(self.context, attr)))
    }

    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        // SAFETY: the program's live queue pair, which the plugin made.
        if !unsafe { self.qp_mask.is_set(qp.as_ptr()) } {
            return None;
        }
        // SAFETY: the plugin says by the mark that the queue pair is the start of an ibv_qp_ex.
        unsafe { Handle::optional(qp.as_ptr().cast()) }
    }

    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        done(call!(self.modify_qp(qp.as_ptr(), attr, attr_mask)))
    }

    fn modify_qp_rate_limit(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_rate_limit_attr) -> Result<()> {
        done(call!(self.modify_qp_rate_limit(qp.as_ptr(), attr)))
    }

    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        done(call!(self.query_qp(qp.as_ptr(), attr, attr_mask, init_attr)))
    }

    fn query_qp_data_in_order(&self, qp: Handle<ibv_qp>, op: c_uint, flags: u32) -> c_int {
        call!(self.query_qp_data_in_order(qp.as_ptr(), op, flags))
    }

    fn query_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        done(call!(self.query_ece(qp.as_ptr(), ece)))
    }

    fn set_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        done(call!(self.set_ece(qp.as_ptr(), ece)))
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        done(call!(self.destroy_qp(qp.as_ptr())))
    }
}

impl Srqs for PluginContext {
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        made(call!(self.create_srq(pd.as_ptr(), attr)))
    }

    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        made(call!(self.create_srq_ex(self.context, attr)))
    }

    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        done(call!(self.modify_srq(srq.as_ptr(), attr, attr_mask)))
    }

    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        done(call!(self.query_srq(srq.as_ptr(), attr)))
    }

    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        let mut number = 0;
        done(call!(self.get_srq_num(srq.as_ptr(), &mut number)))?;
        Ok(number)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        done(call!(self.destroy_srq(srq.as_ptr())))
    }
}

impl Tds for PluginContext {
    fn alloc_td(&self, attr: &mut ibv_td_init_attr) -> Result<Handle<ibv_td>> {
        made(call!(self.alloc_td(self.context, attr)))
    }

    fn dealloc_td(&self, td: Handle<ibv_td>) -> Result<()> {
        done(call!(self.dealloc_td(td.as_ptr())))
    }

    fn alloc_parent_domain(&self, attr: &mut ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
        made(call!(self.alloc_parent_domain(self.context, attr)))
    }
}

impl Wqs for PluginContext {
    fn create_wq(&self, attr: &mut ibv_wq_init_attr) -> Result<Handle<ibv_wq>> {
        made(call!(self.create_wq(self.context, attr)))
    }

    fn modify_wq(&self, wq: Handle<ibv_wq>, attr: &mut ibv_wq_attr) -> Result<()> {
        done(call!(self.modify_wq(wq.as_ptr(), attr)))
    }

    fn destroy_wq(&self, wq: Handle<ibv_wq>) -> Result<()> {
        done(call!(self.destroy_wq(wq.as_ptr())))
    }

    fn create_rwq_ind_table(
        &self,
        attr: &mut ibv_rwq_ind_table_init_attr,
    ) -> Result<Handle<ibv_rwq_ind_table>> {
        made(call!(self.create_rwq_ind_table(self.context, attr)))
    }

    fn destroy_rwq_ind_table(&self, table: Handle<ibv_rwq_ind_table>) -> Result<()> {
        done(call!(self.destroy_rwq_ind_table(table.as_ptr())))
    }
}

impl Xrcds for PluginContext {
    fn open_xrcd(&self, attr: &mut ibv_xrcd_init_attr) -> Result<Handle<ibv_xrcd>> {
        made(call!(self.open_xrcd(self.context, attr)))
    }

    fn close_xrcd(&self, xrcd: Handle<ibv_xrcd>) -> Result<()> {
        done(call!(self.close_xrcd(xrcd.as_ptr())))
    }
}

// What this kind of device does as every other does, or not at all.
impl Channels for PluginContext {}
impl Gids for PluginContext {}
