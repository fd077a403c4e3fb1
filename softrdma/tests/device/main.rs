//! What verbs promise between devices, over each carrier.
//!
//! | module | what |
//! |---|---|
//! | `suite` | the tests, independent of how devices meet |
//! | `near` | over shared memory, both ends of a connection within a process at one device |
//! | `near_apart` | the same at two devices, each with an address of its own |
//!
//! What holds in shared memory alone is in `tests/folder`.
//!
//! A carrier joins by a [`Fabric`](softrdma_testing::fabric::Fabric) and the modules of the suite that it is to
//! pass. It leaves out those of what it does not have: `multicast`, `xrc`, or other processes as peers
//! (`killed`, `processes`).

mod suite;

/// The suite over one carrier, whose name stands before those of its tests.
macro_rules! conformance {
    ($name:ident = $carrier:path: $($module:ident)*) => {
        mod $name {
            const CARRIER: softrdma_testing::fabric::Carrier = $carrier;
            $(mod $module {
                crate::suite::$module::tests!();
            })*
        }
    };
}

conformance! {
    near = softrdma_testing::fabric::near:
        control counters events holes killed lists many messages multicast order processes random refusals
        shared_rings srq stress windows xrc
}

conformance! {
    near_apart = softrdma_testing::fabric::near_apart:
        counters events holes killed lists many messages multicast order processes random refusals
        shared_rings srq stress windows xrc
}
