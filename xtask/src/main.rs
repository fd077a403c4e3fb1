//! Chores of the checkout.
//!
//! `cargo run -p xtask -- headers` writes the generated headers of `include/infiniband`; with `--check` it writes nothing
//! and fails if one of them is stale.

mod c_source;
mod headers;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- headers [--check]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout");
    let outcome = match arguments[..] {
        ["headers"] => headers::write(root),
        ["headers", "--check"] => headers::check(root),
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
