//! Layouts only: the public C structs, the kernel's UAPI, and what providers share. No logic, and no knowledge
//! of other modules.

#![allow(non_camel_case_types, non_snake_case)]

pub mod driver;
#[cfg(target_arch = "x86_64")]
mod layout;
pub mod prototypes;
pub mod sa;
pub mod tm_types;
pub mod uapi;
pub mod verbs;
