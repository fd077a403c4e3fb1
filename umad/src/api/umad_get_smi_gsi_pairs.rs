//! `umad_get_smi_gsi_pairs(3)`

use core::ffi::c_int;

use super::entry;
use crate::abi::umad::umad_ca_pair;
use crate::ca::pairs;

/// Writes at most `max` pairs; how many they are, or -1.
///
/// # Safety
/// `cas` has room for `max` pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_smi_gsi_pairs(cas: *mut umad_ca_pair, max: libc::size_t) -> c_int {
    entry::negative(|| {
        // SAFETY: by the contract; every bit pattern is a value of the struct.
        let cas = if cas.is_null() { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(cas, max) } };
        pairs::find(cas).map(|count| count as c_int).map_err(|_| entry::FAILED)
    })
}
