//! Bytes of messages: taken from the sender's memory, moved to the target's, placed where a completion entry
//! brought them.
//!
//! | file | what |
//! |---|---|
//! | `gather` | the bytes of a small message, taken from the sender's memory |
//! | `place` | those that a completion entry or a ring brought, moved to the buffer that they are for |
//! | `pin` | keys of the target, in use while bytes are moved |
//! | `known_key` | a key of the target that is used again and again |
//! | `part` | parts of a message that travel in packets |
//! | `transfer` | bytes moved between two processes, or changed at once |
//!
//! What a program registered was there then and counts as mapped for as long as it is registered, as a real
//! device's pinned pages do, and stays registered while it is used, by whichever thread: deregistration waits.
//! Few bytes are read and written there in place, and by the program's own threads all of its own requests that
//! goes to other hosts or comes from there. Many, what a peer names, and everything in other processes and in
//! regions with pages on demand, the kernel moves, which answers a bad address with an error.

mod gather;
mod known_key;
mod part;
mod pin;
mod place;
mod transfer;

pub(crate) use gather::{
    Gathered, gather_many, gather_pieces, gather_words, known_word, source, with_source,
};
pub(crate) use known_key::KnownKey;
pub(crate) use part::{
    PARTS, is_better_together, put, put_parts, put_whole, read_remote, take_part, take_parts,
};
pub(crate) use pin::{Use, look_again, lookup, pin};
pub use place::place;
pub(crate) use place::{fetch_many, place_again, place_many, place_pieces, put_words};
pub(crate) use transfer::{answer, atomic, into_receive, into_taken, transfer_used, with_local, word};
