//! Chores of the checkout.
//!
//! `cargo run -p xtask -- headers` writes the generated headers of `include/infiniband`; with `--check` it
//! writes nothing and fails if one of them is stale.
//!
//! `cargo run -p xtask -- compatibility` writes `docs/compatibility.md`, with `--check` likewise. It fails as
//! well when an exported symbol, or a verb that is an inline function, is reached by no test.
//!
//! `cargo run -p xtask -- layers` writes the table of test layers into docs/testing.md, with `--check`
//! likewise.

mod c_source;
mod compatibility;
mod headers;
mod layers;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- headers|compatibility|layers [--check]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout");
    let outcome = match arguments[..] {
        ["headers"] => headers::write(root),
        ["headers", "--check"] => headers::check(root),
        ["compatibility"] => compatibility::write(root),
        ["compatibility", "--check"] => compatibility::check(root),
        ["layers"] => layers::write(root),
        ["layers", "--check"] => layers::check(root),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
