//! Requests to send that a program builds by calls: what stands between `wr_start` and `wr_complete`.

use super::queue::Sends;
use super::send::SendQueue;
use super::wqe::{self, Binding, Segment};
use super::writing::{Blocks, Bytes, Writing};
use crate::abi::verbs::*;
use crate::errno::Errno;

/// Where a program stands.
#[derive(Default)]
pub struct Building {
    /// What the queue goes back to where nothing is posted: place and fence.
    before: (u32, u8),
    /// What went wrong first.
    error: Option<Errno>,
    /// Requests that were begun.
    count: u32,
    /// One of them holds data.
    data: bool,
    /// The one being built.
    current: Option<Current>,
    /// The last that is done, and its units.
    last: Option<(Segment, u32)>,
}

struct Current {
    start: Segment,
    writing: Writing,
    operation: u8,
    bits: u8,
    word: Option<u32>,
    /// What is still to be set: memory or data, and the peer of datagrams and of XRC.
    missing: u8,
}

/// What a request begins with behind its control segment, and behind what queue pairs of its kind have there.
pub enum Start {
    /// Nothing.
    Plain,
    /// The peer's memory: address and key.
    Remote(u64, u32),
    /// An atomic there: address, key, what is swapped or added, and with what is compared.
    Atomic(u64, u32, u64, Option<u64>),
    /// A window is bound, or a key invalidated; nothing is to be set.
    Key(Option<Binding>),
}

impl SendQueue {
    /// The program begins to build.
    #[inline(always)]
    pub fn start_building(&mut self) {
        self.building = Building { before: (self.place, self.fence), ..Building::default() };
    }

    /// Something went wrong.
    #[inline(always)]
    pub fn fail(&mut self, errno: Errno) {
        self.building.error = self.building.error.or(Some(errno));
    }

    /// Begins a request with the program's number and flags. `word` is the immediate data or the key.
    ///
    /// # Safety
    /// `sends` is this queue's, and the program is building.
    #[inline(always)]
    pub unsafe fn build(
        &mut self,
        sends: &Sends,
        (wr_id, wr_flags): (u64, u32),
        code: ibv_wr_opcode,
        word: Option<u32>,
        start: Start,
    ) {
        let number = self.posted.wrapping_add(self.building.count);
        if self.building.error.is_some() || sends.in_flight(number) >= self.kind.max_post {
            return self.fail(Errno::ENOMEM);
        }
        let Some(operation) = wqe::OPERATIONS.get(code as usize).copied().flatten() else {
            return self.fail(Errno::EINVAL);
        };
        let (opcode, flags) = match code {
            IBV_WR_RDMA_WRITE => (IBV_WC_RDMA_WRITE, 0),
            IBV_WR_RDMA_WRITE_WITH_IMM => (IBV_WC_RDMA_WRITE, IBV_WC_WITH_IMM as u16),
            IBV_WR_SEND_WITH_IMM => (IBV_WC_SEND, IBV_WC_WITH_IMM as u16),
            IBV_WR_RDMA_READ => (IBV_WC_RDMA_READ, 0),
            IBV_WR_ATOMIC_CMP_AND_SWP => (IBV_WC_COMP_SWAP, 0),
            IBV_WR_ATOMIC_FETCH_AND_ADD => (IBV_WC_FETCH_ADD, 0),
            IBV_WR_LOCAL_INV => (IBV_WC_LOCAL_INV, 0),
            IBV_WR_BIND_MW => (IBV_WC_BIND_MW, 0),
            _ => (IBV_WC_SEND, 0),
        };
        let fenced = wr_flags & IBV_SEND_FENCE as u32 != 0;
        let fence = if fenced { wqe::FENCE } else { self.fence };
        let ring = Blocks::of(sends);
        let (at, mut writing) = ring.request(self.place);
        let of_kind = match self.kind.qp_type {
            kind if kind == IBV_QPT_UD as u32 => 3,
            kind if kind == IBV_QPT_XRC_SEND as u32 => 1,
            _ => 0,
        };
        let mut missing = 1 + u8::from(of_kind != 0);
        self.fence = 0;
        // SAFETY: a ring has room for the requests that the queue takes.
        unsafe {
            match start {
                Start::Key(binding) => {
                    let invalid =
                        Binding { second_type: true, key: 0, qp_num: self.kind.qp_num, memory: None };
                    writing.bind(&ring, &binding.unwrap_or(invalid));
                    self.fence = wqe::SMALL_FENCE;
                    missing = 0;
                }
                Start::Plain => writing.skip(&ring, of_kind),
                Start::Remote(address, key) => {
                    writing.skip(&ring, of_kind);
                    writing.at.remote(address, key);
                    writing.skip(&ring, 1);
                }
                Start::Atomic(address, key, value, compare) => {
                    writing.skip(&ring, of_kind);
                    writing.at.remote(address, key);
                    writing.skip(&ring, 1);
                    writing.at.atomic(value, compare);
                    writing.skip(&ring, 1);
                }
            }
        }
        sends.note(self.place, wr_id, number, flags, opcode as u16);
        self.building.count += 1;
        let bits = fence | self.bits(wr_flags);
        self.building.current = Some(Current { start: at, writing, operation, bits, word, missing });
        if missing == 0 {
            self.finish();
        }
    }

    /// Sets something of the current request, which is done when nothing is missing any more.
    #[inline(always)]
    fn set(&mut self, set: impl FnOnce(&Self, &mut Current) -> Result<(), Errno>) {
        if self.building.error.is_some() {
            return;
        }
        let Some(mut current) = self.building.current.take() else { return };
        if let Err(errno) = set(self, &mut current) {
            return self.fail(errno);
        }
        current.missing -= 1;
        let done = current.missing == 0;
        self.building.current = Some(current);
        if done {
            self.finish();
        }
    }

    /// The current request is done.
    #[inline(always)]
    fn finish(&mut self) {
        let Some(current) = self.building.current.take() else { return };
        let Current { start, writing, operation, bits, word, .. } = current;
        // SAFETY: the request's first segment.
        unsafe { start.control(self.place, operation, (self.kind.qp_num, writing.units), bits, word) };
        self.place = self.place.wrapping_add(writing.units.div_ceil(4));
        self.building.data |= writing.data;
        self.building.last = Some((start, writing.units));
    }

    /// Sets the peer of a datagram or of XRC: `set` writes it behind the control segment.
    #[inline(always)]
    pub fn set_peer(&mut self, set: impl FnOnce(&Self, Segment) -> Result<(), Errno>) {
        // SAFETY: `build` left room for what queue pairs of the kind have there.
        self.set(|queue, current| set(queue, unsafe { current.start.add(wqe::UNIT) }));
    }

    /// Sets the memory.
    #[inline(always)]
    pub fn set_memory(&mut self, sends: &Sends, list: &[ibv_sge]) {
        self.set(|queue, current| {
            if list.len() > queue.kind.max_sge as usize {
                return Err(Errno::ENOMEM);
            }
            // SAFETY: a ring has room for as many pieces.
            unsafe { current.writing.name(&Blocks::of(sends), list, false) };
            Ok(())
        });
    }

    /// Sets data.
    ///
    /// # Safety
    /// The program's memory is there.
    #[inline(always)]
    pub unsafe fn set_data(&mut self, sends: &Sends, pieces: impl Iterator<Item = Bytes>) {
        // SAFETY: by the contract, and a ring has room for as many bytes as are allowed.
        self.set(|queue, current| unsafe {
            current.writing.copy(&Blocks::of(sends), pieces, queue.kind.max_inline)
        });
    }

    /// Posts what was built, or forgets it; what went wrong. EINVAL before the queue pair was in state RTS.
    ///
    /// # Safety
    /// `sends` is this queue's.
    #[inline(always)]
    pub unsafe fn end_building(&mut self, sends: &Sends, post: bool) -> Option<Errno> {
        let built = core::mem::take(&mut self.building);
        let error = if self.max_sge < 0 { Some(Errno::EINVAL) } else { built.error };
        if !post || error.is_some() {
            (self.place, self.fence) = built.before;
            return error.filter(|_| post);
        }
        if let Some((last, units)) = built.last {
            self.posted = self.posted.wrapping_add(built.count);
            sends.publish(self.posted);
            // SAFETY: the last request was just written into the ring of this queue.
            unsafe { self.announce(sends, last, units, built.count == 1, built.data) };
        }
        None
    }
}
