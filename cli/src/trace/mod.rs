//! `ironverbs trace`: every verb that a program calls, with arguments and answer.
//!
//! | file | what |
//! |---|---|
//! | [`rings`] | what can be read of what traced processes write |
//! | [`event`], [`calls`] | from a record to a call |
//! | [`filter`], [`print`], [`summary`] | which calls are shown, and how |
//! | [`attach`] | a process that waits to be traced |

mod attach;
mod calls;
mod event;
mod filter;
mod print;
mod rings;
mod summary;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use ironverbs_trace::record::{Head, Header, flag, kind};

use crate::colours;
use crate::folder::{Folder, MOST_RINGS};
use crate::places::Places;
use crate::program::{self, Program};
use crate::{Result, Trace};
use event::{Event, Objects};
use filter::Filter;
use rings::{Body, Record, Ring};
use summary::Summary;

/// How long nothing may come before the rings are looked at less often.
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_millis(10);

/// What all folders of traces are called before a number.
const PREFIX: &str = "ironverbs-trace-";

/// A ring, and whose it is.
struct Thread {
    ring: Ring,
    objects: Rc<RefCell<Objects>>,
    /// Parts of a record that goes on.
    earlier: Vec<u64>,
}

/// A call that is not decoded yet: objects get their numbers, and lose them, in the order in which calls are
/// shown.
struct Held {
    pid: u32,
    tid: u32,
    record: Record,
    earlier: Vec<u64>,
    objects: Rc<RefCell<Objects>>,
}

impl Held {
    /// When it was over.
    fn end(&self) -> u64 {
        self.record.header.begin.saturating_add(self.record.header.nanos)
    }

    fn decoded(self) -> Event {
        event::decode(self.pid, self.tid, self.record, self.earlier, &mut self.objects.borrow_mut())
    }
}

/// Where calls go.
struct Output {
    to: BufWriter<Box<dyn Write>>,
    filters: Vec<Filter>,
    json: bool,
    /// Whether calls that failed are red.
    colours: bool,
    summary: Option<Summary>,
    begin: u64,
    /// The first process and thread, and whether there was another.
    first: Option<(u32, u32)>,
    several: bool,
}

impl Output {
    fn show(&mut self, event: &Event) -> io::Result<()> {
        let who = (event.pid, event.tid);
        self.several |= *self.first.get_or_insert(who) != who;
        if !self.filters.iter().all(|filter| filter.takes(event)) {
            return Ok(());
        }
        if let Some(summary) = &mut self.summary {
            summary.add(event);
            return Ok(());
        }
        let line = if self.json {
            print::json(event, self.begin)
        } else {
            print::line(event, self.begin, self.several)
        };
        if self.colours && event.failed.is_some() {
            return writeln!(self.to, "\x1b[31m{}\x1b[0m", line.trim_end());
        }
        self.to.write_all(line.as_bytes())
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(summary) = &self.summary {
            self.to.write_all(summary.table().as_bytes())?;
        }
        self.to.flush()
    }
}

/// All that is read.
struct Traced {
    folder: Folder,
    namespace: u64,
    threads: Vec<Thread>,
    processes: HashMap<(u64, u32), Rc<RefCell<Objects>>>,
    /// Calls that may be younger than others that are not there yet.
    held: Vec<Held>,
    said: bool,
}

/// Nanoseconds of the clock that traced processes use.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Traced {
    fn new(folder: Folder) -> Self {
        use std::os::unix::fs::MetadataExt;
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
        Self {
            folder,
            namespace,
            threads: Vec::new(),
            processes: HashMap::new(),
            held: Vec::new(),
            said: false,
        }
    }

    fn find_new(&mut self) {
        for file in self.folder.take(MOST_RINGS.saturating_sub(self.threads.len())) {
            let Some(ring) = Ring::open(file) else { continue };
            let Head { namespace, pid, .. } = ring.head;
            let objects = Rc::clone(self.processes.entry((namespace, pid)).or_default());
            self.threads.push(Thread { ring, objects, earlier: Vec::new() });
        }
    }

    /// Whether the thread's process may write more.
    fn is_alive(&self, thread: &Thread) -> bool {
        let Head { namespace, pid, .. } = thread.ring.head;
        if namespace != self.namespace {
            // A number of another namespace says nothing here.
            return false;
        }
        // SAFETY: asks whether there is such a process.
        let found = i32::try_from(pid).is_ok_and(|pid| pid > 0 && unsafe { libc::kill(pid, 0) } == 0);
        found && !program::is_zombie(pid)
    }

    /// Takes what is there; whether that was anything. `last`: nobody writes any more.
    fn pass(&mut self, output: &mut Output, last: bool) -> io::Result<bool> {
        let before = now();
        self.find_new();
        let mut any = false;
        let mut records = Vec::new();
        let alive: Vec<bool> = self.threads.iter().map(|thread| !last && self.is_alive(thread)).collect();
        let mut keep = Vec::new();
        for (mut thread, alive) in std::mem::take(&mut self.threads).into_iter().zip(alive) {
            // Asked before: what was written until then is taken now.
            let ended = !alive || thread.ring.has_ended();
            thread.ring.take(&mut records);
            any |= !records.is_empty();
            for record in records.drain(..) {
                self.held.extend(thread.held(record));
            }
            if thread.ring.is_spoiled() {
                self.say_spoiled(&thread.ring.head);
            } else if ended {
                for empty in thread.ring.empties() {
                    let words = vec![empty.queue, 0, empty.count];
                    let (begin, nanos) = (empty.begin, empty.nanos);
                    let header = Header {
                        kind: kind::DATA,
                        call: empty.call as u16,
                        begin,
                        nanos,
                        ..Header::default()
                    };
                    self.held.extend(thread.held(Record { header, body: Body::Words(words) }));
                }
            } else {
                keep.push(thread);
            }
        }
        self.threads = keep;
        self.held.sort_by_key(Held::end);
        let due = if last { self.held.len() } else { self.held.partition_point(|held| held.end() <= before) };
        for held in self.held.drain(..due) {
            output.show(&held.decoded())?;
        }
        if due > 0 {
            output.to.flush()?;
        }
        Ok(any)
    }

    fn say_spoiled(&mut self, head: &Head) {
        if !std::mem::replace(&mut self.said, true) {
            eprintln!("ironverbs: what process {} wrote of its calls is damaged; the rest is lost", head.pid);
        }
    }

    fn has_writers(&self) -> bool {
        self.threads.iter().any(|thread| self.is_alive(thread))
    }
}

impl Thread {
    /// A call; None of a record that goes on.
    fn held(&mut self, record: Record) -> Option<Held> {
        /// Words of a list that are kept.
        const MOST: usize = 1 << 20;
        let Head { pid, tid, .. } = self.ring.head;
        if record.header.flags & flag::GOES_ON != 0 {
            if let Body::Words(words) = record.body {
                let earlier = std::mem::take(&mut self.earlier);
                self.earlier = calls::whole(record.header.call, earlier, words);
                self.earlier.truncate(MOST);
            }
            return None;
        }
        let earlier = std::mem::take(&mut self.earlier);
        Some(Held { pid, tid, record, earlier, objects: Rc::clone(&self.objects) })
    }
}

/// Where the trace is written.
fn opened(path: Option<&PathBuf>) -> Result<BufWriter<Box<dyn Write>>> {
    let to: Box<dyn Write> = match path {
        None => Box::new(io::stderr()),
        Some(path) => Box::new(File::create(path).map_err(|why| format!("{}: {why}", path.display()))?),
    };
    Ok(BufWriter::new(to))
}

/// Traces a program, or a process that waits for it.
pub fn run(places: &Places, trace: Trace) -> Result<ExitCode> {
    let filters =
        trace.filter.iter().map(|text| text.parse()).collect::<std::result::Result<Vec<Filter>, String>>()?;
    let to = opened(trace.output.as_ref())?;
    let folder = Folder::make(PREFIX).map_err(|why| format!("no folder for the trace: {why}"))?;
    let mut output = Output {
        to,
        filters,
        json: trace.json,
        colours: !trace.json && trace.output.is_none() && colours::are_wanted(&io::stderr()),
        summary: trace.summary.then(Summary::default),
        begin: now(),
        first: None,
        several: false,
    };
    let mut program = match trace.pid {
        Some(pid) => Program::attached(pid, || attach::begin(pid, folder.path()))?,
        None => match Program::start(places, "IRONVERBS_TRACE", folder.path(), &trace.program)? {
            Ok(program) => program,
            Err(status) => return Ok(status),
        },
    };
    if let Some(pid) = trace.pid.filter(|_| io::stderr().is_terminal()) {
        eprintln!("ironverbs: process {pid} is traced from its next call on; ^C ends the trace alone");
    }
    let mut traced = Traced::new(folder);
    let mut written = Ok(());
    loop {
        let ended = program.has_ended();
        let any = match traced.pass(&mut output, false) {
            Ok(any) => any,
            // Nobody reads it any more: the program goes on.
            Err(why) => {
                written = Err(why);
                break;
            }
        };
        if program.is_enough() || ended && !any && !traced.has_writers() {
            break;
        }
        std::thread::sleep(if any { SHORT } else { LONG });
    }
    if written.is_ok() {
        written = traced.pass(&mut output, true).map(|_| ()).and_then(|()| output.end());
    }
    if traced.folder.has_lost() {
        eprintln!(
            "ironverbs: not all calls are shown: a process could make no file for them, or has more kinds of \
             devices than can be told apart"
        );
    } else if output.first.is_none() && trace.pid.is_none() {
        eprintln!("ironverbs: nothing was traced: no process has called a verb of this library");
    }
    drop(traced);
    let status = program.end();
    if let Err(why) = written
        && why.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("ironverbs: the trace cannot be written: {why}");
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::event::Event;

    /// A call without arguments that answered 0.
    pub fn event(verb: &str) -> Event {
        Event {
            pid: 1,
            tid: 1,
            begin: 0,
            nanos: 0,
            verb: verb.to_owned(),
            arguments: Vec::new(),
            answer: "0".to_owned(),
            failed: None,
            count: 1,
            is_empty_poll: false,
            bytes: 0,
            cut: false,
        }
    }
}
