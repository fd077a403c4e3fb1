//! The program that is traced or checked: its start, signals meant for it, and its end.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::Result;
use crate::places::Places;
use crate::run::{in_front, not_started};
use crate::waits::Waits;

/// The program, for the handler of signals.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// Whether somebody wants the trace of another's process to end.
static ENOUGH: AtomicBool = AtomicBool::new(false);

/// What is traced or checked.
pub struct Program {
    kind: Kind,
    status: Option<ExitStatus>,
    _waits: Waits,
}

enum Kind {
    Started(Child),
    Attached(u32),
}

/// Signals that are meant for the program: those that a terminal sends reach it anyhow.
extern "C" fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program <= 0 {
        ENOUGH.store(true, Ordering::Relaxed);
        return;
    }
    // SAFETY: the kernel passes what it knows of the signal; kill may be called in a handler.
    unsafe {
        if !info.is_null() && (*info).si_code <= 0 {
            libc::kill(program, signal);
        }
    }
}

fn handle_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: a sigaction of zeros is valid; the handler calls what may be called in one. A program that is
        // started gets the default action, but for signals that were ignored.
        unsafe {
            let mut before: libc::sigaction = core::mem::zeroed();
            libc::sigaction(signal, core::ptr::null(), &raw mut before);
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
}

impl Program {
    /// Starts a program, with the library in front of it, and a folder in the variable that asks for it; or
    /// what this command ends with where it does not start.
    pub fn start(
        places: &Places,
        variable: &str,
        folder: &Path,
        program: &[OsString],
    ) -> Result<std::result::Result<Self, ExitCode>> {
        let (name, arguments) = program.split_first().ok_or("no program")?;
        handle_signals();
        let waits = Waits::begin();
        let child = Command::new(name).args(arguments).envs(in_front(places)).env(variable, folder).spawn();
        let child = match child {
            Ok(child) => child,
            Err(why) => return Ok(Err(not_started(name, &why))),
        };
        PROGRAM.store(i32::try_from(child.id()).unwrap_or(0), Ordering::Relaxed);
        Ok(Ok(Self { kind: Kind::Started(child), status: None, _waits: waits }))
    }

    /// A process that is there already. What ends the command ends the trace alone.
    pub fn attached(pid: u32, begin: impl FnOnce() -> Result<()>) -> Result<Self> {
        handle_signals();
        begin()?;
        Ok(Self { kind: Kind::Attached(pid), status: None, _waits: Waits::begin() })
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.kind {
            Kind::Started(child) => {
                if self.status.is_none() {
                    self.status = child.try_wait().ok().flatten();
                }
                self.status.is_some()
            }
            Kind::Attached(pid) => !fs::exists(format!("/proc/{pid}")).unwrap_or(false),
        }
    }

    /// Whether the trace is to end although the process goes on.
    pub fn is_enough(&self) -> bool {
        ENOUGH.load(Ordering::Relaxed)
    }

    /// Waits for the program, and gives what this command ends with: its status, or its signal.
    pub fn end(mut self) -> ExitCode {
        let Kind::Started(child) = &mut self.kind else { return ExitCode::SUCCESS };
        let status = match self.status {
            Some(status) => status,
            None => match child.wait() {
                Ok(status) => status,
                Err(_) => return ExitCode::FAILURE,
            },
        };
        if let Some(signal) = status.signal() {
            end_by(signal);
        }
        ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}

/// Ends this process by a signal, without a core of its own.
fn end_by(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit, the default action and an empty set, each a value of its kind.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Whether a process has ended and only waits to be waited for.
pub fn is_zombie(pid: u32) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return false };
    // The name in parentheses may have any letters.
    let behind = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 1);
    stat[behind..].iter().find(|byte| **byte != b' ') == Some(&b'Z')
}
