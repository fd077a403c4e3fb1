//! `ironverbs check`: rules that a program breaks and devices do not enforce at once.
//!
//! | file | what |
//! |---|---|
//! | [`findings`] | reading what processes have found |
//! | [`print`] | how it is shown |
//! | [`symbols`] | return addresses as functions and lines |

mod findings;
mod print;
mod symbols;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use ironverbs::check::report::NOTES;
use ironverbs::check::rules::{self, Class, Rule};

use crate::colours;
use crate::folder::Folder;
use crate::places::Places;
use crate::program::Program;
use crate::{Check, Result};
use findings::{Finding, Findings};
use symbols::Symbols;

/// What all folders of checks are called before a number.
const PREFIX: &str = "ironverbs-check-";
/// What the command ends with where an error was found.
const FOUND: u8 = 99;
/// How long nothing is looked at.
const NAP: Duration = Duration::from_millis(10);

/// Where findings go.
struct Output {
    to: BufWriter<Box<dyn Write>>,
    json: bool,
    colours: bool,
    symbols: Symbols,
    errors: usize,
    notes: usize,
}

impl Output {
    fn open(check: &Check) -> Result<Self> {
        let to: Box<dyn Write> = match &check.output {
            None => Box::new(io::stderr()),
            Some(path) => Box::new(File::create(path).map_err(|why| format!("{}: {why}", path.display()))?),
        };
        let colours = check.output.is_none() && colours::are_wanted(&io::stderr());
        let to = BufWriter::new(to);
        Ok(Self { to, json: check.json, colours, symbols: Symbols::default(), errors: 0, notes: 0 })
    }

    fn show(&mut self, finding: &Finding) -> io::Result<()> {
        match finding.class {
            Class::Error => self.errors += 1,
            Class::Note => self.notes += 1,
        }
        let text = if self.json {
            print::json(finding, &mut self.symbols)
        } else {
            print::text(finding, &mut self.symbols, self.colours)
        };
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    fn end(&mut self, notes: bool, have_begun: bool) -> io::Result<()> {
        if !have_begun {
            eprintln!("ironverbs: nothing was looked at: no process has called a verb of this library");
        } else if !self.json {
            self.to.write_all(print::summary(self.errors, notes.then_some(self.notes)).as_bytes())?;
        }
        self.to.flush()
    }
}

/// Checks a program, or says what the rules are.
pub fn run(places: Result<Places>, check: &Check) -> Result<ExitCode> {
    if check.list {
        return said(&print::list());
    }
    if let Some(id) = &check.explain {
        return said(&print::explanation(rule(id)?));
    }
    let mut output = Output::open(check)?;
    let folder = Folder::make(PREFIX).map_err(|why| format!("no folder for what is found: {why}"))?;
    let mut findings =
        Findings::make(folder.path()).map_err(|why| format!("no file for what is found: {why}"))?;
    if check.notes {
        File::create_new(folder.path().join(NOTES))
            .map_err(|why| format!("no file for what is found: {why}"))?;
    }
    let mut program = match Program::start(&places?, "IRONVERBS_CHECK", folder.path(), &check.program)? {
        Ok(program) => program,
        Err(status) => return Ok(status),
    };
    let mut written = Ok(());
    loop {
        // Asked before: what was written until then is taken now.
        let ended = program.has_ended();
        for finding in findings.take() {
            written = written.and_then(|()| output.show(&finding));
        }
        if ended {
            break;
        }
        std::thread::sleep(NAP);
    }
    let written = written.and_then(|()| output.end(check.notes, findings.have_begun));
    drop(folder);
    if let Err(why) = written
        && why.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("ironverbs: what was found cannot be written: {why}");
    }
    if output.errors > 0 {
        return Ok(ExitCode::from(FOUND));
    }
    Ok(program.end())
}

fn said(text: &str) -> Result<ExitCode> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {why}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The rule of that name, or the nearest names.
fn rule(id: &str) -> Result<&'static Rule> {
    rules::named(id).ok_or_else(|| {
        let mut near: Vec<&str> = rules::ALL.iter().map(|rule| rule.id).collect();
        near.sort_by_key(|known| distance(id, known));
        near.truncate(2);
        format!("no rule {id:?}; is it {}? ironverbs check --list has all", near.join(" or "))
    })
}

/// How many letters must be put in, taken out or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, second) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *second);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_is_named() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert!(rule("bufer-changed").unwrap_err().contains("is it buffer-changed"));
        assert_eq!(rule("buffer-changed").unwrap().id, "buffer-changed");
    }
}
