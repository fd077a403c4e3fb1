//! The way to other hosts, by RoCE v2: what of it is here so far.
//!
//! | folder | what |
//! |---|---|
//! | [`port`] | the sockets of UDP port 4791, which the processes of one user share |

pub mod port;
