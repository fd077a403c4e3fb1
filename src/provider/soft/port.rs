//! The one port of the software device.

use core::ffi::c_int;

use softrdma::device::is_link_down;

use super::link::LinkLayer;
use super::{SoftContext, gids, network};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::verbs::Ports;
use crate::uverbs::discovery::DeviceInfo;

/// The only port.
pub const NUMBER: u8 = 1;
/// The only partition key: the default one, with full membership.
pub const PKEY: u16 = 0xffff;
/// Largest message in bytes.
pub const MESSAGE_MAX: u32 = 1 << 30;

/// Code of a port's physical state: link up.
const PHYS_LINK_UP: u8 = 5;
/// The same: disabled.
const PHYS_DISABLED: u8 = 3;
/// Code of a link width: four lanes.
const WIDTH_4X: u8 = 2;
/// Code of a link speed: 25 Gbit/s per lane.
const SPEED_EDR: u8 = 32;

/// The same speed in units of 100 Mb/s.
const SPEED: u64 = 1000;

/// Speed of port `port_num` in units of 100 Mb/s; EINVAL for a port that is not there.
fn speed(port_num: u32) -> Result<u64> {
    if port_num == u32::from(NUMBER) { Ok(SPEED) } else { Err(Errno::EINVAL) }
}

/// Attributes of port `port_num`; EINVAL for a port that is not there.
///
/// There is no link, so there is no link speed. Width and speed say 100 Gbit/s, which is the class that one
/// copy from memory to memory belongs to: middleware reckons with these numbers when it chooses between
/// transports, and soft-RoCE's old 2.5 Gbit/s would be as wrong as a number from the newest adapter.
fn query(port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
    if port_num != NUMBER {
        return Err(Errno::EINVAL);
    }
    // SAFETY: plain C data (integers): all zeros is a value.
    *attr = unsafe { core::mem::zeroed() };
    attr.state = IBV_PORT_ACTIVE as ibv_port_state_t;
    attr.max_mtu = IBV_MTU_4096 as ibv_mtu_t;
    attr.active_mtu = IBV_MTU_4096 as ibv_mtu_t;
    attr.gid_tbl_len = gids::TABLE_LENGTH as i32;
    attr.max_msg_sz = MESSAGE_MAX;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    attr.active_width = WIDTH_4X;
    attr.active_speed = SPEED_EDR;
    attr.phys_state = PHYS_LINK_UP;
    LinkLayer::of_port().describe(attr);
    Ok(())
}

/// Entry `index` of the table of partition keys, in network byte order; the error of a kernel device, whose
/// file for the entry does not exist, for any entry but the first.
fn pkey(port_num: u8, index: i32) -> Result<u16> {
    if port_num == NUMBER && index == 0 { Ok(PKEY.to_be()) } else { Err(Errno::ENOENT.also_set()) }
}

impl Ports for SoftContext {
    fn query_port(&self, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
        query(port_num, attr).map_err(Errno::also_set)?;
        if let Some(mtu) = network::mtu(&self.gids()) {
            attr.active_mtu = mtu;
        }
        let (qkeys, p_keys) = self.engine.violations();
        (attr.qkey_viol_cntr, attr.bad_pkey_cntr) = (qkeys, p_keys);
        if is_link_down() || (!self.named.has_all() && self.gids().is_empty()) {
            (attr.state, attr.phys_state) = (IBV_PORT_DOWN as ibv_port_state_t, PHYS_DISABLED);
        }
        Ok(())
    }

    fn query_port_speed(&self, port_num: u32, out: &mut u64) -> Result<()> {
        *out = speed(port_num).map_err(Errno::also_set)?;
        Ok(())
    }

    fn query_pkey(&self, _device: &DeviceInfo, port_num: u8, index: c_int) -> Result<__be16> {
        pkey(port_num, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_port() {
        // SAFETY: plain C data (integers): all zeros is a value.
        let mut attr: ibv_port_attr = unsafe { core::mem::zeroed() };
        for other in [0, 2, 255] {
            assert_eq!(query(other, &mut attr), Err(Errno::EINVAL));
            assert!(pkey(other, 0).is_err());
        }
        query(NUMBER, &mut attr).unwrap();
        assert_eq!((attr.state, attr.active_mtu, attr.pkey_tbl_len), (4, 5, 1));
        assert_eq!((speed(1), speed(0), speed(257)), (Ok(1000), Err(Errno::EINVAL), Err(Errno::EINVAL)));
        assert_eq!(pkey(NUMBER, 0), Ok(0xffff));
        assert_eq!(pkey(NUMBER, 1), Err(Errno::ENOENT));
        assert_eq!(pkey(NUMBER, -1), Err(Errno::ENOENT));
    }
}
