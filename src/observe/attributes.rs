//! How the attribute structs of verbs are shown: by the fields that are set, of those the mask names where
//! there is one.

use core::ffi::{c_char, c_int};
use core::fmt::Write;

use super::line::Line;
use super::names::{self, Flags, Named, Names};
use super::shown::{Address, Hex, List, Shown};
use crate::abi::verbs::*;
use crate::event_subject::{Subject, subject};

/// Writes the fields of a struct.
pub(super) struct Fields<'a> {
    line: &'a mut Line,
    between: &'static str,
}

impl<'a> Fields<'a> {
    /// Begins with the first brace.
    pub fn begin(line: &'a mut Line) -> Self {
        line.put("{");
        Self { line, between: "" }
    }

    /// A field.
    pub fn field(&mut self, name: &str, value: impl Shown) {
        let _ = write!(self.line, "{}{name}=", core::mem::replace(&mut self.between, ", "));
        // SAFETY: a field of a struct that the program passes, as the verb takes it.
        unsafe { value.show(self.line) }
    }

    /// A field that says something where it is not 0.
    pub fn set(&mut self, name: &str, value: impl Shown + Into<u64> + Copy) {
        if value.into() != 0 {
            self.field(name, value);
        }
    }

    /// A pointer where it is not NULL.
    pub fn pointer<T>(&mut self, name: &str, value: *mut T)
    where
        *mut T: Shown,
    {
        if !value.is_null() {
            self.field(name, value);
        }
    }

    /// Flags where there are any.
    pub fn flags(&mut self, name: &str, names: &'static Names, word: u64) {
        if word != 0 {
            self.field(name, Flags(names, word));
        }
    }

    /// An enumerator.
    pub fn named(&mut self, name: &str, names: &'static Names, value: impl Into<u64>) {
        self.field(name, Named(names, value.into()));
    }

    /// Ends with the last brace.
    pub fn end(self) {
        self.line.put("}");
    }
}

/// Shows the struct behind a pointer of the program's.
macro_rules! structs {
    ($($name:ident |$value:ident, $fields:ident| $body:block)+) => {$(
        impl Shown for *mut $name {
            unsafe fn show(&self, line: &mut Line) {
                // SAFETY: by the contract.
                unsafe { self.cast_const().show(line) }
            }

            fn word(&self) -> u64 {
                *self as u64
            }
        }

        impl Shown for *const $name {
            unsafe fn show(&self, line: &mut Line) {
                // SAFETY: by the contract.
                match unsafe { self.as_ref() } {
                    None => line.put("NULL"),
                    // SAFETY: as above.
                    Some(value) => unsafe { value.show(line) },
                }
            }

            fn word(&self) -> u64 {
                *self as u64
            }
        }

        impl Shown for $name {
            #[allow(unused_mut, reason = "a struct may have nothing to show")]
            unsafe fn show(&self, line: &mut Line) {
                let $value = self;
                let mut $fields = Fields::begin(line);
                $body
                $fields.end();
            }
        }
    )+};
}

/// Bytes of a path MTU.
fn mtu(value: ibv_mtu_t) -> u64 {
    if (1..=5).contains(&value) { 128 << value } else { u64::from(value) }
}

/// Text in an array of the program's.
struct Chars<'a>(&'a [c_char]);

impl Shown for Chars<'_> {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: characters are bytes.
        line.foreign(unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len()) });
    }
}

/// What both structs of a queue pair to be begin with.
macro_rules! queue_pair {
    ($attr:ident, $fields:ident) => {
        $fields.pointer("qp_context", $attr.qp_context);
        $fields.field("send_cq", $attr.send_cq);
        $fields.field("recv_cq", $attr.recv_cq);
        $fields.pointer("srq", $attr.srq);
        $fields.field("cap", $attr.cap);
        $fields.named("qp_type", &names::QP_TYPE, $attr.qp_type);
        $fields.field("sq_sig_all", $attr.sq_sig_all);
    };
}

structs! {
    ibv_qp_cap |cap, fields| {
        fields.field("max_send_wr", cap.max_send_wr);
        fields.field("max_recv_wr", cap.max_recv_wr);
        fields.field("max_send_sge", cap.max_send_sge);
        fields.field("max_recv_sge", cap.max_recv_sge);
        fields.set("max_inline_data", cap.max_inline_data);
    }
    ibv_qp_init_attr |attr, fields| {
        queue_pair!(attr, fields);
    }
    ibv_qp_init_attr_ex |attr, fields| {
        let has = |bit: ibv_qp_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        queue_pair!(attr, fields);
        fields.field("comp_mask", Flags(&names::QP_INIT_MASK, attr.comp_mask.into()));
        if has(IBV_QP_INIT_ATTR_PD) {
            fields.field("pd", attr.pd);
        }
        if has(IBV_QP_INIT_ATTR_XRCD) {
            fields.field("xrcd", attr.xrcd);
        }
        if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) {
            fields.field("create_flags", Flags(&names::QP_CREATE, attr.create_flags.into()));
        }
        if has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
            fields.field("max_tso_header", attr.max_tso_header);
        }
        if has(IBV_QP_INIT_ATTR_IND_TABLE) {
            fields.field("rwq_ind_tbl", attr.rwq_ind_tbl);
        }
        if has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
            fields.field("send_ops_flags", Flags(&names::SEND_OPS, attr.send_ops_flags));
        }
    }
    ibv_qp_open_attr |attr, fields| {
        fields.field("comp_mask", Flags(&names::QP_OPEN_MASK, attr.comp_mask.into()));
        fields.field("qp_num", Hex(attr.qp_num.into()));
        fields.field("xrcd", attr.xrcd);
        fields.named("qp_type", &names::QP_TYPE, attr.qp_type);
    }
    ibv_qp_rate_limit_attr |attr, fields| {
        fields.field("rate_limit", attr.rate_limit);
        fields.field("max_burst_sz", attr.max_burst_sz);
        fields.field("typical_pkt_sz", attr.typical_pkt_sz);
        fields.set("comp_mask", attr.comp_mask);
    }
    ibv_ece |ece, fields| {
        fields.field("vendor_id", Hex(ece.vendor_id.into()));
        fields.field("options", Hex(ece.options.into()));
        fields.set("comp_mask", ece.comp_mask);
    }
    ibv_ah_attr |attr, fields| {
        if attr.is_global != 0 {
            fields.field("dgid", attr.grh.dgid);
            fields.field("sgid_index", attr.grh.sgid_index);
            fields.field("hop_limit", attr.grh.hop_limit);
            fields.set("traffic_class", attr.grh.traffic_class);
            fields.set("flow_label", attr.grh.flow_label);
        }
        fields.field("dlid", attr.dlid);
        fields.field("sl", attr.sl);
        fields.set("src_path_bits", attr.src_path_bits);
        fields.set("static_rate", attr.static_rate);
        fields.field("is_global", attr.is_global);
        fields.field("port_num", attr.port_num);
    }
    ibv_srq_attr |attr, fields| {
        fields.field("max_wr", attr.max_wr);
        fields.field("max_sge", attr.max_sge);
        fields.field("srq_limit", attr.srq_limit);
    }
    ibv_srq_init_attr |attr, fields| {
        fields.pointer("srq_context", attr.srq_context);
        fields.field("attr", attr.attr);
    }
    ibv_srq_init_attr_ex |attr, fields| {
        let has = |bit: ibv_srq_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        fields.pointer("srq_context", attr.srq_context);
        fields.field("attr", attr.attr);
        fields.field("comp_mask", Flags(&names::SRQ_INIT_MASK, attr.comp_mask.into()));
        if has(IBV_SRQ_INIT_ATTR_TYPE) {
            fields.named("srq_type", &names::SRQ_TYPE, attr.srq_type);
        }
        if has(IBV_SRQ_INIT_ATTR_PD) {
            fields.field("pd", attr.pd);
        }
        if has(IBV_SRQ_INIT_ATTR_XRCD) {
            fields.field("xrcd", attr.xrcd);
        }
        if has(IBV_SRQ_INIT_ATTR_CQ) {
            fields.field("cq", attr.cq);
        }
        if has(IBV_SRQ_INIT_ATTR_TM) {
            fields.field("max_num_tags", attr.tm_cap.max_num_tags);
            fields.field("max_ops", attr.tm_cap.max_ops);
        }
    }
    ibv_cq_init_attr_ex |attr, fields| {
        fields.field("cqe", attr.cqe);
        fields.field("cq_context", attr.cq_context);
        fields.field("channel", attr.channel);
        fields.field("comp_vector", attr.comp_vector);
        fields.field("wc_flags", Flags(&names::WC_EX, attr.wc_flags));
        fields.field("comp_mask", Flags(&names::CQ_INIT_MASK, attr.comp_mask.into()));
        if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS as u32 != 0 {
            fields.field("flags", Flags(&names::CQ_FLAGS, attr.flags.into()));
        }
        if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD as u32 != 0 {
            fields.field("parent_domain", attr.parent_domain);
        }
    }
    ibv_modify_cq_attr |attr, fields| {
        fields.field("attr_mask", Hex(attr.attr_mask.into()));
        fields.field("cq_count", attr.moderate.cq_count);
        fields.field("cq_period", attr.moderate.cq_period);
    }
    ibv_wq_init_attr |attr, fields| {
        fields.pointer("wq_context", attr.wq_context);
        fields.field("wq_type", attr.wq_type);
        fields.field("max_wr", attr.max_wr);
        fields.field("max_sge", attr.max_sge);
        fields.field("pd", attr.pd);
        fields.field("cq", attr.cq);
        fields.set("comp_mask", attr.comp_mask);
    }
    ibv_wq_attr |attr, fields| {
        if attr.attr_mask & IBV_WQ_ATTR_STATE as u32 != 0 {
            fields.named("wq_state", &names::WQ_STATE, attr.wq_state);
        }
        if attr.attr_mask & IBV_WQ_ATTR_CURR_STATE as u32 != 0 {
            fields.named("curr_wq_state", &names::WQ_STATE, attr.curr_wq_state);
        }
        if attr.attr_mask & IBV_WQ_ATTR_FLAGS as u32 != 0 {
            fields.field("flags", Hex(attr.flags.into()));
            fields.field("flags_mask", Hex(attr.flags_mask.into()));
        }
        fields.field("attr_mask", Flags(&names::WQ_MASK, attr.attr_mask.into()));
    }
    ibv_rwq_ind_table_init_attr |attr, fields| {
        fields.field("log_ind_tbl_size", attr.log_ind_tbl_size);
        fields.field("ind_tbl", Address(attr.ind_tbl));
        fields.set("comp_mask", attr.comp_mask);
    }
    ibv_mr_init_attr |attr, fields| {
        let has = |bit: ibv_mr_init_attr_mask| attr.comp_mask & bit as u64 != 0;
        fields.field("length", attr.length);
        fields.field("access", Flags(&names::ACCESS, attr.access as u32 as u64));
        fields.field("comp_mask", Flags(&names::REG_MASK, attr.comp_mask));
        if has(IBV_REG_MR_MASK_IOVA) {
            fields.field("iova", Hex(attr.iova));
        }
        if has(IBV_REG_MR_MASK_ADDR) {
            fields.field("addr", attr.addr);
        }
        if has(IBV_REG_MR_MASK_FD) {
            fields.field("fd", attr.fd);
        }
        if has(IBV_REG_MR_MASK_FD_OFFSET) {
            fields.field("fd_offset", attr.fd_offset);
        }
        if has(IBV_REG_MR_MASK_DMAH) {
            fields.field("dmah", attr.dmah);
        }
        if has(IBV_REG_MR_MASK_BUF) {
            fields.field("buf", attr.buf);
        }
    }
    ibv_mw_bind |bind, fields| {
        fields.field("wr_id", bind.wr_id);
        fields.flags("send_flags", &names::SEND_FLAGS, bind.send_flags.into());
        fields.field("mr", bind.bind_info.mr);
        fields.field("addr", Hex(bind.bind_info.addr));
        fields.field("length", bind.bind_info.length);
        fields.field("mw_access_flags", Flags(&names::ACCESS, bind.bind_info.mw_access_flags.into()));
    }
    ibv_alloc_dm_attr |attr, fields| {
        fields.field("length", attr.length);
        fields.field("log_align_req", attr.log_align_req);
        fields.set("comp_mask", attr.comp_mask);
    }
    ibv_td_init_attr |attr, fields| {
        fields.field("comp_mask", attr.comp_mask);
    }
    ibv_parent_domain_init_attr |attr, fields| {
        fields.field("pd", attr.pd);
        fields.field("td", attr.td);
        fields.field("comp_mask", Hex(attr.comp_mask.into()));
        if attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT as u32 != 0 {
            fields.field("pd_context", attr.pd_context);
        }
    }
    ibv_xrcd_init_attr |attr, fields| {
        fields.field("comp_mask", Hex(attr.comp_mask.into()));
        fields.field("fd", attr.fd);
        fields.field("oflags", Hex(attr.oflags as u32 as u64));
    }
    ibv_dmah_init_attr |attr, fields| {
        fields.field("comp_mask", Hex(attr.comp_mask.into()));
        fields.field("cpu_id", attr.cpu_id);
        fields.field("ph", attr.ph);
        fields.field("tph_mem_type", attr.tph_mem_type);
    }
    ibv_counters_init_attr |attr, fields| {
        fields.field("comp_mask", attr.comp_mask);
    }
    ibv_counter_attach_attr |attr, fields| {
        fields.field("counter_desc", attr.counter_desc);
        fields.field("index", attr.index);
        fields.set("comp_mask", attr.comp_mask);
    }
    ibv_comp_cntr_init_attr |attr, fields| {
        fields.field("comp_mask", attr.comp_mask);
        fields.field("type", attr.type_);
        fields.field("flags", attr.flags);
    }
    ibv_comp_cntr_caps |caps, fields| {
        fields.field("max_value", caps.max_value);
        fields.field("max_counters", caps.max_counters);
        fields.field(
            "supported_qp_attach_ops",
            Flags(&names::COMP_CNTR_OPS, caps.supported_qp_attach_ops.into()),
        );
    }
    ibv_qp_attach_comp_cntr_attr |attr, fields| {
        fields.set("comp_mask", attr.comp_mask);
        fields.field("op_mask", Flags(&names::COMP_CNTR_OPS, attr.op_mask.into()));
    }
    ibv_values_ex |values, fields| {
        fields.field("comp_mask", Hex(values.comp_mask.into()));
        fields.field("tv_sec", values.raw_clock.tv_sec as u64);
        fields.field("tv_nsec", values.raw_clock.tv_nsec as u64);
    }
    ibv_device_attr |attr, fields| {
        fields.field("fw_ver", Chars(&attr.fw_ver));
        fields.field("node_guid", Hex(u64::from_be(attr.node_guid)));
        fields.field("vendor_id", Hex(attr.vendor_id.into()));
        fields.field("vendor_part_id", attr.vendor_part_id);
        fields.field("max_mr_size", attr.max_mr_size);
        fields.field("max_qp", attr.max_qp);
        fields.field("max_qp_wr", attr.max_qp_wr);
        fields.field("max_sge", attr.max_sge);
        fields.field("max_cq", attr.max_cq);
        fields.field("max_cqe", attr.max_cqe);
        fields.field("max_mr", attr.max_mr);
        fields.field("max_pd", attr.max_pd);
        fields.field("max_qp_rd_atom", attr.max_qp_rd_atom);
        fields.field("max_qp_init_rd_atom", attr.max_qp_init_rd_atom);
        fields.named("atomic_cap", &names::ATOMIC_CAP, attr.atomic_cap);
        fields.field("max_srq", attr.max_srq);
        fields.field("phys_port_cnt", attr.phys_port_cnt);
    }
    ibv_query_device_ex_input |input, fields| {
        fields.field("comp_mask", input.comp_mask);
    }
    ibv_gid_entry |entry, fields| {
        fields.field("gid", entry.gid);
        fields.field("gid_index", entry.gid_index);
        fields.field("port_num", entry.port_num);
        fields.named("gid_type", &names::GID_TYPE, entry.gid_type);
        fields.field("ndev_ifindex", entry.ndev_ifindex);
    }
    ibv_sge |sge, fields| {
        fields.field("addr", Hex(sge.addr));
        fields.field("length", sge.length);
        fields.field("lkey", Hex(sge.lkey.into()));
    }
    ibv_wc |wc, fields| {
        fields.field("wr_id", wc.wr_id);
        fields.field("byte_len", wc.byte_len);
        fields.field("qp_num", Hex(wc.qp_num.into()));
        fields.field("src_qp", Hex(wc.src_qp.into()));
        fields.flags("wc_flags", &names::WC_FLAGS, wc.wc_flags.into());
        fields.field("slid", wc.slid);
        fields.field("sl", wc.sl);
    }
    ibv_async_event |event, fields| {
        fields.named("event_type", &names::EVENT, event.event_type);
        // SAFETY: the type says what the event is about.
        unsafe {
            match subject(event.event_type) {
                Subject::Cq => fields.field("cq", event.element.cq),
                Subject::Qp => fields.field("qp", event.element.qp),
                Subject::Srq => fields.field("srq", event.element.srq),
                Subject::Wq => fields.field("wq", event.element.wq),
                Subject::Port => fields.field("port_num", event.element.port_num),
            }
        }
    }
    ibv_flow_attr |attr, fields| {
        fields.field("comp_mask", attr.comp_mask);
        fields.field("type", attr.type_);
        fields.field("size", attr.size);
        fields.field("priority", attr.priority);
        fields.field("num_of_specs", attr.num_of_specs);
        fields.field("port", attr.port);
        fields.field("flags", Hex(attr.flags.into()));
    }
    ibv_flow_action_esp_attr |attr, fields| {
        fields.field("comp_mask", Hex(attr.comp_mask.into()));
    }
}

/// The first attributes of a port, of which every program's struct has room for 48 bytes.
pub struct Port(pub *const ibv_port_attr);

impl Shown for Port {
    unsafe fn show(&self, line: &mut Line) {
        if self.0.is_null() {
            return line.put("NULL");
        }
        let port = self.0;
        let mut fields = Fields::begin(line);
        // SAFETY: by the contract, and within the 48 bytes; not by a reference, since there may be no more.
        unsafe {
            fields.named("state", &names::PORT_STATE, (*port).state);
            fields.field("max_mtu", mtu((*port).max_mtu));
            fields.field("active_mtu", mtu((*port).active_mtu));
            fields.field("gid_tbl_len", (*port).gid_tbl_len);
            fields.field("max_msg_sz", (*port).max_msg_sz);
            fields.field("pkey_tbl_len", (*port).pkey_tbl_len);
            fields.field("lid", (*port).lid);
            fields.field("sm_lid", (*port).sm_lid);
            fields.field("active_width", (*port).active_width);
            fields.field("active_speed", (*port).active_speed);
            fields.named("link_layer", &names::LINK_LAYER, (*port).link_layer);
        }
        fields.end();
    }
}

/// The attributes of a queue pair that a mask names.
pub struct QpAttr(pub *const ibv_qp_attr, pub c_int);

impl Shown for QpAttr {
    fn word(&self) -> u64 {
        self.0 as u64
    }

    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract.
        let Some(attr) = (unsafe { self.0.as_ref() }) else { return line.put("NULL") };
        let has = |bit: ibv_qp_attr_mask| self.1 as u32 & bit as u32 != 0;
        let mut fields = Fields::begin(line);
        macro_rules! when {
            ($($bit:ident: $($name:ident)+;)+) => {
                $(if has($bit) { $(fields.field(stringify!($name), attr.$name);)+ })+
            };
        }
        if has(IBV_QP_STATE) {
            fields.named("qp_state", &names::QP_STATE, attr.qp_state);
        }
        if has(IBV_QP_CUR_STATE) {
            fields.named("cur_qp_state", &names::QP_STATE, attr.cur_qp_state);
        }
        if has(IBV_QP_ACCESS_FLAGS) {
            fields.field("qp_access_flags", Flags(&names::ACCESS, attr.qp_access_flags.into()));
        }
        when! {
            IBV_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify;
            IBV_QP_PKEY_INDEX: pkey_index;
            IBV_QP_PORT: port_num;
        }
        if has(IBV_QP_QKEY) {
            fields.field("qkey", Hex(attr.qkey.into()));
        }
        if has(IBV_QP_AV) {
            fields.field("ah_attr", attr.ah_attr);
        }
        if has(IBV_QP_PATH_MTU) {
            fields.field("path_mtu", mtu(attr.path_mtu));
        }
        if has(IBV_QP_DEST_QPN) {
            fields.field("dest_qp_num", Hex(attr.dest_qp_num.into()));
        }
        when! {
            IBV_QP_TIMEOUT: timeout;
            IBV_QP_RETRY_CNT: retry_cnt;
            IBV_QP_RNR_RETRY: rnr_retry;
            IBV_QP_RQ_PSN: rq_psn;
            IBV_QP_SQ_PSN: sq_psn;
            IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
            IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
            IBV_QP_MIN_RNR_TIMER: min_rnr_timer;
            IBV_QP_ALT_PATH: alt_ah_attr alt_pkey_index alt_port_num alt_timeout;
        }
        if has(IBV_QP_PATH_MIG_STATE) {
            fields.named("path_mig_state", &names::MIG_STATE, attr.path_mig_state);
        }
        when! {
            IBV_QP_CAP: cap;
            IBV_QP_RATE_LIMIT: rate_limit;
        }
        fields.end();
    }
}

/// The attributes of a shared receive queue that a mask names.
pub struct SrqAttr(pub *const ibv_srq_attr, pub c_int);

impl Shown for SrqAttr {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract.
        let Some(attr) = (unsafe { self.0.as_ref() }) else { return line.put("NULL") };
        let mut fields = Fields::begin(line);
        if self.1 & IBV_SRQ_MAX_WR as c_int != 0 {
            fields.field("max_wr", attr.max_wr);
        }
        if self.1 & IBV_SRQ_LIMIT as c_int != 0 {
            fields.field("srq_limit", attr.srq_limit);
        }
        fields.end();
    }
}

/// The attributes that every `ibv_device_attr_ex` has.
pub struct DeviceAttrEx(pub *const ibv_device_attr_ex);

impl Shown for DeviceAttrEx {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract; the first field, which every program's struct has whole.
        unsafe { self.0.cast::<ibv_device_attr>().show(line) }
    }
}

/// Rights.
#[must_use]
pub fn access(flags: impl TryInto<u64> + Copy) -> Flags {
    Flags(&names::ACCESS, flags.try_into().unwrap_or(u64::MAX))
}

/// The bits of a C `int`.
#[must_use]
pub fn bits(names: &'static Names, word: c_int) -> Flags {
    Flags(names, u64::from(word as u32))
}

/// The elements of a list of the program's.
#[must_use]
pub fn list<T>(first: *const T, count: usize) -> List<T> {
    List(first, count)
}
