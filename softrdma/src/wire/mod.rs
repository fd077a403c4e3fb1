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
//! | [`identification`] | which identifications of IPv4 a peer's packets have |
//! | [`management`] | management datagrams |
//! | [`datagram`] | datagrams, and the header that one arrives with |
//! | [`connection`] | what both sides of a connection's end know of it |
//! | [`requester`] | the sending side of RC and UC: from messages to packets, from answers to completions |
//! | [`responder`] | the receiving side: from packets to what is to be carried out, and answers |
//! | `exchange` | the packets of a message that was carried out without any |
//! | `window` | how many packets may be under way |
#![forbid(unsafe_code)]

pub mod connection;
pub mod datagram;
pub(crate) mod exchange;
pub mod flow;
pub mod icrc;
pub(crate) mod identification;
pub(crate) mod management;
pub mod opcode;
pub mod packet;
pub mod psn;
pub mod requester;
pub mod responder;
mod window;
