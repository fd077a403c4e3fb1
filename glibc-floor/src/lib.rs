//! What links this runs with glibc 2.28 and later, whatever glibc it was built with.
//!
//! A function that glibc gave a new version, or moved from one of its libraries to another, binds a program to
//! the glibc of the machine that built it. The C files here define those that the project's files use, hidden,
//! so that the linker finds them before glibc's. There is nothing to call.

#![no_std]
