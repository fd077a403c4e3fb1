//! The functions that build send requests, call by call, of an extended queue pair.

use core::ffi::{c_int, c_void};

use super::{MOST, Observed, Originals, begin, each_number, is_judged};
use crate::abi::verbs::*;
use crate::check;
use crate::observe::record::data;

/// A word of an argument.
trait Word {
    fn word(self) -> u64;
}

macro_rules! words {
    ($($number:ty)+) => {
        $(impl Word for $number { fn word(self) -> u64 { self as u64 } })+
    };
}
words! { u8 u16 u32 u64 usize }

impl<T> Word for *mut T {
    fn word(self) -> u64 {
        self as u64
    }
}

impl<T> Word for *const T {
    fn word(self) -> u64 {
        self as u64
    }
}

/// Functions that answer nothing: the call, whether it begins a request, the function's name and its arguments.
macro_rules! builders {
    ($($name:ident $call:ident $begins:literal ($($argument:ident: $of:ty),*);)+) => {
        mod kind {
            use super::*;
            $(
                #[allow(non_camel_case_types, reason = "the name of the function")]
                pub type $name = unsafe extern "C" fn(*mut ibv_qp_ex $(, $of)*);
            )+
        }

        /// What a provider has, where it has it.
        #[derive(Clone, Copy, PartialEq)]
        #[allow(unpredictable_function_pointer_comparisons, reason = "a table may be there twice")]
        struct Builder {
            $($name: Option<kind::$name>,)+
            wr_complete: Option<Complete>,
        }

        $(
            unsafe extern "C" fn $name<const N: usize>(qp: *mut ibv_qp_ex $(, $argument: $of)*) {
                let Some(provided) = BUILDERS.get(N).$name else { return };
                let seen = begin();
                // SAFETY: handed on to the caller; a live queue pair.
                unsafe {
                    // The provider may change what the program has set for the next request.
                    let set = (data::$call, (*qp).qp_base.qp_num, (*qp).wr_id, (*qp).wr_flags);
                    if is_judged(&seen) {
                        check::built(qp, stringify!($name), $begins, [$($argument.word()),*].as_slice());
                    }
                    provided(qp $(, $argument)*);
                    if let Some(mut seen) = seen
                        && seen.records()
                    {
                        build(&mut seen, set, $begins);
                        $(seen.word($argument.word());)*
                        more(&mut seen, data::$call, [$($argument.word()),*].as_slice());
                        seen.end(data::$call, 0, None);
                    }
                }
            }
        )+

        /// The functions of a queue pair just made. Of those that plugins of old releases do not have, `newer`
        /// says whether they are there.
        ///
        /// # Safety
        /// `qp` is live, and nobody else uses it yet.
        pub unsafe fn observe_qp(qp: *mut ibv_qp_ex, newer: bool) {
            let is_newer = |call: u16| [data::WR_ATOMIC_WRITE, data::WR_FLUSH].contains(&call);
            // SAFETY: by the contract.
            unsafe {
                let table = Builder {
                    $($name: if newer || !is_newer(data::$call) { (*qp).$name } else { None },)+
                    wr_complete: (*qp).wr_complete,
                };
                const COMPLETE: [Complete; MOST] = each_number!(wr_complete);
                // A program may ask for it again.
                let is = |ours: &Complete| table.wr_complete.is_some_and(|it| *ours as usize == it as usize);
                if COMPLETE.iter().any(is) {
                    return;
                }
                let Some(number) = BUILDERS.number(table) else { return };
                $({
                    const EACH: [kind::$name; MOST] = each_number!($name);
                    if table.$name.is_some() {
                        (*qp).$name = Some(EACH[number]);
                    }
                })+
                (*qp).wr_complete = table.wr_complete.map(|_| COMPLETE[number]);
            }
        }
    };
}

type Complete = unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int;

static BUILDERS: Originals<Builder, MOST> = Originals::new();

builders! {
    wr_start WR_START false ();
    wr_abort WR_ABORT false ();
    wr_atomic_cmp_swp WR_ATOMIC_CMP_SWP true (rkey: u32, remote_addr: u64, compare: u64, swap: u64);
    wr_atomic_fetch_add WR_ATOMIC_FETCH_ADD true (rkey: u32, remote_addr: u64, add: u64);
    wr_atomic_write WR_ATOMIC_WRITE true (rkey: u32, remote_addr: u64, atomic_wr: *const c_void);
    wr_bind_mw WR_BIND_MW true (mw: *mut ibv_mw, rkey: u32, bind_info: *const ibv_mw_bind_info);
    wr_local_inv WR_LOCAL_INV true (invalidate_rkey: u32);
    wr_rdma_read WR_RDMA_READ true (rkey: u32, remote_addr: u64);
    wr_rdma_write WR_RDMA_WRITE true (rkey: u32, remote_addr: u64);
    wr_rdma_write_imm WR_RDMA_WRITE_IMM true (rkey: u32, remote_addr: u64, imm_data: __be32);
    wr_send WR_SEND true ();
    wr_send_imm WR_SEND_IMM true (imm_data: __be32);
    wr_send_inv WR_SEND_INV true (invalidate_rkey: u32);
    wr_send_tso WR_SEND_TSO true (hdr: *mut c_void, hdr_sz: u16, mss: u16);
    wr_flush WR_FLUSH true (rkey: u32, remote_addr: u64, len: usize, type_: u8, level: u8);
    wr_set_ud_addr WR_SET_UD_ADDR false (ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32);
    wr_set_xrc_srqn WR_SET_XRC_SRQN false (remote_srqn: u32);
    wr_set_inline_data WR_SET_INLINE_DATA false (addr: *mut c_void, length: usize);
    wr_set_inline_data_list WR_SET_INLINE_DATA_LIST false (num_buf: usize, buf_list: *const ibv_data_buf);
    wr_set_sge WR_SET_SGE false (lkey: u32, addr: u64, length: u32);
    wr_set_sge_list WR_SET_SGE_LIST false (num_sge: usize, sg_list: *const ibv_sge);
}

/// The queue pair, and of what begins a request its number and flags.
fn build(seen: &mut Observed<'_>, (_, qp_num, wr_id, flags): (u16, u32, u64, u32), begins: bool) {
    seen.halves(qp_num, if begins { flags } else { 0 });
    seen.word(if begins { wr_id } else { 0 });
}

/// The elements of a list.
///
/// # Safety
/// A list has as many elements as its first argument says.
unsafe fn more(seen: &mut Observed<'_>, call: u16, arguments: &[u64]) {
    let (&[count, list], data::WR_SET_SGE_LIST | data::WR_SET_INLINE_DATA_LIST) = (arguments, call) else {
        return;
    };
    /// More than any device takes at a time: a list that says so may be shorter.
    const MOST: u64 = 64;
    if count > MOST {
        return seen.cut();
    }
    for at in 0..count as usize {
        // SAFETY: by the contract; both kinds of elements have 16 bytes, the address first.
        let [addr, rest] = unsafe { (list as *const [u64; 2]).add(at).read() };
        seen.word(addr);
        seen.word(rest);
    }
}

unsafe extern "C" fn wr_complete<const N: usize>(qp: *mut ibv_qp_ex) -> c_int {
    let Some(provided) = BUILDERS.get(N).wr_complete else { return libc::EOPNOTSUPP };
    let seen = begin();
    // SAFETY: handed on to the caller; a live queue pair.
    unsafe {
        let number = (*qp).qp_base.qp_num;
        let judged = is_judged(&seen);
        if judged {
            check::complete_begins(qp);
        }
        let answer = provided(qp);
        if judged {
            check::complete_ended(qp, answer);
        }
        if let Some(mut seen) = seen
            && seen.records()
        {
            build(&mut seen, (data::WR_COMPLETE, number, 0, 0), false);
            seen.end(data::WR_COMPLETE, answer.into(), (answer != 0).then_some(answer));
        }
        answer
    }
}
