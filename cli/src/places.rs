//! Where the libraries and the preloaded shim lie: beside this program, in a build's folder as in an
//! installation. What stands in the folder of commands then is a link to it.

use std::env;
use std::path::{Path, PathBuf};

use crate::Result;

/// Soname of the library, the name that programs ask for.
const LIBRARY: &str = "libibverbs.so.1";
/// Soname of the library for management datagrams, which may be missing.
const UMAD: &str = "libibumad.so.3";
/// What is preloaded.
const SHIM: &str = "libironverbs-view.so";

/// A folder with both.
pub struct Places {
    folder: PathBuf,
}

impl Places {
    /// The folder that was asked for, or the one that belongs to this program.
    pub fn find(asked: Option<PathBuf>) -> Result<Self> {
        let folder = match asked {
            Some(folder) => folder,
            None => beside(
                &env::current_exe().map_err(|why| format!("where this program lies is not known: {why}"))?,
            ),
        };
        if !has_both(&folder) {
            return Err(format!(
                "{LIBRARY} and {SHIM} are not in {}; build with `cargo build --release --workspace` or `make`, \
                 or say --libdir",
                folder.display()
            ));
        }
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

    /// The libraries that are there.
    pub fn libraries(&self) -> impl Iterator<Item = PathBuf> {
        [LIBRARY, UMAD].iter().map(|name| self.folder.join(name)).filter(|path| path.exists())
    }

    /// The library of verbs.
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

fn beside(program: &Path) -> PathBuf {
    program.parent().unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_there_is_said_with_what_to_do() {
        let problem = Places::find(Some("/none/such".into())).err().unwrap();
        assert!(problem.contains("/none/such") && problem.contains("cargo build"), "{problem}");
    }
}
