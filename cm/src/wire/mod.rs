//! Messages between two sides: MADs of the communication management class.

/// Size of a MAD in bytes.
pub const MAD_SIZE: usize = 256;
