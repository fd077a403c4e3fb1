//! What passes between libmlx5 and its driver while a queue is made: read where it goes through the library,
//! and changed where the device is to write to memory of ours.

use core::cell::RefCell;

use super::ring::{Record, Ring};
use crate::abi::uapi::Pod;
use crate::abi::uapi::mlx5_abi::*;
use crate::abi::verbs::{ibv_cq_init_attr_ex, ibv_qp_cap};

/// A completion queue whose command has gone to the kernel with memory of ours.
pub struct MadeCq {
    /// What the device writes.
    pub ring: Ring,
    /// What the device reads.
    pub record: Record,
}

/// A queue pair that the kernel has made.
#[derive(Clone, Copy)]
pub struct MadeQp {
    /// Its user index.
    pub uidx: u32,
    /// Requests carry signatures.
    pub signed: bool,
    /// What libmlx5 asked for, which is what it has.
    pub cap: ibv_qp_cap,
}

/// A shared receive queue that the kernel has made.
#[derive(Clone, Copy)]
pub struct MadeSrq {
    /// Its user index, if it is one of XRC.
    pub uidx: u32,
    /// Requests carry signatures.
    pub signed: bool,
    /// How many requests its ring has.
    pub count: u32,
}

/// What the calls of a thread into libmlx5 are about.
#[derive(Default)]
enum Making {
    /// Nothing of ours: libmlx5 keeps its memory.
    #[default]
    Nothing,
    /// A completion queue is to be made.
    Cq,
    MadeCq(MadeCq),
    /// A completion queue is to have another ring.
    Ring,
    MadeRing(Ring),
    MadeQp(MadeQp),
    MadeSrq(MadeSrq),
}

thread_local! {
    static MAKING: RefCell<Making> = const { RefCell::new(Making::Nothing) };
}

/// The driver's part of a command, changed: as long as libmlx5 made it.
pub struct Changed {
    bytes: [u8; 64],
    length: usize,
}

impl Changed {
    fn new(input: &[u8], start: &[u8]) -> Option<Self> {
        let mut bytes = [0; 64];
        bytes.get_mut(..input.len())?.copy_from_slice(input);
        bytes[..start.len()].copy_from_slice(start);
        Some(Self { bytes, length: input.len() })
    }

    /// What the kernel is told.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Makes a completion queue by a call of libmlx5, in memory of ours where it is one that polls know; what the
/// device then writes and reads.
pub fn while_making_cq<R>(make: impl FnOnce() -> R) -> (R, Option<MadeCq>) {
    MAKING.set(Making::Cq);
    let made = make();
    match MAKING.take() {
        Making::MadeCq(memory) => (made, Some(memory)),
        _ => (made, None),
    }
}

/// Resizes a completion queue of ours by a call of libmlx5; the new ring, if the kernel has taken it.
pub fn while_resizing<R>(resize: impl FnOnce() -> R) -> (R, Option<Ring>) {
    MAKING.set(Making::Ring);
    let done = resize();
    match MAKING.take() {
        Making::MadeRing(ring) => (done, Some(ring)),
        _ => (done, None),
    }
}

/// Makes a queue pair by a call of libmlx5; what the kernel made last.
pub fn while_making_qp<R>(make: impl FnOnce() -> R) -> (R, Option<MadeQp>) {
    MAKING.set(Making::Nothing);
    let made = make();
    match MAKING.take() {
        Making::MadeQp(qp) => (made, Some(qp)),
        _ => (made, None),
    }
}

/// Makes a shared receive queue by a call of libmlx5; what the kernel made last.
pub fn while_making_srq<R>(make: impl FnOnce() -> R) -> (R, Option<MadeSrq>) {
    MAKING.set(Making::Nothing);
    let made = make();
    match MAKING.take() {
        Making::MadeSrq(srq) => (made, Some(srq)),
        _ => (made, None),
    }
}

/// The command that makes a completion queue: what the kernel is told in place of libmlx5's part, where the
/// queue is one of 64 bytes, uncompressed, and there is memory.
pub fn create_cq(attr: &ibv_cq_init_attr_ex, input: &[u8]) -> Option<Changed> {
    if !MAKING.with_borrow(|making| matches!(making, Making::Cq)) {
        return None;
    }
    let mut told = mlx5_ib_create_cq::read_from(input)?;
    if told.cqe_size as usize != super::cqe::SIZE || told.cqe_comp_en != 0 {
        return None;
    }
    let ring = Ring::new(attr.cqe.checked_add(1)?).ok()?;
    let record = Record::new().ok()?;
    (told.buf_addr, told.db_addr) = (ring.address(), record.address());
    let changed = Changed::new(input, told.as_bytes())?;
    MAKING.set(Making::MadeCq(MadeCq { ring, record }));
    Some(changed)
}

/// The same for the command that resizes one to `cqe` completions.
pub fn resize_cq(cqe: u32, input: &[u8]) -> Option<Changed> {
    if !MAKING.with_borrow(|making| matches!(making, Making::Ring)) {
        return None;
    }
    let mut told = mlx5_ib_resize_cq::read_from(input)?;
    let ring = Ring::new(cqe.checked_add(1)?).ok()?;
    told.buf_addr = ring.address();
    let changed = Changed::new(input, told.as_bytes())?;
    MAKING.set(Making::MadeRing(ring));
    Some(changed)
}

/// The command that makes a queue pair was told this. None for a kind that has no user index.
pub fn qp_created(cap: ibv_qp_cap, input: &[u8]) -> Option<MadeQp> {
    let told = mlx5_ib_create_qp::read_from(input)?;
    let made = MadeQp { uidx: told.uidx & 0xff_ffff, signed: told.flags & MLX5_QP_FLAG_SIGNATURE != 0, cap };
    MAKING.set(Making::MadeQp(made));
    Some(made)
}

/// The command that makes a shared receive queue of at least `max_wr` requests was told this.
pub fn srq_created(max_wr: u32, input: &[u8]) {
    let Some(told) = mlx5_ib_create_srq::read_from(input) else { return };
    let Some(count) = max_wr.checked_add(1).and_then(u32::checked_next_power_of_two) else { return };
    let made =
        MadeSrq { uidx: told.uidx & 0xff_ffff, signed: told.flags & MLX5_QP_FLAG_SIGNATURE != 0, count };
    MAKING.set(Making::MadeSrq(made));
}
