//! Lists of what is allowed to stay as it is (`tests/tidy`). They can only shrink: an entry that nothing needs
//! is a finding.

use super::{Finding, Tree};

/// A line `WHAT: REASON` of a list.
#[derive(Debug)]
pub struct Entry {
    /// What it is about.
    pub what: String,
    /// Its line.
    pub line: usize,
    used: bool,
}

/// A list.
pub struct List {
    path: &'static str,
    /// Its lines.
    pub entries: Vec<Entry>,
    findings: Vec<Finding>,
}

impl List {
    /// Reads a list; one that is not there is empty. Empty lines and what begins with `#` explain.
    pub fn read(tree: &Tree, path: &'static str) -> Self {
        let mut list = Self { path, entries: Vec::new(), findings: Vec::new() };
        for (number, text) in tree.text(path).unwrap_or_default().lines().enumerate() {
            let line = number + 1;
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match text.split_once(": ") {
                Some((what, reason)) if !reason.trim().is_empty() => {
                    list.entries.push(Entry { what: what.to_owned(), line, used: false });
                }
                _ => list.findings.push(Finding::at(path, line, "no reason", "write `WHAT: REASON`")),
            }
        }
        list
    }

    /// Whether something is listed, by what its entry says of it; the entry is needed then.
    pub fn allows(&mut self, suits: impl Fn(&str) -> bool) -> bool {
        let mut found = false;
        for entry in self.entries.iter_mut().filter(|entry| suits(&entry.what)) {
            entry.used = true;
            found = true;
        }
        found
    }

    /// What is wrong with the list itself, once everything has been looked up.
    pub fn finish(self) -> Vec<Finding> {
        let unused = self.entries.into_iter().filter(|entry| !entry.used);
        let needless = unused.map(|entry| {
            Finding::at(
                self.path,
                entry.line,
                format!("nothing needs the exception for {}", entry.what),
                "take the line out",
            )
        });
        self.findings.into_iter().chain(needless).collect()
    }
}
