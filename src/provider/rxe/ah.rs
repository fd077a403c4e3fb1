//! Address handles. Newer kernels keep the address and give a number for it; with older ones every datagram
//! carries the whole address vector.

use core::cell::UnsafeCell;
use core::net::Ipv6Addr;

use super::RxeContext;
use crate::abi::uapi::Pod;
use crate::abi::uapi::rdma_user_rxe::*;
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::context;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Ahs;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::gid::Want;
use crate::uverbs::{self, Udata, neigh};

/// Where a datagram goes.
pub struct Destination {
    /// The kernel's number of the address, or 0 where it keeps none.
    pub ah_num: u32,
    /// The address itself, where the kernel keeps none.
    pub av: Option<rxe_av>,
}

/// An address handle.
#[repr(C)]
pub struct Ah {
    public: UnsafeCell<ibv_ah>,
    /// What the send queue needs of it.
    pub destination: Destination,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Ah {
    type Public = ibv_ah;
}

impl Ah {
    /// An address handle that the kernel knows by `handle`.
    #[must_use]
    pub fn new(pd: *mut ibv_pd, handle: u32, destination: Destination) -> Self {
        let public = ibv_ah { context: core::ptr::null_mut(), pd, handle };
        Self { public: UnsafeCell::new(public), destination }
    }
}

impl Ahs for RxeContext {
    /// Makes an address handle. With an older kernel this may wait for the peer's Ethernet address.
    fn create_ah(&self, pd: Handle<ibv_pd>, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
        // SAFETY: a live handle, which names its context.
        let (pd_handle, context) = unsafe { ((*pd.as_ptr()).handle, (*pd.as_ptr()).context) };
        // Address handles have no events, so the kernel's name for this one is never heard of again.
        let user_handle = 0;
        let mut answer = rxe_create_ah_resp::default();
        let handle = uverbs::ah::create(
            &self.file,
            pd_handle,
            user_handle,
            attr,
            Udata::answer(answer.as_bytes_mut()),
        )?;
        let av = if answer.ah_num == 0 {
            // SAFETY: the context of a live object is open.
            match unsafe { address_vector(&self.file, context, attr) } {
                Ok(av) => Some(av),
                Err(errno) => {
                    let _ = uverbs::ah::destroy(&self.file, handle);
                    return Err(errno.also_set());
                }
            }
        } else {
            None
        };
        let destination = Destination { ah_num: answer.ah_num, av };
        Ok(Handle::publish(Box::new(Ah::new(pd.as_ptr(), handle, destination))))
    }

    /// Frees an address handle.
    fn destroy_ah(&self, ah: Handle<ibv_ah>) -> Result<()> {
        // SAFETY: a live handle.
        uverbs::ah::destroy(&self.file, unsafe { (*ah.as_ptr()).handle })?;
        // SAFETY: the program gives up the handle, which was published as an Ah.
        drop(unsafe { ah.reclaim::<Ah>() });
        Ok(())
    }
}

/// # Safety
/// `context` is open.
unsafe fn address_vector(file: &DeviceFile, context: *mut ibv_context, attr: &ibv_ah_attr) -> Result<rxe_av> {
    // SAFETY: by the contract.
    let context = unsafe { Handle::from_c(context) }?;
    let info = context::private(context).device().info()?;
    let (port, index) = (u32::from(attr.port_num), u32::from(attr.grh.sgid_index));
    let entry = uverbs::gid::query_entry(file, info, port, index, 0, Want::GID)?;
    // SAFETY: both parts of the unions are sixteen bytes of integers.
    let (source, destination) = unsafe { (entry.gid.raw, attr.grh.dgid.raw) };
    let peer = neigh::resolve(neigh::ip_of(&destination), neigh::ip_of(&source))?;
    Ok(vector(attr, &source, &destination, peer.mac))
}

/// The address vector that the driver of an older kernel expects.
fn vector(attr: &ibv_ah_attr, source: &[u8; 16], destination: &[u8; 16], dmac: [u8; 6]) -> rxe_av {
    let ipv4 = Ipv6Addr::from(*destination).to_ipv4_mapped().is_some();
    rxe_av {
        port_num: attr.port_num,
        network_type: if ipv4 { RXE_NETWORK_TYPE_IPV4 } else { RXE_NETWORK_TYPE_IPV6 },
        dmac,
        grh: rxe_global_route {
            dgid: *destination,
            flow_label: attr.grh.flow_label,
            sgid_index: attr.grh.sgid_index,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
            ..Pod::zeroed()
        },
        sgid_addr: socket_address(source),
        dgid_addr: socket_address(destination),
    }
}

/// The `sockaddr_in` (without family: `network_type` says it) or `sockaddr_in6` of a GID.
fn socket_address(gid: &[u8; 16]) -> [u32; 7] {
    let mut address = [0u32; 7];
    let bytes = address.as_bytes_mut();
    match Ipv6Addr::from(*gid).to_ipv4_mapped() {
        Some(ipv4) => bytes[4..8].copy_from_slice(&ipv4.octets()),
        None => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
            bytes[8..24].copy_from_slice(gid);
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(gid: [u8; 16]) -> ibv_ah_attr {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_ah_attr = unsafe { core::mem::zeroed() };
        attr.port_num = 1;
        attr.grh.dgid.raw = gid;
        attr.grh.flow_label = 0x12345;
        attr.grh.sgid_index = 2;
        attr.grh.hop_limit = 64;
        attr.grh.traffic_class = 8;
        attr
    }

    #[test]
    fn an_ipv4_vector_has_the_bytes_that_old_kernels_read() {
        let source = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
        let peer = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2];
        let av = vector(&to(peer), &source, &peer, [2, 3, 4, 5, 6, 7]);
        let bytes = av.as_bytes();
        assert_eq!(bytes[..8], [1, RXE_NETWORK_TYPE_IPV4, 2, 3, 4, 5, 6, 7]);
        assert_eq!(bytes[8..24], peer);
        assert_eq!(bytes[24..28], 0x12345u32.to_ne_bytes());
        assert_eq!(bytes[28..32], [2, 64, 8, 0]);
        assert_eq!(bytes[32..60], [&[0, 0, 0, 0, 10, 0, 0, 1][..], &[0; 20]].concat());
        assert_eq!(bytes[60..88], [&[0, 0, 0, 0, 10, 0, 0, 2][..], &[0; 20]].concat());
    }

    #[test]
    fn an_ipv6_vector_has_the_bytes_that_old_kernels_read() {
        let source = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let peer = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let av = vector(&to(peer), &source, &peer, [0; 6]);
        let bytes = av.as_bytes();
        assert_eq!(bytes[1], RXE_NETWORK_TYPE_IPV6);
        let family = (libc::AF_INET6 as u16).to_ne_bytes();
        assert_eq!(bytes[32..60], [&family[..], &[0; 6], &source, &[0; 4]].concat());
        assert_eq!(bytes[60..88], [&family[..], &[0; 6], &peer, &[0; 4]].concat());
    }
}
