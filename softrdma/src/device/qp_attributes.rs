//! Attributes of queue pairs: sizes, what changes, and which changes are accepted.

use crate::rules::qp::{self, Effect};
use crate::rules::verbs::{Access, Attr, QpState, QpType};

use crate::shm::addresses::EVERYBODY;

use super::{Error, LIMITS, Result};

/// Size of `struct ibv_sge`.
const SGE_BYTES: u32 = 16;

/// Sizes of a queue pair (`struct ibv_qp_cap`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Send requests.
    pub max_send_wr: u32,
    /// Receive requests.
    pub max_recv_wr: u32,
    /// Elements of a send request.
    pub max_send_sge: u32,
    /// Elements of a receive request.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
}

impl Capabilities {
    /// Whether the device offers so much.
    pub(super) fn check(&self) -> Result<()> {
        let fits = self.max_send_wr <= LIMITS.max_qp_wr
            && self.max_recv_wr <= LIMITS.max_qp_wr
            && self.max_send_sge <= LIMITS.max_sge
            && self.max_recv_sge <= LIMITS.max_sge
            && self.max_inline_data <= LIMITS.max_inline_data;
        if fits { Ok(()) } else { Err(Error::Invalid("sizes")) }
    }

    /// Inline data as soft-RoCE grants it, in the place that the elements have at least: programs count on some
    /// without asking for any, as librdmacm's rdma_xclient does.
    pub(super) fn round_up(&mut self) {
        self.max_inline_data = self.max_inline_data.max(self.max_send_sge * SGE_BYTES);
    }
}

/// The path to a peer (`struct ibv_ah_attr`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Path {
    /// Address of the receiver.
    pub dgid: [u8; 16],
    /// `grh.flow_label`
    pub flow_label: u32,
    /// `grh.sgid_index`
    pub sgid_index: u8,
    /// `grh.hop_limit`
    pub hop_limit: u8,
    /// `grh.traffic_class`
    pub traffic_class: u8,
    /// `dlid`
    pub dlid: u16,
    /// `sl`
    pub sl: u8,
    /// `src_path_bits`
    pub src_path_bits: u8,
    /// `static_rate`
    pub static_rate: u8,
    /// `is_global`
    pub is_global: bool,
    /// `port_num`
    pub port_num: u8,
    /// The address of the entry of the GID table that `sgid_index` names, where it is on the network.
    pub source: Option<Source>,
    /// The entry itself; zeros where the path has no GRH.
    pub sgid: [u8; 16],
}

/// An address of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The address, as a GID.
    pub address: [u8; 16],
    /// Index of the network interface that has it.
    pub interface: u32,
    /// The largest path MTU, in bytes, of packets that go through it.
    pub mtu: u32,
}

/// The LID of every process of a folder, for whoever names peers as on InfiniBand: all are one port.
pub const LID: u16 = 1;

/// An address that leads nowhere (RFC 6666).
const NOBODY: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

impl Path {
    /// The address that it leads to: by GID where it has a GRH, else by LID.
    #[must_use]
    pub fn destination(&self) -> [u8; 16] {
        match (self.is_global, self.dlid) {
            (true, _) => self.dgid,
            (false, LID) => EVERYBODY,
            (false, _) => NOBODY,
        }
    }
}

/// Attributes of a queue pair that change (`struct ibv_qp_attr`). Numbers are as in the C struct, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// `qp_state`
    pub state: QpState,
    /// `cur_qp_state`
    pub cur_state: QpState,
    /// `path_mtu`, an `enum ibv_mtu`.
    pub path_mtu: u32,
    /// `path_mig_state`, an `enum ibv_mig_state`.
    pub path_mig_state: u32,
    /// `qkey`
    pub qkey: u32,
    /// `rq_psn`
    pub rq_psn: u32,
    /// `sq_psn`
    pub sq_psn: u32,
    /// `dest_qp_num`
    pub dest_qp_num: u32,
    /// `qp_access_flags`
    pub access: Access,
    /// `cap`
    pub cap: Capabilities,
    /// `ah_attr`
    pub path: Path,
    /// `alt_ah_attr`
    pub alt_path: Path,
    /// `pkey_index`
    pub pkey_index: u16,
    /// `alt_pkey_index`
    pub alt_pkey_index: u16,
    /// `en_sqd_async_notify`
    pub en_sqd_async_notify: bool,
    /// `max_rd_atomic`
    pub max_rd_atomic: u8,
    /// `max_dest_rd_atomic`
    pub max_dest_rd_atomic: u8,
    /// `min_rnr_timer`
    pub min_rnr_timer: u8,
    /// `port_num`
    pub port_num: u8,
    /// `timeout`
    pub timeout: u8,
    /// `retry_cnt`
    pub retry_cnt: u8,
    /// `rnr_retry`
    pub rnr_retry: u8,
    /// `alt_port_num`
    pub alt_port_num: u8,
    /// `alt_timeout`
    pub alt_timeout: u8,
}

impl Default for Attributes {
    /// Those of a new queue pair.
    fn default() -> Self {
        Self {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            path_mtu: 0,
            path_mig_state: 0,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            dest_qp_num: 0,
            access: Access::NONE,
            cap: Capabilities::default(),
            path: Path::default(),
            alt_path: Path::default(),
            pkey_index: 0,
            alt_pkey_index: 0,
            en_sqd_async_notify: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port_num: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            alt_port_num: 0,
            alt_timeout: 0,
        }
    }
}

/// What a query answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queried {
    /// The attributes, with the state and sizes as they are now.
    pub attributes: Attributes,
    /// `sq_draining`: going to SQD, and not everything that was started is done.
    pub sq_draining: bool,
    /// `sq_sig_all`
    pub sq_sig_all: bool,
}

impl Attributes {
    /// Checks a change to these, as every Linux device does and then this one. `draining`: the send queue is in
    /// SQD and not done with what it started.
    pub(super) fn check_change(
        &self,
        qp_type: QpType,
        mask: Attr,
        current: QpState,
        next: QpState,
        draining: bool,
    ) -> Result<Effect> {
        let invalid = |what| Err(Error::Invalid(what));
        if mask.has(Attr::CUR_STATE) && self.cur_state != current {
            return invalid("cur_qp_state is another");
        }
        let effect = qp::modify(qp_type, current, next, mask).map_err(Error::Modify)?;
        if mask.has(Attr::STATE) && draining && !matches!(next, QpState::Err | QpState::Reset) {
            return invalid("the send queue is still draining");
        }
        if mask.has(Attr::PORT) && self.port_num != 1 {
            return invalid("port_num");
        }
        let is_nowhere = !self.path.is_global && self.path.dlid == 0;
        if mask.has(Attr::AV) && (self.path.port_num != 1 || is_nowhere) {
            return invalid("ah_attr");
        }
        if mask.has(Attr::ALT_PATH) {
            // As on every RoCE device.
            return invalid("no alternate paths");
        }
        if mask.has(Attr::PATH_MTU) && !(1..=5).contains(&self.path_mtu) {
            return invalid("path_mtu");
        }
        if mask.has(Attr::TIMEOUT) && self.timeout > 31 {
            return invalid("timeout");
        }
        let most = LIMITS.max_rd_atomic;
        if mask.has(Attr::MAX_QP_RD_ATOMIC) && self.max_rd_atomic > most {
            return invalid("max_rd_atomic");
        }
        if mask.has(Attr::MAX_DEST_RD_ATOMIC) && self.max_dest_rd_atomic > most {
            return invalid("max_dest_rd_atomic");
        }
        Ok(effect)
    }

    /// These after a change to `new`.
    pub(super) fn merged(&self, mask: Attr, new: &Attributes) -> Self {
        let mut now = *self;
        let mut set = |flag: Attr, change: &dyn Fn(&mut Self)| {
            if mask.has(flag) {
                change(&mut now);
            }
        };
        // Powers of two, as adapters count them.
        let rounded = |n: u8| if n == 0 { 0 } else { n.next_power_of_two() };
        set(Attr::EN_SQD_ASYNC_NOTIFY, &|a| a.en_sqd_async_notify = new.en_sqd_async_notify);
        set(Attr::ACCESS_FLAGS, &|a| a.access = new.access);
        set(Attr::PKEY_INDEX, &|a| a.pkey_index = new.pkey_index);
        set(Attr::PORT, &|a| a.port_num = new.port_num);
        set(Attr::QKEY, &|a| a.qkey = new.qkey);
        set(Attr::AV, &|a| a.path = new.path);
        set(Attr::PATH_MTU, &|a| a.path_mtu = new.path_mtu);
        set(Attr::TIMEOUT, &|a| a.timeout = new.timeout);
        set(Attr::RETRY_CNT, &|a| a.retry_cnt = new.retry_cnt & 7);
        set(Attr::RNR_RETRY, &|a| a.rnr_retry = new.rnr_retry & 7);
        set(Attr::RQ_PSN, &|a| a.rq_psn = new.rq_psn & 0xff_ffff);
        set(Attr::SQ_PSN, &|a| a.sq_psn = new.sq_psn & 0xff_ffff);
        set(Attr::MAX_QP_RD_ATOMIC, &|a| a.max_rd_atomic = rounded(new.max_rd_atomic));
        set(Attr::MAX_DEST_RD_ATOMIC, &|a| a.max_dest_rd_atomic = rounded(new.max_dest_rd_atomic));
        set(Attr::MIN_RNR_TIMER, &|a| a.min_rnr_timer = new.min_rnr_timer & 31);
        set(Attr::PATH_MIG_STATE, &|a| a.path_mig_state = new.path_mig_state);
        set(Attr::DEST_QPN, &|a| a.dest_qp_num = new.dest_qp_num & 0xff_ffff);
        now
    }
}
