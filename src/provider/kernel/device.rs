//! Devices: the version of the driver's interface, and attributes.

use core::ffi::c_char;
use core::ops::RangeInclusive;

use crate::abi::verbs::{ibv_device_attr_ex, ibv_query_device_ex_input};
use crate::errno::{Errno, Result};
use crate::provider::Opened;
use crate::uverbs::command::Prepared;
use crate::uverbs::device_file::{DeviceFile, GotContext};
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::{self, Udata};

/// Whether the driver's interface is one of `versions`; a device whose is not is named on standard error, as
/// rdma-core does.
pub fn speaks(name: &str, versions: &RangeInclusive<u32>, device: &DeviceInfo) -> bool {
    let known = versions.contains(&device.abi_ver);
    if !known {
        crate::log::warn(format_args!(
            "Driver {name} does not support the kernel ABI of {} (supports {} to {}) for device {}",
            device.abi_ver,
            versions.start(),
            versions.end(),
            device.ibdev_path
        ));
    }
    known
}

/// Joins the context that somebody else made with `file`; an error is the kernel's, EINVAL where nobody has.
/// `open` opens the device anew.
///
/// These drivers keep nothing in a context that the kernel could tell to a process that joins it (EOPNOTSUPP).
/// What the kernel says of the device it says when any context is made; a process that may not open the device
/// assumes the one completion vector that every device has.
pub fn join(file: &DeviceFile, open: impl FnOnce(DeviceFile) -> Result<Opened>) -> Result<GotContext> {
    file.set_imported();
    let answer = file.query_context(Prepared::none());
    told(answer, || file.open_again().and_then(open).map(|another| another.got()))
}

/// What is known of a context that answered so; `elsewhere` is asked where it keeps nothing.
fn told(answer: Result<GotContext>, elsewhere: impl FnOnce() -> Result<GotContext>) -> Result<GotContext> {
    match answer {
        Err(Errno::EOPNOTSUPP) => {
            Ok(elsewhere().unwrap_or(GotContext { num_comp_vectors: 1, core_support: 0 }))
        }
        other => other,
    }
}

/// Attributes of a device with one port, whose driver keeps its version as three numbers of 16 bits.
pub fn query(
    file: &DeviceFile,
    input: Option<&ibv_query_device_ex_input>,
    attr: &mut ibv_device_attr_ex,
    attr_size: usize,
) -> Result<()> {
    // No number of ports from elsewhere: the attributes say it themselves.
    let answer = uverbs::device::query(file, input, attr, attr_size, 0, Udata::none())?;
    put_version(&mut attr.orig_attr.fw_ver, answer.fw_ver);
    Ok(())
}

/// Writes the driver's version as three numbers of 16 bits, for example `1.2.3`, and zeros behind.
fn put_version(target: &mut [c_char; 64], version: u64) {
    let part = |shift: u32| (version >> shift) as u16;
    let text = format!("{}.{}.{}", part(32), part(16), part(0));
    // At most 17 characters.
    target.fill(0);
    for (to, from) in target.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_without_an_answer_is_known_from_another_one() {
        let got = |num_comp_vectors| GotContext { num_comp_vectors, core_support: 1 };
        let vectors = |answer, elsewhere| {
            told(answer, || elsewhere).map(|got| (got.num_comp_vectors, got.core_support))
        };
        assert_eq!(vectors(Ok(got(8)), Err(Errno::EINVAL)), Ok((8, 1)));
        assert_eq!(vectors(Err(Errno::EOPNOTSUPP), Ok(got(4))), Ok((4, 1)));
        assert_eq!(vectors(Err(Errno::EOPNOTSUPP), Err(Errno::ENOENT)), Ok((1, 0)));
        // Nobody made a context, or its device is gone.
        assert_eq!(told(Err(Errno::EINVAL), || panic!("not asked")).unwrap_err(), Errno::EINVAL);
    }

    #[test]
    fn a_version_is_three_numbers() {
        let mut text = [!0 as c_char; 64];
        put_version(&mut text, 0x0001_ffff_0003);
        let bytes: Vec<u8> = text.iter().map(|c| *c as u8).collect();
        assert_eq!(bytes[..10], *b"1.65535.3\0");
        assert!(bytes[10..].iter().all(|byte| *byte == 0));
    }
}
