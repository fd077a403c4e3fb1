//! Which of the host's addresses are on the network, so that other hosts are reached by RoCE v2.
//!
//! | `IRONVERBS_SOFT_NETWORK` | effect |
//! |---|---|
//! | unset, empty or `0` | none: the folder is the network |
//! | `1` | all of them |
//! | names of interfaces, addresses, with commas | these |

use softrdma::device::{Device, Missing, Settings, Source, interface_mtu, roce_mtu};

use super::gids::Gid;
use crate::abi::verbs::*;
use crate::log::{self, trace};

const VARIABLE: &str = "IRONVERBS_SOFT_NETWORK";

/// Says why they are not, where they are to be; in the trace, what makes it slow.
pub fn tell(device: &Device) {
    if let Some((small_room, sends_trains)) = device.network_means() {
        if let Some(small) = small_room {
            trace!(Info, "{VARIABLE}: {small}");
        }
        if !sends_trains {
            trace!(Info, "{VARIABLE}: the kernel does not cut messages into packets (UDP_SEGMENT)");
        }
    }
    match device.no_network() {
        Some(Missing::Port(why)) => log::warn(format_args!("{VARIABLE}: no other host is reached: {why}")),
        Some(Missing::NoMemory) => log::warn(format_args!("{VARIABLE}: no other host is reached: no memory")),
        None => {}
    }
}

/// Whether a GID is an address on the network.
pub fn is_on(gid: &Gid) -> bool {
    Settings::is_on_network(gid.raw, &gid.ndev)
}

/// The address of a GID, where it is on the network.
pub fn source(gid: &Gid) -> Option<Source> {
    let mtu = || interface_mtu(gid.ifindex).ok().and_then(roce_mtu);
    is_on(gid).then(|| Some(Source { address: gid.raw, interface: gid.ifindex, mtu: mtu()? }))?
}

/// The path MTU of packets from these addresses: the least of their interfaces'. `None` where none is on the
/// network.
pub fn mtu(gids: &[Gid]) -> Option<ibv_mtu_t> {
    let bytes = gids.iter().filter_map(source).map(|source| source.mtu).min()?;
    Some(bytes.trailing_zeros() - 7)
}
