//! What the transport's own tests share.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ironverbs_os::sys;
use nix::sys::memfd::{MFdFlags, memfd_create};

pub(crate) use ironverbs_os_testing::in_child;

use super::folder::{Config, Folder};
use super::memory::Memory;

/// A folder of its own for one test, removed at the end.
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/ironverbs-test-{name}-{:016x}", sys::random().unwrap()));
        std::fs::create_dir(&path).unwrap();
        TestDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn folder(&self) -> Arc<Folder> {
        Arc::new(Folder::open(&Config { path: self.0.join("f"), group: None }).unwrap())
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A mapping of an anonymous file with this content.
pub(crate) fn memory_of(content: &[u8]) -> (Memory, OwnedFd) {
    let fd = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
    assert_eq!(nix::sys::uio::pwrite(&fd, content, 0), Ok(content.len()));
    (Memory::map(fd.as_raw_fd()).unwrap(), fd)
}
