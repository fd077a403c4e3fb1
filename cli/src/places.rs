//! Where the library and the preloaded shim lie: beside this program in a build's folder, or in the library folder of
//! the prefix under which the program is installed.

use std::env;
use std::path::{Path, PathBuf};

use crate::Result;

/// Soname of the library, the name that programs ask for.
const LIBRARY: &str = "libibverbs.so.1";
/// What is preloaded.
const SHIM: &str = "libironverbs-view.so";

/// A folder with both.
pub struct Places {
    folder: PathBuf,
}

impl Places {
    /// The folder that was asked for, or the one that belongs to this program.
    pub fn find(asked: Option<PathBuf>) -> Result<Self> {
        let candidates = match &asked {
            Some(folder) => vec![folder.clone()],
            None => candidates(
                &env::current_exe().map_err(|why| format!("where this program lies is not known: {why}"))?,
            ),
        };
        let folder = candidates.iter().find(|folder| has_both(folder)).ok_or_else(|| {
            let looked: Vec<_> = candidates.iter().map(|folder| folder.display().to_string()).collect();
            format!(
                "{LIBRARY} and {SHIM} are not in {}; build with `cargo build --release --workspace` or `make`, \
                 or say --libdir",
                looked.join(", ")
            )
        })?;
        let folder = folder.canonicalize().map_err(|why| format!("{}: {why}", folder.display()))?;
        // The loader splits its lists at these and knows no way to write them otherwise.
        if folder.to_str().is_none_or(|path| path.contains([':', ';', ' ', '$'])) {
            return Err(format!(
                "the loader cannot take a path with colons, blanks or dollars: {}",
                folder.display()
            ));
        }
        Ok(Self { folder })
    }

    /// The folder, for LD_LIBRARY_PATH.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.folder.join(LIBRARY)
    }

    /// The shim.
    pub fn shim(&self) -> PathBuf {
        self.folder.join(SHIM)
    }
}

fn has_both(folder: &Path) -> bool {
    folder.join(LIBRARY).exists() && folder.join(SHIM).exists()
}

/// The folders in which `program` looks. An installed library has a folder of its own with a link to it, so that no other
/// library comes into the search path with it.
fn candidates(program: &Path) -> Vec<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new("/")).to_owned();
    let prefix = beside.parent().unwrap_or(Path::new("/"));
    let triplet = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let libraries = [triplet.as_str(), "lib64", "lib"].map(|folder| prefix.join(folder).join("ironverbs"));
    [beside.clone()].into_iter().chain(libraries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_and_an_installation_are_found() {
        let looked = candidates(Path::new("/usr/local/bin/ironverbs"));
        assert_eq!(looked[0], Path::new("/usr/local/bin"));
        assert!(looked.contains(&PathBuf::from("/usr/local/lib/ironverbs")));
        assert!(looked.iter().any(|folder| folder.to_string_lossy().ends_with("-linux-gnu/ironverbs")));
    }

    #[test]
    fn nothing_there_is_said_with_what_to_do() {
        let problem = Places::find(Some("/none/such".into())).err().unwrap();
        assert!(problem.contains("/none/such") && problem.contains("cargo build"), "{problem}");
    }
}
