//! `umad_register_oui(3)`

use core::ffi::{c_int, c_long};

use ironverbs_os::errno::Errno;

use super::entry;
use super::umad_register::{methods, register};
use crate::abi::user_mad::ib_user_mad_reg_req;
use crate::debug::{address, trace};

/// Registers an agent of a vendor's class from 0x30 to 0x4f. Its number; -EINVAL of another class; or -EPERM
/// with the error in `errno`.
///
/// # Safety
/// `oui` is null or 3 bytes, `method_mask` null or 16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register_oui(
    portid: c_int,
    mgmt_class: c_int,
    rmpp_version: u8,
    oui: *mut u8,
    method_mask: *mut c_long,
) -> c_int {
    entry::negative(|| {
        if oui.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: by the contract.
        let vendor = unsafe { oui.cast::<[u8; 3]>().read() };
        trace!(
            "umad_register_oui",
            "fd %d mgmt_class %u rmpp_version %d oui 0x%x%x%x method_mask %p",
            portid,
            mgmt_class,
            c_int::from(rmpp_version),
            c_int::from(vendor[0]),
            c_int::from(vendor[1]),
            c_int::from(vendor[2]),
            address(method_mask),
        );
        if !(0x30..=0x4f).contains(&mgmt_class) {
            trace!("umad_register_oui", "mgmt class %d not in vendor range 2", mgmt_class);
            return Err(Errno::EINVAL);
        }
        let mut request = ib_user_mad_reg_req {
            qpn: 1,
            mgmt_class: mgmt_class as u8,
            mgmt_class_version: 1,
            oui: vendor,
            rmpp_version,
            // SAFETY: by the contract.
            method_mask: unsafe { methods(method_mask) },
            ..Default::default()
        };
        register(portid, &mut request).inspect_err(|_| {
            trace!(
                "umad_register_oui",
                "fd %d registering qp %d class 0x%x version %d oui %p failed: %m",
                portid,
                c_int::from(request.qpn),
                c_int::from(request.mgmt_class),
                c_int::from(request.mgmt_class_version),
                address(oui),
            );
        })?;
        trace!(
            "umad_register_oui",
            "fd %d registered to use agent %d qp %d class 0x%x oui %p",
            portid,
            request.id,
            c_int::from(request.qpn),
            c_int::from(request.mgmt_class),
            address(oui),
        );
        Ok(request.id as c_int)
    })
}
