//! Inputs that once failed: whether a test still reads them. Those of a test that moved would run nowhere, and
//! nobody would notice. Corpora of fuzz targets are looked at by the crate that replays them (`tests/corpus`).

use std::collections::BTreeSet;
use std::path::Path;

use super::{Finding, Tree};

/// Saved inputs that no test reads.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let looked = looked_at_by_proptest(tree);
    for path in tree.paths().filter(|path| path.contains("proptest-regressions")) {
        if !looked.contains(path) {
            let remedy = "move it to where the source with its test makes proptest look, or take it out";
            findings.push(Finding::at(path, 1, "no source has tests that look there", remedy));
        }
    }
    findings
}

/// The files in which proptest looks for the failures of the sources that have such tests: beside the nearest
/// folder with lib.rs or main.rs.
fn looked_at_by_proptest(tree: &Tree) -> BTreeSet<String> {
    let own = |path: &&str| path.ends_with(".rs") && keeps_failures(tree.text(path).unwrap_or_default());
    tree.paths().filter(own).map(|source| failures_of(tree, source)).collect()
}

fn keeps_failures(text: &str) -> bool {
    text.contains("proptest! {") && !text.contains("failure_persistence: None")
}

fn failures_of(tree: &Tree, source: &str) -> String {
    let path = Path::new(source);
    for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        let has = |name: &str| tree.text(&folder.join(name).to_string_lossy()).is_some();
        if has("lib.rs") || has("main.rs") {
            let inside = path.strip_prefix(folder).expect("an ancestor").with_extension("txt");
            let beside = folder.parent().unwrap_or(Path::new(""));
            return beside.join("proptest-regressions").join(inside).to_string_lossy().into_owned();
        }
    }
    path.with_extension("proptest-regressions").to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, tree};
    use super::*;

    const TEST: (&str, &str) = ("a/src/b/c.rs", "proptest! {\n");
    const LIB: (&str, &str) = ("a/src/lib.rs", "");

    #[test]
    fn failures_of_a_test_that_moved_are_found() {
        let kept = |path| said(check(&tree(&[LIB, TEST, (path, "cc 1")])));
        assert_eq!(kept("a/proptest-regressions/b/c.txt"), [""; 0]);
        assert!(
            kept("a/proptest-regressions/b.txt")[0].starts_with("a/proptest-regressions/b.txt:1: no source")
        );
        let alone = said(check(&tree(&[
            ("a/tests/d.rs", "proptest! {\n"),
            ("a/tests/d.proptest-regressions", "cc 1"),
        ])));
        assert_eq!(alone, [""; 0]);
        let none = ("a/src/b/c.rs", "proptest! {\n failure_persistence: None");
        assert_eq!(said(check(&tree(&[LIB, none, ("a/proptest-regressions/b/c.txt", "cc 1")]))).len(), 1);
    }
}
