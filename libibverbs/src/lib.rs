//! What programs link and load: the C functions of the crate `ironverbs`, with its allocator.
//!
//! The crate itself is an ordinary Rust library, so that the command uses its types and rules as they are, and
//! allocates as any program. Link-time optimisation joins both here; `build.rs` has what only the
//! linker needs to know.

use ironverbs::reserve::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;
