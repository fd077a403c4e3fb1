//! Style as a test: what of it a machine can see, each finding with its place and a remedy. docs/testing.md has
//! the list.

mod allowed;
mod changelog;
mod circles;
mod commits;
mod imports;
mod length;
mod public;
mod saved;
pub mod source;
mod tree;

use std::fmt;
use std::path::Path;

pub use tree::Tree;

/// What is wrong somewhere.
#[derive(Clone, Debug)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
    remedy: String,
}

impl Finding {
    /// A finding at a line, from 1.
    pub fn at(path: &str, line: usize, what: impl Into<String>, remedy: &str) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.to_owned() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}. Remedy: {}", self.path, self.line, self.what, self.remedy)
    }
}

/// Looks at everything. The report ends with how many files and checks passed.
///
/// # Errors
/// All findings, one a line.
pub fn check(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    let (commits, note) = commits::check(root, &tree);
    let findings = [
        saved::check(&tree),
        public::check(&tree),
        circles::check(&tree),
        length::check(&tree),
        changelog::check(&tree),
        crate::rules::check(&tree),
        commits,
    ]
    .concat();
    let files = tree.paths().count();
    let note = note.map(|note| format!("{note}\n")).unwrap_or_default();
    if findings.is_empty() {
        return Ok(format!("{note}{files} passed, 0 failed"));
    }
    let lines: String = findings.iter().map(|finding| format!("FAILED {finding}\n")).collect();
    Err(format!(
        "{note}untidy:\n{lines}{} passed, {} failed",
        files.saturating_sub(findings.len()),
        findings.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::{Finding, Tree};

    /// A tree of these files.
    pub fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())))
    }

    /// What findings say.
    pub fn said(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }
}
