//! What several of softrdma's tests and benches share, as a crate that they depend on: no file of one is a part
//! of another.
//!
//! | module | subject |
//! |---|---|
//! | [`device`] | folders, devices and ends of connections, by the interface that providers use |
//! | [`fabric`] | what carries requests between devices, as a suite of tests needs to know it |
//! | [`holes`] | memory of a program that is not there |
//! | [`raw_qp`] | an end of a connection by hand, from the parts below that interface |
//! | [`post`] | receive requests, posted by the words of a ring |
//! | [`poll`] | completions, taken by the words of a ring |
//! | [`segment`] | the words of queues, in memory of their own |
//! | [`processes`] | processes of a test, and what they tell each other |
//! | [`child`] | a test in a process of its own |
//! | [`content`] | another process's memory, as one that means harm opens it |
//! | [`network`] | network namespaces, their interfaces and addresses |
//! | [`filter`] | a filter of system calls, as containers have it |
//! | [`thread`] | whether a thread sleeps, and how often it has |
//! | [`timing`] | what a call costs |
//! | [`pass_on!`] | memory that stands before another one |
#![allow(missing_docs, clippy::len_without_is_empty, clippy::new_without_default)] // What tests need, no more.

pub mod child;
pub mod content;
pub mod device;
pub mod fabric;
pub mod filter;
pub mod holes;
pub mod network;
mod pass_on;
pub mod poll;
pub mod post;
pub mod processes;
pub mod raw_qp;
pub mod segment;
pub mod thread;
pub mod timing;
