//! `umad_get_smi_gsi_pair_by_ca_name(3)`

use core::ffi::{c_char, c_int, c_uint};

use super::entry;
use crate::abi::umad::umad_ca_pair;
use crate::ca::pairs;

/// The pair that a CA belongs to, by default the first one that can be used, and ports of it. 0, also where
/// there is no pair at all; -ENODEV, also in `errno`, where none fits; otherwise -1.
///
/// # Safety
/// `devname` is null or NUL-terminated; `ca_pair` is null or has room for a pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_smi_gsi_pair_by_ca_name(
    devname: *const c_char,
    portnum: u8,
    ca_pair: *mut umad_ca_pair,
    enforce_smi: c_uint,
) -> c_int {
    entry::zero_or_negative(|| {
        // SAFETY: by the contract; every bit pattern is a value of the struct.
        let (name, pair) = unsafe { (entry::string(devname), ca_pair.as_mut()) };
        let pair = pair.ok_or(entry::FAILED)?;
        pairs::find_one(name, portnum, enforce_smi != 0, pair).map(|_| ())
    })
}
