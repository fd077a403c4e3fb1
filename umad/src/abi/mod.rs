//! Layouts only: the public C structs and the kernel's. No logic, and no knowledge of other modules.

#![allow(non_camel_case_types)]

#[cfg(target_pointer_width = "64")]
mod layout;
pub mod prototypes;
pub mod umad;
pub mod umad_gid;
pub mod umad_sa;
pub mod umad_sa_mcm;
pub mod umad_sm;
pub mod umad_str;
pub mod umad_types;
pub mod user_mad;

/// 16-bit integer in network byte order.
pub type __be16 = u16;
/// 32-bit integer in network byte order.
pub type __be32 = u32;
/// 64-bit integer in network byte order.
pub type __be64 = u64;
