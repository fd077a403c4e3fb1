//! Completions as ConnectX writes them: 64 bytes, version 1, uncompressed; numbers are big-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..32 | data of the message (format 1), or: 17 path bits, 22 sender's LID, 24 GRH, level, sender |
//! | 28, 29 | what was checked of headers, and their kind |
//! | 32 | user index of the queue pair, or of the shared receive queue of XRC (low 24 bits) |
//! | 36 | immediate data, key or partition |
//! | 40 | 1: tag matching |
//! | 44 | length |
//! | 48 | timestamp; of errors 54 the vendor's code and 55 the reason |
//! | 56 | operation of the request (high 8 bits), queue pair |
//! | 60 | place of the request |
//! | 63 | kind (high 4 bits), format (2), solicited, owner |
//!
//! Source: `struct mlx5_cqe64`, `struct mlx5_err_cqe` of `infiniband/mlx5dv.h`.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::abi::verbs::*;

/// Bytes of a completion.
pub const SIZE: usize = 64;

/// A request of the queue pair is done.
pub const REQ: u8 = 0;
/// A message came: an RDMA write with immediate data ...
pub const RESP_WR_IMM: u8 = 1;
/// ... a send ...
pub const RESP_SEND: u8 = 2;
/// ... one with immediate data ...
pub const RESP_SEND_IMM: u8 = 3;
/// ... one that took a key back.
pub const RESP_SEND_INV: u8 = 4;
/// The ring ends here: the next completion is in the new one.
pub const RESIZE_CQ: u8 = 5;
/// A signature did not fit.
pub const SIG_ERR: u8 = 12;
/// A request of the queue pair failed.
pub const REQ_ERR: u8 = 13;
/// A receive failed.
pub const RESP_ERR: u8 = 14;
/// Nothing was ever written here.
pub const INVALID: u8 = 15;

/// Format of a completion with up to 32 bytes of data in it.
pub const DATA_32: u8 = 1 << 2;
/// What a completion in 64 bytes does not have: data before it.
pub const DATA_64: u8 = 2 << 2;
/// The owner bit.
pub const OWNER: u8 = 1;
/// `op_own` of an entry that was never written.
pub const EMPTY: u8 = INVALID << 4;

/// Where the last byte is.
pub const OP_OWN: usize = 63;
/// The vendor's code of a receive whose memory was not there (ODP).
const ODP_FAULT: u8 = 0x93;
/// The reason of such.
const REMOTE_ABORTED: u8 = 0x22;

/// An entry that the device has written. Every field is read once, where it is asked for.
#[derive(Clone, Copy)]
pub struct Cqe(NonNull<u8>);

macro_rules! numbers {
    ($($name:ident: $atomic:ident => $number:ty;)+) => {$(
        #[inline(always)]
        fn $name(self, offset: usize) -> $number {
            // SAFETY: by the contract of `at`, for which the offset is less than the size and a multiple of
            // the field's. Atomic, because a device may write at any time.
            unsafe { $atomic::from_ptr(self.0.add(offset).as_ptr().cast()) }.load(Ordering::Relaxed)
        }
    )+};
}

impl Cqe {
    numbers! {
        byte: AtomicU8 => u8;
        half: AtomicU16 => u16;
        word: AtomicU32 => u32;
        long: AtomicU64 => u64;
    }

    /// The entry there.
    ///
    /// # Safety
    /// 64 bytes are readable from `place`, aligned to 8, as long as the result is used; this process writes
    /// them through atomics.
    #[inline(always)]
    pub unsafe fn at(place: NonNull<u8>) -> Self {
        Self(place)
    }

    /// Kind, format and owner.
    #[inline(always)]
    pub fn op_own(self) -> u8 {
        self.byte(OP_OWN)
    }

    /// The user index, as it stands there: big-endian, in the high 24 bits of the number that this machine
    /// reads.
    #[inline(always)]
    pub fn tag(self) -> u32 {
        self.word(32) & !0xff
    }

    /// The tag of a user index.
    pub fn tag_of(uidx: u32) -> u32 {
        (uidx & 0xff_ffff).to_be() & !0xff
    }

    /// The user index that a tag is of.
    #[inline(always)]
    pub fn uidx_of(tag: u32) -> u32 {
        u32::from_be(tag)
    }

    /// The number of the queue pair.
    #[inline(always)]
    pub fn qp_num(self) -> u32 {
        u32::from_be(self.word(56)) & 0xff_ffff
    }

    /// The device's operation, of a request.
    #[inline(always)]
    pub fn operation(self) -> u8 {
        self.byte(56)
    }

    /// The place of the request in its ring.
    #[inline(always)]
    pub fn counter(self) -> u16 {
        u16::from_be(self.half(60))
    }

    /// Length in bytes.
    #[inline(always)]
    pub fn byte_len(self) -> u32 {
        u32::from_be(self.word(44))
    }

    /// Immediate data, as it was sent.
    #[inline(always)]
    pub fn immediate(self) -> u32 {
        self.word(36)
    }

    /// The sender's queue pair.
    #[inline(always)]
    pub fn src_qp(self) -> u32 {
        u32::from_be(self.word(24)) & 0xff_ffff
    }

    /// Whether a GRH came first.
    #[inline(always)]
    pub fn grh(self) -> bool {
        self.byte(24) & 0x30 != 0
    }

    /// Service level.
    #[inline(always)]
    pub fn sl(self) -> u8 {
        self.byte(24) & 0xf
    }

    /// The sender's LID.
    #[inline(always)]
    pub fn slid(self) -> u16 {
        u16::from_be(self.half(22))
    }

    /// The low bits of the LID that was addressed.
    #[inline(always)]
    pub fn dlid_path_bits(self) -> u8 {
        self.byte(17) & 0x7f
    }

    /// The VLAN of the packet.
    #[inline(always)]
    pub fn vlan(self) -> u16 {
        u16::from_be(self.half(30))
    }

    /// When it was written, in ticks of the device's clock.
    #[inline(always)]
    pub fn timestamp(self) -> u64 {
        u64::from_be(self.long(48))
    }

    /// The vendor's code of an error.
    #[inline(always)]
    pub fn vendor_err(self) -> u8 {
        self.byte(54)
    }

    /// What an error means.
    pub fn status(self) -> ibv_wc_status_t {
        let status = match self.byte(55) {
            0x01 => IBV_WC_LOC_LEN_ERR,
            0x02 => IBV_WC_LOC_QP_OP_ERR,
            0x04 => IBV_WC_LOC_PROT_ERR,
            0x05 => IBV_WC_WR_FLUSH_ERR,
            0x06 => IBV_WC_MW_BIND_ERR,
            0x10 => IBV_WC_BAD_RESP_ERR,
            0x11 => IBV_WC_LOC_ACCESS_ERR,
            0x12 => IBV_WC_REM_INV_REQ_ERR,
            0x13 => IBV_WC_REM_ACCESS_ERR,
            0x14 => IBV_WC_REM_OP_ERR,
            0x15 => IBV_WC_RETRY_EXC_ERR,
            0x16 => IBV_WC_RNR_RETRY_EXC_ERR,
            REMOTE_ABORTED => IBV_WC_REM_ABORT_ERR,
            _ => IBV_WC_GENERAL_ERR,
        };
        status as ibv_wc_status_t
    }

    /// A receive whose memory was not there: it is to be posted again, and is no completion of the program's.
    #[inline(always)]
    pub fn is_odp_fault(self) -> bool {
        self.byte(55) == REMOTE_ABORTED && self.vendor_err() == ODP_FAULT
    }

    /// The 32 bytes that are data in format [`DATA_32`].
    pub fn data(self) -> [u8; 32] {
        let mut data = [0; 32];
        for (at, bytes) in data.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.long(at * 8).to_ne_bytes());
        }
        data
    }

    /// Copies the entry to `target`, the byte with the owner last.
    ///
    /// # Safety
    /// 64 bytes are writable at `target`, aligned to 8, through atomics only, and no part of this entry.
    pub unsafe fn copy_to(self, target: NonNull<u8>, op_own: u8) {
        for offset in (0..SIZE).step_by(8) {
            let mut bytes = self.long(offset).to_ne_bytes();
            if offset == SIZE - 8 {
                bytes[7] = EMPTY;
            }
            // SAFETY: by the contract.
            let place = unsafe { AtomicU64::from_ptr(target.add(offset).as_ptr().cast()) };
            place.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        // SAFETY: as above.
        let owner = unsafe { AtomicU8::from_ptr(target.add(OP_OWN).as_ptr()) };
        // Release: the entry is there before it is the reader's.
        owner.store(op_own, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixty-four bytes where a device would write them.
    #[repr(align(64))]
    #[derive(Clone, Copy, Debug)]
    struct Bytes([u8; SIZE]);

    impl Bytes {
        fn cqe(&self) -> Cqe {
            // SAFETY: as many bytes, aligned, and borrowed; nobody writes them.
            unsafe { Cqe::at(NonNull::from(&self.0).cast()) }
        }

        fn put(&mut self, offset: usize, bytes: &[u8]) -> &mut Self {
            self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
            self
        }
    }

    #[test]
    fn every_field_is_where_the_device_writes_it() {
        let mut bytes = Bytes([0; SIZE]);
        bytes
            .put(17, &[0xff])
            .put(22, &0x1234_u16.to_be_bytes())
            .put(24, &(0x1_0000_0000_u64 as u32 | 0x2500_0000 | 0x0a_bcde).to_be_bytes())
            .put(32, &0x7701_0203_u32.to_be_bytes())
            .put(36, &[1, 2, 3, 4])
            .put(44, &0x55_u32.to_be_bytes())
            .put(48, &0x1122_3344_5566_7788_u64.to_be_bytes())
            .put(56, &0x0a12_3456_u32.to_be_bytes())
            .put(60, &0xbeef_u16.to_be_bytes())
            .put(63, &[RESP_SEND << 4 | DATA_32 | 2 | OWNER]);
        let cqe = bytes.cqe();
        assert_eq!((cqe.dlid_path_bits(), cqe.slid(), cqe.sl(), cqe.grh()), (0x7f, 0x1234, 5, true));
        assert_eq!((cqe.src_qp(), cqe.qp_num(), cqe.operation()), (0x0a_bcde, 0x12_3456, 0x0a));
        // The highest 8 bits of the word are not the index's.
        assert_eq!((cqe.tag(), Cqe::uidx_of(cqe.tag())), (Cqe::tag_of(0x01_0203), 0x01_0203));
        assert_eq!((cqe.immediate().to_ne_bytes(), cqe.byte_len()), ([1, 2, 3, 4], 0x55));
        assert_eq!((cqe.timestamp(), cqe.counter(), cqe.op_own()), (0x1122_3344_5566_7788, 0xbeef, 0x27));
        bytes.put(54, &[0x93, 0x22]);
        assert!(bytes.cqe().is_odp_fault());
        assert_eq!(bytes.cqe().status(), IBV_WC_REM_ABORT_ERR as ibv_wc_status_t);
        bytes.put(55, &[0x99]);
        assert_eq!(bytes.cqe().status(), IBV_WC_GENERAL_ERR as ibv_wc_status_t);
    }

    #[test]
    fn tags_and_user_indices_are_two_forms_of_one_number() {
        for uidx in [0, 1, 0x80, 0x1234, 0xff_fffe, 0xff_ffff] {
            assert_eq!(Cqe::uidx_of(Cqe::tag_of(uidx)), uidx);
        }
    }

    #[test]
    fn a_copy_differs_in_its_last_byte_alone() {
        let mut bytes = Bytes([0; SIZE]);
        for (at, byte) in bytes.0.iter_mut().enumerate() {
            *byte = at as u8 ^ 0x5a;
        }
        let mut copy = Bytes([0xee; SIZE]);
        // SAFETY: aligned and exclusively borrowed.
        unsafe { bytes.cqe().copy_to(NonNull::from(&mut copy.0).cast(), 0x21) };
        assert_eq!((&copy.0[..OP_OWN], copy.0[OP_OWN]), (&bytes.0[..OP_OWN], 0x21));
        assert_eq!(copy.cqe().data(), bytes.0[..32]);
    }
}
