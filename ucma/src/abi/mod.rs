//! The bytes that librdmacm writes to the device file, and those that it gets back.
//!
//! | file | subject |
//! |---|---|
//! | [`layout`] | structs of the kernel's headers |
//! | [`addresses`] | socket addresses in them |
//! | [`decode`] | commands |
//! | [`encode`] | answers |

pub mod addresses;
pub mod decode;
pub mod encode;
#[cfg(test)]
mod fuzz;
pub mod layout;
