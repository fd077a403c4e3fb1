//! Flow specifications, from the form of programs to the form of the kernel.
//!
//! Both are a header with type and size, then values and mask of a filter, or the operand of an action.
//! Programs' filters stand where C puts them, and some may be longer than the kernel's; the kernel's stand
//! behind eight bytes of header.

use core::mem::offset_of;

use crate::abi::driver::{verbs_counters, verbs_flow_action};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::ib_uverbs_flow_spec_hdr;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};

const HEADER: usize = size_of::<ibv_flow_spec_anon1_hdr>();

/// What becomes of one kind of specification.
enum Rule {
    /// Values at one offset and mask at another, both of the kernel's size.
    Fixed { val: usize, mask: usize, size: usize },
    /// A filter that may grow: what fits `known` bytes is copied, the rest of the mask must be zeros. The
    /// kernel's filter has `size` bytes.
    Growing { kernel_type: u32, val: usize, known: usize, size: usize },
    /// An action with a number.
    Number(u32),
    /// An action without operand.
    Plain,
}

/// # Safety
/// `spec` is a specification with the size that its header says.
unsafe fn rule_of(spec: *const ibv_flow_spec, kind: u32) -> Result<Rule> {
    macro_rules! fixed {
        ($spec:ident, $filter:ident) => {
            Rule::Fixed {
                val: offset_of!($spec, val),
                mask: offset_of!($spec, mask),
                size: size_of::<$filter>(),
            }
        };
    }
    macro_rules! growing {
        ($spec:ident, $kind:expr, $known:expr, $size:expr) => {
            Rule::Growing { kernel_type: $kind, val: offset_of!($spec, val), known: $known, size: $size }
        };
    }
    const ETH: u32 = IBV_FLOW_SPEC_ETH as u32;
    const IPV4: u32 = IBV_FLOW_SPEC_IPV4 as u32;
    const IPV4_EXT: u32 = IBV_FLOW_SPEC_IPV4_EXT as u32;
    const IPV6: u32 = IBV_FLOW_SPEC_IPV6 as u32;
    const ESP: u32 = IBV_FLOW_SPEC_ESP as u32;
    const TCP: u32 = IBV_FLOW_SPEC_TCP as u32;
    const UDP: u32 = IBV_FLOW_SPEC_UDP as u32;
    const GRE: u32 = IBV_FLOW_SPEC_GRE as u32;
    const MPLS: u32 = IBV_FLOW_SPEC_MPLS as u32;
    const VXLAN: u32 = IBV_FLOW_SPEC_VXLAN_TUNNEL as u32;
    const TAG: u32 = IBV_FLOW_SPEC_ACTION_TAG as u32;
    const DROP: u32 = IBV_FLOW_SPEC_ACTION_DROP as u32;
    const ACTION: u32 = IBV_FLOW_SPEC_ACTION_HANDLE as u32;
    const COUNT: u32 = IBV_FLOW_SPEC_ACTION_COUNT as u32;
    let inner = kind & IBV_FLOW_SPEC_INNER as u32;
    // SAFETY: the type says which member of the union the program has set.
    let rule = unsafe {
        match kind & !inner {
            ETH => fixed!(ibv_flow_spec_eth, ibv_flow_eth_filter),
            IPV4 => fixed!(ibv_flow_spec_ipv4, ibv_flow_ipv4_filter),
            IPV4_EXT => growing!(ibv_flow_spec_ipv4_ext, IPV4 | inner, 12, 12),
            // The last byte of the kernel's filter is reserved.
            IPV6 => growing!(ibv_flow_spec_ipv6, kind, 39, 40),
            ESP => fixed!(ibv_flow_spec_esp, ibv_flow_esp_filter),
            TCP | UDP => fixed!(ibv_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter),
            MPLS => fixed!(ibv_flow_spec_mpls, ibv_flow_mpls_filter),
            _ if inner != 0 => return Err(Errno::EINVAL),
            GRE => fixed!(ibv_flow_spec_gre, ibv_flow_gre_filter),
            VXLAN => growing!(ibv_flow_spec_tunnel, kind, 4, 4),
            TAG => Rule::Number((*spec.cast::<ibv_flow_spec_action_tag>()).tag_id),
            DROP => Rule::Plain,
            ACTION => {
                let action = (*spec.cast::<ibv_flow_spec_action_handle>()).action;
                Rule::Number(action.cast::<verbs_flow_action>().as_ref().ok_or(Errno::EINVAL)?.handle)
            }
            COUNT => {
                let counters = (*spec.cast::<ibv_flow_spec_counter_action>()).counters;
                Rule::Number(counters.cast::<verbs_counters>().as_ref().ok_or(Errno::EINVAL)?.handle)
            }
            _ => return Err(Errno::EINVAL),
        }
    };
    Ok(rule)
}

/// The kernel's form of `count` specifications, which follow each other in memory.
///
/// EINVAL for an unknown type or one that is too short, EOPNOTSUPP for a mask that the kernel cannot be told.
///
/// # Safety
/// The specifications are there, each with the size that its header says.
pub(super) unsafe fn to_kernel(specs: *const ibv_flow_spec, count: u8) -> Result<Vec<u8>> {
    let mut kernel = Vec::new();
    let mut spec = specs;
    for _ in 0..count {
        // SAFETY: by the contract; a header stands at the start of each, and the next is as far as it says.
        unsafe {
            let header = (&raw const (*spec).anon1.hdr).read_unaligned();
            append(&mut kernel, spec, header)?;
            spec = spec.byte_add(header.size.into());
        }
    }
    Ok(kernel)
}

/// # Safety
/// `spec` is a specification that begins with `header`.
unsafe fn append(
    kernel: &mut Vec<u8>,
    spec: *const ibv_flow_spec,
    header: ibv_flow_spec_anon1_hdr,
) -> Result<()> {
    // SAFETY: by the contract.
    let rule = unsafe { rule_of(spec, header.type_) }?;
    let mut put_header = |type_: u32, operand_size: usize| {
        let size = (size_of::<ib_uverbs_flow_spec_hdr>() + operand_size) as u16;
        kernel.extend_from_slice(ib_uverbs_flow_spec_hdr { type_, size, reserved: 0 }.as_bytes());
    };
    // SAFETY: of a filter no more is read than its type and, where it may grow, its size say is there.
    let bytes = |offset: usize, len: usize| unsafe {
        core::slice::from_raw_parts(spec.cast::<u8>().add(offset), len)
    };
    match rule {
        Rule::Fixed { val, mask, size } => {
            put_header(header.type_, 2 * size);
            kernel.extend_from_slice(bytes(val, size));
            kernel.extend_from_slice(bytes(mask, size));
        }
        Rule::Growing { kernel_type, val, known, size } => {
            let given = usize::from(header.size).saturating_sub(HEADER) / 2;
            if given < known {
                return Err(Errno::EINVAL);
            }
            let mask = val + given;
            if bytes(mask + known, given - known).iter().any(|byte| *byte != 0) {
                return Err(Errno::EOPNOTSUPP);
            }
            put_header(kernel_type, 2 * size);
            for start in [val, mask] {
                kernel.extend_from_slice(bytes(start, known));
                kernel.resize(kernel.len() + size - known, 0);
            }
        }
        Rule::Number(number) => {
            put_header(header.type_, 8);
            kernel.extend_from_slice(&number.to_ne_bytes());
            kernel.extend_from_slice(&[0; 4]);
        }
        Rule::Plain => put_header(header.type_, 0),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_form<T>(spec: &T, count: u8) -> Result<Vec<u8>> {
        // SAFETY: the specification is a whole one of its type.
        unsafe { to_kernel(core::ptr::from_ref(spec).cast(), count) }
    }

    #[test]
    fn a_filter_moves_behind_the_kernels_header() {
        let filter = ibv_flow_eth_filter {
            dst_mac: [1, 2, 3, 4, 5, 6],
            src_mac: [7; 6],
            ether_type: 0x0008,
            vlan_tag: 0,
        };
        let mask =
            ibv_flow_eth_filter { dst_mac: [0xff; 6], src_mac: [0; 6], ether_type: 0xffff, vlan_tag: 0 };
        let size = size_of::<ibv_flow_spec_eth>() as u16;
        let spec = ibv_flow_spec_eth { type_: IBV_FLOW_SPEC_ETH as u32, size, val: filter, mask };
        let kernel = kernel_form(&spec, 1).expect("a known type");
        assert_eq!(kernel.len(), 40);
        assert_eq!(kernel[..8], [0x20, 0, 0, 0, 40, 0, 0, 0]);
        assert_eq!(kernel[8..14], [1, 2, 3, 4, 5, 6]);
        assert_eq!(kernel[20..22], [8, 0]);
        assert_eq!(kernel[24..30], [0xff; 6]);
    }

    #[test]
    fn specifications_follow_each_other_by_the_size_of_each() {
        #[repr(C)]
        struct Two {
            drop: ibv_flow_spec_action_drop,
            tag: ibv_flow_spec_action_tag,
        }
        let specs = Two {
            drop: ibv_flow_spec_action_drop { type_: IBV_FLOW_SPEC_ACTION_DROP as u32, size: 8 },
            tag: ibv_flow_spec_action_tag { type_: IBV_FLOW_SPEC_ACTION_TAG as u32, size: 12, tag_id: 77 },
        };
        let kernel = kernel_form(&specs, 2).expect("known types");
        assert_eq!(kernel.len(), 8 + 16);
        assert_eq!(kernel[4], 8);
        assert_eq!(kernel[8 + 4..], [16, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_the_kernel_does_not_know_must_not_be_in_the_mask() {
        // SAFETY: plain C data; all zeros is a value.
        let mut spec: ibv_flow_spec_ipv6 = unsafe { core::mem::zeroed() };
        spec.type_ = IBV_FLOW_SPEC_IPV6 as u32;
        spec.size = size_of::<ibv_flow_spec_ipv6>() as u16;
        spec.mask.hop_limit = 0xff;
        let kernel = kernel_form(&spec, 1).expect("a known type");
        assert_eq!((kernel.len(), kernel[8 + 40 + 38]), (88, 0xff));

        // One byte behind the last field of the mask.
        let end = size_of::<ibv_flow_spec_ipv6>() - 1;
        // SAFETY: the byte is padding of the specification's own.
        unsafe { core::ptr::from_mut(&mut spec).cast::<u8>().add(end).write(1) };
        assert_eq!(kernel_form(&spec, 1), Err(Errno::EOPNOTSUPP));
        spec.size = 80;
        assert_eq!(kernel_form(&spec, 1), Err(Errno::EINVAL));
    }

    #[test]
    fn an_extended_ipv4_filter_is_ipv4_for_the_kernel() {
        // SAFETY: plain C data; all zeros is a value.
        let mut spec: ibv_flow_spec_ipv4_ext = unsafe { core::mem::zeroed() };
        spec.type_ = IBV_FLOW_SPEC_IPV4_EXT as u32 | IBV_FLOW_SPEC_INNER as u32;
        spec.size = size_of::<ibv_flow_spec_ipv4_ext>() as u16;
        let kernel = kernel_form(&spec, 1).expect("a known type");
        assert_eq!(kernel[..6], [0x30, 1, 0, 0, 32, 0]);
        spec.type_ = IBV_FLOW_SPEC_GRE as u32 | IBV_FLOW_SPEC_INNER as u32;
        assert_eq!(kernel_form(&spec, 1), Err(Errno::EINVAL));
    }
}
