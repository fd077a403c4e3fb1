//! Conversions between the structs of the kernel and of verbs, which librdmacm uses for what rdma_cm devices
//! tell it.
//!
//! None of them can fail; a NULL on either side does nothing.

use super::entry;
use crate::abi::sa::ibv_sa_path_rec;
use crate::abi::uapi::ib_user_sa::ib_user_path_rec;
use crate::abi::uapi::ib_user_verbs::{ib_uverbs_ah_attr, ib_uverbs_qp_attr};
use crate::abi::verbs::{ibv_ah_attr, ibv_gid, ibv_qp_attr};
use crate::observe::call;
use crate::observe::shown::Address;

fn copy_ah_attr(dst: &mut ibv_ah_attr, src: &ib_uverbs_ah_attr) {
    dst.grh.dgid = ibv_gid { raw: src.grh.dgid };
    dst.grh.flow_label = src.grh.flow_label;
    dst.grh.sgid_index = src.grh.sgid_index;
    dst.grh.hop_limit = src.grh.hop_limit;
    dst.grh.traffic_class = src.grh.traffic_class;
    dst.dlid = src.dlid;
    dst.sl = src.sl;
    dst.src_path_bits = src.src_path_bits;
    dst.static_rate = src.static_rate;
    dst.is_global = src.is_global;
    dst.port_num = src.port_num;
}

/// Address attributes from the kernel's form.
///
/// # Safety
/// Each pointer is null or valid for its struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(dst: *mut ibv_ah_attr, src: *mut ib_uverbs_ah_attr) {
    entry::plain(call!("ibv_copy_ah_attr_from_kern", dst = Address(dst), src = Address(src)), || {
        // SAFETY: by the contract.
        if let (Some(dst), Some(src)) = unsafe { (dst.as_mut(), src.as_ref()) } {
            copy_ah_attr(dst, src);
        }
    });
}

/// Queue pair attributes from the kernel's form. `qp_state` is left alone, as programs expect.
///
/// # Safety
/// Each pointer is null or valid for its struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(dst: *mut ibv_qp_attr, src: *mut ib_uverbs_qp_attr) {
    entry::plain(call!("ibv_copy_qp_attr_from_kern", dst = Address(dst), src = Address(src)), || {
        // SAFETY: by the contract.
        let (Some(dst), Some(src)) = (unsafe { (dst.as_mut(), src.as_ref()) }) else { return };
        dst.cur_qp_state = src.cur_qp_state;
        dst.path_mtu = src.path_mtu;
        dst.path_mig_state = src.path_mig_state;
        dst.qkey = src.qkey;
        dst.rq_psn = src.rq_psn;
        dst.sq_psn = src.sq_psn;
        dst.dest_qp_num = src.dest_qp_num;
        dst.qp_access_flags = src.qp_access_flags;
        dst.cap.max_send_wr = src.max_send_wr;
        dst.cap.max_recv_wr = src.max_recv_wr;
        dst.cap.max_send_sge = src.max_send_sge;
        dst.cap.max_recv_sge = src.max_recv_sge;
        dst.cap.max_inline_data = src.max_inline_data;
        copy_ah_attr(&mut dst.ah_attr, &src.ah_attr);
        copy_ah_attr(&mut dst.alt_ah_attr, &src.alt_ah_attr);
        dst.pkey_index = src.pkey_index;
        dst.alt_pkey_index = src.alt_pkey_index;
        dst.en_sqd_async_notify = src.en_sqd_async_notify;
        dst.sq_draining = src.sq_draining;
        dst.max_rd_atomic = src.max_rd_atomic;
        dst.max_dest_rd_atomic = src.max_dest_rd_atomic;
        dst.min_rnr_timer = src.min_rnr_timer;
        dst.port_num = src.port_num;
        dst.timeout = src.timeout;
        dst.retry_cnt = src.retry_cnt;
        dst.rnr_retry = src.rnr_retry;
        dst.alt_port_num = src.alt_port_num;
        dst.alt_timeout = src.alt_timeout;
    });
}

/// The fields that both forms of a path record name alike.
macro_rules! copy_path_fields {
    ($dst:ident, $src:ident) => {
        $dst.dlid = $src.dlid;
        $dst.slid = $src.slid;
        $dst.flow_label = $src.flow_label;
        $dst.hop_limit = $src.hop_limit;
        $dst.traffic_class = $src.traffic_class;
        $dst.numb_path = $src.numb_path;
        $dst.pkey = $src.pkey;
        $dst.sl = $src.sl;
        $dst.mtu_selector = $src.mtu_selector;
        $dst.rate_selector = $src.rate_selector;
        $dst.rate = $src.rate;
        $dst.packet_life_time = $src.packet_life_time;
        $dst.preference = $src.preference;
        $dst.packet_life_time_selector = $src.packet_life_time_selector;
    };
}

/// A path record from the kernel's form.
///
/// # Safety
/// Each pointer is null or valid for its struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(dst: *mut ibv_sa_path_rec, src: *mut ib_user_path_rec) {
    entry::plain(call!("ibv_copy_path_rec_from_kern", dst = Address(dst), src = Address(src)), || {
        // SAFETY: by the contract.
        let (Some(dst), Some(src)) = (unsafe { (dst.as_mut(), src.as_ref()) }) else { return };
        dst.dgid = ibv_gid { raw: src.dgid };
        dst.sgid = ibv_gid { raw: src.sgid };
        dst.raw_traffic = src.raw_traffic as _;
        dst.reversible = src.reversible as _;
        dst.mtu = src.mtu as _;
        copy_path_fields!(dst, src);
    });
}

/// A path record to the kernel's form. Fields that only the kernel's form has are left alone.
///
/// # Safety
/// Each pointer is null or valid for its struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(dst: *mut ib_user_path_rec, src: *mut ibv_sa_path_rec) {
    entry::plain(call!("ibv_copy_path_rec_to_kern", dst = Address(dst), src = Address(src)), || {
        // SAFETY: by the contract.
        let (Some(dst), Some(src)) = (unsafe { (dst.as_mut(), src.as_ref()) }) else { return };
        // SAFETY: every view of the GID union is 16 plain bytes.
        unsafe {
            dst.dgid = src.dgid.raw;
            dst.sgid = src.sgid.raw;
        }
        dst.raw_traffic = src.raw_traffic as _;
        dst.reversible = src.reversible as _;
        dst.mtu = src.mtu as _;
        copy_path_fields!(dst, src);
    });
}
