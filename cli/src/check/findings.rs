//! What processes have found: records at the end of a file that all of them write.
//!
//! A process may write anything. What is no record is left out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ironverbs::check::report::{BEGIN, FILE, SEPARATOR};
use ironverbs::check::rules::{self, Class, Rule};

/// Bytes of a record at most.
const LARGEST: usize = 64 << 10;

/// A return address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub address: u64,
    pub file: String,
    /// From where the file was mapped.
    pub offset: u64,
    /// As the dynamic loader knows it; empty where it does not.
    pub function: String,
}

/// A rule that is broken.
#[derive(Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub class: Class,
    pub pid: u32,
    pub tid: u32,
    pub what: String,
    /// The verb; empty at the end of the process.
    pub call: String,
    pub at: Vec<Frame>,
    /// Where the request was posted, of what is found later.
    pub post: Vec<Frame>,
    /// What it is about, the verb that made it, and where.
    pub object: String,
    pub made: String,
    pub from: Vec<Frame>,
}

/// The file.
pub struct Findings {
    file: File,
    /// What is no whole record yet.
    rest: Vec<u8>,
    /// Whether any process has called a verb.
    pub have_begun: bool,
}

impl Findings {
    pub fn make(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file, rest: Vec::new(), have_begun: false })
    }

    /// What was written since it was asked last.
    pub fn take(&mut self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut part = [0; 16 << 10];
        while let Ok(count) = self.file.read(&mut part)
            && count > 0
        {
            self.rest.extend_from_slice(&part[..count]);
            while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
                let record: Vec<u8> = self.rest.drain(..end + 2).collect();
                self.have_begun |= record.starts_with(BEGIN.as_bytes());
                found.extend(decode(&String::from_utf8_lossy(&record)));
            }
            if self.rest.len() > LARGEST {
                self.rest.clear();
            }
        }
        // A program may have shortened it.
        if let (Ok(at), Ok(info)) = (self.file.stream_position(), self.file.metadata())
            && at > info.len()
        {
            let _ = self.file.seek(SeekFrom::End(0));
        }
        found
    }
}

fn decode(record: &str) -> Option<Finding> {
    let plain = |text: &str| text.replace(|letter: char| letter.is_control(), "?");
    let mut finding = Finding {
        rule: rules::ALL.first()?,
        class: Class::Note,
        pid: 0,
        tid: 0,
        what: String::new(),
        call: String::new(),
        at: Vec::new(),
        post: Vec::new(),
        object: String::new(),
        made: String::new(),
        from: Vec::new(),
    };
    let mut is_known = false;
    for line in record.lines() {
        let Some((word, value)) = line.split_once(' ') else { continue };
        match word {
            "rule" => {
                finding.rule = rules::named(value)?;
                is_known = true;
            }
            "class" if value == Class::Error.name() => finding.class = Class::Error,
            "process" => {
                let (pid, tid) = value.split_once(' ')?;
                (finding.pid, finding.tid) = (pid.parse().ok()?, tid.parse().ok()?);
            }
            "what" => finding.what = plain(value),
            "call" => finding.call = plain(value),
            "object" => finding.object = plain(value),
            "made" => finding.made = plain(value),
            "at" => finding.at.extend(frame(value)),
            "post" => finding.post.extend(frame(value)),
            "from" => finding.from.extend(frame(value)),
            _ => {}
        }
    }
    is_known.then_some(finding)
}

fn frame(text: &str) -> Option<Frame> {
    let plain = |text: &str| text.replace(|letter: char| letter.is_control(), "?");
    let mut words = text.split(SEPARATOR);
    Some(Frame {
        address: u64::from_str_radix(words.next()?, 16).ok()?,
        file: plain(words.next()?),
        offset: u64::from_str_radix(words.next()?, 16).ok()?,
        function: plain(words.next()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_what_is_none_is_not() {
        let text = "rule qp-state\nclass error\nprocess 7 8\nwhat a\x1b[b\ncall ibv_post_send\n\
                    at 12\x1f/bin/a\x1f2\x1fmain\nobject queue pair 0x11\nmade ibv_create_qp\n\n";
        let finding = decode(text).unwrap();
        assert_eq!(
            (finding.rule.id, finding.class, finding.pid, finding.tid),
            ("qp-state", Class::Error, 7, 8)
        );
        assert_eq!((finding.what.as_str(), finding.call.as_str()), ("a?[b", "ibv_post_send"));
        let main = Frame { address: 0x12, file: "/bin/a".into(), offset: 2, function: "main".into() };
        assert_eq!(finding.at, [main]);
        for text in ["", "\n\n", "rule none\n\n", "rule qp-state\nprocess x\n\n", "class error\n\n"] {
            assert!(decode(text).is_none(), "{text:?}");
        }
    }
}
