//! XRC domains: what the contexts of a process receive by, through one file. Unlike those of the kernel's
//! devices they are not shared between processes.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::sync::Arc;

use ironverbs_os::growth::small_box;
use softrdma::device::{Error, XrcDomain};

use super::SoftContext;
use super::convert::refused;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Xrcds;

/// An XRC domain.
#[repr(C)]
pub struct Xrcd {
    public: UnsafeCell<ibv_xrcd>,
    /// The engine's.
    pub domain: Arc<XrcDomain>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Xrcd {
    type Public = ibv_xrcd;
}

impl Xrcds for SoftContext {
    /// Opens the domain of a file, or with `fd` -1 one of the program's own. As from the kernel, EAGAIN where
    /// the file has none and O_CREAT is not given, and EINVAL where it has one and O_EXCL is.
    fn open_xrcd(&self, attr: &mut ibv_xrcd_init_attr) -> Result<Handle<ibv_xrcd>> {
        const NEEDED: u32 = IBV_XRCD_INIT_ATTR_FD as u32 | IBV_XRCD_INIT_ATTR_OFLAGS as u32;
        if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED as u32 {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        if attr.comp_mask & NEEDED != NEEDED {
            return Err(Errno::EINVAL.also_set());
        }
        let has = |flag: c_int| attr.oflags & flag != 0;
        let fd = (attr.fd != -1).then_some(attr.fd);
        let domain =
            XrcDomain::open(&self.engine, fd, has(libc::O_CREAT), has(libc::O_EXCL)).map_err(|error| {
                match error {
                    Error::NotFound => Errno::EAGAIN.also_set(),
                    Error::Exists => Errno::EINVAL.also_set(),
                    error => refused(error),
                }
            })?;
        let public = UnsafeCell::new(ibv_xrcd { context: core::ptr::null_mut() });
        Ok(Handle::publish(small_box(Xrcd { public, domain })))
    }

    /// Closes a domain.
    fn close_xrcd(&self, xrcd: Handle<ibv_xrcd>) -> Result<()> {
        // SAFETY: domains of this provider are published as Xrcd.
        unsafe { xrcd.object::<Xrcd>() }.domain.close().map_err(refused)?;
        // SAFETY: the program gives up the handle, which was published as an Xrcd.
        drop(unsafe { xrcd.reclaim::<Xrcd>() });
        Ok(())
    }
}
