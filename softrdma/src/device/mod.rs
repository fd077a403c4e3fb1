//! The device: what a provider drives.

pub mod attempt;
pub mod attributes;
pub mod peers;
pub mod site;
pub mod wr;
