//! `umad_register(3)`

use core::ffi::{c_int, c_long};

use ironverbs_os::errno::{Errno, Result};

use super::entry;
use crate::abi::user_mad::{IB_USER_MAD_REGISTER_AGENT, ib_user_mad_reg_req};
use crate::debug::{address, trace};

/// The IEEE identifier (OUI) of OpenIB.
const OPENIB_OUI: [u8; 3] = [0x00, 0x14, 0x05];

/// Registers an agent. Its number, or -EPERM with the error in `errno`.
///
/// # Safety
/// `method_mask` is null or 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register(
    portid: c_int,
    mgmt_class: c_int,
    mgmt_version: c_int,
    rmpp_version: u8,
    method_mask: *mut c_long,
) -> c_int {
    entry::negative(|| {
        trace!(
            "umad_register",
            "fd %d mgmt_class %u mgmt_version %u rmpp_version %d method_mask %p",
            portid,
            mgmt_class,
            mgmt_version,
            c_int::from(rmpp_version),
            address(method_mask),
        );
        let mut request = ib_user_mad_reg_req {
            qpn: queue_pair(mgmt_class),
            mgmt_class: mgmt_class as u8,
            mgmt_class_version: mgmt_version as u8,
            oui: OPENIB_OUI,
            rmpp_version,
            // SAFETY: by the contract.
            method_mask: unsafe { methods(method_mask) },
            ..Default::default()
        };
        let qpn = c_int::from(request.qpn);
        register(portid, &mut request).inspect_err(|_| {
            trace!(
                "umad_register",
                "fd %d registering qp %d class 0x%x version %d failed: %m",
                portid,
                qpn,
                mgmt_class,
                mgmt_version,
            );
        })?;
        trace!("umad_register", "fd %d registered to use agent %d qp %d", portid, request.id, qpn);
        Ok(request.id as c_int)
    })
}

/// Subnet management goes over queue pair 0, everything else over 1.
pub(super) fn queue_pair(mgmt_class: c_int) -> u8 {
    u8::from(!matches!(mgmt_class, 0x01 | 0x81))
}

/// The methods of a mask, or none.
///
/// # Safety
/// `mask` is null or 16 bytes.
pub(super) unsafe fn methods(mask: *const c_long) -> [u32; 4] {
    if mask.is_null() {
        return [0; 4];
    }
    // SAFETY: by the contract; they may lie anywhere.
    unsafe { mask.cast::<[u32; 4]>().read_unaligned() }
}

/// The first form of the registration. EPERM, whatever the kernel says, which is in `errno`.
pub(super) fn register(fd: c_int, request: &mut ib_user_mad_reg_req) -> Result<()> {
    // SAFETY: the kernel reads and writes the struct whose size is part of the request's number.
    if unsafe { libc::ioctl(fd, IB_USER_MAD_REGISTER_AGENT, core::ptr::from_mut(request)) } == 0 {
        Ok(())
    } else {
        Err(Errno(libc::EPERM))
    }
}
