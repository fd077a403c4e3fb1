//! Requests as ConnectX reads them: segments of 16 bytes; numbers are big-endian.
//!
//! | segment | bytes |
//! |---|---|
//! | control | modifier, 2 of place, operation; 3 of queue pair, units; 3 zeros, flags; 4 of immediate or key |
//! | memory | 4 length, 4 key, 8 address |
//! | data | 4 length with the highest bit, then the bytes, up to a multiple of 16 |
//! | remote address | 8 address, 4 key, 4 zeros |
//! | atomic | 8 swap or add, 8 compare |
//! | XRC | 4 number of the shared receive queue, 12 that nobody reads |
//! | datagram | 48: address vector, with Q_Key and queue pair |
//! | key | 48 control, 64 context, 64 memory: binds a window or invalidates a key |
//!
//! Source: `struct mlx5_wqe_*` of `infiniband/mlx5dv.h`.

use core::ptr::NonNull;

use crate::abi::verbs::*;
use crate::errno::Errno;

/// Bytes of a segment.
pub const UNIT: usize = 16;
/// Bytes of a block, at whose multiples requests to send begin.
pub const BLOCK: usize = 64;
/// The key that ends a list of memory.
pub const INVALID_KEY: u32 = 0x100;

/// Control: make a completion ...
pub const SIGNALED: u8 = 2 << 2;
/// ... and an event for it at the peer ...
pub const SOLICITED: u8 = 1 << 1;
/// ... wait for reads and atomics before ...
pub const FENCE: u8 = 4 << 5;
/// ... wait for the key before.
pub const SMALL_FENCE: u8 = 1 << 5;

/// Length of data, not of memory.
const DATA: u32 = 1 << 31;
/// The address vector has all its 48 bytes.
const EXTENDED_AV: u32 = 1 << 31;

/// The device's operations, by `IBV_WR_*`; none where a queue pair of ours has none.
pub const OPERATIONS: [Option<u8>; 10] = [
    Some(0x08), // RDMA_WRITE
    Some(0x09), // RDMA_WRITE_WITH_IMM
    Some(0x0a), // SEND
    Some(0x0b), // SEND_WITH_IMM
    Some(0x10), // RDMA_READ
    Some(0x11), // ATOMIC_CMP_AND_SWP
    Some(0x12), // ATOMIC_FETCH_AND_ADD
    Some(0x25), // LOCAL_INV
    Some(0x25), // BIND_MW
    Some(0x01), // SEND_WITH_INV
];
/// The operation of a read.
pub const RDMA_READ: u8 = 0x10;
/// The operation of a comparison.
pub const ATOMIC_CS: u8 = 0x11;
/// The operation of an addition.
pub const ATOMIC_FA: u8 = 0x12;

/// A place in a ring of requests, or in a request; bytes are written as they are, without alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment(pub NonNull<u8>);

impl Segment {
    /// `offset` bytes further on.
    ///
    /// # Safety
    /// They lie in the same ring, or end with it.
    #[inline(always)]
    pub unsafe fn add(self, offset: usize) -> Self {
        // SAFETY: by the contract.
        Self(unsafe { self.0.add(offset) })
    }

    /// # Safety
    /// `offset` and what is written lie in the ring, which nobody else writes.
    #[inline(always)]
    unsafe fn put<T>(self, offset: usize, value: T) {
        // SAFETY: by the contract.
        unsafe { self.0.add(offset).cast::<T>().write_unaligned(value) };
    }

    /// # Safety
    /// `offset` and what is read lie in the ring, and every pattern of bits is a `T`.
    #[inline(always)]
    unsafe fn get<T>(self, offset: usize) -> T {
        // SAFETY: by the contract.
        unsafe { self.0.add(offset).cast::<T>().read_unaligned() }
    }

    /// The control segment. `place` is the request's in the ring, counted in blocks; `immediate` is as it is
    /// sent.
    ///
    /// # Safety
    /// 16 bytes of the ring, for the writer alone; as for all that follow with their sizes.
    #[inline(always)]
    pub unsafe fn control(
        self,
        place: u32,
        operation: u8,
        (qp_num, units): (u32, u32),
        flags: u8,
        immediate: Option<u32>,
    ) {
        // SAFETY: by the contract.
        unsafe {
            self.put(0, ((place & 0xffff) << 8 | u32::from(operation)).to_be());
            self.put(4, (qp_num << 8 | units).to_be());
            self.put(8, u32::from(flags).to_be());
            if let Some(immediate) = immediate {
                self.put(12, immediate);
            }
        }
    }

    /// What the control segment says: the operation and the number of units.
    ///
    /// # Safety
    /// A control segment.
    pub unsafe fn read_control(self) -> (u8, usize) {
        // SAFETY: by the contract.
        unsafe { (self.get::<u8>(3), usize::from(self.get::<u8>(7) & 0x3f)) }
    }

    /// A piece of memory. 16 bytes.
    ///
    /// # Safety
    /// See [`Segment::control`].
    #[inline(always)]
    pub unsafe fn memory(self, address: u64, length: u32, key: u32) {
        // SAFETY: by the contract.
        unsafe {
            self.put(0, length.to_be());
            self.put(4, key.to_be());
            self.put(8, address.to_be());
        }
    }

    /// A piece of memory: address, length, key.
    ///
    /// # Safety
    /// Such a segment.
    #[inline(always)]
    pub unsafe fn read_memory(self) -> (u64, u32, u32) {
        // SAFETY: by the contract.
        unsafe {
            (u64::from_be(self.get(8)), u32::from_be(self.get::<u32>(0)), u32::from_be(self.get::<u32>(4)))
        }
    }

    /// The end of a list of memory that is shorter than it may be. 16 bytes.
    ///
    /// # Safety
    /// See [`Segment::control`].
    #[inline(always)]
    pub unsafe fn end_of_memory(self) {
        // SAFETY: by the contract.
        unsafe { self.memory(0, 0, INVALID_KEY) };
    }

    /// How many bytes of data follow. 4 bytes.
    ///
    /// # Safety
    /// See [`Segment::control`].
    #[inline(always)]
    pub unsafe fn data_length(self, length: u32) {
        // SAFETY: by the contract.
        unsafe { self.put(0, (length | DATA).to_be()) };
    }

    /// The peer's memory. 16 bytes.
    ///
    /// # Safety
    /// See [`Segment::control`].
    #[inline(always)]
    pub unsafe fn remote(self, address: u64, key: u32) {
        // SAFETY: by the contract.
        unsafe {
            self.put(0, address.to_be());
            self.put(8, key.to_be());
            self.put(12, 0_u32);
        }
    }

    /// What an atomic does; an addition leaves the half that is compared as it was. 16 bytes.
    ///
    /// # Safety
    /// See [`Segment::control`].
    #[inline(always)]
    pub unsafe fn atomic(self, swap_or_add: u64, compare: Option<u64>) {
        // SAFETY: by the contract.
        unsafe {
            self.put(0, swap_or_add.to_be());
            if let Some(compare) = compare {
                self.put(8, compare.to_be());
            }
        }
    }

    /// The peer's shared receive queue; 12 of the 16 bytes stay as they were.
    ///
    /// # Safety
    /// See [`Segment::control`].
    #[inline(always)]
    pub unsafe fn xrc(self, srq_num: u32) {
        // SAFETY: by the contract.
        unsafe { self.put(0, srq_num.to_be()) };
    }

    /// The peer of a datagram: its address vector, queue pair and Q_Key. 48 bytes.
    ///
    /// # Safety
    /// See [`Segment::control`]; the vector has 48 bytes.
    #[inline(always)]
    pub unsafe fn datagram(self, vector: NonNull<u8>, qp_num: u32, qkey: u32) {
        // SAFETY: by the contract; the vector is the address handle's, which lies outside of the ring.
        unsafe {
            self.0.copy_from_nonoverlapping(vector, 48);
            self.put(0, qkey.to_be());
            self.put(8, (qp_num | EXTENDED_AV).to_be());
        }
    }
}

/// The binding of a window, or the invalidation of a key, which binds it to nothing.
#[derive(Clone, Copy)]
pub struct Binding {
    /// The window is of type 2.
    pub second_type: bool,
    /// The new key.
    pub key: u32,
    /// The queue pair's number.
    pub qp_num: u32,
    /// The memory; none invalidates.
    pub memory: Option<BoundMemory>,
}

/// What a window is bound to.
#[derive(Clone, Copy)]
pub struct BoundMemory {
    /// First byte.
    pub address: u64,
    /// Bytes, 1 to 2^31.
    pub length: u64,
    /// The region's local key.
    pub key: u32,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

/// Parts of a binding's control segment.
mod umr {
    pub const INLINE: u8 = 1 << 7;
    pub const CHECK_FREE: u8 = 1 << 5;
    pub const TRANSLATION_OFFSET: u8 = 1 << 4;
    pub const CHECK_QPN: u8 = 1 << 3;
    pub const MASK_LEN: u64 = 1 << 0;
    pub const MASK_START_ADDR: u64 = 1 << 6;
    pub const MASK_MKEY: u64 = 1 << 13;
    pub const MASK_QPN: u64 = 1 << 14;
    pub const MASK_LOCAL_WRITE: u64 = 1 << 18;
    pub const MASK_REMOTE_READ: u64 = 1 << 19;
    pub const MASK_REMOTE_WRITE: u64 = 1 << 20;
    pub const MASK_ATOMIC: u64 = 1 << 21;
    pub const MASK_FREE: u64 = 1 << 29;
    pub const KEY_FREE: u8 = 1 << 6;
}

impl Binding {
    /// The three parts have these sizes (bytes).
    pub const CONTROL: usize = 48;
    /// See [`Self::CONTROL`].
    pub const CONTEXT: usize = 64;
    /// See [`Self::CONTROL`].
    pub const MEMORY: usize = 64;

    /// What a program asks for; EOPNOTSUPP for more than 2 GiB.
    ///
    /// # Safety
    /// The region is live, where there is memory.
    pub unsafe fn of(
        info: &ibv_mw_bind_info,
        second_type: bool,
        key: u32,
        qp_num: u32,
    ) -> Result<Self, Errno> {
        if info.length > 1 << 31 {
            return Err(Errno::EOPNOTSUPP);
        }
        let memory = (info.length != 0).then(|| BoundMemory {
            address: info.addr,
            length: info.length,
            // SAFETY: by the contract.
            key: unsafe { (*info.mr).lkey },
            access: info.mw_access_flags,
        });
        Ok(Self { second_type, key, qp_num, memory })
    }

    /// The first part.
    ///
    /// # Safety
    /// See [`Segment::control`].
    pub unsafe fn control(&self, to: Segment) {
        let mut flags = umr::TRANSLATION_OFFSET | umr::INLINE;
        let mut mask = umr::MASK_FREE | umr::MASK_MKEY;
        if self.second_type {
            mask |= umr::MASK_QPN;
        }
        let octowords = if self.memory.is_some() {
            if self.second_type {
                flags |= umr::CHECK_FREE;
            }
            mask |= umr::MASK_LEN
                | umr::MASK_START_ADDR
                | umr::MASK_LOCAL_WRITE
                | umr::MASK_REMOTE_READ
                | umr::MASK_REMOTE_WRITE
                | umr::MASK_ATOMIC;
            4_u16
        } else {
            if self.second_type {
                flags |= umr::CHECK_QPN;
            }
            0
        };
        // SAFETY: by the contract.
        unsafe {
            to.put(0, [flags, 0, 0, 0]);
            to.put(4, octowords.to_be());
            to.put(6, 0_u16);
            to.put(8, mask.to_be());
            to.put(16, [0_u8; 32]);
        }
    }

    /// The second part, of which bytes that do not count stay as they were.
    ///
    /// # Safety
    /// See [`Segment::control`].
    pub unsafe fn context(&self, to: Segment) {
        let owner = if self.second_type && self.memory.is_some() { self.qp_num << 8 } else { 0xffff_ff00 };
        // SAFETY: by the contract.
        unsafe {
            to.put(4, (self.key & 0xff | owner).to_be());
            let Some(memory) = self.memory else { return to.put(0, umr::KEY_FREE) };
            let mut access = 0_u8;
            for (right, bit) in [
                (IBV_ACCESS_LOCAL_WRITE, 1 << 3),
                (IBV_ACCESS_REMOTE_READ, 1 << 4),
                (IBV_ACCESS_REMOTE_WRITE, 1 << 5),
                (IBV_ACCESS_REMOTE_ATOMIC, 1 << 6),
            ] {
                if memory.access & right as u32 != 0 {
                    access |= bit;
                }
            }
            to.put(0, 0_u8);
            to.put(2, access);
            let zero_based = memory.access & IBV_ACCESS_ZERO_BASED as u32 != 0;
            to.put(16, if zero_based { 0 } else { memory.address.to_be() });
            to.put(24, memory.length.to_be());
        }
    }

    /// The third part, where there is memory.
    ///
    /// # Safety
    /// See [`Segment::control`].
    pub unsafe fn memory(&self, memory: &BoundMemory, to: Segment) {
        // SAFETY: by the contract.
        unsafe {
            to.memory(memory.address, memory.length as u32, memory.key);
            to.put(UNIT, [0_u8; Self::MEMORY - UNIT]);
        }
    }
}

#[cfg(test)]
mod tests;
