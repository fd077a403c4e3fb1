//! The subjects of commits, which fit a line of `git log`.

use std::path::Path;

use super::tree::git;
use super::{Finding, Tree};

/// Most characters of a subject.
const LONGEST: usize = 72;
/// Names the commit behind which subjects are looked at.
const START: &str = "tests/tidy/commits.txt";

/// Subjects that are too long, and what to say of commits that could not be looked at: a checkout without its
/// history is a whole product all the same.
pub fn check(root: &Path, tree: &Tree) -> (Vec<Finding>, Option<String>) {
    let start =
        tree.text(START).unwrap_or_default().lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(start) = start else {
        return (
            vec![Finding::at(START, 1, "names no commit", "name the one behind which subjects count")],
            None,
        );
    };
    let range = format!("{start}..HEAD");
    match git(root, &["log", "--no-merges", "--format=%h %s", &range, "--"]) {
        Some(log) => (long(&log), None),
        None => (
            Vec::new(),
            Some(format!("subjects of commits: not looked at, as there is no commit {start} here")),
        ),
    }
}

/// Those of a log of `HASH SUBJECT` that are too long.
fn long(log: &str) -> Vec<Finding> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    commits
        .filter(|(_, subject)| subject.chars().count() > LONGEST)
        .map(|(hash, subject)| {
            let what =
                format!("commit {hash} has a subject of {} characters: {subject}", subject.chars().count());
            Finding::at(
                START,
                1,
                what,
                &format!("say one thing in {LONGEST} (`git commit --amend`, `git rebase -i`)"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, tree};
    use super::*;

    #[test]
    fn long_subjects_are_found() {
        let log = format!("1234567 {}\n89abcde {}\n", "a".repeat(72), "b".repeat(73));
        let found = said(long(&log));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("tests/tidy/commits.txt:1: commit 89abcde has a subject of 73"));
    }

    #[test]
    fn without_the_history_it_says_so() {
        let nowhere = std::env::temp_dir();
        let listed = tree(&[(START, "# since\n0123456789012345678901234567890123456789\n")]);
        let (findings, note) = check(&nowhere, &listed);
        assert!(findings.is_empty() && note.unwrap().contains("not looked at"));
        assert_eq!(check(&nowhere, &tree(&[])).0.len(), 1);
    }
}
