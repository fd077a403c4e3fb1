//! Which CAs there are.

use core::ffi::CStr;

use ironverbs_os::errno::{Errno, Result};
use ironverbs_os::file::{Leftovers, Names};

use super::CLASS;
use super::folder::{Folder, For};
use super::path::Path;
use crate::abi::umad::UMAD_CA_NAME_LEN;
use crate::debug::trace;

/// Whether an entry of the folder is a channel adapter, a switch or a router of InfiniBand's kinds, which RoCE
/// and OPA devices are too.
fn is_ib_type(class: &Folder<'_>, name: &CStr) -> bool {
    let path = Path::of(&[name.to_bytes(), b"node_type"]);
    class.number(path.as_c_str()).is_ok_and(|kind| (1..=3).contains(&kind))
}

/// The names, in the folder's order. `errno` is 0 afterwards, also where the folder is missing, unless
/// something else failed.
pub fn in_folders_order() -> Result<Names> {
    let leftovers = Leftovers::default();
    let listed = Folder::open(CLASS, For::Listing, &leftovers)
        .and_then(|class| class.names(|name| is_ib_type(&class, name)));
    match &listed {
        Ok(names) => {
            trace!("umad_get_ca_device_list", "return %zu cas", names.len());
            Errno(0).set();
        }
        Err(Errno::ENOENT) => Errno(0).set(),
        Err(errno) => errno.set(),
    }
    listed
}

/// Up to `max` names that fit into the public structs, sorted; None where the folder cannot be listed.
pub fn sorted(max: usize, mut each: impl FnMut(&CStr)) -> Option<usize> {
    let leftovers = Leftovers::default();
    let class = Folder::open(CLASS, For::Listing, &leftovers).ok()?;
    let mut names = class.names(|name| name.to_bytes().len() < UMAD_CA_NAME_LEN).ok()?;
    names.sort();
    let mut count = 0;
    for name in names.iter() {
        if count < max && is_ib_type(&class, name) {
            each(name);
            count += 1;
        }
    }
    Some(count)
}
