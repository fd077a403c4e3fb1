//! Queue pairs.

use std::sync::Arc;

use crate::core::receive::Sge;
use crate::core::verbs::{Access, Attr, QpState, QpType};

use super::wr::Wr;
use super::{CompletionQueue, Device, EventQueue, Rejected, Result, SharedReceiveQueue, XrcDomain};

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

/// What a queue pair is made of (`struct ibv_qp_init_attr_ex`).
#[derive(Debug, Clone)]
pub struct QpInit {
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain; for an XRC target, which has none, 0.
    pub pd: u32,
    /// Where send requests complete; none for an XRC target.
    pub send_cq: Option<Arc<CompletionQueue>>,
    /// Where receive requests complete; none for XRC.
    pub recv_cq: Option<Arc<CompletionQueue>>,
    /// The shared receive queue it receives from.
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// Sizes.
    pub cap: Capabilities,
    /// Every send request asks for a completion.
    pub sq_sig_all: bool,
    /// XRC target: the domain.
    pub xrcd: Option<Arc<XrcDomain>>,
    /// Where its asynchronous events go.
    pub events: Arc<EventQueue>,
    /// Comes back with its events.
    pub cookie: usize,
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
        todo!()
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

/// A queue pair (`struct ibv_qp`).
#[derive(Debug)]
pub struct QueuePair {}

impl QueuePair {
    /// A new queue pair in RESET.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for sizes out of range or queues that the type needs and that are
    /// missing, [`Error::NoMemory`](super::Error::NoMemory).
    pub fn new(_device: &Arc<Device>, _init: &QpInit) -> Result<Arc<Self>> {
        todo!()
    }

    /// Its number.
    #[must_use]
    pub fn qp_num(&self) -> u32 {
        todo!()
    }

    /// Its type.
    #[must_use]
    pub fn qp_type(&self) -> QpType {
        todo!()
    }

    /// The sizes it was made with: at least what was asked for.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        todo!()
    }

    /// Its state, which peers change to ERR.
    #[must_use]
    pub fn state(&self) -> QpState {
        todo!()
    }

    /// Changes attributes (`ibv_modify_qp`). `mask` names those of `attributes` that count.
    ///
    /// # Errors
    /// [`Error::Modify`](super::Error::Modify) when the change is not legal now, [`Error::Invalid`](super::Error::Invalid)
    /// for a value out of range. Nothing has changed then.
    pub fn modify(&self, _mask: Attr, _attributes: &Attributes) -> Result<()> {
        todo!()
    }

    /// Attributes as they are now (`ibv_query_qp`).
    #[must_use]
    pub fn query(&self) -> Queried {
        todo!()
    }

    /// Posts a send request. Nothing of `wr` is needed afterwards, except registered memory.
    ///
    /// # Errors
    /// The first rule that the request breaks; nothing was queued then.
    pub fn post_send(&self, _wr: &Wr<'_>) -> std::result::Result<(), Rejected> {
        todo!()
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// [`Rejected::State`] in RESET and on a queue pair with a shared receive queue, [`Rejected::TooManySges`],
    /// [`Rejected::Full`].
    pub fn post_receive(&self, _wr_id: u64, _sges: &[Sge]) -> std::result::Result<(), Rejected> {
        todo!()
    }

    /// Ends the queue pair. Its requests are gone without completions, and so are completions of it that nobody polled.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error::Busy) while it is in a multicast group, or opened by others.
    pub fn destroy(&self) -> Result<()> {
        todo!()
    }
}
