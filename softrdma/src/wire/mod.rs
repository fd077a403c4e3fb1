//! RoCE v2 as it is on the wire: packets over UDP (IBA vol. 1 §9, annex A17). No I/O, no clock, no
//! globals; of the crate, `rules` alone may be used.
//!
//! | file | what |
//! |---|---|
//! | [`psn`] | packet sequence numbers, which stand in a circle |
//! | [`opcode`] | what a packet is: transport, operation, position in its message, headers |
//! | [`packet`] | headers that are written and read, and the payload behind them |
//! | [`flow`] | between which addresses and ports a packet goes |
//! | [`icrc`] | the invariant CRC behind a packet |
#![forbid(unsafe_code)]

pub mod flow;
pub mod icrc;
pub mod opcode;
pub mod packet;
pub mod psn;
