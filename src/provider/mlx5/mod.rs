//! ConnectX by a data path of our own over the objects that libmlx5 makes (`IRONVERBS_MLX5=1`).
//!
//! libmlx5 opens the device and makes every object; its capabilities, commands and limits stay as they are.
//! The commands pass through the library ([`creation`]), which gives the kernel a ring of its own for each
//! completion queue, and learns user indices. Where the rest is, libmlx5's interface for such programs says
//! ([`dv`]).
//!
//! What libmlx5 keeps to itself stays true: queues that are ours it never posts to, and its own completion
//! rings hold nothing but copies of completions that are not ours, put there for it to take at once
//! ([`ring::Shadow`]).
//!
//! | file | what it does |
//! |---|---|
//! | [`dv`] [`creation`] | what libmlx5 and its driver say of the queues |
//! | [`found`] [`origins`] | from C objects and user indices to what is kept beside them |
//! | [`memory`] [`ring`] [`cqe`] | completions: pages, rings, entries |
//! | [`cq`] [`cq_ex`] | completion queues, polled by arrays or one by one |
//! | [`wqe`] [`queue`] [`doorbell`] [`barrier`] | requests: segments, what stands where, registers, order |
//! | [`send`] [`qp`] [`srq`] | posting lists of requests |
//! | [`wr`] [`building`] [`writing`] | building send requests by calls; writing them into a ring |
//! | [`taking`] | making, resetting and destroying queues that are ours |

pub mod barrier;
pub mod building;
pub mod cq;
pub mod cq_ex;
pub mod cqe;
pub mod creation;
pub mod doorbell;
pub mod dv;
pub mod found;
pub mod memory;
pub mod origins;
pub mod qp;
pub mod queue;
pub mod ring;
pub mod send;
pub mod srq;
pub mod taking;
pub mod wqe;
pub mod wr;
pub mod writing;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::driver::verbs_device_ops;
use crate::abi::verbs::*;
use crate::environment;
use crate::provider::object::Handle;
use crate::provider::plugin::context::PluginContext;
use crate::provider::plugin::registry;
use crate::provider::verbs::Devices;
use doorbell::{Register, Whole};
use dv::Direct;
use origins::Origins;

/// No key is null memory's.
const NO_KEY: u64 = u64::MAX;

/// What is known of a context of libmlx5's whose queues are ours.
pub struct Mlx5 {
    direct: Direct,
    /// What completions lead to.
    pub origins: Origins,
    /// The registers that queue pairs use.
    registers: Mutex<Vec<Arc<Register>>>,
    /// When requests are written there whole.
    whole: Whole,
    /// The device has atomics.
    atomics: bool,
    /// How far an address handle's vector is behind the handle (bytes); 0 until there was one.
    av_offset: AtomicUsize,
    /// The key of memory that is not there, or [`NO_KEY`] until the program has it.
    null_key: AtomicU64,
}

impl Mlx5 {
    /// What a context's queues need, where the environment asks for it, libmlx5 made the context, and it was
    /// the library that loaded libmlx5.
    pub fn of(plugin: &PluginContext, ops: NonNull<verbs_device_ops>) -> Option<Box<Self>> {
        if cfg!(not(all(target_endian = "little", any(target_arch = "x86_64", target_arch = "aarch64")))) {
            return None;
        }
        if environment::harmless("IRONVERBS_MLX5").is_none_or(|asked| asked != "1") {
            return None;
        }
        let loaded = !registry::linked_drivers().iter().any(|driver| driver.as_ptr() == ops.as_ptr());
        // SAFETY: the operations of a plugin are its static data.
        if !loaded || registry::name_of(unsafe { ops.as_ref() }).as_bytes() != dv::NAME.to_bytes() {
            return None;
        }
        let direct = Direct::of(ops)?;
        // SAFETY: the context that libmlx5 has just made.
        if !unsafe { direct.names_user_indices(plugin.c_context()) } {
            return None;
        }
        // SAFETY: plain C data; all zeros is a value.
        let mut attributes: ibv_device_attr_ex = unsafe { core::mem::zeroed() };
        plugin.query_device(None, &mut attributes, size_of::<ibv_device_attr>()).ok()?;
        Some(Box::new(Self {
            direct,
            origins: Origins::new().ok()?,
            registers: Mutex::new(Vec::new()),
            whole: whole(),
            atomics: attributes.orig_attr.atomic_cap != IBV_ATOMIC_NONE as ibv_atomic_cap_t,
            av_offset: AtomicUsize::new(0),
            null_key: AtomicU64::new(NO_KEY),
        }))
    }

    /// The key of memory that is not there.
    pub fn null_key(&self) -> Option<u32> {
        u32::try_from(self.null_key.load(Ordering::Relaxed)).ok()
    }

    /// The program has the key of memory that is not there.
    pub fn set_null_key(&self, key: u32) {
        self.null_key.store(key.into(), Ordering::Relaxed);
    }

    /// Learns from the first address handle where address vectors are.
    pub fn learn_address(&self, ah: Handle<ibv_ah>) {
        if self.av_offset.load(Ordering::Relaxed) == 0 {
            // SAFETY: libmlx5 has just made it.
            let direct = unsafe { self.direct.ah(ah.as_ptr()) };
            let offset = direct.map_or(0, |direct| direct.av.addr().wrapping_sub(ah.as_ptr().addr()));
            self.av_offset.store(offset, Ordering::Relaxed);
        }
    }

    /// How far an address handle's vector is behind the handle (bytes).
    pub fn av_offset(&self) -> Option<usize> {
        Some(self.av_offset.load(Ordering::Relaxed)).filter(|offset| *offset != 0)
    }

    /// The register there, which queue pairs share.
    fn register(&self, base: NonNull<u8>, half: u32) -> Arc<Register> {
        let mut registers = self.registers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = registers.iter().find(|register| register.base() == base) {
            return Arc::clone(known);
        }
        let fresh = Arc::new(Register::new(base, half as usize, self.whole));
        registers.push(Arc::clone(&fresh));
        fresh
    }
}

/// When requests are written to registers whole, by the variables that libmlx5 reads.
fn whole() -> Whole {
    let not_0 = |value: Option<std::ffi::OsString>, unset| value.map_or(unset, |value| value != "0");
    if not_0(environment::harmless("MLX5_SHUT_UP_BF"), false) {
        Whole::Never
    } else if not_0(environment::harmless("MLX5_POST_SEND_PREFER_BF"), true) {
        Whole::Always
    } else {
        Whole::WithData
    }
}
