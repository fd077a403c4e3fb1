//! CHANGELOG.md: what a reader can rely on there.

use std::collections::BTreeMap;

use super::{Finding, Tree};

const PATH: &str = "CHANGELOG.md";
/// Most characters of a bullet.
const LONGEST: usize = 600;

/// What is wrong with the page.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(PATH) else {
        return vec![Finding::at(PATH, 1, "no such file", "write what users notice there")];
    };
    let mut findings = Vec::new();
    if !text.lines().any(|line| line == "## Unreleased") {
        findings.push(Finding::at(
            PATH,
            1,
            "no section `## Unreleased`",
            "begin it above the newest release",
        ));
    }
    let mut seen = BTreeMap::new();
    for (line, bullet) in bullets(text) {
        let length = bullet.chars().count();
        if length >= LONGEST {
            let what = format!("a bullet of {length} characters, of fewer than {LONGEST}");
            findings.push(Finding::at(
                PATH,
                line,
                what,
                "say what users notice, and leave the rest to the commit",
            ));
        }
        if let Some(first) = seen.insert(bullet, line) {
            findings.push(Finding::at(PATH, line, format!("the bullet of line {first} again"), "keep one"));
        }
    }
    findings
}

/// The bullets, each with its first line, without breaks of lines.
fn bullets(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(first) = line.strip_prefix("- ") {
            found.push((number + 1, first.to_owned()));
            open = true;
        } else if open && line.starts_with("  ") {
            let (_, bullet) = found.last_mut().expect("a bullet is open");
            bullet.push(' ');
            bullet.push_str(line.trim());
        } else {
            open = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, tree};
    use super::*;

    #[test]
    fn what_is_wrong_is_found() {
        let with = |text: &str| said(check(&tree(&[(PATH, text)])));
        assert_eq!(with("# Changes\n\n## Unreleased\n\n- a\n  b\n- c\n"), [""; 0]);
        assert!(with("# Changes\n")[0].starts_with("CHANGELOG.md:1: no section"));
        assert!(
            with("## Unreleased\n\n- a\n  b\n- c\n- a b\n")[0]
                .starts_with("CHANGELOG.md:6: the bullet of line 3 again")
        );
        let long = format!("## Unreleased\n\n- {}\n  {}\n", "a".repeat(300), "b".repeat(300));
        assert!(with(&long)[0].starts_with("CHANGELOG.md:3: a bullet of 601 characters"));
        assert_eq!(said(check(&tree(&[]))).len(), 1);
    }
}
