//! `umad_get_cas_names(3)`

use core::ffi::{c_char, c_int};

use super::entry;
use crate::abi::umad::UMAD_CA_NAME_LEN;
use crate::ca::choice::DEFAULT_NAME;
use crate::ca::{bytes_of, list};
use crate::debug::trace;

/// Writes up to `max` names; how many they are. Without the folder of sysfs 1, and the name that a CA had when
/// there was one kind.
///
/// # Safety
/// `cas` has room for `max` names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_cas_names(cas: *mut [c_char; UMAD_CA_NAME_LEN], max: c_int) -> c_int {
    entry::negative(|| {
        trace!("umad_get_cas_names", "max %d", max);
        let room = if cas.is_null() { 0 } else { usize::try_from(max).unwrap_or(0) };
        let mut count = 0;
        let found = list::sorted(room, |name| {
            // SAFETY: there is room for `max` names, of which fewer were written.
            let field = bytes_of(unsafe { &mut *cas.add(count) });
            let name = name.to_bytes_with_nul();
            field[..name.len()].copy_from_slice(name);
            count += 1;
        });
        if let Some(count) = found {
            trace!("umad_get_cas_names", "return %d cas", count as c_int);
            return Ok(count as c_int);
        }
        if room > 0 {
            // SAFETY: there is room for a name.
            let field = bytes_of(unsafe { &mut *cas });
            field.fill(0);
            field[..DEFAULT_NAME.to_bytes().len()].copy_from_slice(DEFAULT_NAME.to_bytes());
        }
        trace!("umad_get_cas_names", "return 1 ca");
        Ok(1)
    })
}
