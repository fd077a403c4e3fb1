//! Address handles: where a datagram goes, and the header that it arrives with.

use core::cell::UnsafeCell;

use ironverbs_os::growth::small_box;
use softrdma::device::{Path, Route};

use super::convert::{self, refused};
use super::link::LinkLayer;
use super::{SoftContext, grh, port, qp_attr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Ahs;

/// Where a datagram goes.
#[derive(Clone, Copy)]
pub struct Destination {
    /// Address of the receiver.
    pub dgid: [u8; 16],
    /// What stands in front of the payload there.
    pub header: grh::Header,
    /// The way to other hosts, where it leads there.
    pub route: Option<Route>,
}

/// An address handle.
#[repr(C)]
pub struct Ah {
    public: UnsafeCell<ibv_ah>,
    /// What the send queue needs of it.
    pub destination: Destination,
    /// Number of its protection domain.
    pd: u32,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Ah {
    type Public = ibv_ah;
}

/// The source address of a route, `None` of one without GRH; EINVAL for a port that is not there, a route
/// without GRH on Ethernet, one to nowhere, and on Ethernet one from an address of the other family.
pub fn source(context: &SoftContext, attr: &ibv_ah_attr) -> Result<Option<[u8; 16]>> {
    let link = LinkLayer::of_port();
    let (port, index) = (u32::from(attr.port_num), u32::from(attr.grh.sgid_index));
    if attr.is_global == 0 {
        let leads = link == LinkLayer::Infiniband && port == u32::from(port::NUMBER) && attr.dlid != 0;
        return if leads { Ok(None) } else { Err(Errno::EINVAL) };
    }
    let source = context.gid(port, index)?.raw;
    // SAFETY: every view of the GID union is 16 plain bytes.
    let destination = unsafe { attr.grh.dgid.raw };
    let multicast = destination[0] == 0xff;
    let is_mixed = || !multicast && grh::is_ipv4(&source) != grh::is_ipv4(&destination);
    if destination == [0; 16] || link == LinkLayer::Ethernet && is_mixed() {
        return Err(Errno::EINVAL);
    }
    Ok(Some(source))
}

impl Ahs for SoftContext {
    /// Makes an address handle.
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        let source = source(self, attr).map_err(Errno::also_set)?;
        // SAFETY: a live handle.
        let number = unsafe { (*pd.as_ptr()).handle };
        self.engine.hold_pd(number).map_err(refused)?;
        self.engine.expect_answers();
        let header = match (source, LinkLayer::of_port()) {
            (Some(source), LinkLayer::Ethernet) => grh::Header::new(&source, attr),
            (Some(source), LinkLayer::Infiniband) => grh::Header::global(&source, attr),
            (None, _) => grh::Header::NONE,
        };
        let path = Path { source: qp_attr::source(self, attr), ..convert::path(attr) };
        let destination = Destination { dgid: path.destination(), header, route: self.engine.route(&path) };
        let public = ibv_ah { context: core::ptr::null_mut(), pd: pd.as_ptr(), handle: 0 };
        Ok(Handle::publish(small_box(Ah { public: UnsafeCell::new(public), destination, pd: number })))
    }

    /// Frees an address handle.
    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        // SAFETY: the program gives up the handle, which was published as an Ah.
        let ah = unsafe { ah.reclaim::<Ah>() };
        self.engine.release_pd(ah.pd);
        Ok(())
    }
}
