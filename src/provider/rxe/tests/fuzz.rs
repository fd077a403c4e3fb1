//! Hostile words in every ring, lists and builders.

use bolero::TypeGenerator;

use crate::uverbs::played::{Answers, answer_with, few};

use super::*;

/// More completions than a poll takes without a call.
const POLLED_SLOTS: u32 = 16;

/// What a program and a hostile driver may do to one queue pair and its completion queue.
#[derive(Clone, Debug, TypeGenerator)]
enum Act {
    /// The driver writes a word, mostly an index, into the ring of sends, receives or completions.
    Word {
        ring: u8,
        at: u16,
        value: u32,
    },
    Send(#[generator(few(4))] Vec<Request>),
    Receive(#[generator(few(4))] Vec<Request>),
    /// Calls of builders between `wr_start` and `wr_complete`, or `wr_abort`.
    Build {
        abort: bool,
        #[generator(few(8))]
        calls: Vec<Call>,
    },
    Poll(i8),
    /// `start_poll`, so many `next_poll` and `end_poll`.
    Walk(u8),
}

#[derive(Clone, Debug, TypeGenerator)]
struct Request {
    opcode: u8,
    flags: u8,
    num_sge: i8,
    lengths: [u32; 3],
    remote_addr: u64,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Call {
    function: u8,
    count: u8,
    lengths: [u32; 3],
    value: u64,
}

/// Every ring with words of anybody's choice in it, lists and builders as C programs call them. A ring is
/// mapped whole pages long, of which what lies behind its end must stay as it was.
#[test]
fn fuzz_rxe_queues() {
    let bell = bell();
    let buffer = vec![0x11u8; 4096];
    let at = buffer.as_ptr().expose_provenance() as u64;
    corpus::check!().with_type::<(u8, Play)>().for_each(|(qp_type, Play(acts))| {
        let qp_type = [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD][usize::from(qp_type % 3)];
        let fixture = Fixture::new(qp_type, bell.as_raw_fd());
        // SAFETY: a live queue pair.
        unsafe { (*fixture.qp.as_ptr()).state = IBV_QPS_RTS as ibv_qp_state_t };
        let ring = Ring::of_slots(6, POLLED_SLOTS);
        ring.put(ring::PRODUCER, POLLED_SLOTS / 2);
        let cq = queue_over(&ring, Some(cq_ex::WC_FLAGS), false);
        let ah = Handle::publish(Box::new(Ah::new(null_mut(), 1, Destination { ah_num: 6, av: None })));
        let rings = [&fixture.send, &fixture.receive, &ring];
        let ends = rings.map(|ring| (ring, u64::from(ring.place().size)));
        for (ring, end) in ends {
            ring.file.write_all_at(&[0xa5; 64], end).unwrap();
        }
        for act in acts {
            play(&fixture, cq, &rings, ah, act, at);
        }
        for (ring, end) in ends {
            let mut behind = [0; 64];
            ring.file.read_exact_at(&mut behind, end).unwrap();
            assert_eq!(behind, [0xa5; 64], "written behind the end of a ring");
        }
        // SAFETY: published as an Ah, and no borrow of it is alive.
        drop(unsafe { ah.reclaim::<Ah>() });
        destroy(cq);
    });
    assert!(buffer.iter().all(|byte| *byte == 0x11));
}

#[derive(Clone, Debug, TypeGenerator)]
struct Play(#[generator(few(12))] Vec<Act>);

fn play(
    fixture: &Fixture,
    cq: Handle<ibv_cq>,
    rings: &[&Ring; 3],
    ah: Handle<ibv_ah>,
    act: &Act,
    buffer: u64,
) {
    // Long enough for every number of entries that is not refused.
    let sges = |lengths: [u32; 3]| {
        lengths.map(|length| ibv_sge {
            addr: buffer,
            length: if length < 1 << 20 { length % 4097 } else { length },
            lkey: 1,
        })
    };
    let sges = |lengths| -> Vec<ibv_sge> { sges(lengths).into_iter().cycle().take(40).collect() };
    match act {
        Act::Word { ring, at, value } => {
            let ring = rings[usize::from(ring % 3)];
            let words = ring.place().size / 4;
            let at = match at % 4 {
                0 => ring::PRODUCER,
                1 => ring::CONSUMER,
                _ => u32::from(at / 4) as usize % words as usize * 4,
            };
            ring.put(at, *value);
        }
        Act::Send(requests) | Act::Receive(requests) if requests.is_empty() => {}
        Act::Send(requests) => post_sends(fixture, ah, requests, &sges),
        Act::Receive(requests) => {
            let mut lists: Vec<_> = requests.iter().map(|request| sges(request.lengths)).collect();
            let mut list: Vec<_> = requests
                .iter()
                .zip(&mut lists)
                .map(|(request, sges)| ibv_recv_wr {
                    wr_id: request.remote_addr,
                    next: null_mut(),
                    sg_list: sges.as_mut_ptr(),
                    num_sge: request.num_sge.into(),
                })
                .collect();
            for i in 1..list.len() {
                list[i - 1].next = list.as_mut_ptr().wrapping_add(i);
            }
            let mut bad = null_mut();
            // SAFETY: as above.
            let answer = unsafe { qp::post_recv(fixture.qp.as_ptr(), list.as_mut_ptr(), &raw mut bad) };
            assert_eq!(answer != 0, list.as_ptr_range().contains(&bad.cast_const()));
        }
        Act::Build { abort, calls } => {
            call!(fixture, wr_start);
            for made in calls {
                build(fixture, ah, made, &sges(made.lengths));
            }
            if *abort {
                call!(fixture, wr_abort);
            } else {
                call!(fixture, wr_complete);
            }
        }
        Act::Poll(count) => {
            // SAFETY: plain C data; all zeros is its empty value.
            let mut array: [ibv_wc; 128] = unsafe { core::mem::zeroed() };
            // SAFETY: a live queue, and room for what is asked.
            let taken = unsafe { cq::poll_cq(cq.as_ptr(), (*count).into(), array.as_mut_ptr()) };
            assert!(taken <= (*count).max(0).into() && taken < POLLED_SLOTS as c_int);
        }
        Act::Walk(steps) => {
            if poll!(cq, start_poll, null_mut()) != 0 {
                return;
            }
            for _ in 0..*steps {
                let _ = (poll!(cq, read_opcode), poll!(cq, read_byte_len), poll!(cq, read_imm_data));
                if poll!(cq, next_poll) != 0 {
                    break;
                }
            }
            poll!(cq, end_poll);
        }
    }
}

/// Posts a list of send requests, each with elements of these lengths.
fn post_sends(
    fixture: &Fixture,
    ah: Handle<ibv_ah>,
    requests: &[Request],
    sges: &impl Fn([u32; 3]) -> Vec<ibv_sge>,
) {
    let mut lists: Vec<_> = requests.iter().map(|request| sges(request.lengths)).collect();
    let mut list: Vec<_> = requests.iter().map(|request| send_wr(request.remote_addr)).collect();
    for i in 0..list.len() {
        let next = if i + 1 < list.len() { list.as_mut_ptr().wrapping_add(i + 1) } else { null_mut() };
        let (wr, request) = (&mut list[i], &requests[i]);
        (wr.next, wr.opcode, wr.send_flags) = (next, u32::from(request.opcode), u32::from(request.flags));
        (wr.sg_list, wr.num_sge) = (lists[i].as_mut_ptr(), request.num_sge.into());
        if fixture.of_datagrams() {
            wr.wr.ud = ibv_send_wr_wr_ud { ah: ah.as_ptr(), remote_qpn: 2, remote_qkey: 3 };
        } else if u32::from(request.opcode) != IBV_WR_BIND_MW as u32 {
            wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: request.remote_addr, rkey: 4 };
        }
    }
    let mut bad = null_mut();
    // SAFETY: a live queue pair, a valid list, and a place for the answer.
    let answer = unsafe { send::post_send(fixture.qp.as_ptr(), list.as_mut_ptr(), &raw mut bad) };
    assert_eq!(answer != 0, list.as_ptr_range().contains(&bad.cast_const()));
}

/// Calls a builder, if this kind of queue pair has it.
macro_rules! call_if {
    ($fixture:expr, $function:ident $(, $arg:expr)*) => {
        if let Some(function) = $fixture.table().$function {
            // SAFETY: the queue pair is live, between start and complete, and the arguments are valid.
            unsafe { function($fixture.extended() $(, $arg)*) }
        }
    };
}

fn build(fixture: &Fixture, ah: Handle<ibv_ah>, made: &Call, sges: &[ibv_sge]) {
    let Call { function, count, value, .. } = *made;
    let pieces: Vec<_> = sges
        .iter()
        .map(|sge| ibv_data_buf {
            addr: core::ptr::with_exposed_provenance_mut(sge.addr as usize),
            length: sge.length as usize,
        })
        .collect();
    next_request(fixture, value, (value >> 32) as u32);
    match function % 16 {
        0 => call_if!(fixture, wr_atomic_cmp_swp, 1, value, value, value),
        1 => call_if!(fixture, wr_atomic_fetch_add, 1, value, value),
        2 => call_if!(fixture, wr_local_inv, value as u32),
        3 => call_if!(fixture, wr_atomic_write, 1, value, (&raw const value).cast()),
        4 => call_if!(fixture, wr_rdma_read, 1, value),
        5 => call_if!(fixture, wr_rdma_write, 1, value),
        6 => call_if!(fixture, wr_rdma_write_imm, 1, value, 7),
        7 => call_if!(fixture, wr_send),
        8 => call_if!(fixture, wr_send_imm, 7),
        9 => call_if!(fixture, wr_send_inv, 7),
        10 => call_if!(fixture, wr_set_ud_addr, ah.as_ptr(), 1, 2),
        11 => call_if!(fixture, wr_set_inline_data, pieces[0].addr, pieces[0].length),
        12 => call_if!(fixture, wr_set_inline_data_list, usize::from(count % 41), pieces.as_ptr()),
        13 => call_if!(fixture, wr_flush, 1, value, usize::from(count), value as u8, count),
        14 => call_if!(fixture, wr_set_sge, 1, sges[0].addr, sges[0].length),
        _ => call_if!(fixture, wr_set_sge_list, usize::from(count % 41), sges.as_ptr()),
    }
}

/// Any answer of the kernel to the commands that make objects, then work on what they made.
#[test]
fn fuzz_rxe_commands() {
    let bell = bell();
    corpus::check!().with_type::<(Answers, [(u16, u32); 4], u8)>().for_each(|(answers, words, kind)| {
        let ring = Ring::new(6);
        // No access of the mapping may lie behind the end of the file: a driver maps what it has.
        ring.file.set_len(i64::MAX as u64).unwrap();
        for (at, value) in words {
            ring.put(usize::from(*at & !3), *value);
        }
        // SAFETY: plain C data; all zeros is its empty value.
        let mut context: ibv_context = unsafe { core::mem::zeroed() };
        context.cmd_fd = bell.as_raw_fd();
        let pd = domain::publish(1);
        // SAFETY: a live domain, whose context outlives it.
        unsafe { (*pd.as_ptr()).context = &raw mut context };
        let _kernel = answer_with(&answers.0);
        let device = RxeContext::new(ring.device);
        // SAFETY: plain C data; all zeros is its empty value.
        let mut array: [ibv_wc; 8] = unsafe { core::mem::zeroed() };
        let cq = device.create_cq(4, None, 0).ok();
        if let Some(cq) = cq {
            // SAFETY: a live queue, and room for what is asked.
            unsafe { cq::poll_cq(cq.as_ptr(), 8, array.as_mut_ptr()) };
            let _ = device.resize_cq(cq, 8);
            // SAFETY: as above.
            unsafe { cq::poll_cq(cq.as_ptr(), 8, array.as_mut_ptr()) };
        }
        let public = cq.map_or(null_mut(), |cq| cq.as_ptr());
        let mut sge = ibv_sge { addr: 8, length: 8, lkey: 1 };
        let mut receive = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &raw mut sge, num_sge: 1 };
        let mut bad = null_mut();
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_qp_init_attr = unsafe { core::mem::zeroed() };
        attr.qp_type = [IBV_QPT_RC, IBV_QPT_UD][usize::from(kind % 2)] as u32;
        (attr.send_cq, attr.recv_cq) = (public, public);
        if let Ok(qp) = device.create_qp(pd, &mut attr) {
            // SAFETY: a live queue pair, valid lists and a place for the answer; published as a Qp and
            // given up at the end.
            unsafe {
                (*qp.as_ptr()).state = IBV_QPS_RTS as ibv_qp_state_t;
                qp::post_recv(qp.as_ptr(), &raw mut receive, &raw mut bad);
                if *kind & 1 == 0 {
                    let mut wr = send_wr(1);
                    (wr.sg_list, wr.num_sge) = (&raw mut sge, 1);
                    let mut bad = null_mut();
                    send::post_send(qp.as_ptr(), &raw mut wr, &raw mut bad);
                }
                drop(qp.reclaim::<Qp>());
            }
        }
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_srq_init_attr = unsafe { core::mem::zeroed() };
        if let Ok(srq) = device.create_srq(pd, &mut attr) {
            // SAFETY: as above.
            unsafe {
                srq::post_srq_recv(srq.as_ptr(), &raw mut receive, &raw mut bad);
                let _ = device.modify_srq(srq, &mut attr.attr, IBV_SRQ_MAX_WR as c_int);
                srq::post_srq_recv(srq.as_ptr(), &raw mut receive, &raw mut bad);
                drop(srq.reclaim::<srq::Srq>());
            }
        }
        if let Some(cq) = cq {
            destroy(cq);
        }
        domain::dealloc(pd, |_| Ok(())).unwrap();
    });
}
