//! What the libraries of the project ask of Linux and of the C library, and how they answer a C caller.
//!
//! | module | what it has |
//! |---|---|
//! | [`errno`] | error numbers, and the thread's `errno` |
//! | [`error`] | a system call that failed, by its name |
//! | [`guard`] | what lies between a C caller and Rust |
//! | [`convention`] | the ways in which C functions report failure |
//! | [`file`](mod@file) | small files read at once, folders listed |
//! | [`listing`] | the names in a folder, without memory |
//! | [`descriptor`] | descriptors that the program may have closed and given to other files |
//! | [`sys`] | system calls with their errors as values |
//! | [`barrier`] | one barrier for all processors in place of many |
//! | [`clock`] | the clock that completions and timers go by |
//! | [`fork`] | how a forked child notices that it is another process; a mutex that it may lock |
//! | [`thread`] | threads of the library in a program that does not know of them |
//! | [`processors`] | whether threads wait for a processor; giving one of them this thread's for a moment |
//! | [`environment`] | variables, and whether the process may believe them |
//! | [`epoll`] | epoll sets, whatever stands in front of libc's functions |
//! | [`network`] | the network namespace of a thread |
//! | [`gids`], [`guid`] | the host's addresses as the software device's GIDs; what tells the host from others |
//! | `interfaces` | the network interfaces of the host |
//! | [`growth`] | collections that fail where memory runs out |

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod barrier;
pub mod clock;
pub mod convention;
pub mod descriptor;
pub mod environment;
pub mod epoll;
pub mod errno;
pub mod error;
pub mod file;
pub mod fork;
pub mod gids;
pub mod growth;
pub mod guard;
pub mod guid;
mod interfaces;
pub mod listing;
pub mod network;
pub mod processors;
pub mod sys;
pub mod thread;
