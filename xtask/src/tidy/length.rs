//! How long functions and files are. A function that does not fit a page does more than one thing, and so does
//! a file of which nobody reads the end.

use super::allowed::List;
use super::source::{functions, tokens};
use super::{Finding, Tree};

/// Most lines of a function, from `fn` to its last brace.
const FUNCTION: usize = 100;
/// Most lines of a file.
const FILE: usize = 600;
const FUNCTIONS: &str = "tests/tidy/functions.txt";
const FILES: &str = "tests/tidy/files.txt";

/// Functions and files that are longer than they may be, or than their exception says.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (mut long_functions, mut long_files) = (List::read(tree, FUNCTIONS), List::read(tree, FILES));
    let mut findings = Vec::new();
    for (path, code) in tree.sources() {
        let lines = code.lines().count();
        // Entries are `PATH LINES`, and `PATH NAME LINES`.
        if lines > FILE && !long_files.allows(|entry| fits(entry, path, lines)) {
            let what = format!("{lines} lines; a file has at most {FILE}, or what {FILES} allows");
            findings.push(Finding::at(path, lines, what, "put what is one idea into a file of its own"));
        }
        for function in functions(&tokens(code)).iter().filter(|function| function.lines > FUNCTION) {
            let (name, lines) = (&function.name, function.lines);
            if !long_functions.allows(|entry| fits(entry, &format!("{path} {name}"), lines)) {
                let what = format!(
                    "{name} has {lines} lines; a function has at most {FUNCTION}, or what {FUNCTIONS} allows"
                );
                findings.push(Finding::at(path, function.line, what, "give its steps functions with names"));
            }
        }
    }
    findings.extend(long_functions.finish());
    findings.extend(long_files.finish());
    findings
}

fn fits(entry: &str, what: &str, lines: usize) -> bool {
    entry
        .rsplit_once(' ')
        .is_some_and(|(named, most)| named == what && most.parse().is_ok_and(|most: usize| lines <= most))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, tree};
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "a();\n".repeat(lines - 2))
    }

    #[test]
    fn long_functions_and_files_are_found() {
        let long = function(101);
        assert_eq!(said(check(&tree(&[("a/b.rs", &function(100))]))), [""; 0]);
        assert_eq!(said(check(&tree(&[("a/b.rs", &long)]))).len(), 1);
        assert!(said(check(&tree(&[("a/b.rs", &long)])))[0].starts_with("a/b.rs:1: f has 101 lines"));
        let found = said(check(&tree(&[("a/b.rs", &"//\n".repeat(601))])));
        assert!(found[0].starts_with("a/b.rs:601: 601 lines"));
    }

    #[test]
    fn exceptions_only_shrink() {
        let long = function(120);
        let with = |list: &str| said(check(&tree(&[("a/b.rs", &long), (FUNCTIONS, list)])));
        assert_eq!(with("a/b.rs f 120: a table\n"), [""; 0]);
        assert_eq!(with("a/b.rs f 119: a table\n").len(), 2, "it has grown, and the entry fits nothing");
        assert!(
            with("a/b.rs f 120: a table\na/b.rs g 120: a table\n")[0]
                .starts_with("tests/tidy/functions.txt:2: nothing needs")
        );
        assert!(
            with("a/b.rs f 120: a table\na/c.rs\n")[0].starts_with("tests/tidy/functions.txt:2: no reason")
        );
    }
}
