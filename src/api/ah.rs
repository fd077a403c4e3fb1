//! Address handles: the way to a peer for datagrams (`man ibv_create_ah`, `man ibv_create_ah_from_wc`).

use core::ffi::c_int;
use core::net::Ipv4Addr;

use super::{entry, gid};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::observe::call;
use crate::observe::shown::Address;
use crate::provider::context;
use crate::provider::object::Handle;
use crate::uverbs::neigh;

/// Next header of a GRH whose payload is an InfiniBand transport header.
const NEXT_HEADER_IB: u8 = 0x1b;
const NEXT_HEADER_UDP: u8 = libc::IPPROTO_UDP as u8;
/// Where an IPv4 header stands in the 40 bytes in front of a datagram; the bytes before it are undefined.
const IPV4_AT: usize = 20;
const GRH_BYTES: usize = 40;
const _: () = assert!(core::mem::size_of::<ibv_grh>() == GRH_BYTES);

/// An address handle for the peer that `attr` describes; NULL and `errno` on failure.
///
/// # Safety
/// `pd` is null or live, `attr` null or valid.
#[cfg_attr(not(test), unsafe(export_name = "ibv_create_ah@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: handed on to the caller.
    entry::pointer(call!("ibv_create_ah", pd, attr), || unsafe {
        create(pd, attr.as_mut().ok_or(Errno::EINVAL)?)
    })
}

/// # Safety
/// `pd` is null or live.
unsafe fn create(pd: *mut ibv_pd, attr: &mut ibv_ah_attr) -> Result<Handle<ibv_ah>> {
    // SAFETY: by the contract.
    let (pd, provider) = unsafe { context::of(pd) }?;
    let ah = provider.create_ah(pd, attr)?;
    // SAFETY: just made, and nobody else knows it yet; the protection domain is live.
    unsafe {
        let ah = ah.as_ptr();
        (*ah).context = (*pd.as_ptr()).context;
        (*ah).pd = pd.as_ptr();
    }
    Ok(ah)
}

/// Frees an address handle; 0 or an errno value.
///
/// # Safety
/// `ah` is null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_ah@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    entry::value(call!("ibv_destroy_ah", ah), || {
        // SAFETY: the caller passes a live address handle.
        let (ah, provider) = unsafe { context::of(ah) }?;
        provider.destroy_ah(ah)
    })
}

/// Fills `ah_attr` with the way back to the sender of a received datagram: `wc` is its completion, `grh` the
/// first 40 bytes of its buffer (looked at where `wc` says there is a header). 0, or -1 with `errno`.
///
/// # Safety
/// `context` is null or open; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    entry::minus_one(
        call!("ibv_init_ah_from_wc", context, port_num, wc, grh = Address(grh), out ah_attr),
        || {
            // SAFETY: handed on to the caller.
            unsafe { answer_to(context, port_num, wc, grh, ah_attr.as_mut().ok_or(Errno::EINVAL)?) }
        },
    )
}

/// An address handle for the sender of a received datagram; as [`ibv_init_ah_from_wc`], then [`ibv_create_ah`].
///
/// # Safety
/// `pd` is null or live; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    entry::pointer(call!("ibv_create_ah_from_wc", pd, wc, grh = Address(grh), port_num), || {
        // SAFETY: handed on to the caller; a live protection domain names its open context. The attributes are
        // plain C data, of which all zeros is a value.
        unsafe {
            let context = (*Handle::from_c(pd)?.as_ptr()).context;
            let mut attr = core::mem::zeroed();
            answer_to(context, port_num, wc, grh, &mut attr)?;
            create(pd, &mut attr)
        }
    })
}

/// What is known before the GID table is asked stands in `attr` also after an error, as with rdma-core.
///
/// # Safety
/// As for [`ibv_init_ah_from_wc`].
unsafe fn answer_to(
    context: *mut ibv_context,
    port_num: u8,
    wc: *const ibv_wc,
    grh: *const ibv_grh,
    attr: &mut ibv_ah_attr,
) -> Result<()> {
    // SAFETY: by the contract. The header is read as bytes: what stands in it depends on the network.
    let (wc, header) = unsafe {
        let wc = wc.as_ref().ok_or(Errno::EINVAL)?;
        (wc, grh.cast::<[u8; GRH_BYTES]>().as_ref())
    };
    let has_header = wc.wc_flags & IBV_WC_GRH as u32 != 0;
    if has_header && header.is_none() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: plain C data; all zeros is its empty value.
    *attr = unsafe { core::mem::zeroed() };
    attr.dlid = wc.slid;
    attr.sl = wc.sl;
    attr.src_path_bits = wc.dlid_path_bits;
    attr.port_num = port_num;
    if let Some(header) = header {
        attr.grh.flow_label = first_word(header) & 0xf_ffff;
        if has_header {
            attr.is_global = 1;
            let find = |gid: &[u8; 16], gid_type| {
                // SAFETY: handed on to the caller.
                unsafe { gid::find_index(context, port_num, gid, gid_type) }
            };
            match header_version(header)? {
                4 => answer_by_ipv4(attr, header, find)?,
                _ => answer_by_ipv6(attr, header, find)?,
            }
        }
    }
    Ok(())
}

/// Version, traffic class and flow label.
fn first_word(header: &[u8; GRH_BYTES]) -> u32 {
    u32::from_be_bytes([header[0], header[1], header[2], header[3]])
}

/// Whether the 40 bytes hold a GRH (6) or, in their second half, an IPv4 header (4). Undefined bytes may look
/// like a GRH, so an IPv4 header with a right checksum is believed first.
fn header_version(header: &[u8; GRH_BYTES]) -> Result<u8> {
    let ipv4 = &header[IPV4_AT..];
    if header[0] >> 4 != 6 {
        return if ipv4[0] >> 4 == 4 { Ok(4) } else { Err(Errno::EPROTONOSUPPORT) };
    }
    let header_words = ipv4[0] & 0xf;
    Ok(if header_words == 5 && ipv4_checksum_fits(ipv4) { 4 } else { 6 })
}

/// Whether the checksum in an IPv4 header of 20 bytes is that of its other fields.
fn ipv4_checksum_fits(ipv4: &[u8]) -> bool {
    const CHECKSUM_AT: usize = 10;
    // A one's complement sum is the same in either byte order (RFC 1071).
    let word = |at: usize| u32::from(u16::from_ne_bytes([ipv4[at], ipv4[at + 1]]));
    let sum: u32 = (0..20).step_by(2).filter(|&at| at != CHECKSUM_AT).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    word(CHECKSUM_AT) == u32::from(!(folded as u16))
}

fn answer_by_ipv4(
    attr: &mut ibv_ah_attr,
    header: &[u8; GRH_BYTES],
    find: impl Fn(&[u8; 16], u32) -> Result<u32>,
) -> Result<()> {
    let ipv4 = &header[IPV4_AT..];
    let address = |at: usize| Ipv4Addr::new(ipv4[at], ipv4[at + 1], ipv4[at + 2], ipv4[at + 3]);
    let (source, destination) = (address(12), address(16));
    // A multicast address is in no GID table.
    if destination.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let index = find(&destination.to_ipv6_mapped().octets(), gid::SYSFS_ROCE_V2)?;
    attr.grh.dgid = ibv_gid { raw: source.to_ipv6_mapped().octets() };
    attr.grh.sgid_index = index as u8;
    attr.grh.hop_limit = ipv4[8];
    attr.grh.traffic_class = ipv4[1];
    Ok(())
}

fn answer_by_ipv6(
    attr: &mut ibv_ah_attr,
    header: &[u8; GRH_BYTES],
    find: impl Fn(&[u8; 16], u32) -> Result<u32>,
) -> Result<()> {
    let gid = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).expect("16 bytes");
    let (source, destination) = (gid(8), gid(24));
    if destination[0] == 0xff {
        return Err(Errno::EINVAL);
    }
    attr.grh.dgid = ibv_gid { raw: source };
    let gid_type = match header[6] {
        NEXT_HEADER_UDP => gid::SYSFS_ROCE_V2,
        NEXT_HEADER_IB => gid::SYSFS_IB_ROCE_V1,
        _ => return Err(Errno::EPROTONOSUPPORT),
    };
    attr.grh.sgid_index = find(&destination, gid_type)? as u8;
    attr.grh.hop_limit = header[7];
    attr.grh.traffic_class = (first_word(header) >> 20) as u8;
    Ok(())
}

/// The Ethernet address of the RoCE peer that `attr` describes, and its VLAN (above 0xfff: none) if `vid` is
/// not NULL. May wait up to 3 s for the neighbour to answer. 0, or a negative number: -1 with `errno` where the
/// source GID cannot be read, else the negative error.
///
/// # Safety
/// `context` is null or open; `attr` is null or valid; `eth_mac` is null or has room for 6 bytes; `vid` is null
/// or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut u8,
    vid: *mut u16,
) -> c_int {
    let resolve = || {
        // SAFETY: by the contract.
        let (attr, mac) = unsafe {
            let mac = eth_mac.cast::<[u8; 6]>().as_mut().ok_or(Errno::EINVAL)?;
            (attr.as_ref().ok_or(Errno::EINVAL)?, mac)
        };
        // SAFETY: as above.
        let source = match unsafe { gid::query(context, attr.port_num, u32::from(attr.grh.sgid_index)) } {
            Ok(source) => source,
            Err(errno) => {
                errno.set();
                return Ok(-1);
            }
        };
        // SAFETY: every view of the GID union is 16 plain bytes.
        let (destination, source) = unsafe { (attr.grh.dgid.raw, source.raw) };
        let found = neigh::resolve(neigh::ip_of(&destination), neigh::ip_of(&source))?;
        *mac = found.mac;
        // SAFETY: as above.
        if let Some(vid) = unsafe { vid.as_mut() } {
            *vid = found.vlan;
        }
        Ok(0)
    };
    entry::number(
        call!("ibv_resolve_eth_l2_from_gid", context, attr, eth_mac = Address(eth_mac), out vid),
        resolve,
        |errno| -errno.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 undefined bytes, then an IPv4 header from 10.0.0.2 to 10.0.0.1 with a right checksum.
    fn ipv4_header(undefined: u8) -> [u8; GRH_BYTES] {
        let mut header = [undefined; GRH_BYTES];
        let ipv4 = [0x45, 0x08, 0, 60, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        header[IPV4_AT..].copy_from_slice(&ipv4);
        let sum: u32 = (IPV4_AT..GRH_BYTES)
            .step_by(2)
            .map(|at| u32::from(u16::from_be_bytes([header[at], header[at + 1]])))
            .sum();
        let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        header[IPV4_AT + 10..IPV4_AT + 12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    #[test]
    fn an_ipv4_header_is_known_whatever_stands_before_it() {
        assert_eq!(header_version(&ipv4_header(0)), Ok(4));
        assert_eq!(header_version(&ipv4_header(0x60)), Ok(4));
        let mut broken = ipv4_header(0x60);
        broken[IPV4_AT + 10] ^= 1;
        assert_eq!(header_version(&broken), Ok(6));
        assert_eq!(header_version(&[0; GRH_BYTES]), Err(Errno::EPROTONOSUPPORT));
    }

    #[test]
    fn the_answer_goes_to_the_sender() {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_ah_attr = unsafe { core::mem::zeroed() };
        let header = ipv4_header(0);
        answer_by_ipv4(&mut attr, &header, |gid, gid_type| {
            assert_eq!(gid[12..], [10, 0, 0, 1]);
            assert_eq!(gid_type, gid::SYSFS_ROCE_V2);
            Ok(3)
        })
        .unwrap();
        assert_eq!((attr.grh.sgid_index, attr.grh.hop_limit, attr.grh.traffic_class), (3, 64, 8));
        // SAFETY: every view of the GID union is 16 plain bytes.
        assert_eq!(unsafe { attr.grh.dgid.raw }[12..], [10, 0, 0, 2]);
    }

    #[test]
    fn multicast_destinations_have_no_source_gid() {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_ah_attr = unsafe { core::mem::zeroed() };
        let mut header = [0u8; GRH_BYTES];
        header[24] = 0xff;
        assert_eq!(answer_by_ipv6(&mut attr, &header, |_, _| Ok(0)), Err(Errno::EINVAL));
        header[24] = 0xfe;
        assert_eq!(answer_by_ipv6(&mut attr, &header, |_, _| Ok(0)), Err(Errno::EPROTONOSUPPORT));
        header[6] = NEXT_HEADER_IB;
        assert_eq!(answer_by_ipv6(&mut attr, &header, |_, _| Ok(0)), Ok(()));
    }
}
