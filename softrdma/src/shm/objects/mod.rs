//! The queues in a segment: where the words of [`crate::queues::shared`] stand.
//!
//! Three tables, one per kind of object, each a directory of chunks of entries:
//!
//! | word of an entry | meaning |
//! |---|---|
//! | 0 | generation: odd while the object exists; high half: moves and resizes, top bit: one is under way |
//! | 1 | offset of the ring, for a queue pair followed by the request it holds |
//! | 2 | capacity, and words of a receive request, or of a completion entry, in the high half |
//! | 3 | bell of the completion queue; high half: of asynchronous events; plus one, 0 for none |
//! | 4 | state of a queue pair, which is looked at more often than it changes |
//! | 5 | offset of the body, 0 for the entry itself |
//! | 8 | lock |
//! | 9 to 15 | the other shared words that are written behind the lock, each at its number |
//! | 16 | the word that the owner writes without it, on a cache line of its own |
//! | 24 to 31 | attributes |
//!
//! The words from 8 on, and 4, are the body. It is the entry itself until a peer has the lock and does not go
//! on: then the owner gives a completion queue or shared receive queue [another](Objects::relocate), and that
//! peer keeps writing where nobody reads.
//!
//! An entry stays where it is for ever, and what was a body is never anything else, so a peer that waits for
//! the lock of an object that goes away meets no other use of the memory. Once it has the lock it looks at the
//! generation, and gives the lock back when the object is gone.
//!
//! A peer copies an entry once, checks it against the segment's size, and then uses its copy until the
//! generation changes. What it read may be wrong but never leads outside: each access is checked against the
//! mapping again.
//!
//! | file | what |
//! |---|---|
//! | `layout` | entries and words: where they stand, what an object is made of |
//! | `table` | the owner makes, resizes and ends objects |
//! | `host` | a segment, own or a peer's, as transactions see it |
//! | `view` | the same for one operation, with its objects looked up before |
//! | `lane` | the same for one queue pair, its completion queue and its shared receive queue |
//! | `words` | words that were looked up before |
//! | `survey` | all objects of a peer, for who shows them |
//! | `direct`, `shared` | the words of a direct ring, and of a shared receive queue that rings go into |

mod direct;
mod host;
mod lane;
mod layout;
mod shared;
mod survey;
mod table;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use direct::{DirectRing, HeldDoorbell, HeldRing};
pub use host::{Host, LOCK_LIMIT, STUCK};
#[cfg(all(test, loom))]
pub(crate) use host::{get, put};
pub use lane::Lane;
pub use layout::{MAX_CAPACITY, MAX_NUMBERED, MAX_OBJECTS, Shape};
pub use shared::SharedWords;
pub(crate) use survey::{Surveyed, survey};
pub use table::Objects;
pub use view::{Held, View};
pub use words::{HeldWord, HeldWords};
