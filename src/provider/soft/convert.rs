//! The engine's words and errors into those of verbs. Numbers are the same on both sides.

use softrdma::device::{Error, Path, Rejected};
use softrdma::rules::receive::Sge;

use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::log::trace;

// The engine takes a program's scatter/gather entries as they are.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ibv_sge>() == size_of::<Sge>() && align_of::<ibv_sge>() == align_of::<Sge>());
    assert!(offset_of!(ibv_sge, addr) == offset_of!(Sge, addr));
    assert!(offset_of!(ibv_sge, length) == offset_of!(Sge, length));
    assert!(offset_of!(ibv_sge, lkey) == offset_of!(Sge, lkey));
};

/// The error of a control operation, which is left in `errno` as a kernel device leaves it.
#[cold]
pub fn refused(error: Error) -> Errno {
    trace!(Debug, "soft: {error}");
    Errno(error.errno()).also_set()
}

/// The error of waiting for an event, which is left in `errno` as a read of the file leaves it.
#[cold]
pub fn interrupted(error: std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO)).also_set()
}

/// The error of a request that was not posted.
#[cold]
pub fn rejected(rejected: Rejected) -> Errno {
    match rejected {
        Rejected::Full => Errno::ENOMEM,
        Rejected::State | Rejected::Opcode | Rejected::TooManySges | Rejected::Inline => Errno::EINVAL,
    }
}

/// A program's scatter/gather list; None if there are more than `max` entries. A negative number counts as a
/// huge one.
///
/// # Safety
/// `list` is valid for `count` entries as long as the result is used.
#[inline(always)]
pub unsafe fn sges<'a>(list: *const ibv_sge, count: usize, max: u32) -> Option<&'a [Sge]> {
    if count == 0 {
        return Some(&[]);
    }
    if count > max as usize {
        return None;
    }
    // SAFETY: by the contract; both have one layout, as asserted above.
    Some(unsafe { core::slice::from_raw_parts(list.cast(), count) })
}

/// The path that an address vector describes.
pub fn path(attr: &ibv_ah_attr) -> Path {
    let grh = &attr.grh;
    Path {
        // SAFETY: every view of the GID union is 16 plain bytes.
        dgid: unsafe { grh.dgid.raw },
        flow_label: grh.flow_label,
        sgid_index: grh.sgid_index,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        is_global: attr.is_global != 0,
        port_num: attr.port_num,
        source: None,
        sgid: [0; 16],
    }
}

/// The address vector of a path.
pub fn address_vector(path: &Path) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: path.dgid },
            flow_label: path.flow_label,
            sgid_index: path.sgid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        },
        dlid: path.dlid,
        sl: path.sl,
        src_path_bits: path.src_path_bits,
        static_rate: path.static_rate,
        is_global: path.is_global.into(),
        port_num: path.port_num,
    }
}
