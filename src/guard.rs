//! What lies between a C caller and Rust: no panic passes and no cancellation acts ([`ironverbs_os::guard`]),
//! and there is memory to go on with. The two verbs that wait for an event read it outside of that
//! ([`crate::api::entry::next_event`]).

use ironverbs_os::guard;
pub use ironverbs_os::guard::uncancelled;

use crate::errno::Result;
use crate::reserve;

/// Runs `body` for a C caller.
pub fn guarded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    prepared(false, body)
}

/// Runs `body`, which makes something, for a C caller: ENOMEM where there is no memory that it may need.
pub fn making<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    prepared(true, body)
}

fn prepared<R>(makes: bool, body: impl FnOnce() -> Result<R>) -> Result<R> {
    guard::guarded_nested(|nested| {
        let _reserved = reserve::begin(makes, nested)?;
        body()
    })
}
