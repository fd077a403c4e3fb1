//! Queue pairs.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use queue_lock::QueueLock;

use super::SiwContext;
use super::recv::ReceiveQueue;
use super::send::SendQueue;
use super::slots::Slots;
use crate::abi::uapi::Pod;
use crate::abi::uapi::siw_user::siw_uresp_create_qp;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Qps;
use crate::provider::{event_name, kernel, public_fields};
use crate::uverbs::{self, Udata};

/// A queue pair.
#[repr(C)]
pub struct Qp {
    public: UnsafeCell<ibv_qp>,
    /// Made through a device file that another process may have opened.
    pub imported: bool,
    /// Send queue.
    pub send: QueueLock<SendQueue>,
    /// Receive queue; none where a shared one is used.
    receive: Option<QueueLock<ReceiveQueue>>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Qp {
    type Public = ibv_qp;
}

impl Qp {
    fn new(public: ibv_qp, imported: bool, send: SendQueue, receive: Option<ReceiveQueue>) -> Self {
        Self {
            public: UnsafeCell::new(public),
            imported,
            send: QueueLock::new(send),
            receive: receive.map(QueueLock::new),
        }
    }
}

/// Posts receive requests; 0 or a negative errno value, as rdma-core's soft-iWARP gives them. Requests before
/// the one that failed are posted.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair of a context whose table holds this function.
    let Some(object) = (unsafe { Qp::from_c(qp) }) else { return -Errno::EINVAL.0 };
    let Some(receive) = &object.receive else { return -Errno::EINVAL.0 };
    // SAFETY: the program passes a valid list and a place for the answer, or null.
    unsafe { receive.lock().post(list, bad_wr) }
}

impl Qps for SiwContext {
    /// Creates a queue pair; `attr.cap` gets the sizes given.
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        // SAFETY: a live handle; the program passes live objects or null.
        let mut request = unsafe {
            let pd = Some((*pd.as_ptr()).handle);
            kernel::qp::request(attr.qp_type, pd, attr.send_cq, attr.recv_cq, attr.srq, attr.sq_sig_all)
        };
        let (qp_type, signal_all, shared) = (request.qp_type, request.sq_sig_all, !attr.srq.is_null());
        let qp = event_name::create(
            |user_handle| {
                request.user_handle = user_handle;
                let mut answer = siw_uresp_create_qp::default();
                let udata = Udata::answer(answer.as_bytes_mut());
                let created =
                    uverbs::qp::create(&self.file, &request, &mut attr.cap, udata).inspect_err(|errno| {
                        trace!(
                            Error,
                            "siw: create_qp: {errno:?}; type {}, asked {:?}",
                            attr.qp_type,
                            sizes(attr)
                        );
                    })?;
                Ok((created, answer))
            },
            |(created, answer)| {
                let send =
                    SendQueue::new(Slots::map(&self.file, answer.sq_key, answer.num_sqe, 0)?, signal_all);
                let receive = if shared {
                    None
                } else {
                    Some(ReceiveQueue::new(Slots::map(&self.file, answer.rq_key, answer.num_rqe, 0)?))
                };
                let public = public_fields::of_qp(created.handle, created.qp_num, qp_type);
                Ok(Qp::new(public, self.file.is_imported(), send, receive))
            },
            |(created, _)| {
                let _ = uverbs::qp::destroy(&self.file, created.handle);
            },
        )?;
        public_fields::name_qp_parts(qp, pd, attr);
        Ok(qp)
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        // SAFETY: queue pairs of this provider are published as Qp.
        unsafe { kernel::qp::destroy::<Qp>(&self.file, qp) }
    }
}

/// The numbers asked for, for the trace.
fn sizes(attr: &ibv_qp_init_attr) -> [u32; 5] {
    let cap = &attr.cap;
    [cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data]
}

// Miri has no memory files that can be mapped.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::memory::Memory;
    use super::super::send::post_send;
    use super::*;
    use crate::abi::uapi::siw_user::*;
    use core::ptr::null_mut;
    use std::os::fd::AsRawFd;

    const SEND: usize = size_of::<siw_sqe>();
    const RECEIVE: usize = size_of::<siw_rqe>();

    /// A queue pair of four slots each way; its doorbell is a file that takes no writes, or one that takes all.
    struct Pair {
        send: Memory,
        receive: Memory,
        qp: Handle<ibv_qp>,
        _doorbell: std::fs::File,
    }

    fn pair(accepting: bool, signal_all: bool) -> Pair {
        let (send, receive) = (Memory::new(4 * SEND), Memory::new(4 * RECEIVE));
        let doorbell = if accepting {
            std::fs::OpenOptions::new().write(true).open("/dev/null")
        } else {
            std::fs::File::open("/dev/null")
        }
        .unwrap();
        // SAFETY: plain C data. The context leaks on purpose: it must outlive the queue pair.
        let (context, mut public): (&mut ibv_context, ibv_qp) =
            unsafe { (Box::leak(Box::new(core::mem::zeroed())), core::mem::zeroed()) };
        context.cmd_fd = doorbell.as_raw_fd();
        public.context = context;
        let queue = SendQueue::new(Slots::map(&send.device, 0, 4, 0).unwrap(), signal_all);
        let receive_queue = ReceiveQueue::new(Slots::map(&receive.device, 0, 4, 0).unwrap());
        let qp = Handle::publish(Box::new(Qp::new(public, false, queue, Some(receive_queue))));
        Pair { send, receive, qp, _doorbell: doorbell }
    }

    fn request(id: u64, opcode: ibv_wr_opcode, flags: u32, list: &mut [ibv_sge]) -> ibv_send_wr {
        // SAFETY: plain C data.
        let mut wr: ibv_send_wr = unsafe { core::mem::zeroed() };
        wr.wr_id = id;
        wr.opcode = opcode as u32;
        wr.send_flags = flags;
        wr.sg_list = list.as_mut_ptr();
        wr.num_sge = list.len() as c_int;
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: 0x1000, rkey: 0x55 };
        wr
    }

    /// Result, and the position of the request named as bad.
    fn post(pair: &Pair, requests: &mut [ibv_send_wr]) -> (c_int, Option<usize>) {
        let first = requests.as_mut_ptr();
        for i in 1..requests.len() {
            requests[i - 1].next = first.wrapping_add(i);
        }
        let mut bad = core::ptr::dangling_mut();
        // SAFETY: a live queue pair and a list of valid requests.
        let answer = unsafe { post_send(pair.qp.as_ptr(), first, &raw mut bad) };
        let position = (!bad.is_null()).then(|| (bad as usize - first as usize) / size_of::<ibv_send_wr>());
        (answer, position)
    }

    #[test]
    fn a_request_stands_in_its_slot_as_the_driver_reads_it() {
        let pair = pair(true, false);
        let mut list = [ibv_sge { addr: 0x2000, length: 9, lkey: 3 }; 2];
        let flags = IBV_SEND_SIGNALED as u32 | IBV_SEND_FENCE as u32;
        assert_eq!(post(&pair, &mut [request(7, IBV_WR_RDMA_READ, flags, &mut list)]), (0, None));
        let sqe: siw_sqe = pair.send.get(0);
        assert_eq!((sqe.id, sqe.opcode, sqe.num_sge, sqe.rkey, sqe.raddr), (7, SIW_OP_READ, 2, 0x55, 0x1000));
        assert_eq!(sqe.flags, SIW_WQE_VALID | SIW_WQE_SIGNALLED | SIW_WQE_READ_FENCE);
        assert_eq!((sqe.sge[1].laddr, sqe.sge[1].length, sqe.sge[1].lkey), (0x2000, 9, 3));
    }

    #[test]
    fn inline_bytes_follow_each_other_and_have_a_limit() {
        let pair = pair(true, true);
        let bytes = *b"soft iWARP";
        let addr = bytes.as_ptr().expose_provenance() as u64;
        let mut list = [ibv_sge { addr, length: 4, lkey: 0 }, ibv_sge { addr: addr + 4, length: 6, lkey: 0 }];
        let inline = IBV_SEND_INLINE as u32;
        assert_eq!(post(&pair, &mut [request(1, IBV_WR_SEND, inline, &mut list)]), (0, None));
        let sqe: siw_sqe = pair.send.get(0);
        assert_eq!((sqe.flags, sqe.sge[0].length), (SIW_WQE_VALID | SIW_WQE_INLINE | SIW_WQE_SIGNALLED, 10));
        assert_eq!(sqe.sge[1].as_bytes()[..10], bytes);

        let long = [0u8; 81];
        let addr = long.as_ptr().expose_provenance() as u64;
        let mut list = [ibv_sge { addr, length: 81, lkey: 0 }];
        assert_eq!(post(&pair, &mut [request(2, IBV_WR_SEND, inline, &mut list)]), (-libc::EINVAL, Some(0)));
        list[0].length = 80;
        assert_eq!(post(&pair, &mut [request(3, IBV_WR_SEND, inline, &mut list)]), (0, None));
    }

    #[test]
    fn refusals_are_negative_and_a_full_queue_takes_what_fits() {
        let pair = pair(true, false);
        let mut list = [ibv_sge { addr: 0, length: 0, lkey: 0 }; 7];
        let mut send = |opcode| request(1, opcode, 0, &mut list[..1]);
        assert_eq!(post(&pair, &mut [send(IBV_WR_ATOMIC_FETCH_AND_ADD)]), (-libc::EINVAL, Some(0)));
        // The driver was told of the first request, and its answer is the result.
        assert_eq!(post(&pair, &mut [send(IBV_WR_SEND), send(IBV_WR_BIND_MW)]), (0, Some(1)));
        // Busy with that one, it is told no more.
        assert_eq!(post(&pair, &mut [send(IBV_WR_SEND), send(IBV_WR_BIND_MW)]), (-libc::EINVAL, Some(1)));
        assert_eq!(
            post(&pair, &mut [send(IBV_WR_SEND), send(IBV_WR_SEND), send(IBV_WR_SEND)]),
            (-libc::ENOMEM, Some(2))
        );
        pair.send.put(0, &siw_sqe::default());
        assert_eq!(post(&pair, &mut [request(9, IBV_WR_SEND, 0, &mut list)]), (-libc::EINVAL, Some(0)));
        assert_eq!(post(&pair, &mut [request(9, IBV_WR_SEND, 0, &mut list[..6])]), (0, None));
        assert_eq!(pair.send.get::<siw_sqe>(0).id, 9);
    }

    #[test]
    fn a_driver_that_refuses_is_minus_one() {
        let pair = pair(false, false);
        let mut list = [ibv_sge { addr: 0, length: 0, lkey: 0 }];
        assert_eq!(post(&pair, &mut [request(1, IBV_WR_SEND, 0, &mut list)]), (-1, None));
        assert_eq!(Errno::last(), Errno::EBADF);
    }

    #[test]
    fn receives_need_a_buffer_and_a_free_slot() {
        let pair = pair(true, false);
        let mut list = [ibv_sge { addr: 0x3000, length: 5, lkey: 4 }; 7];
        let mut receive = |id, count| {
            let mut wr =
                ibv_recv_wr { wr_id: id, next: null_mut(), sg_list: list.as_mut_ptr(), num_sge: count };
            let mut bad = null_mut();
            // SAFETY: a live queue pair and a valid request.
            let answer = unsafe { post_recv(pair.qp.as_ptr(), &raw mut wr, &raw mut bad) };
            assert_eq!(bad.is_null(), answer == 0);
            answer
        };
        assert_eq!(
            (receive(1, 0), receive(1, 7), receive(1, -1)),
            (-libc::EINVAL, -libc::EINVAL, -libc::EINVAL)
        );
        assert_eq!((1..=4).map(|id| receive(id, 1 + (id as c_int & 3))).collect::<Vec<_>>(), [0; 4]);
        assert_eq!(receive(5, 1), -libc::ENOMEM);
        let rqe: siw_rqe = pair.receive.get(RECEIVE);
        assert_eq!((rqe.id, rqe.flags, rqe.num_sge, rqe.sge[2].laddr), (2, SIW_WQE_VALID, 3, 0x3000));
        pair.receive.put(0, &siw_rqe::default());
        assert_eq!(receive(5, 1), 0);
    }

    use crate::uverbs::played::{Answers, answer_with, few};
    use bolero::TypeGenerator;

    /// What a program and a hostile driver may do.
    #[derive(Clone, Debug, TypeGenerator)]
    enum Act {
        /// The driver writes bytes into a queue.
        Bytes {
            queue: u8,
            at: u16,
            bytes: [u8; 4],
        },
        Send(#[generator(few(4))] Vec<(u8, u8, i8, u32)>),
        Receive(i8),
        Poll(i8),
        Arm,
    }

    #[derive(Clone, Debug, TypeGenerator)]
    struct Acts(#[generator(few(16))] Vec<Act>);

    /// Every slot with bytes of anybody's choice, and lists as C programs post them: what lies behind the slots
    /// stays.
    #[test]
    fn fuzz_siw_queues() {
        use super::super::cq::{poll_cq, req_notify_cq, tests::queue};
        let buffer = vec![0x11u8; 256];
        let addr = buffer.as_ptr().expose_provenance() as u64;
        let pair = pair(true, false);
        // Beyond the ends of the mappings' contents, which are less than a page each.
        let (ends, behind) = ([4 * SEND, 4 * RECEIVE, 4 * 32 + 8], [0xa5u8; 24]);
        corpus::check!().with_type::<Acts>().for_each(|Acts(acts)| {
            let completions = Memory::new(4096);
            let cq = queue(&completions, 4);
            let memories = [&pair.send, &pair.receive, &completions];
            for (memory, end) in memories.iter().zip(ends) {
                memory.put(end, &behind);
            }
            for act in acts {
                match act {
                    Act::Bytes { queue, at, bytes } => {
                        let queue = usize::from(queue % 3);
                        memories[queue].put(usize::from(*at) % (ends[queue] - 3), bytes);
                    }
                    Act::Send(requests) if requests.is_empty() => {}
                    Act::Send(requests) => {
                        let mut list: Vec<_> = requests
                            .iter()
                            .map(|(opcode, flags, count, length)| {
                                let length = if *length < 1 << 16 { length % 257 } else { *length };
                                let mut sges = vec![ibv_sge { addr, length, lkey: 2 }; 256];
                                let mut wr = request(1, IBV_WR_SEND, u32::from(*flags), &mut sges);
                                (wr.opcode, wr.num_sge) = (u32::from(*opcode % 16), c_int::from(*count));
                                (wr, sges)
                            })
                            .collect();
                        let mut requests: Vec<_> = list.iter_mut().map(|(wr, _)| *wr).collect();
                        let (answer, bad) = post(&pair, &mut requests);
                        assert!(bad.is_none_or(|bad| bad < requests.len()));
                        assert!(answer <= 0);
                    }
                    Act::Receive(count) => {
                        let mut sges = [ibv_sge { addr, length: 9, lkey: 2 }; 8];
                        let (next, sg_list) = (null_mut(), sges.as_mut_ptr());
                        let mut wr = ibv_recv_wr { wr_id: 1, next, sg_list, num_sge: (*count).into() };
                        let mut bad = null_mut();
                        // SAFETY: a live queue pair and a valid request.
                        unsafe { post_recv(pair.qp.as_ptr(), &raw mut wr, &raw mut bad) };
                    }
                    Act::Poll(count) => {
                        // SAFETY: plain C data, a live queue, and room for what is asked.
                        let mut array: [ibv_wc; 128] = unsafe { core::mem::zeroed() };
                        // SAFETY: as above.
                        let taken = unsafe { poll_cq(cq.as_ptr(), (*count).into(), array.as_mut_ptr()) };
                        assert!(taken <= (*count).max(0).into());
                    }
                    // SAFETY: a live queue.
                    Act::Arm => assert_eq!(unsafe { req_notify_cq(cq.as_ptr(), 0) }, 0),
                }
            }
            for (memory, end) in memories.iter().zip(ends) {
                assert_eq!(memory.get::<[u8; 24]>(end), behind, "written behind the end of a queue");
            }
            // SAFETY: published as a Cq, and no borrow of it is alive.
            drop(unsafe { cq.reclaim::<super::super::cq::Cq>() });
        });
        assert!(buffer.iter().all(|byte| *byte == 0x11));
    }

    /// Any answer of the kernel to the commands that make objects, then work on what they made.
    #[test]
    fn fuzz_siw_commands() {
        use super::super::cq::{self, poll_cq};
        use crate::provider::verbs::Cqs;
        corpus::check!().with_type::<(Answers, u8)>().for_each(|(answers, steps)| {
            let memory = Memory::new(i64::MAX as usize);
            // SAFETY: plain C data; all zeros is its empty value.
            let (mut context, mut domain): (ibv_context, ibv_pd) = unsafe { core::mem::zeroed() };
            context.cmd_fd = -1;
            domain.context = &raw mut context;
            // SAFETY: live for the whole run.
            let domain = unsafe { Handle::from_c(&raw mut domain) }.unwrap();
            let _kernel = answer_with(&answers.0);
            let device = SiwContext { file: memory.device };
            let cq = device.create_cq(4, None, 0).ok();
            // SAFETY: plain C data; all zeros is its empty value.
            let (mut attr, mut array): (ibv_qp_init_attr, [ibv_wc; 8]) = unsafe { core::mem::zeroed() };
            attr.qp_type = IBV_QPT_RC as u32;
            attr.send_cq = cq.map_or(null_mut(), |cq| cq.as_ptr());
            attr.recv_cq = attr.send_cq;
            if let Some(cq) = cq {
                // SAFETY: a live queue, and room for what is asked.
                unsafe { poll_cq(cq.as_ptr(), 8, array.as_mut_ptr()) };
            }
            if let Ok(qp) = device.create_qp(domain, &mut attr) {
                let mut sges = [ibv_sge { addr: 8, length: 8, lkey: 2 }];
                for _ in 0..steps % 8 {
                    let mut wr = request(1, IBV_WR_SEND, 0, &mut sges);
                    let mut bad = null_mut();
                    // SAFETY: a live queue pair and a valid list.
                    unsafe { post_send(qp.as_ptr(), &raw mut wr, &raw mut bad) };
                }
                // SAFETY: published as a Qp, and no borrow of it is alive.
                drop(unsafe { qp.reclaim::<Qp>() });
            }
            if let Some(cq) = cq {
                // SAFETY: published as a Cq, and no borrow of it is alive.
                drop(unsafe { cq.reclaim::<cq::Cq>() });
            }
        });
    }
}
