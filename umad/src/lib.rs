//! libibumad.so.3 in Rust: management datagrams between a program and the kernel's user_mad device files.
//!
//! | module | what it has |
//! |---|---|
//! | `abi` | layouts only: public C structs, kernel structs; every module may use them |
//! | `api` | the C entry points, one file per manual page |
//! | `ca` | CAs and ports as sysfs has them, and which of them is the default |
//! | `device_file` | which device file is a port's, and what its kernel can do |
//! | `debug` | what goes to the standard error |
//!
//! Dependencies point down: `api` → `device_file`, `ca` → `debug`, `abi`.

// Nothing calls it: it is linked.
use glibc_floor as _;

mod abi;
mod api;
mod ca;
mod debug;
mod device_file;
