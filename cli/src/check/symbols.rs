//! Return addresses as functions and lines, by `addr2line` where it is installed.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use super::findings::Frame;
use crate::waits::Waits;

/// What a return address is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// The function; empty where nobody knows.
    pub function: String,
    /// File and line of the source; empty where nobody knows.
    pub line: String,
}

/// All that were looked up.
#[derive(Default)]
pub struct Symbols {
    known: HashMap<(String, u64), Vec<Symbol>>,
    /// There is no such program.
    is_missing: bool,
}

/// Whether addresses in a file are those that it runs at.
fn is_fixed(file: &str) -> bool {
    const ET_EXEC: u16 = 2;
    let mut head = [0_u8; 18];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && u16::from_ne_bytes([head[16], head[17]]) == ET_EXEC
}

/// What `addr2line` says of an address: two lines, of a function and its place, for each function that was put
/// into the next.
fn said(text: &str) -> Vec<Symbol> {
    let known = |text: &str| if text.starts_with("??") { String::new() } else { text.trim().to_owned() };
    let lines: Vec<&str> = text.lines().collect();
    let (pairs, _) = lines.as_chunks::<2>();
    let mut all = Vec::new();
    for [function, line] in pairs {
        let (function, mut line) = (known(function), known(line));
        // What it says of a line besides.
        if let Some(end) = line.find(" (discriminator") {
            line.truncate(end);
        }
        if line.ends_with(":?") || line.ends_with(":0") {
            line.clear();
        }
        let line = line.rsplit('/').next().unwrap_or_default().to_owned();
        if !function.is_empty() {
            all.push(Symbol { function, line });
        }
    }
    all
}

impl Symbols {
    /// What is known of an address: the innermost function first.
    pub fn of(&mut self, frame: &Frame) -> Vec<Symbol> {
        let key = (frame.file.clone(), frame.offset);
        if let Some(all) = self.known.get(&key) {
            return all.clone();
        }
        let mut all = self.asked(frame);
        if all.is_empty() && !frame.function.is_empty() {
            all.push(Symbol { function: frame.function.clone(), line: String::new() });
        }
        self.known.insert(key, all.clone());
        all
    }

    fn asked(&mut self, frame: &Frame) -> Vec<Symbol> {
        if self.is_missing || !frame.file.starts_with('/') {
            return Vec::new();
        }
        // The call, and not what it returns to.
        let address = if is_fixed(&frame.file) { frame.address } else { frame.offset }.saturating_sub(1);
        let _waits = Waits::begin();
        let output = Command::new("addr2line")
            .arg("-Cfi")
            .arg(format!("--exe={}", frame.file))
            .arg(format!("{address:#x}"))
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match output {
            Ok(output) if output.status.success() => said(&String::from_utf8_lossy(&output.stdout)),
            Ok(_) => Vec::new(),
            Err(_) => {
                self.is_missing = true;
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_empty() {
        assert_eq!(said("??\n??:0\n"), []);
        let all = said("inner\n/src/a.h:2\nmain\n/src/a.c:12 (discriminator 3)\n");
        let all: Vec<_> = all.iter().map(|one| (one.function.as_str(), one.line.as_str())).collect();
        assert_eq!(all, [("inner", "a.h:2"), ("main", "a.c:12")]);
        assert_eq!(said("main\n/src/a.c:?\n")[0].line, "");
    }
}
