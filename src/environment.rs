//! Variables of the environment, read by one rule in the library, the software device's engine and the command.

pub use ironverbs_os::environment::{callers_rights, harmless, trusted};
