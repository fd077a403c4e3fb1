//! `ironverbs run`: the environment of a program on the software device.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::ValueEnum;
use ironverbs_os::environment::trusted;
use softrdma::capture::file::File;

use crate::places::Places;
use crate::waits::Waits;
use crate::{Result, Run, plain};

const LINK_LAYER: &str = "IRONVERBS_SOFT_LINK_LAYER";

/// Replaces this process by the program.
pub fn run(places: &Places, run: Run) -> Result<ExitCode> {
    let devices = devices(&run.device, trusted("IRONVERBS_SOFT"));
    let link_layer: Option<OsString> =
        run.link_layer.and_then(|layer| Some(layer.to_possible_value()?.get_name().into()));
    let view = view(places, &devices, link_layer.as_deref())?;
    let mut preloaded = vec![places.shim()];
    if run.preload {
        preloaded.extend(places.libraries());
    }
    let preloaded: Vec<_> = preloaded.into_iter().map(PathBuf::into_os_string).collect();
    let mut preloaded = before(&preloaded, trusted("LD_PRELOAD"));
    if !run.no_preload {
        preloaded = with_library(preloaded, &places.library());
    }
    let mut settings = vec![
        ("IRONVERBS_SOFT", devices),
        ("IRONVERBS_VIEW", view.into_os_string()),
        ("LD_LIBRARY_PATH", before(&[places.folder().as_os_str().to_owned()], trusted("LD_LIBRARY_PATH"))),
        ("LD_PRELOAD", preloaded),
    ];
    settings.extend(link_layer.map(|layer| (LINK_LAYER, layer)));
    if !run.network.is_empty() {
        settings.push(("IRONVERBS_SOFT_NETWORK", run.network.join(",").into()));
    }
    settings.extend(run.port.map(|port| ("IRONVERBS_SOFT_PORT", port.to_string().into())));
    if !run.kernel.is_empty() {
        settings.push(("IRONVERBS_CM_KERNEL", run.kernel.join(",").into()));
    }
    if let Some(file) = &run.capture {
        let file = std::path::absolute(file).map_err(|why| format!("{}: {why}", file.display()))?;
        if !run.print {
            File::begin(&file, run.snap, run.capture_ring)
                .map_err(|why| format!("no capture in {}: {why}", file.display()))?;
        }
        settings.push(("IRONVERBS_SOFT_CAPTURE", file.into_os_string()));
        let number = |number: u32| OsString::from(number.to_string());
        settings.extend(run.snap.map(|snap| ("IRONVERBS_SOFT_CAPTURE_SNAP", number(snap))));
        settings.extend(run.capture_ring.map(|ring| ("IRONVERBS_SOFT_CAPTURE_RING", number(ring))));
    }
    settings.extend(run.faults.map(|spec| ("IRONVERBS_SOFT_FAULTS", spec.into())));
    if run.print {
        for (name, value) in settings {
            println!("{name}={}", value.to_string_lossy());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let program = &run.program[0];
    let why = Command::new(program).args(&run.program[1..]).envs(settings).exec();
    Ok(not_started(program, &why))
}

/// Says why a program does not start, and gives the status by which a shell says it.
pub fn not_started(program: &OsStr, why: &std::io::Error) -> ExitCode {
    eprintln!("ironverbs: {}: {}", program.to_string_lossy(), plain(&why.to_string()));
    ExitCode::from(if why.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// What puts the library in front of a program, and nothing else.
pub fn in_front(places: &Places) -> [(&'static str, OsString); 2] {
    let folder = [places.folder().as_os_str().to_owned()];
    [
        ("LD_LIBRARY_PATH", before(&folder, trusted("LD_LIBRARY_PATH"))),
        ("LD_PRELOAD", with_library(before(&[], trusted("LD_PRELOAD")), &places.library())),
    ]
}

/// The value of IRONVERBS_SOFT: what the command asks for, else what is set, else the usual device.
fn devices(asked: &[String], set: Option<OsString>) -> OsString {
    if !asked.is_empty() {
        return asked.join(",").into();
    }
    set.filter(|value| !value.is_empty() && value != "0").unwrap_or_else(|| "1".into())
}

/// `first`, and behind them what stands in the list already and is not one of them.
fn before(first: &[OsString], list: Option<OsString>) -> OsString {
    let list = list.unwrap_or_default();
    let old = list.as_encoded_bytes().split(|byte| *byte == b':');
    let mut all: Vec<&[u8]> = first.iter().map(|path| path.as_encoded_bytes()).collect();
    all.extend(
        old.filter(|path| !path.is_empty() && first.iter().all(|known| known.as_encoded_bytes() != *path)),
    );
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(all.join(&b':'))
}

/// The list of what is preloaded with the library at its end, behind what the user preloads; as it is
/// where there is a libibverbs in it.
///
/// The functions of a preloaded library come first for everything in the process, also for what brings a
/// libibverbs of its own: by a path of its own (RPATH), or under a name of its own, as wheels do.
fn with_library(mut list: OsString, library: &Path) -> OsString {
    // What is named after it, as libibverbs-trace.so, stands before it and needs it.
    let is_one = |path: &[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let rest = name.strip_prefix(b"libibverbs").unwrap_or_default();
        let hash = rest.strip_prefix(b"-").unwrap_or_default();
        let end = hash.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(hash.len());
        let suffix = if end > 0 { &hash[end..] } else { rest };
        suffix == b".so" || suffix.starts_with(b".so.")
    };
    if !list.as_encoded_bytes().split(|byte| b": ".contains(byte)).any(is_one) {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(library);
    }
    list
}

/// Has the view written by a child: this process is going to be another program, and should not have had the
/// device open.
fn view(places: &Places, devices: &OsStr, link_layer: Option<&OsStr>) -> Result<PathBuf> {
    let itself = env::current_exe().map_err(|why| format!("this program cannot be started again: {why}"))?;
    let _waits = Waits::begin();
    let output = Command::new(itself)
        .arg("--libdir")
        .arg(places.folder())
        .arg("view")
        .env("IRONVERBS_SOFT", devices)
        .envs(link_layer.map(|layer| (LINK_LAYER, layer)))
        .env_remove("LD_PRELOAD")
        .env_remove("IRONVERBS_TRACE")
        .env_remove("IRONVERBS_CHECK")
        .env_remove("IRONVERBS_SOFT_CAPTURE")
        .env_remove("IRONVERBS_SOFT_FAULTS")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|why| format!("this program cannot be started again: {why}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().strip_prefix("ironverbs: ").unwrap_or(said.trim()).to_owned();
        return Err(if said.is_empty() {
            format!("the software device did not open: {}", output.status)
        } else {
            said
        });
    }
    use std::os::unix::ffi::OsStringExt;
    let mut path = output.stdout;
    path.pop_if(|byte| *byte == b'\n');
    Ok(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_goes_before_the_environment() {
        assert_eq!(devices(&[], None), "1");
        assert_eq!(devices(&[], Some("0".into())), "1");
        assert_eq!(devices(&[], Some("2".into())), "2");
        assert_eq!(devices(&["a".into(), "b".into()], Some("2".into())), "a,b");
    }

    #[test]
    fn lists_keep_what_stands_in_them() {
        let first = ["/lib".into()];
        assert_eq!(before(&first, None), "/lib");
        assert_eq!(before(&first, Some("/a:/b".into())), "/lib:/a:/b");
        // Run inside of run.
        assert_eq!(before(&first, Some("/lib:/a".into())), "/lib:/a");
    }

    #[test]
    fn the_library_is_preloaded_last_and_once() {
        let with = |list: &str| with_library(list.into(), Path::new("/l/libibverbs.so.1"));
        assert_eq!(with("/shim"), "/shim:/l/libibverbs.so.1");
        assert_eq!(with("/shim:/libfirst.so"), "/shim:/libfirst.so:/l/libibverbs.so.1");
        for list in [
            "/shim:/l/libibverbs.so.1:/a",
            "/shim:/other/libibverbs.so",
            "/shim:/a /libibverbs-1de1263b.so.1.14.48.0",
        ] {
            assert_eq!(with(list), list);
        }
        for name in
            ["libibverbs-trace.so", "libibverbs_count.so.1", "libibverbs-deadbeef-log.so", "libibverbs.so1"]
        {
            assert_eq!(with(name), *format!("{name}:/l/libibverbs.so.1"));
        }
    }
}
