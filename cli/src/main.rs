//! The command `ironverbs`: RDMA programs on a machine without RDMA hardware.
//!
//! | file | what |
//! |---|---|
//! | [`places`] | where the library lies, and what is preloaded |
//! | [`library`] | the library itself, opened by its path: what it says is what programs see |
//! | [`run`] | the environment of a program on the software device |
//! | [`trace`] | what a program calls |
//! | [`check`] | which rules it breaks |
//! | [`program`], [`folder`] | a program that is traced or checked, and where its processes write |
//! | [`json`], [`colours`] | text as JSON has it; whether text for people has colours |
//! | [`show`] | what processes have |
//! | [`view`] | the files that a kernel device of that name would have |
//! | [`way`] | whether others can exchange what a path leads by |
//! | [`devices`], [`doctor`] | the two reports |
//! | [`plugins`], [`network`] | provider plugins, and the way to other hosts, for the doctor |
//! | [`waits`] | waiting for children |

mod check;
mod colours;
mod devices;
mod doctor;
mod folder;
mod json;
mod library;
mod network;
mod places;
mod plugins;
mod program;
mod run;
mod show;
mod trace;
mod view;
mod waits;
mod way;

// Nothing calls it: it is linked.
use glibc_floor as _;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum, ValueHint, value_parser};

use ironverbs_os::environment;
use places::Places;

/// What went wrong, in words for the user.
type Result<T> = std::result::Result<T, String>;

/// Runs RDMA programs on any Linux machine, without RDMA hardware, root or a kernel module.
#[derive(Parser)]
#[command(name = "ironverbs", version, disable_help_subcommand = true, after_long_help = AFTER_HELP)]
struct Cli {
    /// Folder of libibverbs.so.1 and libironverbs-view.so [default: this program's]
    #[arg(long, global = true, value_name = "DIR")]
    libdir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a program on the software device
    ///
    /// The program gets this library in place of the system's, and a device soft0 before all others. Programs
    /// that one user starts so on one machine reach each other as over a network, with the options that they
    /// need with hardware:
    ///
    ///   ironverbs run ib_write_bw &
    ///   ironverbs run ib_write_bw localhost
    ///
    /// This command replaces itself by the program: signals, standard files and exit status are the program's.
    #[command(after_long_help = RUN_HELP, verbatim_doc_comment)]
    Run(Run),
    /// Shows every verb that a program calls, with arguments and answer, as strace shows system calls
    ///
    /// The program gets this library in front of the system's, and the devices that are there; for the software
    /// device: ironverbs trace ironverbs run PROGRAM, which shows the calls of rdma_cm, too. Calls of all its
    /// threads and children are shown. Exit status and signals are the program's.
    #[command(after_long_help = TRACE_HELP)]
    Trace(Trace),
    /// Finds rules of the specification that a program breaks and devices do not enforce at once
    ///
    /// The program gets this library in front of the system's, and the devices that are there; for the software
    /// device: ironverbs check ironverbs run PROGRAM. All its threads and children are looked at. The exit
    /// status is the program's, or 99 where an error was found.
    #[command(after_long_help = CHECK_HELP)]
    Check(Check),
    /// Shows what processes have: queue pairs, completion queues, memory, ids of rdma_cm
    ///
    /// Of the software device, in the folder of this user (or the one that IRONVERBS_SOFT_DIR or
    /// IRONVERBS_SOFT_GROUP name), and of the kernel's devices, as `rdma resource show` does. Needs no rights,
    /// and changes nothing for the processes.
    #[command(after_long_help = SHOW_HELP)]
    Show(Show),
    /// Lists all devices with their ports and GIDs
    #[command(after_long_help = DEVICES_HELP)]
    Devices,
    /// Says what works on this machine, and how to repair what does not
    ///
    /// Each line is ok, a note (it works, not as well as it could) or BAD, with what repairs it below.
    #[command(after_long_help = DOCTOR_HELP)]
    Doctor,
    /// Prints what a shell needs to complete this command's arguments
    #[command(after_long_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Writes the files that a kernel device would have, and prints their folder
    #[command(hide = true)]
    View,
}

/// The shells that completions are made for.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
}

/// The link layers that the software device can show.
#[derive(Clone, Copy, ValueEnum)]
enum LinkLayer {
    Ethernet,
    Infiniband,
}

/// How to run a program.
#[derive(clap::Args)]
struct Run {
    /// Name of the software device; repeated or with commas for several. NAME=INTERFACE+INTERFACE: with the
    /// addresses of these network interfaces alone [default: soft0]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    device: Vec<String>,
    /// What the port of the device says that it is: InfiniBand is for programs that name peers by LIDs
    /// [default: ethernet]
    #[arg(long, value_name = "LAYER")]
    link_layer: Option<LinkLayer>,
    /// Reaches other hosts, too, by RoCE v2, from the addresses of these interfaces, or from these addresses;
    /// 1: from all that the device has
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',')]
    network: Vec<String>,
    /// UDP port of the network on all hosts, where 4791 belongs to soft-RoCE or to another user
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Leaves connections of rdma_cm at the addresses of these interfaces to the kernel's devices; 1: of all
    /// that have one
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Writes what moves on the software device to this file, as packets of RoCE v2 that Wireshark opens
    /// (pcapng). Several programs may write to one file at a time
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    capture: Option<PathBuf>,
    /// Keeps so many bytes of each captured packet, with the headers of IP and UDP [default: all]
    #[arg(long, value_name = "BYTES", requires = "capture",
        value_parser = value_parser!(u32).range(48..=262_144))]
    snap: Option<u32>,
    /// Keeps so many captured files of 16 MiB: FILE is the newest, FILE-1 the one before
    #[arg(long, value_name = "FILES", requires = "capture", value_parser = value_parser!(u32).range(1..=1000))]
    capture_ring: Option<u32>,
    /// Has the software device fail as this says, for programs whose error paths are to be tried: words with
    /// commas between, as seed=1,loss=5%,fail=write:3:REM_ACCESS_ERR (docs/faults.md has all)
    #[arg(long, value_name = "SPEC", value_parser = faults)]
    faults: Option<String>,
    /// Preload libibumad.so.3 too, for programs that search for it by a path of their own (RPATH)
    #[arg(long)]
    preload: bool,
    /// Do not preload libibverbs.so.1: what brings a libibverbs of its own keeps it
    #[arg(long, conflicts_with = "preload")]
    no_preload: bool,
    /// Only print what would be set, one NAME=VALUE in a line
    #[arg(long)]
    print: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

/// How to trace a program.
#[derive(clap::Args)]
struct Trace {
    /// Writes to this file [default: standard error]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Which calls: names and classes with commas between; ! before them for all others
    #[arg(short = 'e', long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Vec<String>,
    /// Only counts calls, errors and times, and prints a table at the end
    #[arg(short = 'c', long)]
    summary: bool,
    /// Prints each call as a line of JSON
    #[arg(short, long, conflicts_with = "summary")]
    json: bool,
    /// Follows children, which is always so
    #[arg(short, hide = true)]
    follow: bool,
    /// A process that was started with IRONVERBS_TRACE=on-demand
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", conflicts_with = "pid", trailing_var_arg = true,
        value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

/// How to check a program.
#[derive(clap::Args)]
struct Check {
    /// Writes what was found to this file [default: standard error]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Shows notes, too: what the program may have a reason for
    #[arg(short, long)]
    notes: bool,
    /// Prints what was found as lines of JSON
    #[arg(short, long)]
    json: bool,
    /// Lists all rules
    #[arg(short, long, conflicts_with = "program")]
    list: bool,
    /// Says all of a rule: how it is found, and what to do
    #[arg(short, long, value_name = "RULE", conflicts_with_all = ["program", "list"])]
    explain: Option<String>,
    /// The program and its arguments
    #[arg(required_unless_present_any = ["list", "explain"], trailing_var_arg = true,
        value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

const CHECK_HELP: &str = "\
Exit status:
  99        an error was found, in any of the program's processes
  else      the program's own, also where there are notes
  126, 127  the program cannot be run, or is not there
  1         nothing can be checked: no library, no such rule, no file to write to
  2         an option is wrong

Examples:
  ironverbs check ./program
  ironverbs check --notes -o found.txt ironverbs run ./program
  ironverbs check --explain buffer-changed";
/// What is shown.
#[derive(clap::Args)]
struct Show {
    /// Prints JSON: one object, with --watch one in a line each time
    #[arg(short, long)]
    json: bool,
    /// Shows it again every so many seconds, with how much counters moved in a second, until a signal ends it
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_parser = seconds)]
    watch: Option<f64>,
    /// Shows what belongs to this process alone
    #[arg(short, long, value_name = "PID", value_parser = value_parser!(u32).range(1..))]
    pid: Option<u32>,
}

/// A specification of faults that can be read.
fn faults(text: &str) -> std::result::Result<String, String> {
    softrdma::faults::Spec::parse(text).map(|_| text.to_owned())
}

/// A length of time that one can wait for.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let meant = "a number of seconds from 0.1 to 86400 is meant";
    let number = text.parse::<f64>().map_err(|_| meant.to_owned())?;
    if (0.1..=86_400.0).contains(&number) { Ok(number) } else { Err(meant.to_owned()) }
}

const SHOW_HELP: &str = "\
Exit status:
  0  it was shown
  1  the folder cannot be used, or the process of --pid has nothing that can be seen
  2  an option is wrong

Examples:
  ironverbs show
  ironverbs show --watch=0.5
  ironverbs show -j | jq '.processes[].queue_pairs[] | select(.state == \"ERR\")'";

const TRACE_HELP: &str = "\
Classes of a filter:
  create destroy modify query event post poll  by what a verb does
  data      posting, polling, asking for events
  control   all others
  cm        the calls of rdma_cm, which are seen under ironverbs run
  failed    what failed

Exit status:
  the program's own, and its signal where one ended it; 0 with --pid
  126, 127  the program cannot be run, or is not there
  1         nothing can be traced: no library, no such process, no file to write to
  2         an option is wrong

Examples:
  ironverbs trace ibv_devinfo
  ironverbs trace -e '!poll' -o trace.txt ironverbs run ibv_rc_pingpong
  ironverbs trace -e cm ironverbs run rping -c -a localhost
  ironverbs trace -c mpirun -n 2 ./program";

const RUN_HELP: &str = "\
What is set for the program:
  IRONVERBS_SOFT   the devices' names, unless it is set already
  LD_LIBRARY_PATH  the folder of the library, before what is there
  LD_PRELOAD       libironverbs-view.so, before what is there: shows the device to programs that look into
                   /sys/class/infiniband and /dev/infiniband by themselves; and behind it the library, which
                   then comes before any libibverbs that a program or a wheel brings along
  IRONVERBS_VIEW   what it shows
  IRONVERBS_CM_KERNEL  with --kernel: what that says
  IRONVERBS_SOFT_LINK_LAYER  with --link-layer: what that says
  IRONVERBS_SOFT_NETWORK  with --network: what that says
  IRONVERBS_SOFT_PORT  with --port: what that says
  IRONVERBS_SOFT_CAPTURE, IRONVERBS_SOFT_CAPTURE_SNAP, IRONVERBS_SOFT_CAPTURE_RING  with --capture, --snap,
                   --capture-ring: the file by its full path, and what those say
  IRONVERBS_SOFT_FAULTS  with --faults: what that says

Without this command: IRONVERBS_SOFT=1 LD_LIBRARY_PATH=… PROGRAM is enough for most programs; perftest is one
of them, UCX is not, nor is a program of librdmacm.

Programs that have more rights than their caller (set-user-id, set-group-id, file capabilities) ignore
all of these.

Exit status:
  the program's own
  126, 127  the program cannot be run, or is not there
  1         the software device cannot work here
  2         an option is wrong

Examples:
  ironverbs run ib_write_bw & ironverbs run ib_write_bw localhost
  ironverbs run --network eth0 ib_write_bw 10.0.0.1
  ironverbs run --device rail0=eth0,rail1=eth1 mpirun -n 2 ./program
  ironverbs run --capture packets.pcapng --faults seed=1,loss=5% ./program";

const DEVICES_HELP: &str = "\
Exit status:
  0  they are listed
  1  the library or a device of it cannot be used
  2  an option is wrong

Examples:
  ironverbs devices
  ironverbs run --device rail0=eth0 ironverbs devices";

const DOCTOR_HELP: &str = "\
Exit status:
  0  the software device works here
  1  it does not
  2  an option is wrong

Examples:
  ironverbs doctor
  ironverbs run --network eth0 ironverbs doctor";

const COMPLETIONS_HELP: &str = "\
Exit status:
  0  they are printed
  1  they cannot be written
  2  there are none for this shell

Examples:
  source <(ironverbs completions bash)
  ironverbs completions zsh > ~/.zfunc/_ironverbs";

const AFTER_HELP: &str = "\
Environment:
  IRONVERBS_SOFT          the software devices: 0 none, 1 soft0, a number that many, or names with commas
  IRONVERBS_SOFT_CAPTURE  full path of a file to which packets are written; ironverbs run --capture
  IRONVERBS_SOFT_COPY     bounce: payload through shared memory, also where the kernel would copy it straight
  IRONVERBS_SOFT_DIR      full path of the folder in which processes meet, in place of /dev/shm/ironverbs-UID
  IRONVERBS_SOFT_FAULTS   faults that the software device makes; ironverbs run --faults
  IRONVERBS_SOFT_GROUP    number of a group whose members may reach each other: /dev/shm/ironverbs-group-GID
  IRONVERBS_SOFT_LINK_LAYER  infiniband: the port has a LID, and peers may be named by it; else ethernet
  IRONVERBS_SOFT_NETWORK  interfaces or addresses from which other hosts are reached by RoCE v2; 1: all
  IRONVERBS_SOFT_PORT     UDP port by which they are reached, on all of them alike [default: 4791]
  IRONVERBS_SOFT_CONSENT  0: do not let the user's other processes copy from this one where Yama asks for it
  NO_COLOR, CLICOLOR, CLICOLOR_FORCE  whether text has colours, as no-color.org and bixense.com/clicolors say
                          [default: where it goes to a terminal]

Processes reach each other that use the same folder, also from network namespaces of their own.

Exit status:
  what the subcommand says; 1 where it fails, 2 where an option is wrong; run, trace and check end as their
  program does

Examples:
  ironverbs run ib_write_bw & ironverbs run ib_write_bw localhost
  ironverbs doctor";

fn main() -> ExitCode {
    // Before anything is read: it would start programs and load the library beside it with those rights, and
    // the caller chooses the folder of a hard link.
    if !environment::callers_rights() {
        eprintln!(
            "ironverbs: refuses to run with more rights than its caller has \
             (set-user-id, set-group-id, file capabilities)"
        );
        return ExitCode::FAILURE;
    }
    let cli = Cli::parse();
    if matches!(cli.command, Command::Show(_) | Command::Devices | Command::Doctor) {
        end_with_the_reader();
    }
    let places = Places::find(cli.libdir);
    let done = match cli.command {
        Command::Run(run) => places.and_then(|places| run::run(&places, run)),
        Command::Trace(trace) => places.and_then(|places| trace::run(&places, trace)),
        Command::Check(check) => check::run(places, &check),
        Command::Show(show) => show::run(&show),
        Command::Devices => places.and_then(|places| devices::report(&places)),
        Command::View => places.and_then(|places| view::write(&places)).and_then(|folder| {
            let mut line = folder.into_os_string().into_encoded_bytes();
            line.push(b'\n');
            std::io::stdout().write_all(&line).map_err(|why| format!("the folder cannot be said: {why}"))?;
            Ok(ExitCode::SUCCESS)
        }),
        Command::Doctor => Ok(doctor::report(places)),
        Command::Completions { shell } => completions(shell),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("ironverbs: {}", plain(&problem));
        ExitCode::FAILURE
    })
}

/// Has the process end, silently, once nobody reads what it says any more (`ironverbs devices | head`).
fn end_with_the_reader() {
    // SAFETY: the default action of a signal, for which nobody has another.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Writes to standard output what `shell` reads.
fn completions(shell: Shell) -> Result<ExitCode> {
    let made_for = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(made_for, &mut shown(&Cli::command()), "ironverbs", &mut script);
    std::io::stdout()
        .write_all(&script)
        .map_err(|why| format!("the completions cannot be written: {why}"))?;
    Ok(ExitCode::SUCCESS)
}

/// A command without what it hides, which would be completed all the same.
fn shown(command: &clap::Command) -> clap::Command {
    // A few names, of a process that ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut without = clap::Command::new(name)
        .disable_help_subcommand(true)
        .args(command.get_arguments().filter(|one| !one.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|one| !one.is_hide_set()).map(shown));
    if command.get_version().is_some() {
        without = without.version(env!("CARGO_PKG_VERSION"));
    }
    match command.get_about() {
        Some(about) => without.about(about.clone()),
        None => without,
    }
}

/// A message without the error numbers that Rust adds to the system's words.
fn plain(message: &str) -> String {
    const NUMBER: &str = " (os error ";
    let mut parts = message.split(NUMBER);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = std::io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(
            super::plain(&format!("a: {error}; b: {error}.")),
            "a: No such file or directory; b: No such file or directory."
        );
        assert_eq!(super::plain("none (here)"), "none (here)");
    }
}
