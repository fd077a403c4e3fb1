//! `umad_get_ca_portguids(3)`

use core::ffi::{c_char, c_int};

use ironverbs_os::errno::Errno;

use super::entry;
use crate::abi::__be64;
use crate::ca::choice;
use crate::debug::trace;

/// What a CA that cannot be read is reported as.
const NOT_READ: Errno = entry::FAILED;

/// Writes the GUID of every port number from 0 on, 0 where there is no port; how many they are, or -errno.
/// Without an array nothing is counted.
///
/// # Safety
/// `ca_name` is null or NUL-terminated; `portguids` is null or has room for `max` GUIDs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_ca_portguids(
    ca_name: *const c_char,
    portguids: *mut __be64,
    max: c_int,
) -> c_int {
    entry::negative(|| {
        trace!("umad_get_ca_portguids", "ca name %s max port guids %d", ca_name, max);
        // SAFETY: by the contract.
        let chosen = choice::choose_ca_only(unsafe { entry::string(ca_name) })?;
        let name = chosen.name.as_c_str();
        let ca = match chosen.ca {
            Some(ca) => {
                trace!("umad_get_ca", "ca_name %s", name.as_ptr());
                trace!("umad_get_ca", "opened %s", name.as_ptr());
                ca
            }
            None => choice::read_ca(name).map_err(|_| NOT_READ)?,
        };
        let mut count = 0;
        if !portguids.is_null() {
            if ca.numports() >= max {
                return Err(Errno::ENOMEM);
            }
            for number in 0..=ca.numports() {
                let guid = ca.port(number).map_or(0, |port| port.port_guid);
                // SAFETY: there is room for `max`, which is more than the highest number.
                unsafe { portguids.add(number as usize).write_unaligned(guid) };
                count += 1;
            }
        }
        trace!("umad_get_ca_portguids", "%s: %d ports", name.as_ptr(), count);
        Ok(count)
    })
}
