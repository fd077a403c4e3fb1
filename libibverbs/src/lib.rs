//! What programs link and load: the C functions of the crate `ironverbs`, with its allocator.
//!
//! The crate itself is an ordinary Rust library, so that the command uses its types and rules as they are, and
//! allocates as any program. Link-time optimisation joins both here; `build.rs` has what only the linker needs
//! to know. What is to be linked although nothing calls it is named here and not in the crate, since whatever
//! it leads to would be a part of the command, too.

use ironverbs::provider::plugin::log;
use ironverbs::provider::soft::device::{begin, leave};
use ironverbs::reserve::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// The software device asks the kernel for something before the program has threads.
#[used]
// SAFETY: the section is a list of functions, called without regard to the arguments that glibc gives them, and
// this is one.
#[unsafe(link_section = ".init_array")]
static AT_THE_BEGINNING: extern "C" fn() = begin;

/// The software device leaves when the library ends: after the program's exit handlers, and the destructors of
/// the program and of all libraries that need this one, which may still communicate.
#[used]
// SAFETY: the section is a list of functions without arguments, and this is one.
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = leave;

/// Functions in C that plugins call.
#[used]
static VARIADIC: log::Variadic = log::VARIADIC;
