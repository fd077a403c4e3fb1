//! Lists and builders as C programs use them, in any order and with any content that a program may pass.

use bolero::TypeGenerator;

use super::*;
use crate::uverbs::played::few;

/// What a program does to one of two connected queue pairs.
#[derive(Clone, Debug, TypeGenerator)]
enum Act {
    Send {
        second: bool,
        #[generator(few(4))]
        list: Vec<Request>,
    },
    Receive {
        second: bool,
        #[generator(few(4))]
        list: Vec<Request>,
    },
    /// Calls of builders between `wr_start` and `wr_complete`, or `wr_abort`.
    Build {
        abort: bool,
        #[generator(few(8))]
        calls: Vec<(u8, Request)>,
    },
    Poll(i8),
    /// To the error state, and both up again.
    Reset,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Request {
    opcode: u8,
    flags: u8,
    num_sge: i8,
    pieces: [Piece; 3],
    remote: Piece,
    operands: [u64; 2],
}

/// A piece of memory: in the registered buffer, or anything.
#[derive(Clone, Debug, TypeGenerator)]
struct Piece {
    offset: u16,
    length: u16,
    /// Added to address, length and key.
    lie: Option<(u64, u32, u32)>,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Play(#[generator(few(12))] Vec<Act>);

impl Piece {
    fn sge(&self, room: &Room, inline: bool) -> ibv_sge {
        let at = usize::from(self.offset) % LENGTH;
        let mut sge = room.piece(at, (u32::from(self.length) % LENGTH as u32).min((LENGTH - at) as u32));
        if let Some((addr, length, key)) = self.lie {
            sge.lkey = sge.lkey.wrapping_add(key);
            // Inline data is read without a key: a program must name what it has. Too much of it is refused.
            if !inline {
                sge.addr = sge.addr.wrapping_add(addr);
                sge.length = sge.length.wrapping_add(length);
            } else if length > 1 << 20 {
                sge.length = length;
            }
        }
        sge
    }
}

impl Request {
    fn inline(&self) -> bool {
        u32::from(self.flags) & IBV_SEND_INLINE as u32 != 0
    }

    /// Long enough for every number of entries.
    fn sges(&self, room: &Room, inline: bool) -> Vec<ibv_sge> {
        self.pieces.iter().map(|piece| piece.sge(room, inline)).cycle().take(130).collect()
    }
}

fn post_sends(room: &Room, qp: *mut ibv_qp, ah: *mut ibv_ah, list: &[Request]) {
    let mut sges: Vec<_> = list.iter().map(|request| request.sges(room, request.inline())).collect();
    let mut wrs: Vec<_> = list
        .iter()
        .zip(&mut sges)
        .map(|(request, sges)| {
            let mut wr = send_wr(request.operands[0], IBV_WR_SEND, &mut sges[0]);
            wr.sg_list = sges.as_mut_ptr();
            (wr.opcode, wr.send_flags) = (u32::from(request.opcode % 18), u32::from(request.flags));
            wr.num_sge = request.num_sge.into();
            let remote = request.remote.sge(room, false);
            // SAFETY: live objects.
            let datagrams = unsafe { (*qp).qp_type } == IBV_QPT_UD as u32;
            if datagrams {
                wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: remote.length, remote_qkey: QKEY };
            } else {
                let [compare_add, swap] = request.operands;
                let (remote_addr, rkey) = (remote.addr, remote.lkey);
                wr.wr.atomic = ibv_send_wr_wr_atomic { remote_addr, compare_add, swap, rkey };
                if (wr.opcode as i64) < IBV_WR_ATOMIC_CMP_AND_SWP as i64 {
                    wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr, rkey };
                }
            }
            wr
        })
        .collect();
    for i in 1..wrs.len() {
        wrs[i - 1].next = wrs.as_mut_ptr().wrapping_add(i);
    }
    let mut bad = null_mut();
    // SAFETY: a live queue pair and a valid list.
    let answer = unsafe { room.ops().post_send.unwrap()(qp, wrs.as_mut_ptr(), &mut bad) };
    assert!(answer == 0 || wrs.as_ptr_range().contains(&bad.cast_const()), "{answer}");
}

fn post_receives(room: &Room, qp: *mut ibv_qp, list: &[Request]) {
    let mut sges: Vec<_> = list.iter().map(|request| request.sges(room, false)).collect();
    let mut wrs: Vec<_> = list
        .iter()
        .zip(&mut sges)
        .map(|(request, sges)| ibv_recv_wr {
            wr_id: request.operands[0],
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: request.num_sge.into(),
        })
        .collect();
    for i in 1..wrs.len() {
        wrs[i - 1].next = wrs.as_mut_ptr().wrapping_add(i);
    }
    let mut bad = null_mut();
    // SAFETY: a live queue pair and a valid list.
    let answer = unsafe { room.ops().post_recv.unwrap()(qp, wrs.as_mut_ptr(), &mut bad) };
    assert!(answer == 0 || wrs.as_ptr_range().contains(&bad.cast_const()), "{answer}");
}

/// Calls a builder, if this kind of queue pair has it.
macro_rules! call_if {
    ($qpx:expr, $function:ident $(, $arg:expr)*) => {
        if let Some(function) = (*$qpx).$function {
            function($qpx $(, $arg)*)
        }
    };
}

/// # Safety
/// A live queue pair between `wr_start` and `wr_complete`.
unsafe fn build(room: &Room, qpx: *mut ibv_qp_ex, ah: *mut ibv_ah, function: u8, request: &Request) {
    let sges = request.sges(room, false);
    let pieces: Vec<_> = request
        .sges(room, true)
        .iter()
        .map(|sge| ibv_data_buf {
            addr: core::ptr::with_exposed_provenance_mut(sge.addr as usize),
            length: sge.length as usize,
        })
        .collect();
    let remote = request.remote.sge(room, false);
    let (addr, rkey, [one, two]) = (remote.addr, remote.lkey, request.operands);
    let count = usize::from(request.num_sge.unsigned_abs()) % 130;
    // SAFETY: by the contract; lists are as long as said, and inline data is the room's or refused for its
    // length.
    unsafe {
        (*qpx).wr_id = one;
        (*qpx).wr_flags = u32::from(request.flags);
        match function % 14 {
            0 => call_if!(qpx, wr_atomic_cmp_swp, rkey, addr, one, two),
            1 => call_if!(qpx, wr_atomic_fetch_add, rkey, addr, one),
            2 => call_if!(qpx, wr_local_inv, rkey),
            3 => call_if!(qpx, wr_rdma_read, rkey, addr),
            4 => call_if!(qpx, wr_rdma_write, rkey, addr),
            5 => call_if!(qpx, wr_rdma_write_imm, rkey, addr, 7),
            6 => call_if!(qpx, wr_send),
            7 => call_if!(qpx, wr_send_imm, 7),
            8 => call_if!(qpx, wr_send_inv, rkey),
            9 => call_if!(qpx, wr_set_ud_addr, ah, remote.length, QKEY),
            10 => call_if!(qpx, wr_set_inline_data, pieces[0].addr, pieces[0].length),
            11 => call_if!(qpx, wr_set_inline_data_list, count, pieces.as_ptr()),
            12 => call_if!(qpx, wr_set_sge, sges[0].lkey, sges[0].addr, sges[0].length),
            _ => call_if!(qpx, wr_set_sge_list, count, sges.as_ptr()),
        }
    }
}

/// Whatever is posted, memory outside of the registered buffer stays as it was, and every call ends.
#[test]
fn fuzz_soft_lists() {
    let room = Room::new();
    let ah = room.ah(&mut room.address());
    let around = vec![0x11u8; 1 << 16];
    let kinds = [
        (IBV_QPT_RC, crate::provider::qp_ex::RELIABLE),
        (IBV_QPT_UC, crate::provider::qp_ex::UNRELIABLE),
        (IBV_QPT_UD, crate::provider::qp_ex::DATAGRAM),
    ];
    corpus::check!().with_type::<(u8, Play)>().for_each(|(kind, Play(acts))| {
        let (kind, operations) = kinds[usize::from(kind % 3)];
        let known = IBV_QP_EX_WITH_ATOMIC_WRITE as u64 | IBV_QP_EX_WITH_BIND_MW as u64;
        let cq = room.cq();
        let pair = room.connected(cq, room.built_qp(kind, cq, operations & !known), room.qp(kind, cq));
        for act in acts {
            match act {
                Act::Send { list, .. } | Act::Receive { list, .. } if list.is_empty() => {}
                Act::Send { second, list } => {
                    post_sends(&room, if *second { pair.b } else { pair.a }, ah, list);
                }
                Act::Receive { second, list } => {
                    post_receives(&room, if *second { pair.b } else { pair.a }, list);
                }
                Act::Build { abort, calls } => {
                    let qpx = {
                        // SAFETY: a live queue pair.
                        unsafe { api::qp::ibv_qp_to_qp_ex(pair.a) }
                    };
                    // SAFETY: a live queue pair with builders; start and the end come in this order.
                    unsafe {
                        (*qpx).wr_start.unwrap()(qpx);
                        calls
                            .iter()
                            .for_each(|(function, request)| build(&room, qpx, ah, *function, request));
                        if *abort {
                            (*qpx).wr_abort.unwrap()(qpx);
                        } else {
                            (*qpx).wr_complete.unwrap()(qpx);
                        }
                    }
                }
                Act::Poll(count) => {
                    // SAFETY: plain C data, a live queue, and room for what is asked.
                    let mut array: [ibv_wc; 128] = unsafe { zeroed() };
                    // SAFETY: as above.
                    let taken =
                        unsafe { room.ops().poll_cq.unwrap()(cq, (*count).into(), array.as_mut_ptr()) };
                    assert!(taken <= (*count).max(0).into());
                }
                Act::Reset => {
                    for qp in [pair.a, pair.b] {
                        // SAFETY: a live queue pair; attributes are plain C data.
                        unsafe {
                            let mut attr: ibv_qp_attr = zeroed();
                            attr.qp_state = IBV_QPS_ERR as u32;
                            assert_eq!(api::qp::ibv_modify_qp(qp, &mut attr, IBV_QP_STATE as c_int), 0);
                            attr.qp_state = IBV_QPS_RESET as u32;
                            assert_eq!(api::qp::ibv_modify_qp(qp, &mut attr, IBV_QP_STATE as c_int), 0);
                        }
                    }
                    room.connect(pair.a, pair.b);
                }
            }
        }
    });
    assert!(around.iter().all(|byte| *byte == 0x11));
    // SAFETY: live, and given up.
    assert_eq!(unsafe { api::ah::ibv_destroy_ah(ah) }, 0);
}
