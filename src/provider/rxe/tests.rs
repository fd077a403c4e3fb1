//! The functions that programs call for every message, over rings in a memory file: the test is the driver.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;

use super::ah::{Ah, Destination};
use super::cq::Cq;
use super::mapping::Mapped;
use super::qp::{Attributes, Qp};
use super::recv::ReceiveQueue;
use super::send::SendQueue;
use super::*;
use crate::abi::verbs::*;
use core::ffi::c_int;

use crate::abi::uapi::rdma_user_rxe::mminfo;
use crate::errno::Errno;
use crate::provider::domain;
use crate::provider::object::Handle;
use crate::uverbs::cq::CqCreated;
use crate::uverbs::qp::QpCreated;

const SEND_SHIFT: u32 = 8;

const SLOTS: u32 = 4;

/// A memory file with one ring in it, seen as the driver sees it.
struct Ring {
    device: DeviceFile,
    file: File,
    shift: u32,
    slots: u32,
}

impl Ring {
    fn new(shift: u32) -> Self {
        Self::of_slots(shift, SLOTS)
    }

    fn of_slots(shift: u32, slots: u32) -> Self {
        // SAFETY: the name is a NUL-terminated string.
        let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: just opened, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let file = File::from(fd.try_clone().unwrap());
        let ring = Self { device: DeviceFile::from_fd(fd), file, shift, slots };
        ring.file.set_len(u64::from(ring.place().size)).unwrap();
        ring.put(ring::LOG2_SLOT_SIZE, shift);
        ring.put(ring::INDEX_MASK, slots - 1);
        ring
    }

    fn place(&self) -> mminfo {
        mminfo { offset: 0, size: ring::DATA as u32 + (self.slots << self.shift), pad: 0 }
    }

    fn put(&self, offset: usize, value: u32) {
        self.file.write_all_at(&value.to_ne_bytes(), offset as u64).unwrap();
    }

    fn get(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, offset as u64).unwrap();
        u32::from_ne_bytes(bytes)
    }

    fn slot(&self, slot: u32) -> usize {
        ring::DATA + ((slot as usize) << self.shift)
    }

    /// Words of a slot, each at its offset there.
    fn words<const N: usize>(&self, slot: u32, offsets: [usize; N]) -> [u32; N] {
        offsets.map(|offset| self.get(self.slot(slot) + offset))
    }

    fn complete(&self, slot: u32, wr_id: u64, fields: &[(usize, u32)]) {
        let at = self.slot(slot);
        self.file.write_all_at(&wr_id.to_ne_bytes(), at as u64).unwrap();
        for (offset, value) in fields {
            self.put(at + offset, *value);
        }
    }
}

/// Offsets in a send queue entry.
mod at {
    pub const WR_ID: usize = 0;
    pub const OPCODE: usize = 12;
    pub const FLAGS: usize = 16;
    pub const SSN: usize = 176;
    pub const LENGTH: usize = 184;
    pub const NUM_SGE: usize = 196;
}

/// A queue pair whose rings are memory files and whose doorbell goes to `command_file`.
struct Fixture {
    send: Ring,
    receive: Ring,
    qp: Handle<ibv_qp>,
    _context: Box<ibv_context>,
}

impl Fixture {
    fn new(qp_type: ibv_qp_type, doorbell: c_int) -> Self {
        let (send, receive) = (Ring::new(SEND_SHIFT), Ring::new(6));
        let cap = ibv_qp_cap {
            max_send_wr: SLOTS - 1,
            max_recv_wr: SLOTS - 1,
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_data: 32,
        };
        let qp_type = qp_type as u32;
        let send_queue = SendQueue::map(&send.device, &send.place(), &cap, qp_type).unwrap();
        let receive_queue = ReceiveQueue::map(&receive.device, &receive.place(), cap.max_recv_sge).unwrap();
        let given = Attributes {
            qp_type,
            shared: false,
            extended: true,
            operations: wr::operations(qp_type),
            one_thread: false,
            imported: false,
        };
        let created = QpCreated { handle: 7, qp_num: 17 };
        let qp = Handle::publish(Box::new(Qp::new(created, &given, Some(receive_queue), send_queue)));
        // SAFETY: plain C data; all zeros is its empty value.
        let mut context: Box<ibv_context> = Box::new(unsafe { core::mem::zeroed() });
        context.cmd_fd = doorbell;
        // SAFETY: a live queue pair.
        unsafe { (*qp.as_ptr()).context = &raw mut *context };
        Self { send, receive, qp, _context: context }
    }

    fn of_datagrams(&self) -> bool {
        // SAFETY: a live queue pair.
        unsafe { (*self.qp.as_ptr()).qp_type == IBV_QPT_UD as u32 }
    }

    fn posted(&self) -> u32 {
        self.send.get(ring::PRODUCER)
    }

    fn extended(&self) -> *mut ibv_qp_ex {
        self.qp.as_ptr().cast()
    }

    /// The program's table of builders.
    fn table(&self) -> ibv_qp_ex {
        // SAFETY: a live extended queue pair.
        unsafe { *self.extended() }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // SAFETY: published as a Qp, and no borrow of it is alive.
        drop(unsafe { self.qp.reclaim::<Qp>() });
    }
}

/// A doorbell that always answers: what is written to it is gone.
fn bell() -> File {
    File::options().write(true).open("/dev/null").unwrap()
}

fn send_list<const N: usize>(requests: &mut [ibv_send_wr; N]) -> *mut ibv_send_wr {
    for i in 1..N {
        requests[i - 1].next = &raw mut requests[i];
    }
    requests.as_mut_ptr()
}

fn send_wr(wr_id: u64) -> ibv_send_wr {
    // SAFETY: plain C data; all zeros is its empty value.
    let mut wr: ibv_send_wr = unsafe { core::mem::zeroed() };
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_SEND as u32;
    wr
}

#[test]
fn a_list_is_posted_up_to_the_request_that_does_not_fit() {
    let bell = bell();
    let fixture = Fixture::new(IBV_QPT_RC, bell.as_raw_fd());
    let mut requests = [send_wr(1), send_wr(2), send_wr(3), send_wr(4)];
    let list = send_list(&mut requests);
    let mut bad = null_mut();
    // SAFETY: a live queue pair, a valid list, and a place for the answer.
    let answer = unsafe { send::post_send(fixture.qp.as_ptr(), list, &raw mut bad) };
    assert_eq!((answer, bad), (libc::ENOMEM, list.wrapping_add(3)));
    assert_eq!(fixture.posted(), 3);
    for slot in 0..3 {
        assert_eq!(fixture.send.words(slot, [at::WR_ID, at::OPCODE, at::SSN]), [slot + 1, 2, slot]);
    }

    // The driver takes two, which leaves room for two, of which the second asks too much.
    fixture.send.put(ring::CONSUMER, 2);
    // SAFETY: the second request of the list.
    unsafe { (*list.add(1)).num_sge = 3 };
    // SAFETY: as above.
    let answer = unsafe { send::post_send(fixture.qp.as_ptr(), list, &raw mut bad) };
    assert_eq!((answer, bad), (libc::EINVAL, list.wrapping_add(1)));
    assert_eq!(fixture.posted(), 0);
    assert_eq!(fixture.send.words(3, [at::WR_ID, at::SSN]), [1, 3]);
}

#[test]
fn posting_without_arguments_is_refused() {
    let bell = bell();
    let fixture = Fixture::new(IBV_QPT_RC, bell.as_raw_fd());
    let mut request = [send_wr(1)];
    let list = send_list(&mut request);
    let mut bad = list;
    // SAFETY: a live queue pair or null, a valid list or null, and a place for the answer or null.
    unsafe {
        assert_eq!(send::post_send(fixture.qp.as_ptr(), list, null_mut()), libc::EINVAL);
        assert_eq!(send::post_send(fixture.qp.as_ptr(), null_mut(), &raw mut bad), libc::EINVAL);
        assert!(bad.is_null());
        assert_eq!(send::post_send(null_mut(), list, &raw mut bad), libc::EINVAL);
    }
    assert_eq!(fixture.posted(), 0);
}

#[test]
fn the_drivers_refusal_leaves_the_requests_in_the_ring() {
    let fixture = Fixture::new(IBV_QPT_RC, -1);
    let mut request = [send_wr(1)];
    let mut bad = null_mut();
    // SAFETY: a live queue pair, a valid list, and a place for the answer.
    let answer = unsafe { send::post_send(fixture.qp.as_ptr(), send_list(&mut request), &raw mut bad) };
    assert_eq!((answer, Errno::last()), (libc::EBADF, Errno::EBADF));
    assert!(bad.is_null());
    assert_eq!(fixture.posted(), 1);
}

#[test]
fn receives_are_for_every_state_but_reset() {
    let fixture = Fixture::new(IBV_QPT_RC, -1);
    let mut sge = [ibv_sge { addr: 0x1000, length: 64, lkey: 5 }; 2];
    let mut wr = ibv_recv_wr { wr_id: 9, next: null_mut(), sg_list: sge.as_mut_ptr(), num_sge: 1 };
    let mut bad = &raw mut wr;
    let mut post = |wr: &mut ibv_recv_wr| {
        let wr = &raw mut *wr;
        // SAFETY: a live queue pair, a valid list, and a place for the answer.
        (unsafe { qp::post_recv(fixture.qp.as_ptr(), wr, &raw mut bad) }, bad == wr)
    };
    assert_eq!(post(&mut wr), (libc::EINVAL, false));
    // SAFETY: a live queue pair.
    unsafe { (*fixture.qp.as_ptr()).state = IBV_QPS_INIT as ibv_qp_state_t };
    assert_eq!(post(&mut wr), (0, false));
    assert_eq!(fixture.receive.get(ring::PRODUCER), 1);
    assert_eq!(fixture.receive.words(0, [0, 16, 20, 28, 40, 48, 52]), [9, 64, 64, 1, 0x1000, 64, 5]);
    wr.num_sge = 2;
    assert_eq!(post(&mut wr), (libc::EINVAL, true));
    wr.num_sge = 0;
    assert_eq!((post(&mut wr), post(&mut wr)), ((0, false), (0, false)));
    assert_eq!(post(&mut wr), (libc::ENOMEM, true));
    wr.num_sge = 2;
    assert_eq!(post(&mut wr), (libc::ENOMEM, true), "a full queue counts before a request that does not fit");
    assert_eq!(fixture.receive.get(ring::PRODUCER), 3);
}

#[test]
fn a_short_request_by_itself_is_written_as_one_of_a_list() {
    const SHIFT: u32 = 7;
    let (short, listed) = (Ring::new(SHIFT), Ring::new(SHIFT));
    let of = |ring: &Ring| ReceiveQueue::map(&ring.device, &ring.place(), 6).unwrap();
    let (mut one, mut any) = (of(&short), of(&listed));
    let mut sges: [ibv_sge; 6] = core::array::from_fn(|i| ibv_sge {
        addr: i as u64,
        length: u32::MAX / 4 - i as u32,
        lkey: !(i as u32),
    });
    let mut wr = ibv_recv_wr { wr_id: 9, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 0 };
    for count in 0..=wqe::FEW {
        (wr.wr_id, wr.num_sge) = (u64::from(count), count as c_int);
        // SAFETY: a valid request.
        assert!(unsafe { one.post_one(&raw mut wr) } && unsafe { any.post(&raw mut wr) }.is_ok());
        let slot = count % SLOTS;
        let bytes = |ring: &Ring| ring.words(slot, core::array::from_fn::<_, 24, _>(|word| 4 * word));
        assert_eq!(bytes(&short), bytes(&listed), "{count}");
        assert_eq!(short.get(ring::PRODUCER), (count + 1) % SLOTS);
        short.put(ring::CONSUMER, (count + 1) % SLOTS);
        listed.put(ring::CONSUMER, (count + 1) % SLOTS);
    }
    let before = short.get(ring::PRODUCER);
    let mut second = wr;
    for (next, num_sge) in [(&raw mut second, 1), (null_mut(), wqe::FEW as c_int + 1), (null_mut(), -1)] {
        (wr.next, wr.num_sge) = (next, num_sge);
        // SAFETY: a valid list.
        assert!(!unsafe { one.post_one(&raw mut wr) }, "more than one request, or a long one");
    }
    short.put(ring::CONSUMER, (before + 1) % SLOTS);
    (wr.next, wr.num_sge) = (null_mut(), 1);
    for list in [&raw mut wr, null_mut()] {
        // SAFETY: as above, or null.
        assert!(!unsafe { one.post_one(list) }, "no room, no request");
    }
    assert_eq!(short.get(ring::PRODUCER), before);
}

/// Calls a function of the program's table.
macro_rules! call {
    ($fixture:expr, $function:ident $(, $arg:expr)*) => {
        // SAFETY: the queue pair is live and the arguments are valid; start and complete come in this order.
        unsafe { $fixture.table().$function.unwrap()($fixture.extended() $(, $arg)*) }
    };
}

fn next_request(fixture: &Fixture, wr_id: u64, flags: u32) {
    // SAFETY: a live extended queue pair, whose fields are the program's.
    unsafe {
        (*fixture.extended()).wr_id = wr_id;
        (*fixture.extended()).wr_flags = flags;
    }
}

#[test]
fn builders_post_their_batch_at_once() {
    let bell = bell();
    let fixture = Fixture::new(IBV_QPT_RC, bell.as_raw_fd());
    let list = [ibv_sge { addr: 1, length: 10, lkey: 2 }, ibv_sge { addr: 3, length: 20, lkey: 4 }];
    let pieces = [
        ibv_data_buf { addr: c"abc".as_ptr().cast_mut().cast(), length: 3 },
        ibv_data_buf { addr: c"defgh".as_ptr().cast_mut().cast(), length: 5 },
    ];
    call!(fixture, wr_start);
    next_request(&fixture, 11, IBV_SEND_SIGNALED as u32);
    call!(fixture, wr_rdma_write, 0x77, 0x8000);
    call!(fixture, wr_set_sge_list, 2, list.as_ptr());
    next_request(&fixture, 12, 0);
    call!(fixture, wr_send);
    call!(fixture, wr_set_inline_data_list, 2, pieces.as_ptr());
    assert_eq!(fixture.posted(), 0);
    assert_eq!(call!(fixture, wr_complete), 0);
    assert_eq!(fixture.posted(), 2);
    let seen = [at::WR_ID, at::OPCODE, at::FLAGS, at::SSN, at::LENGTH, at::NUM_SGE];
    assert_eq!(fixture.send.words(0, seen), [11, IBV_WR_RDMA_WRITE as u32, 2, 0, 30, 2]);
    assert_eq!(fixture.send.words(1, seen), [12, IBV_WR_SEND as u32, IBV_SEND_INLINE as u32, 1, 8, 0]);
    let inline = fixture.send.words(1, [208, 212]).map(u32::to_ne_bytes).concat();
    assert_eq!(inline, b"abcdefgh");
}

#[test]
fn the_first_thing_that_goes_wrong_drops_the_batch() {
    let bell = bell();
    let fixture = Fixture::new(IBV_QPT_RC, bell.as_raw_fd());
    call!(fixture, wr_start);
    for _ in 0..3 {
        call!(fixture, wr_send);
    }
    call!(fixture, wr_send);
    call!(fixture, wr_set_sge, 1, 2, 3);
    assert_eq!(call!(fixture, wr_complete), libc::ENOSPC);
    assert_eq!(fixture.posted(), 0);

    call!(fixture, wr_start);
    call!(fixture, wr_send);
    call!(fixture, wr_set_inline_data, c"".as_ptr().cast_mut().cast(), 33);
    call!(fixture, wr_send);
    assert_eq!(call!(fixture, wr_complete), libc::ENOSPC);

    call!(fixture, wr_start);
    call!(fixture, wr_send);
    call!(fixture, wr_abort);
    assert_eq!(fixture.posted(), 0);

    call!(fixture, wr_start);
    call!(fixture, wr_send);
    assert_eq!(call!(fixture, wr_complete), 0, "a new batch starts without the errors of the last");
    assert_eq!(fixture.posted(), 1);
}

#[test]
fn a_setter_without_a_request_changes_nothing() {
    let bell = bell();
    let fixture = Fixture::new(IBV_QPT_UD, bell.as_raw_fd());
    let ah = Handle::publish(Box::new(Ah::new(null_mut(), 1, Destination { ah_num: 6, av: None })));
    call!(fixture, wr_start);
    call!(fixture, wr_send);
    call!(fixture, wr_set_ud_addr, ah.as_ptr(), 0x12, 0x34);
    assert_eq!(call!(fixture, wr_complete), 0);
    assert_eq!(fixture.send.words(0, [24, 28, 36]), [0x12, 0x34, 6]);

    call!(fixture, wr_start);
    call!(fixture, wr_set_sge, 1, 2, 3);
    call!(fixture, wr_set_ud_addr, ah.as_ptr(), 9, 9);
    assert_eq!(call!(fixture, wr_complete), 0);
    assert_eq!(fixture.posted(), 1);
    assert_eq!(fixture.send.words(0, [24, at::LENGTH]), [0x12, 0], "the entry posted before is untouched");
    // SAFETY: published as an Ah, and no borrow of it is alive.
    drop(unsafe { ah.reclaim::<Ah>() });
}

#[test]
fn a_datagram_queue_pair_has_builders_for_sends_only() {
    let fixture = Fixture::new(IBV_QPT_UD, -1);
    let table = fixture.table();
    assert!(table.wr_send.is_some() && table.wr_send_imm.is_some() && table.wr_set_ud_addr.is_some());
    assert!(table.wr_rdma_write.is_none() && table.wr_rdma_read.is_none() && table.wr_send_inv.is_none());
    assert!(
        table.wr_atomic_cmp_swp.is_none() && table.wr_bind_mw.is_none() && table.wr_atomic_write.is_none()
    );
}

/// Calls a function of an extended queue's table.
macro_rules! poll {
    ($cq:expr, $function:ident $(, $arg:expr)*) => {
        // SAFETY: the queue is live, and the calls come in the order that the functions ask for.
        unsafe { (*$cq.as_ptr().cast::<ibv_cq_ex>()).$function.unwrap()($cq.as_ptr().cast() $(, $arg)*) }
    };
}

/// A completion queue with three completions in its ring, numbered 1 to 3, and one slot empty.
fn completions(wc_flags: Option<u64>, single_threaded: bool) -> (Ring, Handle<ibv_cq>) {
    let ring = Ring::new(6);
    for slot in 0..3 {
        ring.complete(slot, u64::from(slot) + 1, &[(8, slot), (12, 128), (20, 100 + slot), (28, 0x11)]);
    }
    ring.put(ring::PRODUCER, 3);
    let cq = queue_over(&ring, wc_flags, single_threaded);
    (ring, cq)
}

fn queue_over(ring: &Ring, wc_flags: Option<u64>, single_threaded: bool) -> Handle<ibv_cq> {
    let mapped = Mapped::completions(&ring.device, &ring.place()).unwrap();
    let created = CqCreated { handle: 3, cqe: 3 };
    Handle::publish(Box::new(Cq::new(created, mapped, wc_flags, single_threaded)))
}

fn destroy(cq: Handle<ibv_cq>) {
    // SAFETY: published as a Cq, and no borrow of it is alive.
    drop(unsafe { cq.reclaim::<Cq>() });
}

#[test]
fn a_poll_takes_as_many_as_there_are_and_fit() {
    for single_threaded in [false, true] {
        let (ring, cq) = completions(None, single_threaded);
        // SAFETY: plain C data; all zeros is its empty value.
        let mut array: [ibv_wc; 4] = unsafe { core::mem::zeroed() };
        let mut poll = |count| {
            // SAFETY: a live queue, and room for what is asked.
            let taken = unsafe { cq::poll_cq(cq.as_ptr(), count, array.as_mut_ptr()) };
            (taken, array[0].wr_id, array[0].byte_len)
        };
        assert_eq!(poll(-5).0, 0);
        assert_eq!(poll(0).0, 0);
        assert_eq!(poll(1), (1, 1, 100));
        assert_eq!(ring.get(ring::CONSUMER), 1);
        assert_eq!(poll(4), (2, 2, 101));
        assert_eq!(poll(4).0, 0);
        assert_eq!(ring.get(ring::CONSUMER), 3);
        // SAFETY: null is allowed here.
        assert_eq!(unsafe { cq::poll_cq(null_mut(), 1, null_mut()) }, -1);
        destroy(cq);
    }
}

#[test]
fn a_poll_of_few_and_one_of_many_take_the_same_round_the_end() {
    const MANY: u32 = 16;
    for single_threaded in [false, true] {
        let ring = Ring::of_slots(6, MANY);
        for slot in 0..MANY {
            ring.complete(slot, u64::from(slot), &[(8, slot), (12, 128), (20, 100 + slot), (28, 0x11)]);
        }
        let cq = queue_over(&ring, None, single_threaded);
        for (start, count) in (0..MANY).flat_map(|start| (0..MANY).map(move |count| (start, count))) {
            ring.put(ring::CONSUMER, start);
            ring.put(ring::PRODUCER, (start + count) % MANY);
            // SAFETY: plain C data; all zeros is its empty value.
            let mut array: [ibv_wc; MANY as usize] = unsafe { core::mem::zeroed() };
            // SAFETY: a live queue, and room for what is asked.
            let taken = unsafe { cq::poll_cq(cq.as_ptr(), MANY as c_int, array.as_mut_ptr()) };
            assert_eq!((taken, ring.get(ring::CONSUMER)), (count as c_int, (start + count) % MANY));
            for (i, wc) in (0..count).zip(&array) {
                let slot = (start + i) % MANY;
                assert_eq!(
                    (wc.wr_id, wc.status, wc.byte_len, wc.qp_num),
                    (u64::from(slot), slot, 100 + slot, 0x11)
                );
            }
            assert!(array[count as usize..].iter().all(|wc| wc.qp_num == 0), "{start} {count}");
        }
        destroy(cq);
    }
}

/// Waits until a thread of this process sleeps.
fn sleeps(thread: libc::pid_t) {
    let stat = format!("/proc/self/task/{thread}/stat");
    while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

#[test]
fn polls_wait_while_another_thread_walks() {
    let (ring, cq) = completions(Some(cq_ex::WC_FLAGS), false);
    let public = cq.as_ptr() as usize;
    for round in 0..2 {
        assert_eq!(poll!(cq, start_poll, null_mut()), 0);
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            // SAFETY: answers a number.
            tell.send(unsafe { libc::gettid() }).unwrap();
            let cq = core::ptr::with_exposed_provenance_mut::<ibv_cq>(public);
            // SAFETY: plain C data; all zeros is its empty value.
            let mut wc: ibv_wc = unsafe { core::mem::zeroed() };
            // SAFETY: the queue lives until this thread was waited for, and there is room for one.
            let found = unsafe {
                if round == 0 {
                    cq::poll_cq(cq, 1, &raw mut wc)
                } else {
                    let extended = cq.cast::<ibv_cq_ex>();
                    let found = (*extended).start_poll.unwrap()(extended, null_mut());
                    wc.wr_id = (*extended).wr_id;
                    (*extended).end_poll.unwrap()(extended);
                    found
                }
            };
            (found, wc.wr_id)
        });
        sleeps(told.recv().unwrap());
        assert!(!waiter.is_finished());
        poll!(cq, end_poll);
        assert_eq!(waiter.join().unwrap(), if round == 0 { (1, 2) } else { (0, 2) });
        ring.put(ring::CONSUMER, 0);
    }
    destroy(cq);
}

#[test]
fn completions_are_walked_one_by_one() {
    for single_threaded in [false, true] {
        let (ring, cq) = completions(Some(cq_ex::WC_FLAGS), single_threaded);
        let shown = || {
            // SAFETY: a live extended queue.
            let public = unsafe { &*cq.as_ptr().cast::<ibv_cq_ex>() };
            (public.wr_id, public.status)
        };
        assert_eq!(poll!(cq, start_poll, null_mut()), 0);
        assert_eq!(shown(), (1, 0));
        assert_eq!(
            (poll!(cq, read_opcode), poll!(cq, read_byte_len), poll!(cq, read_qp_num)),
            (128, 100, 0x11)
        );
        assert_eq!(poll!(cq, next_poll), 0);
        assert_eq!(shown(), (2, 1));
        assert_eq!(ring.get(ring::CONSUMER), 0);
        poll!(cq, end_poll);
        assert_eq!(ring.get(ring::CONSUMER), 2);

        assert_eq!(poll!(cq, start_poll, null_mut()), 0);
        Errno(0).set();
        assert_eq!((poll!(cq, next_poll), Errno::last()), (libc::ENOENT, Errno::ENOENT));
        assert_eq!((shown(), poll!(cq, read_byte_len)), ((3, 2), 102), "the last one can still be read");
        ring.put(ring::PRODUCER, 0);
        ring.complete(3, 4, &[]);
        assert_eq!(poll!(cq, next_poll), 0, "one that came in the meantime is found");
        assert_eq!(shown().0, 4);
        poll!(cq, end_poll);
        assert_eq!(ring.get(ring::CONSUMER), 0);

        Errno(0).set();
        assert_eq!((poll!(cq, start_poll, null_mut()), Errno::last()), (libc::ENOENT, Errno::ENOENT));
        // SAFETY: a live queue; no room is needed. The lock is free again, or this would wait for ever.
        assert_eq!(unsafe { cq::poll_cq(cq.as_ptr(), 1, null_mut()) }, 0);
        destroy(cq);
    }
}

#[test]
fn only_the_fields_asked_for_have_functions() {
    let (_ring, cq) = completions(Some(IBV_WC_EX_WITH_SL as u64), false);
    // SAFETY: a live extended queue.
    let table = unsafe { *cq.as_ptr().cast::<ibv_cq_ex>() };
    assert!(table.read_sl.is_some() && table.read_opcode.is_some() && table.read_wc_flags.is_some());
    assert!(table.read_byte_len.is_none() && table.read_slid.is_none() && table.read_completion_ts.is_none());
    destroy(cq);
}

#[test]
fn a_ring_that_does_not_fit_its_mapping_is_refused() {
    let ring = Ring::new(6);
    ring.put(ring::INDEX_MASK, 1023);
    assert_eq!(Mapped::completions(&ring.device, &ring.place()).err(), Some(Errno::EINVAL));
    let nowhere = mminfo { size: 0, ..ring.place() };
    assert_eq!(Mapped::completions(&ring.device, &nowhere).err(), Some(Errno::EINVAL));
}

mod fuzz;
