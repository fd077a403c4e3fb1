use std::collections::BTreeSet;

use super::*;

#[test]
fn a_line_is_an_input() {
    assert_eq!(bytes("-"), Some(vec![]));
    assert_eq!(bytes("00ff1a"), Some(vec![0, 0xff, 0x1a]));
    for wrong in ["", "0", "0g", "FF", "--", " 00", "00-"] {
        assert_eq!(bytes(wrong), None, "{wrong:?}");
    }
}

/// The names behind `fuzz_` of all tests in a folder, and below it.
fn targets_in(folder: &Path, names: &mut BTreeSet<String>) {
    let start = format!("fn {PREFIX}");
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with("target") && !name.starts_with('.') {
                targets_in(&path, names);
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.lines().filter_map(|line| line.trim_start().strip_prefix(&start)) {
                let target = rest.split('(').next().unwrap();
                assert!(names.insert(target.to_owned()), "{}: a second target {target}", path.display());
            }
        }
    }
}

#[test]
fn each_target_has_a_corpus_and_each_corpus_a_target() {
    let mut targets = BTreeSet::new();
    targets_in(folder().ancestors().nth(2).unwrap(), &mut targets);
    assert!(targets.contains("segment"), "{targets:?}");
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let corpora: BTreeSet<String> = files
        .filter(|path| path.extension().is_some_and(|it| it == "corpus"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let without: Vec<_> = targets.difference(&corpora).collect();
    assert!(without.is_empty(), "targets without a corpus: {without:?}");
    let spare: Vec<_> = corpora.difference(&targets).collect();
    assert!(spare.is_empty(), "corpora without a target: {spare:?}");
    for name in corpora {
        let inputs = read(&path_of(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!inputs.is_empty(), "{name}: no input");
    }
}
