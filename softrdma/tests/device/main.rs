//! The engine's objects, in one process and between processes.

mod suite;
