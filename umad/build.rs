//! Gives the shared library its soname and the GNU symbol versions of `libibumad.map`
//! (`build/shared_library.rs` of the workspace).

#[path = "../build/shared_library.rs"]
mod shared_library;

fn main() {
    println!("cargo::rerun-if-changed=../build/shared_library.rs");
    let map = shared_library::root().join("libibumad.map");
    println!("cargo::rerun-if-changed={}", map.display());
    shared_library::link("ibumad", "libibumad.so.3", &map, &[]);
}
