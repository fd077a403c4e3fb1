//! A process that was started with `IRONVERBS_TRACE=on-demand`: the page by which it is told to begin.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ironverbs_trace::demand::{FILE, PATH, SIZE};

use crate::Result;

/// The pages of a process, among its descriptors: one, unless two libraries began at once.
fn pages(pid: u32) -> Result<Vec<File>> {
    let folder = format!("/proc/{pid}/fd");
    let entries = fs::read_dir(&folder).map_err(|why| format!("process {pid}: {why}"))?;
    let wanted = format!("/memfd:{FILE} (deleted)");
    let is_page = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| target.as_os_str().as_bytes() == wanted.as_bytes())
    };
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| is_page(path));
    let open = |path| OpenOptions::new().read(true).write(true).open(path);
    let pages: std::io::Result<Vec<_>> = paths.map(open).collect();
    let pages = pages.map_err(|why| format!("process {pid}: {why}"))?;
    if pages.is_empty() {
        return Err(format!(
            "process {pid} does not wait to be traced: start it with IRONVERBS_TRACE=on-demand, and wait for \
             its first verb"
        ));
    }
    Ok(pages)
}

/// Tells a process where to write its trace.
pub fn begin(pid: u32, folder: &Path) -> Result<()> {
    let path = folder.as_os_str().as_bytes();
    let length = u32::try_from(path.len()).ok().filter(|_| path.len() <= SIZE - PATH);
    let length = length.ok_or_else(|| format!("process {pid}: the folder's path is too long"))?;
    let failed = |why| format!("process {pid}: {why}");
    for page in pages(pid)? {
        let mut word = [0; 4];
        page.read_exact_at(&mut word, 0).map_err(failed)?;
        if word != [0; 4] {
            return Err(format!("process {pid} is, or was, traced already"));
        }
        page.write_all_at(path, PATH as u64)
            .and_then(|()| page.write_all_at(&length.to_ne_bytes(), 0))
            .map_err(failed)?;
    }
    Ok(())
}
