//! The files that are looked at, read once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::imports::{Names, names};
use super::source::{code_of, tokens, without_tests};

/// The project's files by their paths from its folder, with the content of those that are text.
#[derive(Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
    code: BTreeMap<String, String>,
}

impl Tree {
    /// What git does not ignore in a folder; everything but `target` and hidden folders, where there is no git.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn read(root: &Path) -> Result<Self, String> {
        let paths = match git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]) {
            Some(listed) => listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
            None => walked(root, root)?,
        };
        // What is deleted and not committed yet is not there.
        let read = |path: String| fs::read(root.join(&path)).ok().map(|content| (path, content));
        Ok(Self::of(
            paths
                .into_iter()
                .filter_map(read)
                .map(|(path, content)| (path, String::from_utf8(content).unwrap_or_default())),
        ))
    }

    /// A tree of these files.
    pub fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let files: BTreeMap<_, _> = files.into_iter().collect();
        let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
        let code = rust.map(|(path, text)| (path.clone(), code_of(text))).collect();
        Self { files, code }
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The text of a file, empty where it is no text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Rust sources, each with its text, in which comments and literals are blanks.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.code.iter().map(|(path, code)| (path.as_str(), code.as_str()))
    }

    /// What the product's part of a Rust source names: without `#[cfg(test)]`.
    pub fn product_names(&self, path: &str) -> Option<Names> {
        self.code.get(path).map(|code| names(&without_tests(&tokens(code))))
    }
}

/// The output of git in a folder, where it worked.
pub fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn walked(root: &Path, folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
            found.extend(walked(root, &path)?);
        } else if path.is_file() {
            found.extend(path.strip_prefix(root).map(|path| path.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}
