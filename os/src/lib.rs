//! What both libraries ask of Linux and of the C library, and how both answer a C caller.
//!
//! | module | what it has |
//! |---|---|
//! | [`errno`] | error numbers, and the thread's `errno` |
//! | [`guard`] | what lies between a C caller and Rust |
//! | [`convention`] | the ways in which C functions report failure |
//! | [`file`](mod@file) | small files read at once, folders listed |

pub mod convention;
pub mod errno;
pub mod file;
pub mod guard;
