//! Writing a request into a ring of blocks, in which what reaches the end goes on at the start.

use super::queue::Sends;
use super::wqe::{self, Binding, Segment};
use crate::abi::verbs::ibv_sge;
use crate::errno::Errno;

/// A request being written.
#[derive(Clone, Copy)]
pub struct Writing {
    /// Where it goes on.
    pub at: Segment,
    /// How long it is, in units of 16 bytes.
    pub units: u32,
    /// It holds data.
    pub data: bool,
}

/// Memory of the program whose bytes go into a request.
#[derive(Clone, Copy)]
pub struct Bytes {
    /// First byte.
    pub start: *const u8,
    /// Bytes.
    pub length: usize,
}

/// A ring of blocks.
#[derive(Clone, Copy)]
pub struct Blocks {
    start: Segment,
    bytes: usize,
}

impl Blocks {
    /// The ring of a send queue.
    #[inline(always)]
    pub fn of(sends: &Sends) -> Self {
        Self { start: Segment(sends.ring()), bytes: (sends.mask() as usize + 1) * wqe::BLOCK }
    }

    /// Where the request of a place begins, and what is written behind its first segment.
    #[inline(always)]
    pub fn request(&self, place: u32) -> (Segment, Writing) {
        let block = (place as usize * wqe::BLOCK) & (self.bytes - 1);
        // SAFETY: the place is cut to the ring, whose size is a power of two; a block is longer than its
        // first segment.
        unsafe {
            let start = self.start.add(block);
            (start, Writing { at: start.add(wqe::UNIT), units: 1, data: false })
        }
    }

    /// Bytes from a place to the ring's end.
    #[inline(always)]
    fn left(&self, at: Segment) -> usize {
        self.bytes - (at.0.as_ptr().addr() - self.start.0.as_ptr().addr())
    }
}

impl Writing {
    /// Goes on behind what was written: so many units, which end with the ring at most.
    ///
    /// # Safety
    /// They do.
    #[inline(always)]
    pub unsafe fn skip(&mut self, ring: &Blocks, units: u32) {
        // SAFETY: by the contract.
        self.at = unsafe { self.at.add(units as usize * wqe::UNIT) };
        self.units += units;
        if ring.left(self.at) == 0 {
            self.at = ring.start;
        }
    }

    /// Binds a window, or invalidates a key.
    ///
    /// # Safety
    /// The request has room in the ring.
    pub unsafe fn bind(&mut self, ring: &Blocks, binding: &Binding) {
        // SAFETY: by the contract; each part begins at a block, or ends at the next.
        unsafe {
            binding.control(self.at);
            self.skip(ring, (Binding::CONTROL / wqe::UNIT) as u32);
            binding.context(self.at);
            self.skip(ring, (Binding::CONTEXT / wqe::UNIT) as u32);
            if let Some(memory) = &binding.memory {
                binding.memory(memory, self.at);
                self.skip(ring, (Binding::MEMORY / wqe::UNIT) as u32);
            }
        }
    }

    /// Names memory, but for empty pieces. An atomic's has 8 bytes whatever it says.
    ///
    /// # Safety
    /// The request has room in the ring.
    #[inline(always)]
    pub unsafe fn name(&mut self, ring: &Blocks, list: &[ibv_sge], atomic: bool) {
        for sge in list.iter().filter(|sge| sge.length != 0) {
            // SAFETY: by the contract.
            unsafe {
                self.at.memory(sge.addr, if atomic { 8 } else { sge.length }, sge.lkey);
                self.skip(ring, 1);
            }
        }
    }

    /// Copies memory into the ring; ENOMEM for more than `most` bytes.
    ///
    /// # Safety
    /// The program's memory is there, and the request has room in the ring for as many bytes.
    #[inline(always)]
    pub unsafe fn copy(
        &mut self,
        ring: &Blocks,
        pieces: impl Iterator<Item = Bytes>,
        most: usize,
    ) -> Result<(), Errno> {
        let length_at = self.at;
        // SAFETY: by the contract; a unit is longer than the length of the data. What does not fit before the
        // end of the ring goes on at its start.
        unsafe {
            let mut to = self.at.add(size_of::<u32>());
            let mut all = 0_usize;
            for Bytes { start: from, length } in pieces {
                all = all.saturating_add(length);
                if all > most {
                    return Err(Errno::ENOMEM);
                }
                let first = length.min(ring.left(to));
                core::ptr::copy_nonoverlapping(from, to.0.as_ptr(), first);
                to = to.add(first);
                if first != length {
                    core::ptr::copy_nonoverlapping(from.add(first), ring.start.0.as_ptr(), length - first);
                    to = ring.start.add(length - first);
                }
            }
            if all != 0 {
                length_at.data_length(all as u32);
                self.units += (size_of::<u32>() + all).div_ceil(wqe::UNIT) as u32;
            }
        }
        self.data = true;
        Ok(())
    }
}
