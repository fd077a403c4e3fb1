//! The link layer that the port shows: Ethernet, where a peer is named by a GID, or InfiniBand, where its LID
//! is enough. For programs that were written for InfiniBand and exchange LIDs.
//!
//! All processes of the software device's folder are one port of one adapter: they have one LID. That of a
//! message's destination is this one, or leads nowhere.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

use softrdma::device::LID;

use crate::abi::uapi::ib_user_ioctl_verbs::{IB_UVERBS_GID_TYPE_IB, IB_UVERBS_GID_TYPE_ROCE_V2};
use crate::abi::verbs::*;
use crate::environment;
use crate::log;

/// The link layer of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// RoCE v2: every route has a GRH.
    Ethernet,
    /// Routes by LID; a GRH is possible.
    Infiniband,
}

/// All devices of the process share one port; completions are looked at without their device.
static IS_INFINIBAND: AtomicBool = AtomicBool::new(false);

impl LinkLayer {
    /// That of this process's port: what the environment said when a device was last opened.
    #[inline(always)]
    pub fn of_port() -> Self {
        if IS_INFINIBAND.load(Ordering::Relaxed) { LinkLayer::Infiniband } else { LinkLayer::Ethernet }
    }

    /// A device is opened: looks what `IRONVERBS_SOFT_LINK_LAYER` says.
    pub fn choose() {
        let value = environment::trusted("IRONVERBS_SOFT_LINK_LAYER").unwrap_or_default();
        let layer = Self::from_name(&value).unwrap_or_else(|| {
            log::warn(format_args!("IRONVERBS_SOFT_LINK_LAYER is neither ethernet nor infiniband: ethernet"));
            LinkLayer::Ethernet
        });
        IS_INFINIBAND.store(layer == LinkLayer::Infiniband, Ordering::Relaxed);
    }

    fn from_name(name: &OsStr) -> Option<Self> {
        match name.to_str()? {
            "" | "ethernet" => Some(LinkLayer::Ethernet),
            "infiniband" => Some(LinkLayer::Infiniband),
            _ => None,
        }
    }

    /// Writes what a port of this kind says of itself.
    pub fn describe(self, attr: &mut ibv_port_attr) {
        match self {
            LinkLayer::Ethernet => {
                attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
                attr.flags = IBV_QPF_GRH_REQUIRED;
                attr.port_cap_flags |= IBV_PORT_IP_BASED_GIDS as u32;
            }
            LinkLayer::Infiniband => {
                attr.link_layer = IBV_LINK_LAYER_INFINIBAND as u8;
                (attr.lid, attr.sm_lid) = (LID, LID);
            }
        }
    }

    /// Type of the GIDs (`IB_UVERBS_GID_TYPE_*`).
    pub fn gid_type(self) -> u32 {
        match self {
            LinkLayer::Ethernet => IB_UVERBS_GID_TYPE_ROCE_V2,
            LinkLayer::Infiniband => IB_UVERBS_GID_TYPE_IB,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_link_layer() {
        let of = |name: &str| LinkLayer::from_name(OsStr::new(name));
        assert_eq!((of(""), of("ethernet")), (Some(LinkLayer::Ethernet), Some(LinkLayer::Ethernet)));
        assert_eq!(of("infiniband"), Some(LinkLayer::Infiniband));
        for mistake in ["InfiniBand", "ib", "1", " "] {
            assert_eq!(of(mistake), None, "{mistake:?}");
        }
    }

    #[test]
    fn only_infiniband_has_lids() {
        let of = |layer: LinkLayer| {
            // SAFETY: plain C data (integers): all zeros is a value.
            let mut attr: ibv_port_attr = unsafe { core::mem::zeroed() };
            layer.describe(&mut attr);
            (attr.link_layer, attr.lid, attr.flags, attr.port_cap_flags, layer.gid_type())
        };
        assert_eq!(of(LinkLayer::Ethernet), (2, 0, 1, 1 << 26, 2));
        assert_eq!(of(LinkLayer::Infiniband), (1, LID, 0, 0, 0));
    }
}
