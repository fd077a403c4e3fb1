//! What was found, as records in the file of the check's folder that the command reads.
//!
//! A record is lines of a word and its value, and ends with an empty line. It is written at once, at the end of
//! the file, so that those of several processes do not mix. The file is opened for each: a program may close
//! all descriptors that it does not know.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ironverbs_os::errno::Errno;
use ironverbs_os::fork::ProcessMutex;
use ironverbs_os::growth::{TryPush, small_box};
use ironverbs_os::guard::uncancelled;
use once_cell::race::OnceBox;

use super::place::Place;
use super::rules::{Class, Id};

/// The file of records in the check's folder.
pub const FILE: &str = "findings";
/// What the record of a process begins with that calls its first verb.
pub const BEGIN: &str = "begin";
/// Notes are wanted where there is a file of this name.
pub const NOTES: &str = "notes";
/// Between the words of a frame.
pub const SEPARATOR: char = '\x1f';
/// So many records a process writes, and no more.
const MOST: usize = 500;

static FOLDER: OnceBox<OsString> = OnceBox::new();
static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// Marks of what was said already.
static SAID: ProcessMutex<Vec<u64>> = ProcessMutex::new(Vec::new());

/// Where records go from now on. The first says that the process is looked at.
pub fn open(folder: OsString) {
    IS_NOTED.store(Path::new(&folder).join(NOTES).exists(), Ordering::Release);
    let _ = FOLDER.set(small_box(folder));
    append(&format!("{BEGIN} {}\n\n", std::process::id()));
}

/// Whether notes are wanted.
pub fn is_noted() -> bool {
    IS_NOTED.load(Ordering::Acquire)
}

/// An object that a finding is about.
#[derive(Clone)]
pub struct About {
    /// What it is, and its number.
    pub name: String,
    /// The verb that made it.
    pub verb: &'static str,
    /// Where that was called.
    pub place: Place,
}

struct Finding {
    id: Id,
    class: Class,
    what: String,
    about: Option<About>,
    /// Where it was, if not at the call that is under way.
    at: Option<Place>,
    /// Where the request was posted that it is about.
    post: Option<Place>,
}

/// What one call has found. It is collected while locks are held, and written when they are not.
#[derive(Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// A rule that is broken, whatever else the program knows.
    #[cold]
    pub fn error(&mut self, id: Id, what: String, about: Option<About>) {
        let _ = self.0.try_push(Finding { id, class: Class::Error, what, about, at: None, post: None });
    }

    /// A rule for which the program may have a reason.
    #[cold]
    pub fn note(&mut self, id: Id, what: impl FnOnce() -> String, about: Option<About>) {
        if is_noted() {
            let _ = self.0.try_push(Finding {
                id,
                class: Class::Note,
                what: what(),
                about,
                at: None,
                post: None,
            });
        }
    }

    /// Says where the request was posted that the last finding is about.
    pub fn posted(&mut self, place: Place) {
        if let Some(finding) = self.0.last_mut() {
            finding.post = Some(place);
        }
    }

    /// The same of what is of no call.
    pub fn note_of(&mut self, id: Id, what: String, about: About) {
        let at = Some(Place::default());
        let _ = self.0.try_push(Finding { id, class: Class::Note, what, about: Some(about), at, post: None });
    }

    /// Writes all, of the verb that is under way. `errno` may change.
    #[inline]
    pub fn report(self, verb: &str) {
        if !self.0.is_empty() {
            uncancelled(|| self.write(verb));
        }
    }

    #[cold]
    fn write(self, verb: &str) {
        let here = Place::here();
        for finding in &self.0 {
            let about = finding.about.as_ref().map_or(0, |about| about.place.mark());
            let at = finding.at.unwrap_or(here);
            let kind = finding.id as u64 * 2 + u64::from(finding.class == Class::Error);
            let mark =
                at.mark().wrapping_add(about.rotate_left(32)) ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if is_new(mark) {
                append(&record(finding, verb, &at));
            }
        }
    }
}

/// Whether this was not said by this process, and may be.
fn is_new(mark: u64) -> bool {
    let Ok(mut said) = SAID.lock() else { return false };
    said.len() < MOST && !said.contains(&mark) && said.try_push(mark).is_ok()
}

fn record(finding: &Finding, verb: &str, at: &Place) -> String {
    let mut text = String::new();
    // SAFETY: asks for the thread's number.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let _ = writeln!(text, "rule {}", finding.id.rule().id);
    let _ = writeln!(text, "class {}", finding.class.name());
    let _ = writeln!(text, "process {} {thread}", std::process::id());
    let _ = writeln!(text, "what {}", finding.what);
    if finding.at.is_none() {
        let _ = writeln!(text, "call {verb}");
    }
    frames(&mut text, "at", at);
    frames(&mut text, "post", &finding.post.unwrap_or_default());
    if let Some(about) = &finding.about {
        let _ = writeln!(text, "object {}", about.name);
        let _ = writeln!(text, "made {}", about.verb);
        frames(&mut text, "from", &about.place);
    }
    let _ = writeln!(text);
    text
}

fn frames(text: &mut String, word: &str, place: &Place) {
    // The loader calls the program as it was started, which may be no path.
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    for frame in place.frames() {
        let plain = |name: &core::ffi::CStr, is_path: bool| {
            let name = name.to_string_lossy();
            let name = if is_path { name } else { program.to_string_lossy() };
            name.replace(|letter: char| letter.is_control(), "?")
        };
        let _ = writeln!(
            text,
            "{word} {:x}{SEPARATOR}{}{SEPARATOR}{:x}{SEPARATOR}{}",
            frame.address,
            plain(frame.file, frame.file.to_bytes().first() == Some(&b'/')),
            frame.offset,
            plain(frame.function, true)
        );
    }
}

fn append(record: &str) {
    let before = Errno::last();
    let Some(folder) = FOLDER.get() else { return };
    let path = Path::new::<OsStr>(folder).join(FILE);
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    if let Ok(mut file) =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
    {
        let _ = file.write(record.as_bytes());
    }
    before.set();
}
