//! `ironverbs show`: what processes have of RDMA. Of the software device from its folder, of the kernel's
//! devices by RDMA netlink.
//!
//! | file | what |
//! |---|---|
//! | [`software`], [`ports`] | processes of the folder; ids of rdma_cm with a port |
//! | [`kernel`] | devices of the kernel |
//! | [`item`] | both forms of what is shown; counters and rates |

mod item;
mod kernel;
mod ports;
mod software;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use softrdma::shm::folder::{Config, Folder};

use crate::json::quoted;
use crate::{Result, Show};
use item::{Counters, Item, Kind, Rates};

const QUEUE_PAIRS: Kind = Kind { word: "qp", list: "queue_pairs" };
const COMPLETION_QUEUES: Kind = Kind { word: "cq", list: "completion_queues" };
const SHARED_RECEIVE_QUEUES: Kind = Kind { word: "srq", list: "shared_receive_queues" };
const MEMORY: Kind = Kind { word: "mr", list: "memory" };
const CONNECTION_IDS: Kind = Kind { word: "cm-id", list: "connection_ids" };

/// Goes up where what stands in JSON changes its meaning or goes; what is added leaves it.
const VERSION: u32 = 1;

/// All that there is at a moment.
struct Report {
    folder: String,
    processes: Vec<Item>,
    /// The kernel's devices, or why there are none to be seen.
    devices: std::result::Result<Vec<Item>, String>,
    at: Instant,
}

/// Shows it once, or again and again.
///
/// # Errors
/// A folder that cannot be used, and a process that is asked for and not there, in words.
pub fn run(show: &Show) -> Result<ExitCode> {
    let Some(every) = show.watch.map(Duration::from_secs_f64) else {
        let report = Report::now(show.pid)?;
        if report.is_empty() && show.pid.is_some() {
            return Err(format!("process {} has nothing of RDMA that can be seen", show.pid.unwrap_or(0)));
        }
        print(&report.say(show.json, None))?;
        return Ok(ExitCode::SUCCESS);
    };
    let clears = std::io::stdout().is_terminal() && !show.json;
    let (mut before, mut last): (Counters, Option<Instant>) = (Counters::new(), None);
    loop {
        let report = Report::now(show.pid)?;
        let rates = last.map(|last| Rates { before: &before, seconds: (report.at - last).as_secs_f64() });
        let none = Counters::new();
        let rates = rates.or(show.json.then_some(Rates { before: &none, seconds: 1.0 }));
        let said = report.say(show.json, rates);
        // Back to the first place of the screen, and what stood there goes line by line: nothing flickers.
        let said = if clears { format!("\x1b[H{}\x1b[J", said.replace('\n', "\x1b[K\n")) } else { said };
        if print(&said).is_err() {
            // Whoever reads has enough.
            return Ok(ExitCode::SUCCESS);
        }
        before.clear();
        item::counters("", software::PROCESSES, &report.processes, &mut before);
        last = Some(report.at);
        std::thread::sleep(every);
    }
}

fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|why| format!("nothing can be said: {why}"))
}

impl Report {
    fn now(only: Option<u32>) -> Result<Self> {
        let config = Config::from_env().map_err(|why| why.to_string())?;
        let path = config.path.display().to_string();
        let folder = Folder::find(&config).map_err(|why| format!("{path}: {why}"))?;
        let at = Instant::now();
        let processes = folder.map_or(Ok(Vec::new()), |folder| software::processes(&folder, only))?;
        let devices = kernel::devices(only).map_err(|why| match why.0 {
            libc::EPROTONOSUPPORT => "the kernel has no RDMA netlink (module ib_core)".to_owned(),
            errno => std::io::Error::from_raw_os_error(errno).to_string(),
        });
        Ok(Report { folder: path, processes, devices, at })
    }

    /// Whether there is no object of anybody.
    fn is_empty(&self) -> bool {
        let has_none = |item: &Item| item.lists.iter().all(|(_, items)| items.is_empty());
        self.processes.is_empty() && self.devices.iter().flatten().all(has_none)
    }

    fn say(&self, as_json: bool, rates: Option<Rates<'_>>) -> String {
        if as_json { self.json(rates) } else { self.text(rates) }
    }

    fn text(&self, rates: Option<Rates<'_>>) -> String {
        let mut text = String::new();
        if self.processes.is_empty() {
            let _ = writeln!(text, "software device: no process in {}", self.folder);
        }
        item::text("", 0, software::PROCESSES, &self.processes, rates, &mut text);
        match &self.devices {
            Ok(devices) if devices.is_empty() => text.push_str("kernel devices: none\n"),
            Ok(devices) => item::text("", 0, kernel::DEVICES, devices, None, &mut text),
            Err(why) => {
                let _ = writeln!(text, "kernel devices: {why}");
            }
        }
        text
    }

    fn json(&self, rates: Option<Rates<'_>>) -> String {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut text = String::new();
        let _ = write!(text, "{{\"version\":{VERSION},\"time\":{:.3},\"folder\":", time.as_secs_f64());
        quoted(&mut text, &self.folder);
        let _ = write!(text, ",\"{}\":", software::PROCESSES.list);
        item::json("", software::PROCESSES, &self.processes, rates, &mut text);
        text.push_str(",\"kernel\":{\"problem\":");
        match &self.devices {
            Ok(_) => text.push_str("null"),
            Err(why) => quoted(&mut text, why),
        }
        let _ = write!(text, ",\"{}\":", kernel::DEVICES.list);
        let devices = self.devices.as_deref().unwrap_or_default();
        item::json("", kernel::DEVICES, devices, None, &mut text);
        text.push_str("}}\n");
        text
    }
}
