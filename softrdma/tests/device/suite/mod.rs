//! What verbs promise between devices, however requests get from one to the other.
//!
//! A test is a function of the carrier that it is run over, and is named at the top of its module; one that is
//! not named is dead code. It keeps what belongs to either end of a connection with the node of that end, which
//! may be another device with another address, and lets the fabric
//! [settle](softrdma_testing::fabric::Fabric::settle) before it looks without waiting at what a request did.

/// Names the tests of a module. Its macro `tests!` then makes a test of each, over the `CARRIER` of the module
/// around the one in which it stands.
macro_rules! suite {
    ($module:ident: $($test:ident,)*) => {
        macro_rules! tests {
            () => {$(
                #[test]
                fn $test() {
                    $crate::suite::$module::$test(super::CARRIER);
                }
            )*};
        }
        pub(crate) use tests;
    };
}
use suite;

pub mod control;
pub mod counters;
pub mod events;
pub mod holes;
pub mod killed;
pub mod lists;
pub mod many;
pub mod messages;
pub mod multicast;
pub mod order;
pub mod processes;
pub mod random;
pub mod refusals;
pub mod shared_rings;
pub mod srq;
pub mod stress;
pub mod windows;
pub mod xrc;
