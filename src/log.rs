//! The opt-in trace, by rdma-core's convention: `VERBS_LOG_LEVEL` (0 none, 1 errors, 2 warnings, 3 information,
//! 4 debug) and `VERBS_LOG_FILE`, the file that lines are appended to, which a set-user-id
//! program does not let its caller choose; without a file nothing is written.

use core::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use once_cell::race::OnceBox;

use crate::environment;
use crate::errno::Errno;
use crate::guard::uncancelled;

/// How much a line matters; the numbers are those of `VERBS_LOG_LEVEL`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Level {
    /// An operation failed in a way the program did not ask for.
    Error = 1,
    /// Something is odd but the operation goes on.
    Warning = 2,
    /// Worth knowing once.
    Info = 3,
    /// Which object, attribute and limit made a call fail.
    Debug = 4,
}

struct Sink {
    level: u32,
    file: File,
}

/// Made without a lock: a fork could leave it locked in the child.
static SINK: OnceBox<Option<Sink>> = OnceBox::new();

fn open_sink() -> Option<Sink> {
    let level = parse_level(std::env::var_os("VERBS_LOG_LEVEL")?.to_str()?);
    if level == 0 {
        return None;
    }
    let path = environment::trusted("VERBS_LOG_FILE")?;
    let file = OpenOptions::new().append(true).create(true).open(path).ok()?;
    Some(Sink { level, file })
}

/// A decimal, `0x` hexadecimal or `0` octal number as `strtol` with base 0 reads it, cut to 32 bits: a negative one is
/// above every level. Anything else is 0.
fn parse_level(text: &str) -> u32 {
    let text = text.trim_start();
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        (hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        (text, 8)
    } else {
        (text, 10)
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let level = u32::from_str_radix(&digits[..end], radix).unwrap_or(0);
    if negative { level.wrapping_neg() } else { level }
}

/// Whether a line of this level would be written: lets a caller skip work that only the trace needs.
#[must_use]
pub fn enabled(level: Level) -> bool {
    enabled_number(level as u32)
}

/// As [`enabled`], for the numbers of plugins; false without a file.
#[must_use]
pub fn enabled_number(level: u32) -> bool {
    let sink = SINK.get().unwrap_or_else(|| uncancelled(|| SINK.get_or_init(|| Box::new(open_sink()))));
    matches!(sink, Some(sink) if level <= sink.level)
}

/// Appends text to the log file as it is.
pub fn append(text: &[u8]) {
    if let Some(Some(sink)) = SINK.get() {
        let _ = uncancelled(|| (&sink.file).write_all(text));
    }
}

/// Appends one line to the log file. The thread's `errno` is left as it was.
pub fn write(level: Level, line: fmt::Arguments<'_>) {
    let before = Errno::last();
    if enabled(level)
        && let Some(Some(sink)) = SINK.get()
    {
        // One write per line, so that lines of several threads and processes do not mix.
        let _ = uncancelled(|| (&sink.file).write_all(format!("{line}\n").as_bytes()));
    }
    before.set();
}

/// Tells the person at the program's terminal something, as rdma-core does: on standard error, which may be closed.
pub fn say(line: fmt::Arguments<'_>) {
    to_standard_error(format!("libibverbs: {line}\n").as_bytes());
}

/// In one piece, so that lines of several processes do not mix, and without the lock of Rust's standard error, which a fork
/// could leave locked in the child.
fn to_standard_error(line: &[u8]) {
    // SAFETY: the descriptor is the program's and is not closed here; where it is closed already, writing fails.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    let _ = uncancelled(|| (&*file).write_all(line));
}

/// As [`say`], with the word `Warning:`.
pub fn warn(line: fmt::Arguments<'_>) {
    say(format_args!("Warning: {line}"));
}

/// As [`warn`], for text that may be no UTF-8: paths, what a file says, the linker's reasons.
pub fn warn_bytes(parts: &[&[u8]]) {
    let line = [b"libibverbs: Warning: ", parts.concat().as_slice(), b"\n"].concat();
    to_standard_error(&line);
}

/// Writes a line of the given [`Level`] variant: `trace!(Debug, "create_cq: asked {cqe} entries")`.
macro_rules! trace {
    ($level:ident, $($arg:tt)+) => {
        $crate::log::write($crate::log::Level::$level, format_args!($($arg)+))
    };
}
pub(crate) use trace;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_strtol_reads_them() {
        for (text, level) in
            [("4", 4), (" 3", 3), ("0x2", 2), ("02", 2), ("2abc", 2), ("", 0), ("debug", 0), ("-1", u32::MAX)]
        {
            assert_eq!(parse_level(text), level, "{text:?}");
        }
    }
}
