//! Work requests given to the kernel one by one, for drivers whose queues are not mapped.

use super::Udata;
use super::command::execute_legacy;
use super::device_file::DeviceFile;
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::*;
use crate::errno::Result;

/// A list of work requests in the kernel's form.
#[derive(Default)]
pub struct Requests {
    requests: Vec<u8>,
    entries: Vec<u8>,
    count: u32,
    sge_count: u32,
}

impl Requests {
    /// Adds a request with the scatter/gather entries that it counts in `num_sge`, as bytes.
    pub fn push<T: Pod>(&mut self, request: &T, entries: &[u8]) {
        self.requests.extend_from_slice(request.as_bytes());
        self.entries.extend_from_slice(entries);
        self.count += 1;
        self.sge_count += (entries.len() / size_of::<ib_uverbs_sge>()) as u32;
    }
}

/// What became of a list of work requests.
pub struct Posted {
    /// Whether the kernel took all of them.
    pub done: Result<()>,
    /// Which request, counted from 1, is the first that it did not take; 0 if it says nothing.
    pub bad_wr: u32,
}

/// Posts sends ([`ib_uverbs_send_wr`]) to a queue pair.
///
/// Path: legacy command.
pub fn send(file: &DeviceFile, qp: u32, list: &Requests) -> Posted {
    post(file, IB_USER_VERBS_CMD_POST_SEND, qp, size_of::<ib_uverbs_send_wr>(), list)
}

/// Posts receives ([`ib_uverbs_recv_wr`]) to a queue pair.
///
/// Path: legacy command.
pub fn recv(file: &DeviceFile, qp: u32, list: &Requests) -> Posted {
    post(file, IB_USER_VERBS_CMD_POST_RECV, qp, size_of::<ib_uverbs_recv_wr>(), list)
}

/// Posts receives ([`ib_uverbs_recv_wr`]) to a shared receive queue.
///
/// Path: legacy command.
pub fn srq_recv(file: &DeviceFile, srq: u32, list: &Requests) -> Posted {
    post(file, IB_USER_VERBS_CMD_POST_SRQ_RECV, srq, size_of::<ib_uverbs_recv_wr>(), list)
}

/// The three commands have the same header and the same answer.
fn post(file: &DeviceFile, command: u32, handle: u32, wqe_size: usize, list: &Requests) -> Posted {
    let header = ib_uverbs_post_send {
        response: 0,
        qp_handle: handle,
        wr_count: list.count,
        sge_count: list.sge_count,
        wqe_size: wqe_size as u32,
    };
    let request = [header.as_bytes(), &list.requests, &list.entries].concat();
    let mut answer = ib_uverbs_post_send_resp::default();
    let done = execute_legacy(file, command, &request, answer.as_bytes_mut(), Udata::none());
    Posted { done, bad_wr: answer.bad_wr }
}
