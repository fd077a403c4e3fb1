//! The send queue of a queue pair: what is carried out at once, what waits in a ring.
