//! Where plugins are: the folders in their order, and what their files are called. The command reads it too
//! (`ironverbs doctor`).

use std::path::{Path, PathBuf};

/// The private versions of rdma-core whose plugins are driven, the newest first, which is the order in which
/// files are looked for.
pub const GENERATIONS: [u32; 6] = [65, 64, 59, 57, 34, 33];

/// What follows the name of a plugin in its file name.
pub fn suffix(generation: u32) -> String {
    format!("-rdmav{generation}.so")
}

/// The folders that plugins are looked for in, the first first, each once: the one that `chosen` names alone
/// (`IRONVERBS_PROVIDER_DIR` of the environment), or else the one `built` into the library, the folder
/// `libibverbs` beside the library, and where distributions have it.
pub fn folders(chosen: Option<&Path>, built: &str, library: Option<&Path>, triplet: &str) -> Vec<PathBuf> {
    if let Some(chosen) = chosen {
        return vec![chosen.to_owned()];
    }
    let beside = library.and_then(Path::parent).map(|folder| folder.join("libibverbs"));
    let usual = [
        format!("/usr/lib/{triplet}/libibverbs"),
        "/usr/lib64/libibverbs".into(),
        "/usr/lib/libibverbs".into(),
    ];
    let all = [PathBuf::from(built)].into_iter().chain(beside).chain(usual.map(PathBuf::from));
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in all {
        if folder.is_absolute() && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The files that may be the plugin of that name, in the order in which they are tried: every folder for the
/// newest version first. A name that is a path is one without folder.
pub fn candidates(name: &Path, folders: &[PathBuf]) -> Vec<PathBuf> {
    let named = |generation: u32, folder: Option<&PathBuf>| {
        let mut file = std::ffi::OsString::from(if folder.is_some() { "lib" } else { "" });
        file.push(name);
        file.push(suffix(generation));
        folder.map_or_else(|| PathBuf::from(&file), |folder| folder.join(&file))
    };
    let mut files = Vec::new();
    for generation in GENERATIONS {
        if name.is_absolute() {
            files.push(named(generation, None));
        } else {
            files.extend(folders.iter().map(|folder| named(generation, Some(folder))));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_of_the_usual_layouts_each_once() {
        let texts = |folders: Vec<PathBuf>| -> Vec<String> {
            folders.iter().map(|folder| folder.display().to_string()).collect()
        };
        let library = Some(Path::new("/opt/rdma/lib/libibverbs.so.1"));
        assert_eq!(
            texts(folders(None, "/usr/lib/m-linux-gnu/libibverbs", library, "m-linux-gnu")),
            [
                "/usr/lib/m-linux-gnu/libibverbs",
                "/opt/rdma/lib/libibverbs",
                "/usr/lib64/libibverbs",
                "/usr/lib/libibverbs"
            ]
        );
        assert_eq!(texts(folders(Some(Path::new("/x")), "/y", library, "m")), ["/x"]);
        // Built without a folder of its own, and loaded from an unknown one.
        assert_eq!(texts(folders(None, "", None, "m")).len(), 3);
    }

    #[test]
    fn the_newest_version_comes_first_whatever_the_folder() {
        let folders = [PathBuf::from("/a"), PathBuf::from("/b")];
        let files = candidates(Path::new("mlx5"), &folders);
        assert_eq!(files[0], Path::new("/a/libmlx5-rdmav65.so"));
        assert_eq!(files[1], Path::new("/b/libmlx5-rdmav65.so"));
        assert_eq!(files[2], Path::new("/a/libmlx5-rdmav64.so"));
        assert_eq!(files.last().unwrap(), Path::new("/b/libmlx5-rdmav33.so"));
        assert!(GENERATIONS.is_sorted_by(|a, b| a > b));
        let files = candidates(Path::new("/c/libmine"), &folders);
        assert_eq!((files.len(), files[4].as_path()), (6, Path::new("/c/libmine-rdmav34.so")));
    }
}
