//! A process that was started with `IRONVERBS_TRACE=on-demand`: the page by which it is told to begin.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ironverbs::observe::demand::{FILE, PATH, SIZE};

use crate::Result;

/// The page of a process, among its descriptors.
fn page(pid: u32) -> Result<File> {
    let folder = format!("/proc/{pid}/fd");
    let entries = fs::read_dir(&folder).map_err(|why| format!("process {pid}: {why}"))?;
    let wanted = format!("/memfd:{FILE} (deleted)");
    let found = entries.flatten().find(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str().as_bytes() == wanted.as_bytes())
    });
    let path = found.map(|entry| entry.path()).ok_or_else(|| {
        format!(
            "process {pid} does not wait to be traced: start it with IRONVERBS_TRACE=on-demand, and wait for \
             its first verb"
        )
    })?;
    OpenOptions::new().read(true).write(true).open(&path).map_err(|why| format!("process {pid}: {why}"))
}

/// Tells a process where to write its trace.
pub fn begin(pid: u32, folder: &Path) -> Result<()> {
    let page = page(pid)?;
    let path = folder.as_os_str().as_bytes();
    let length = u32::try_from(path.len()).ok().filter(|_| path.len() <= SIZE - PATH);
    let length = length.ok_or_else(|| format!("process {pid}: the folder's path is too long"))?;
    let mut word = [0; 4];
    let failed = |why| format!("process {pid}: {why}");
    page.read_exact_at(&mut word, 0).map_err(failed)?;
    if word != [0; 4] {
        return Err(format!("process {pid} is, or was, traced already"));
    }
    page.write_all_at(path, PATH as u64)
        .and_then(|()| page.write_all_at(&length.to_ne_bytes(), 0))
        .map_err(failed)
}
