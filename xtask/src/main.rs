//! Chores of the checkout.
//!
//! `cargo run -p xtask -- headers` writes the generated parts of the headers in `include/infiniband`; with
//! `--check` it writes nothing and fails if one of them is stale.
//!
//! `cargo run -p xtask -- compatibility` writes `docs/compatibility.md`, with `--check` likewise. It fails as
//! well when an exported symbol, or a verb that is an inline function, is reached by no test.
//!
//! `cargo run -p xtask -- tidy` looks for what style forbids, and prints each finding with its place and a
//! remedy.
//!
//! `cargo run -p xtask -- check-rules` writes `docs/rules`, a page for each rule of `ironverbs check`, with
//! `--check` likewise. It fails as well when a rule has no program in `tests/check` that breaks it.
//!
//! `cargo run -p xtask -- rules` prints the rules of `tests/rules.txt` that no code or no test names.

mod c_source;
mod check_rules;
mod compatibility;
mod headers;
mod rules;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- headers|compatibility|check-rules [--check] | tidy | rules";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = checkout();
    let outcome = match arguments[..] {
        ["headers"] => headers::write(root),
        ["headers", "--check"] => headers::check(root),
        ["compatibility"] => compatibility::write(root),
        ["compatibility", "--check"] => compatibility::check(root),
        ["check-rules"] => check_rules::write(root),
        ["check-rules", "--check"] => check_rules::check(root),
        ["rules"] => rules::report(root),
        ["tidy"] => tidy::check(root),
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

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout")
}

#[cfg(test)]
mod tests {
    use super::{check_rules, checkout, compatibility, headers};

    #[test]
    fn the_committed_headers_are_what_the_types_generate() {
        headers::check(checkout()).unwrap();
    }

    #[test]
    fn the_pages_of_rules_are_what_the_table_says() {
        check_rules::check(checkout()).unwrap();
    }

    #[test]
    fn the_compatibility_page_is_what_sources_and_test_runs_say() {
        compatibility::check(checkout()).unwrap();
    }
}
