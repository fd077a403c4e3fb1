//! Fuzz targets, and the inputs that are kept of each.
//!
//! A target is a test whose name starts with `fuzz_`. By [`check!`] in the place of bolero's, it looks at all
//! inputs of its corpus before random ones. Under `scripts/fuzz`, libFuzzer has them instead.
//!
//! The corpus of `fuzz_NAME` is `tests/corpus/NAME.corpus`: an input a line, as hexadecimal digits, `-` for the
//! empty one. All lines are different and in order. `scripts/fuzz` reads and writes such files.

use std::fs;
use std::path::{Path, PathBuf};

#[doc(hidden)]
pub use bolero;

use bolero::bolero_engine::input::Bytes;
use bolero::generator::bolero_generator::driver::Options;
use bolero::{BorrowedInput, ByteSliceGenerator, DefaultEngine, Engine, TargetLocation, Test, TestTarget};

/// What the name of a fuzz target's test starts with.
const PREFIX: &str = "fuzz_";

/// As `bolero::check!()`, with the inputs of the corpus of the test that it stands in.
#[macro_export]
macro_rules! check {
    () => {
        $crate::target($crate::bolero::TargetLocation {
            package_name: env!("CARGO_PKG_NAME"),
            manifest_dir: env!("CARGO_MANIFEST_DIR"),
            module_path: module_path!(),
            file: file!(),
            line: line!(),
            item_path: $crate::bolero::__item_path__!(),
            test_name: None,
        })
    };
}

/// What [`check!`] is.
#[doc(hidden)]
pub fn target(location: TargetLocation) -> TestTarget<ByteSliceGenerator, Replay, BorrowedInput> {
    let test = location.item_path();
    let name = test.rsplit("::").next().and_then(|name| name.strip_prefix(PREFIX));
    let name = name.unwrap_or_else(|| panic!("{test} does not start with {PREFIX}"));
    TestTarget::new(Replay { name: name.to_owned(), random: DefaultEngine::new(location) })
}

/// Runs a test with all inputs of a corpus, then as bolero does.
#[derive(Debug)]
#[doc(hidden)]
pub struct Replay {
    name: String,
    random: DefaultEngine,
}

impl<T: Test> Engine<T> for Replay
where
    DefaultEngine: Engine<T>,
{
    type Output = <DefaultEngine as Engine<T>>::Output;

    fn run(self, mut test: T, options: Options) -> Self::Output {
        if !cfg!(fuzzing) {
            let path = path_of(&self.name);
            let inputs = read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for (number, input) in (1..).zip(&inputs) {
                if let Err(error) = test.test(&mut Bytes::new(input, &options)) {
                    panic!("{}, line {number}: {error}", path.display());
                }
            }
            eprintln!("{}: {} inputs of its corpus", self.name, inputs.len());
        }
        self.random.run(test, options)
    }
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn path_of(name: &str) -> PathBuf {
    folder().join(name).with_extension("corpus")
}

/// The inputs of a file.
fn read(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.lines().collect();
    if let Some(pair) = lines.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(format!("{} stands before {}", pair[0], pair[1]));
    }
    lines.into_iter().map(|line| bytes(line).ok_or_else(|| format!("no input: {line}"))).collect()
}

/// The bytes that a line stands for.
fn bytes(line: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    match line.as_bytes() {
        b"-" => Some(Vec::new()),
        digits if digits.is_empty() || !digits.len().is_multiple_of(2) => None,
        digits => digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect(),
    }
}

#[cfg(test)]
mod tests;
