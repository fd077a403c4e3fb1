//! Configuration files of every kind, and a plugin in C that is built here, whole and broken.

use super::*;
use std::process::Command;

/// What ends the name of the plugins here, unless a test is about others.
const SUFFIX: &str = "-rdmav34.so";

/// A folder of its own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ironverbs-loader-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn put(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file for the test");
        path
    }

    fn places(&self) -> &[PathBuf] {
        std::slice::from_ref(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn lines_are_read_as_rdma_core_reads_them() {
    for (line, meaning) in [
        ("driver rxe\n", Ok(Some("rxe"))),
        ("driver rxe", Ok(Some("rxe"))),
        ("\t driver \t mlx5 and more\n", Ok(Some("mlx5"))),
        ("driver\trxe\r\n", Ok(Some("rxe\r"))),
        ("driver /opt/lib/libx\n", Ok(Some("/opt/lib/libx"))),
        // A name of no characters, as long as anything ends the word before it.
        ("driver\n", Ok(Some(""))),
        ("driver \n", Ok(Some(""))),
        ("driver ", Ok(Some(""))),
        ("driver", Err("driver")),
        ("\n", Ok(None)),
        (" \t\n", Ok(None)),
        (" \t", Err("")),
        ("# driver rxe\n", Ok(None)),
        (" #", Ok(None)),
        ("drivers rxe\n", Err("drivers")),
        ("Driver rxe\n", Err("Driver")),
        ("driver rxe\0mlx5\n", Ok(Some("rxe"))),
        ("driver\0 rxe\n", Err("driver")),
        ("\0\n", Err("")),
    ] {
        let expected = meaning.map(|name| name.map(str::as_bytes)).map_err(str::as_bytes);
        assert_eq!(directive(line.as_bytes()), expected, "{line:?}");
    }
}

#[test]
fn every_regular_file_of_the_folder_counts() {
    let folder = Folder::new("config");
    folder.put("a.driver", b"driver one\n\n# comment\ndriver two");
    folder.put("readme", b"driver three\nnonsense here\n");
    fs::create_dir(folder.0.join("sub.driver")).unwrap();
    folder.put("sub.driver/x", b"driver four\n");
    std::os::unix::fs::symlink("nowhere", folder.0.join("dangling")).unwrap();
    let mut names: Vec<_> =
        configured(&folder.0).into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
    names.sort();
    assert_eq!(names, ["one", "three", "two"]);
    assert!(configured(&folder.0.join("missing")).is_empty());
}

/// Builds a plugin whose constructor creates the file `mark`.
fn plugin(folder: &Folder, name: &str, mark: &Path) -> PathBuf {
    let source = folder.put(
        &format!("{name}.c"),
        format!(
            "#include <stdio.h>\nstatic __attribute__((constructor)) void mark(void) \
             {{ FILE *file = fopen(\"{}\", \"a\"); if (file) {{ fputs(\"{name}\\n\", file); fclose(file); }} \
             }}\n",
            mark.display()
        )
        .as_bytes(),
    );
    let object = folder.0.join(format!("lib{name}{SUFFIX}"));
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    object
}

fn marks(mark: &Path) -> String {
    fs::read_to_string(mark).unwrap_or_default()
}

#[test]
fn plugins_are_loaded_in_rdma_cores_order_and_broken_ones_stop_nothing() {
    let (config, providers) = (Folder::new("order-config"), Folder::new("order-providers"));
    let mark = providers.0.join("mark");
    let whole = plugin(&providers, "first", &mark);
    plugin(&providers, "second", &mark);
    plugin(&providers, "third", &mark);
    let absolute = plugin(&providers, "fourth", &mark);
    let bytes = fs::read(&whole).unwrap();

    providers.put(&format!("libempty{SUFFIX}"), b"");
    providers.put(&format!("libtext{SUFFIX}"), b"this is no shared object");
    providers.put(&format!("libtruncated{SUFFIX}"), &bytes[..100]);
    // The headers are there, what they speak of is not: the linker itself would not survive it.
    providers.put(&format!("libcut{SUFFIX}"), &bytes[..1000]);
    // The field that says which machine the code is for, at offset 18, set to one that nobody has.
    let mut foreign = bytes.clone();
    foreign[18..20].copy_from_slice(&[0xfe, 0x7f]);
    providers.put(&format!("libforeign{SUFFIX}"), &foreign);

    let fourth = absolute.to_str().unwrap().strip_suffix(SUFFIX).unwrap();
    config.put(
        "only",
        format!(
            "driver first\ndriver missing\ndriver empty\ndriver text\ndriver truncated\ndriver cut\ndriver \
             foreign\n\
             driver second\ndriver /nowhere/libx\ndriver {fourth}\ndriver ../../../etc/passwd\n"
        )
        .as_bytes(),
    );
    load(&Places {
        config: &config.0,
        providers: providers.places(),
        environment: Some(OsString::from("third;none-such:")),
    });
    assert_eq!(marks(&mark), "third\nfourth\nsecond\nfirst\n");
}

#[test]
fn the_newest_version_that_can_be_loaded_counts() {
    let (config, first, second) = (Folder::new("new-config"), Folder::new("new-a"), Folder::new("new-b"));
    let mark = first.0.join("mark");
    let named = |folder: &Folder, name: &str, generation: u32| {
        let built = plugin(folder, &format!("{name}{generation}"), &mark);
        fs::rename(built, folder.0.join(format!("lib{name}{}", suffix(generation)))).unwrap();
    };
    for generation in GENERATIONS {
        named(&second, "all", generation);
    }
    named(&first, "all", 64);
    named(&first, "old", 33);
    // The newest is broken, and another private version nobody looks for.
    first.put("libcut-rdmav65.so", b"");
    named(&second, "cut", 57);
    named(&second, "other", 60);
    config.put("only", b"driver other\ndriver cut\ndriver old\ndriver all\n");
    load(&Places { config: &config.0, providers: &[first.0.clone(), second.0.clone()], environment: None });
    assert_eq!(marks(&mark), "all65\nold33\ncut57\n");
}

#[test]
fn the_reason_of_a_failure_is_the_linkers() {
    let providers = Folder::new("reasons");
    let reason = |name: &str, content: &[u8]| {
        let path = providers.put(name, content);
        text(open(path.as_os_str().as_bytes()).expect_err("not a shared object"))
    };
    fn text(reason: Vec<u8>) -> String {
        String::from_utf8(reason).expect("the linker speaks ASCII")
    }
    assert!(reason("short", b"").contains("file too short"));
    assert!(reason("text", &[b'x'; 200]).contains("invalid ELF header"));
    assert!(text(open(b"/nowhere/libx.so").expect_err("missing")).contains("No such file"));
    assert!(open(b"a\0b").is_err());
}

/// Files that name drivers, and plugins that are not whole: neither may stop the process.
#[test]
fn fuzz_plugin_files() {
    let folder = Folder::new("fuzz");
    let whole = fs::read(plugin(&folder, "whole", &folder.0.join("mark"))).unwrap();
    // Of the headers any byte may be another. What follows them is the linker's to judge.
    let headers = 64 + 56 * usize::from(whole[56]);
    let mut cuts = std::collections::BTreeSet::new();
    corpus::check!().with_type::<(Vec<u8>, u16, [(u16, u8); 4], bool)>().for_each(
        |(config, cut, changes, only_cut)| {
            let mut names = Vec::new();
            read_file(&folder.put("config", config), &mut names);
            assert!(names.iter().all(|name| !name.contains(&b'\n') && !name.contains(&0)));
            let mut bytes = whole[..whole.len().min(usize::from(*cut))].to_vec();
            if !only_cut {
                for (at, value) in changes {
                    if let Some(byte) = bytes.get_mut(usize::from(*at) % headers) {
                        *byte = *value;
                    }
                }
                elf::is_whole(&folder.put("changed", &bytes));
            } else if cuts.len() < 200 && cuts.insert(bytes.len()) {
                // Under a name of its own: the linker knows again what it has loaded.
                let cut = folder.put(&format!("cut-{}.so", bytes.len()), &bytes);
                // What is no ELF file at all is the linker's to refuse.
                assert!(open(cut.as_os_str().as_bytes()).is_err() || elf::is_whole(&cut));
                let _ = fs::remove_file(cut);
            }
        },
    );
}
