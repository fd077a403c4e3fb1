//! Error numbers, and the thread's `errno`.

pub use ironverbs_os::errno::*;
