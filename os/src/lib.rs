//! What the libraries of the project ask of Linux and of the C library, and how they answer a C caller.
//!
//! | module | what it has |
//! |---|---|
//! | [`errno`] | error numbers, and the thread's `errno` |
//! | [`guard`] | what lies between a C caller and Rust |
//! | [`convention`] | the ways in which C functions report failure |
//! | [`file`](mod@file) | small files read at once, folders listed |
//! | [`growth`] | collections that fail where memory runs out |

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod convention;
pub mod errno;
pub mod file;
pub mod growth;
pub mod guard;
