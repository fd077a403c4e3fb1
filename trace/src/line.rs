//! Text of a call in memory that is there: nothing is allocated, since a verb must not fail for its trace.

use core::fmt::{self, Write};
use core::mem::MaybeUninit;

use super::record::{OBJECT, OBJECT_END, SEPARATOR};

/// Bytes of arguments, and of an answer, that are kept.
const SIZE: usize = 12 << 10;
/// How many arguments are written only when the call has answered.
const LATE: usize = 8;

/// Text that is cut where it grows too long.
pub struct Text {
    bytes: [u8; SIZE],
    length: usize,
    cut: bool,
}

impl Text {
    fn clear(&mut self) {
        (self.length, self.cut) = (0, false);
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(SIZE - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
        self.cut |= taken < bytes.len();
    }
}

/// A call's arguments, and what it answered. All zeros is a value.
pub struct Line {
    /// Arguments as they stood before the call, with places for the late ones.
    early: Text,
    /// Where those belong.
    late_at: [usize; LATE],
    late: usize,
    next: usize,
    /// Whether the call is over, so that what it has set is written, and whether it failed.
    over: bool,
    failed: bool,
    /// All arguments.
    whole: Text,
    answer: Text,
    /// Whether the answer is being written.
    answering: bool,
    /// Whether the next argument is the first.
    first: bool,
    /// Whether text is wanted.
    is_text: bool,
    /// Arguments as words.
    words: [MaybeUninit<(&'static str, u64)>; WORDS],
    count: usize,
}

/// How many arguments are kept as words: no verb has more.
const WORDS: usize = 10;

impl Line {
    /// Keeps arguments before the call: as words, and where `is_text` says so, as text.
    pub fn before(&mut self, show: &dyn Fn(&mut Line), is_text: bool) {
        (self.is_text, self.count) = (is_text, 0);
        self.early.clear();
        self.whole.clear();
        self.answer.clear();
        (self.late, self.next, self.first, self.answering) = (0, 0, true, false);
        (self.over, self.failed) = (false, false);
        show(self);
    }

    /// Writes what is known after it.
    pub fn after(&mut self, show: &dyn Fn(&mut Line), failed: bool, answer: &dyn Fn(&mut Line)) {
        (self.over, self.failed) = (true, failed);
        self.next = 0;
        show(self);
        let from = if self.next == 0 { 0 } else { self.late_at[self.next.min(self.late) - 1] };
        self.copy_early(from, self.early.length);
        self.answering = true;
        answer(self);
    }

    fn copy_early(&mut self, from: usize, to: usize) {
        let Self { early, whole, .. } = self;
        if let Some(part) = early.bytes().get(from..to) {
            whole.push(part);
        }
        whole.cut |= early.cut;
    }

    /// The name and the word of each argument: of what the verb sets, the place.
    pub fn words(&self) -> &[(&'static str, u64)] {
        let first = self.words.as_ptr().cast();
        // SAFETY: so many were written, each in its place.
        unsafe { core::slice::from_raw_parts(first, self.count) }
    }

    fn keep(&mut self, name: &'static str, word: u64) {
        if let (Some(place), false) = (self.words.get_mut(self.count), self.over) {
            place.write((name, word));
            self.count += 1;
        }
    }

    /// All arguments.
    pub fn arguments(&self) -> &[u8] {
        self.whole.bytes()
    }

    /// The answer.
    pub fn answer(&self) -> &[u8] {
        self.answer.bytes()
    }

    /// Whether something was too long.
    pub fn is_cut(&self) -> bool {
        self.early.cut || self.whole.cut || self.answer.cut
    }

    fn name(&mut self, name: &str) {
        if !self.over {
            if !core::mem::replace(&mut self.first, false) {
                self.early.push(&[SEPARATOR]);
            }
            self.early.push(name.as_bytes());
            self.early.push(b"=");
        }
    }

    /// An argument that the program sets.
    pub fn argument(&mut self, name: &'static str, word: impl FnOnce() -> u64, show: impl FnOnce(&mut Line)) {
        if !self.over {
            self.keep(name, word());
        }
        if !self.is_text {
            return;
        }
        self.name(name);
        if !self.over {
            show(self);
        }
    }

    /// An argument that the verb sets, at `address`: what stands there once it succeeded.
    pub fn result(&mut self, name: &'static str, address: usize, show: impl FnOnce(&mut Line)) {
        self.keep(name, address as u64);
        if !self.is_text {
            return;
        }
        self.name(name);
        if !self.over {
            if self.late < LATE {
                self.late_at[self.late] = self.early.length;
                self.late += 1;
            }
        } else if self.next < self.late {
            let from = if self.next == 0 { 0 } else { self.late_at[self.next - 1] };
            self.copy_early(from, self.late_at[self.next]);
            self.next += 1;
            if self.failed || address == 0 {
                self.address(address);
            } else {
                show(self);
            }
        }
    }

    /// An address, or NULL.
    pub fn address(&mut self, address: usize) {
        if address == 0 {
            self.put("NULL");
        } else {
            let _ = write!(self, "{address:#x}");
        }
    }

    /// Text of the library's own.
    pub fn put(&mut self, text: &str) {
        let _ = self.write_str(text);
    }

    /// An object of the program, which the command gives a number.
    pub fn object(&mut self, kind: &str, address: usize) {
        if address == 0 {
            return self.put("NULL");
        }
        self.bytes(&[OBJECT]);
        let _ = write!(self, "{kind} {address:x}");
        self.bytes(&[OBJECT_END]);
    }

    /// Text of others: its end is where the first NUL is, and what is not printable is shown by its number.
    pub fn foreign(&mut self, text: &[u8]) {
        self.put("\"");
        for byte in text.iter().take_while(|byte| **byte != 0) {
            match byte {
                b'"' | b'\\' => self.bytes(&[b'\\', *byte]),
                b' '..=b'~' => self.bytes(&[*byte]),
                _ => {
                    let _ = write!(self, "\\x{byte:02x}");
                }
            }
        }
        self.put("\"");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let text = match (self.answering, self.over) {
            (true, _) => &mut self.answer,
            (false, false) => &mut self.early,
            (false, true) => &mut self.whole,
        };
        text.push(bytes);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(failed: bool) -> (String, String) {
        // SAFETY: all zeros is a value.
        let mut line: Box<Line> = unsafe { Box::new_zeroed().assume_init() };
        let show = |line: &mut Line| {
            line.argument("a", || 7, |line| line.put("1"));
            line.result("b", 0x10, |line| line.put("[2]"));
            line.argument("c", || 9, |line| line.put("3"));
            line.result("d", 0, |line| line.put("[4]"));
        };
        line.before(&show, true);
        line.after(&show, failed, &|line| line.put("0"));
        assert_eq!(line.words(), [("a", 7), ("b", 0x10), ("c", 9), ("d", 0)]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace('\x1f', ", ");
        (text(line.arguments()), text(line.answer()))
    }

    #[test]
    fn what_the_verb_sets_stands_in_its_place() {
        assert_eq!(shown(false), ("a=1, b=[2], c=3, d=NULL".into(), "0".into()));
        assert_eq!(shown(true), ("a=1, b=0x10, c=3, d=NULL".into(), "0".into()));
    }

    #[test]
    fn what_is_too_long_is_cut() {
        // SAFETY: all zeros is a value.
        let mut line: Box<Line> = unsafe { Box::new_zeroed().assume_init() };
        let show = |line: &mut Line| line.argument("a", || 7, |line| (0..SIZE).for_each(|_| line.put("x")));
        line.before(&show, true);
        line.after(&show, false, &|line| line.put("0"));
        assert!(line.is_cut() && line.arguments().len() == SIZE && line.answer() == b"0");
    }

    #[test]
    fn names_of_devices_and_other_text_are_quoted() {
        // SAFETY: all zeros is a value.
        let mut line: Box<Line> = unsafe { Box::new_zeroed().assume_init() };
        let show = |line: &mut Line| line.argument("a", || 7, |line| line.foreign(b"x\"\x1b[\xff\0y"));
        line.before(&show, true);
        line.after(&show, false, &|_| {});
        assert_eq!(line.arguments(), b"a=\"x\\\"\\x1b[\\xff\"");
    }
}
