//! Ports.

use core::ffi::c_int;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::uverbs;
use crate::uverbs::discovery::DeviceInfo;

/// Ports.
#[allow(unused_variables)]
pub trait Ports: CommandFile {
    /// Attributes of a port, counted from 1.
    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        uverbs::device::query_port(self.kernel()?, port_num, attr)
    }

    /// Writes the speed of a port, counted from 1, in units of 100 Mb/s.
    fn query_port_speed(&self, port_num: u32, speed: &mut u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The partition key at `index` of a port's table, in network byte order. `device` is the one that was
    /// opened.
    fn query_pkey(&self, device: &DeviceInfo, port_num: u8, index: c_int) -> Result<__be16> {
        uverbs::sysfs::query_pkey(&device.ibdev_path, port_num, index)
    }
}
