//! Gives the shared library its soname and the GNU symbol versions of `libibumad.map`
//! (the crate `shared-library`).

fn main() {
    let map = shared_library::root().join("libibumad.map");
    println!("cargo::rerun-if-changed={}", map.display());
    shared_library::link("ibumad", "libibumad.so.3", &map, &[]);
}
