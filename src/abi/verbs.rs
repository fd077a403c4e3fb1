//! Public types of `<infiniband/verbs.h>` as rdma-core 65 (libibverbs 1.18.65) lays them out, under their C
//! names.
//!
//! Conventions: an anonymous union or struct of C is a type `<owner>_anonN` in a field `anonN`; an unnamed type
//! of a named field is a type `<owner>_<field>`. Enumerators are Rust enums whose variants are re-exported
//! (`IBV_QPS_RTS as u32`), while fields and arguments carry integers (`ibv_qp_state_t`). A function pointer of
//! a table may be null, hence `Option`. `type` and `priv` are spelled `type_` and `priv_`.

mod address;
mod completion;
mod context;
mod counters;
mod device;
mod event;
mod flow;
mod ioctl_verbs;
#[cfg(target_arch = "x86_64")]
mod layout;
mod memory;
mod queue;
mod scalars;
mod work;

pub use address::*;
pub use completion::*;
pub use context::*;
pub use counters::*;
pub use device::*;
pub use event::*;
pub use flow::*;
pub use ioctl_verbs::*;
pub use memory::*;
pub use queue::*;
pub use scalars::*;
pub use work::*;

/// Value of `ibv_context::abi_compat` in a context that lies inside a `verbs_context`.
pub const VERBS_ABI_IS_EXTENDED: *mut libc::c_void = usize::MAX as *mut libc::c_void;
/// Answer of a parent domain's `alloc` that sends the provider to its own allocator.
pub const IBV_ALLOCATOR_USE_DEFAULT: *mut libc::c_void = usize::MAX as *mut libc::c_void;
/// Length of an Ethernet address in bytes.
pub const ETHERNET_LL_SIZE: usize = 6;
/// Lowest UDP source port of RoCE v2.
pub const IB_ROCE_UDP_ENCAP_VALID_PORT_MIN: u16 = 0xc000;
/// Highest UDP source port of RoCE v2.
pub const IB_ROCE_UDP_ENCAP_VALID_PORT_MAX: u16 = 0xffff;
/// Valid bits of a flow label.
pub const IB_GRH_FLOWLABEL_MASK: u32 = 0x000f_ffff;
