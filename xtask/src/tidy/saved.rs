//! Inputs that once failed, or that reach much: whether a test still reads them. Those of a test that moved
//! would run nowhere, and nobody would notice.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Finding, Tree};

/// Where packed inputs of fuzz targets lie, one file or folder for each target, whose name it has.
const PACKED: &str = "tests/corpus/";

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
    let mut seen = BTreeSet::new();
    for path in tree.paths() {
        let Some((corpus, target, beside)) = corpus_of(path) else { continue };
        if seen.insert(corpus.clone()) && !has_target(tree, &target, beside.as_deref()) {
            let remedy = "move it to its target (`bolero::check!(name = …)`), or take it out";
            findings.push(Finding::at(&corpus, 1, format!("no test reads the inputs of {target}"), remedy));
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

/// Of an input: its corpus, its target, and the folder of the source that has the target, where that must be
/// there.
fn corpus_of(path: &str) -> Option<(String, String, Option<String>)> {
    if let Some((folder, inside)) = path.split_once("/__fuzz__/") {
        let target = inside.split('/').next()?;
        return Some((format!("{folder}/__fuzz__/{target}"), target.to_owned(), Some(folder.to_owned())));
    }
    let name = path.strip_prefix(PACKED)?.split('/').next()?;
    // What explains or packs the inputs is none itself.
    if name.ends_with(".md") || name.ends_with(".rs") {
        return None;
    }
    Some((format!("{PACKED}{name}"), name.split('.').next()?.to_owned(), None))
}

/// Whether a test has this target: bolero's, beside its inputs, or any source that names the target, where they
/// are packed.
fn has_target(tree: &Tree, target: &str, beside: Option<&str>) -> bool {
    let sources = tree.paths().filter(|path| path.ends_with(".rs"));
    let named = format!("check!(name = \"{target}\")");
    let quoted = format!("\"{target}\"");
    sources.filter_map(|path| tree.text(path).map(|text| (path, text))).any(|(path, text)| match beside {
        Some(folder) => path.rsplit_once('/').is_some_and(|(own, _)| own == folder) && text.contains(&named),
        None => text.contains(&quoted),
    })
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

    #[test]
    fn corpora_without_a_target_are_found() {
        let target = ("a/src/f.rs", "bolero::check!(name = \"ring\").for_each()");
        let with = |path| said(check(&tree(&[target, (path, "1")])));
        assert_eq!(with("a/src/__fuzz__/ring/corpus/01"), [""; 0]);
        assert_eq!(with("tests/corpus/ring.txt"), [""; 0]);
        assert_eq!(with("tests/corpus/README.md"), [""; 0]);
        assert!(
            with("a/src/__fuzz__/rings/corpus/01")[0].starts_with("a/src/__fuzz__/rings:1: no test reads")
        );
        assert_eq!(with("a/tests/__fuzz__/ring/corpus/01").len(), 1, "the target lies elsewhere");
        assert!(with("tests/corpus/rings.txt")[0].starts_with("tests/corpus/rings.txt:1: no test reads"));
    }
}
