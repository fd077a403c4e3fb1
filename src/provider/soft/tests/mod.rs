//! The provider through the C functions that programs call, within one process. What tests need before they
//! begin is here.

mod builders;
mod datagrams;
mod device;
mod fuzz;
mod lids;
mod memory;
mod messages;
mod pair;
mod queues;

use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;

use super::Soft;
use crate::abi::verbs::*;
use crate::api;
use crate::errno::Errno;
use crate::provider::context;
use crate::provider::device::{DeviceRef, Found};
use crate::provider::object::Handle;
use crate::uverbs::discovery::DeviceInfo;

const LENGTH: usize = 4096;
const QKEY: u32 = 0x1234_5678;
const RIGHTS: c_int = (IBV_ACCESS_LOCAL_WRITE as u32
    | IBV_ACCESS_REMOTE_WRITE as u32
    | IBV_ACCESS_REMOTE_READ as u32
    | IBV_ACCESS_REMOTE_ATOMIC as u32
    | IBV_ACCESS_MW_BIND as u32) as c_int;

fn device() -> DeviceRef {
    let info = DeviceInfo::software("soft_test", "uverbs-soft_test", 7).expect("a short name");
    DeviceRef::native(Found::new(info).unwrap(), &Soft).unwrap()
}

/// An open device with a protection domain and a registered buffer.
struct Room {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    buffer: *mut u8,
}

impl Room {
    fn new() -> Self {
        let device = device();
        // SAFETY: a live device; objects made here are live until the room is dropped.
        unsafe {
            let context = api::device::ibv_open_device(device.as_c());
            assert!(!context.is_null(), "{:?}", Errno::last());
            let pd = api::pd::ibv_alloc_pd(context);
            assert!(!pd.is_null());
            let buffer = libc::aligned_alloc(4096, LENGTH).cast::<u8>();
            buffer.write_bytes(0, LENGTH);
            let mr = api::mr::ibv_reg_mr(pd, buffer.cast(), LENGTH, RIGHTS);
            assert!(!mr.is_null(), "{:?}", Errno::last());
            Self { context, pd, mr, buffer }
        }
    }

    /// The functions that the inline functions of `verbs.h` call.
    fn ops(&self) -> ibv_context_ops {
        // SAFETY: an open context.
        unsafe { (*self.context).ops }
    }

    fn verbs(&self) -> &verbs_context {
        // SAFETY: an open context.
        unsafe { context::verbs(Handle::from_c(self.context).unwrap()).as_ref() }
    }

    fn cq(&self) -> *mut ibv_cq {
        // SAFETY: an open context.
        let cq = unsafe { api::cq::ibv_create_cq(self.context, 64, null_mut(), null_mut(), 0) };
        assert!(!cq.is_null(), "{:?}", Errno::last());
        cq
    }

    fn init(&self, qp_type: ibv_qp_type, cq: *mut ibv_cq) -> ibv_qp_init_attr {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut init: ibv_qp_init_attr = unsafe { zeroed() };
        init.qp_type = qp_type as u32;
        init.send_cq = cq;
        init.recv_cq = cq;
        init.cap = ibv_qp_cap {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 64,
        };
        init
    }

    fn qp(&self, qp_type: ibv_qp_type, cq: *mut ibv_cq) -> *mut ibv_qp {
        let mut init = self.init(qp_type, cq);
        // SAFETY: live objects.
        let qp = unsafe { api::qp::ibv_create_qp(self.pd, &mut init) };
        assert!(!qp.is_null(), "{:?}", Errno::last());
        qp
    }

    /// A queue pair with builders for `IBV_QP_EX_WITH_*`.
    fn built_qp(&self, qp_type: ibv_qp_type, cq: *mut ibv_cq, operations: u64) -> *mut ibv_qp {
        let base = self.init(qp_type, cq);
        // SAFETY: live objects; attributes are plain C data.
        unsafe {
            let mut attr: ibv_qp_init_attr_ex = zeroed();
            (attr.qp_type, attr.cap, attr.send_cq, attr.recv_cq) = (base.qp_type, base.cap, cq, cq);
            attr.comp_mask = IBV_QP_INIT_ATTR_PD as u32 | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS as u32;
            attr.pd = self.pd;
            attr.send_ops_flags = operations;
            let qp = self.verbs().create_qp_ex.unwrap()(self.context, &mut attr);
            assert!(!qp.is_null(), "{:?}", Errno::last());
            qp
        }
    }

    fn gid(&self) -> ibv_gid {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: an open context and a place to write.
        assert_eq!(unsafe { api::gid::ibv_query_gid(self.context, 1, 0, &mut gid) }, 0);
        gid
    }

    /// The way to this process, by GID.
    fn address(&self) -> ibv_ah_attr {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_ah_attr = unsafe { zeroed() };
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = self.gid();
        attr.grh.hop_limit = 1;
        attr
    }

    fn ah(&self, attr: &mut ibv_ah_attr) -> *mut ibv_ah {
        // SAFETY: a live domain, and attributes of the caller's own.
        let ah = unsafe { api::ah::ibv_create_ah(self.pd, attr) };
        assert!(!ah.is_null(), "{:?}", Errno::last());
        ah
    }

    /// A piece of the buffer.
    fn piece(&self, offset: usize, length: u32) -> ibv_sge {
        // SAFETY: a live region.
        ibv_sge { addr: self.buffer as u64 + offset as u64, length, lkey: unsafe { (*self.mr).lkey } }
    }

    /// A place in the buffer as a peer names it.
    fn remote(&self, offset: usize) -> ibv_send_wr_wr_rdma {
        // SAFETY: a live region.
        let rkey = unsafe { (*self.mr).rkey };
        ibv_send_wr_wr_rdma { remote_addr: self.buffer as u64 + offset as u64, rkey }
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, offset: usize, length: usize) -> &mut [u8] {
        // SAFETY: within the buffer; tests use disjoint pieces, one thread each.
        unsafe { core::slice::from_raw_parts_mut(self.buffer.add(offset), length) }
    }

    fn receive(&self, qp: *mut ibv_qp, wr_id: u64, mut piece: ibv_sge) {
        let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list: &mut piece, num_sge: 1 };
        let mut bad = null_mut();
        // SAFETY: a live queue pair and a valid list.
        assert_eq!(unsafe { self.ops().post_recv.unwrap()(qp, &mut wr, &mut bad) }, 0);
    }

    fn send(&self, qp: *mut ibv_qp, wr: &mut ibv_send_wr) -> c_int {
        let mut bad = null_mut();
        // SAFETY: a live queue pair and a valid list.
        unsafe { self.ops().post_send.unwrap()(qp, wr, &mut bad) }
    }

    /// The next completion, which must come at once: everything happens in this process.
    fn poll(&self, cq: *mut ibv_cq) -> Option<ibv_wc> {
        // SAFETY: plain C data; all zeros is its empty value. A live queue and room for one completion.
        unsafe {
            let mut wc: ibv_wc = zeroed();
            (self.ops().poll_cq.unwrap()(cq, 1, &mut wc) == 1).then_some(wc)
        }
    }

    fn success(&self, cq: *mut ibv_cq) -> ibv_wc {
        let wc = self.poll(cq).expect("a completion");
        assert_eq!(wc.status, IBV_WC_SUCCESS as u32);
        wc
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: made in `new`; what tests made in the room is gone.
        unsafe {
            assert_eq!(api::mr::ibv_dereg_mr(self.mr), 0);
            libc::free(self.buffer.cast());
            assert_eq!(api::pd::ibv_dealloc_pd(self.pd), 0);
            assert_eq!(api::device::ibv_close_device(self.context), 0);
        }
    }
}

fn send_wr(wr_id: u64, opcode: ibv_wr_opcode, piece: &mut ibv_sge) -> ibv_send_wr {
    // SAFETY: plain C data; all zeros is its empty value.
    let mut wr: ibv_send_wr = unsafe { zeroed() };
    wr.wr_id = wr_id;
    wr.opcode = opcode as u32;
    wr.send_flags = IBV_SEND_SIGNALED as u32;
    wr.sg_list = piece;
    wr.num_sge = 1;
    wr
}

fn destroy_qps(qps: &[*mut ibv_qp]) {
    for qp in qps {
        // SAFETY: live, and given up.
        assert_eq!(unsafe { api::qp::ibv_destroy_qp(*qp) }, 0);
    }
}

fn destroy_cq(cq: *mut ibv_cq) {
    // SAFETY: live, and given up.
    assert_eq!(unsafe { api::cq::ibv_destroy_cq(cq) }, 0);
}
