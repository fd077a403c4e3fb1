//! Plugins of rdma-core 34 and 35, whose private version is that of 36 to 56 and whose layout is not: they are
//! refused.
//!
//! Nothing in such a plugin tells its release. But libraries that programs link, too, have it in their file
//! name (`libmlx5.so.1.18.35.0`), and the plugins of a folder come from one release; among rdma-core's there
//! are always such.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::elf;
use super::layout::Generation;
use super::places;
use super::registry::Driver;

/// Providers whose plugin is a link to a library with the release in its name.
const NAMED: [&str; 3] = ["mlx5", "mlx4", "efa"];

/// The release in the name of a provider's library: the third number behind `.so.`.
fn release_of(file: &Path) -> Option<u32> {
    let name = file.file_name()?.to_str()?;
    let (_, version) = name.split_once(".so.")?;
    version.split('.').nth(2)?.parse().ok()
}

/// The release of the plugins in a folder, as far as the names of files tell.
fn release_around(plugin: &Path, generation: Generation) -> Option<u32> {
    let beside = |name: &str| plugin.with_file_name(format!("lib{name}{}", places::suffix(generation.0)));
    let files = [plugin.to_owned()].into_iter().chain(NAMED.into_iter().map(beside));
    files.filter_map(|file| fs::canonicalize(file).ok()).find_map(|file| release_of(&file))
}

/// What to say of a driver whose layout is not one that is known; None for those that are driven.
pub fn refusal(driver: Driver) -> Option<String> {
    let generation = driver.generation();
    if generation != Generation(34) {
        return None;
    }
    let path = elf::path_of(driver.as_ptr().cast())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    let release = release_around(path, generation)?;
    matches!(release, 34 | 35).then(|| {
        format!(
            "plugin {} is of rdma-core {release}, as files beside it say; of private version 34 those of 36 \
             to 56 are \
             supported",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_release_stands_in_the_name_of_the_library() {
        let of = |name: &str| release_of(Path::new(name));
        assert_eq!(of("/usr/lib/libmlx5.so.1.24.44.0"), Some(44));
        assert_eq!(of("libefa.so.1.1.35.0"), Some(35));
        for name in ["librxe-rdmav34.so", "libmlx5.so.1", "libmlx5.so.1.24", "libx.so.a.b.c", "/"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn a_plugin_without_a_release_has_that_of_its_neighbours() {
        let folder = std::env::temp_dir().join(format!("ironverbs-release-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let rxe = folder.join("librxe-rdmav34.so");
        fs::write(&rxe, "").unwrap();
        assert_eq!(release_around(&rxe, Generation(34)), None);
        fs::write(folder.join("libmlx4.so.1.0.35.0"), "").unwrap();
        symlink("libmlx4.so.1.0.35.0", folder.join("libmlx4-rdmav34.so")).unwrap();
        assert_eq!(release_around(&rxe, Generation(34)), Some(35));
        assert_eq!(release_around(&rxe, Generation(33)), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
