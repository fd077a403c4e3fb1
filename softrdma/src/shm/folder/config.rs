//! Where the folder is and who may use it, as the environment says.
//!
//! | variable | effect |
//! |---|---|
//! | none | `/dev/shm/ironverbs-UID`, mode 0700, files 0600: the processes of one user |
//! | `IRONVERBS_SOFT_GROUP=GID` | `/dev/shm/ironverbs-group-GID`, mode 0770, files 0660: the group's members |
//! | `IRONVERBS_SOFT_DIR=PATH` | this folder instead, by its full path, with the same owner and mode |

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::shm::error::{Error, Result};

/// Where the folder is and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The folder. Its parent must exist.
    pub path: PathBuf,
    /// Share with the members of this group instead of keeping it to the user.
    pub group: Option<u32>,
}

impl Config {
    /// What the environment asks for; the defaults are in the module's documentation, and hold too for a
    /// program that has more rights than its caller ([`ironverbs_os::environment`]).
    ///
    /// A group that is not a number is refused, so that a typing mistake does not end in another folder, and so
    /// is a relative path, which processes with other working directories would take for another folder.
    pub fn from_env() -> Result<Self> {
        let trusted = ironverbs_os::environment::trusted;
        Self::from_values(trusted("IRONVERBS_SOFT_DIR"), trusted("IRONVERBS_SOFT_GROUP"))
    }

    /// As [`Config::from_env`], with the values of both variables from somewhere else.
    pub fn from_values(dir: Option<OsString>, group: Option<OsString>) -> Result<Self> {
        let dir = dir.filter(|d| !d.is_empty());
        let group = group.filter(|g| !g.is_empty());
        let group = match group {
            Some(g) => Some(
                g.to_str()
                    .and_then(|g| g.parse::<u32>().ok())
                    .filter(|g| *g != u32::MAX)
                    .ok_or(Error::Folder("IRONVERBS_SOFT_GROUP is not a numeric group id"))?,
            ),
            None => None,
        };
        let path = match (dir, group) {
            (Some(dir), _) if Path::new(&dir).is_relative() => {
                return Err(Error::Folder("IRONVERBS_SOFT_DIR is not a full path"));
            }
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(gid)) => PathBuf::from(format!("/dev/shm/ironverbs-group-{gid}")),
            (None, None) => PathBuf::from(format!("/dev/shm/ironverbs-{}", geteuid())),
        };
        Ok(Config { path, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment() {
        let values =
            |d: Option<&str>, g: Option<&str>| Config::from_values(d.map(Into::into), g.map(Into::into));
        // SAFETY: reads a number of the process.
        let uid = unsafe { libc::geteuid() };
        assert_eq!(values(None, None).unwrap().path, PathBuf::from(format!("/dev/shm/ironverbs-{uid}")));
        assert_eq!(values(Some(""), Some("")).unwrap().group, None);
        let c = values(None, Some("100")).unwrap();
        assert_eq!((c.path.to_str().unwrap(), c.group), ("/dev/shm/ironverbs-group-100", Some(100)));
        let c = values(Some("/x"), Some("7")).unwrap();
        assert_eq!((c.path.to_str().unwrap(), c.group), ("/x", Some(7)));
        for bad in ["users", "-1", "4294967295", "1 "] {
            assert!(matches!(values(None, Some(bad)), Err(Error::Folder(_))), "{bad}");
        }
        assert!(matches!(values(Some("shm/x"), None), Err(Error::Folder(_))));
    }
}
