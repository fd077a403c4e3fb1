//! The layouts of the private provider ABI, one row each, and how they are told apart.
//!
//! rdma-core numbers its private ABI (`IBVERBS_PRIVATE_NN`, suffix `-rdmavNN.so`), and releases of one number
//! may differ: here a number is a [`Generation`], and what its plugins share with the library is a [`Layout`].
//! A plugin's generation is known by the function with which it registers or makes its context, as each number
//! has its own.

use core::ffi::c_void;
use core::mem::{offset_of, size_of};
use core::ptr::NonNull;

use crate::abi::driver::ops::{op, with_operations};
use crate::abi::driver::verbs_context_ops;
use crate::abi::uapi::ib_user_ioctl_verbs::*;
use crate::abi::verbs::{ibv_context, ibv_qp_ex, verbs_context};

/// A number of the private provider ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u32);

impl Generation {
    /// Its layouts.
    pub fn layouts(self) -> impl Iterator<Item = &'static Layout> {
        LAYOUTS.iter().filter(move |layout| layout.generation == self)
    }
}

/// What a plugin shares with the library, as far as releases differ (bytes).
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number.
    pub generation: Generation,
    /// The first and the last release with this layout.
    pub releases: (u32, u32),
    /// Size of `verbs_context`, which grows at its start: `ibv_context` is its end in all of them.
    pub context_size: usize,
    /// The release whose operations the table has: those of [`since`] up to it.
    pub operations: u32,
    /// Where `comp_mask` may stand in a `verbs_qp`.
    pub qp_masks: &'static [usize],
}

const WORD: usize = size_of::<usize>();

/// A layout whose `verbs_context` has so many words in front of the `ibv_context`. What these structs hold of
/// the C library (mutexes and conditions) has another size on each architecture, so that only differences are
/// the same on all.
const fn layout(
    generation: u32,
    releases: (u32, u32),
    words: usize,
    operations: u32,
    qp_masks: &'static [usize],
) -> Layout {
    let context_size = words * WORD + size_of::<ibv_context>();
    Layout { generation: Generation(generation), releases, context_size, operations, qp_masks }
}

/// The end of `ibv_qp_ex`, where `verbs_qp` goes on: in releases up to 43, in 44, and in 45 and later, which
/// have the functions of this library's.
const QP_MASKS: [usize; 3] =
    [size_of::<ibv_qp_ex>() - 2 * WORD, size_of::<ibv_qp_ex>() - WORD, size_of::<ibv_qp_ex>()];

/// Every layout. Generation 34 has one table of operations from release 36 on; its three forms of `verbs_qp`
/// are told apart when the first queue pair shows its mark ([`QpMask`](super::qp_mask::QpMask)).
pub static LAYOUTS: [Layout; 7] = [
    layout(33, (33, 33), 40, 33, &[QP_MASKS[0]]),
    layout(34, (36, 56), 40, 36, &QP_MASKS),
    layout(57, (57, 58), 40, 36, &[QP_MASKS[2]]),
    layout(59, (59, 61), 43, 59, &[QP_MASKS[2]]),
    layout(59, (62, 63), 44, 62, &[QP_MASKS[2]]),
    layout(64, (64, 64), 46, 64, &[QP_MASKS[2]]),
    layout(65, (65, 65), 46, 65, &[QP_MASKS[2]]),
];

/// The release that brought an operation; 33 for those that were there before.
const fn since(name: &str) -> u32 {
    match name.as_bytes() {
        b"reg_dmabuf_mr" => 34,
        b"import_dm" | b"unimport_dm" => 35,
        b"query_qp_data_in_order" => 36,
        b"alloc_dmah" | b"dealloc_dmah" | b"reg_mr_ex" => 59,
        b"dm_export_dmabuf_fd" | b"query_port_speed" => 62,
        b"alloc_buf" | b"free_buf" => 64,
        b"create_comp_cntr"
        | b"destroy_comp_cntr"
        | b"inc_comp_cntr"
        | b"inc_err_comp_cntr"
        | b"qp_attach_comp_cntr"
        | b"query_comp_cntr_caps"
        | b"read_comp_cntr"
        | b"read_err_comp_cntr"
        | b"set_comp_cntr"
        | b"set_err_comp_cntr" => 65,
        _ => 33,
    }
}

macro_rules! newest {
    ($($name:ident($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)?;)+) => {
        /// The plugin's table in the newest layout; what its release did not know is NULL. Releases insert
        /// operations in the order of their names, so each is the next word of those that its release has.
        ///
        /// # Safety
        /// `given` is a table of that layout.
        pub unsafe fn newest(layout: &Layout, given: NonNull<c_void>) -> verbs_context_ops {
            let mut next = given.cast::<usize>().as_ptr().cast_const();
            let mut word = || {
                let here = next;
                next = next.wrapping_add(1);
                here
            };
            // SAFETY: the contract says that the table has as many words as operations are taken from it.
            unsafe {
                verbs_context_ops {
                    $($name: if since(stringify!($name)) <= layout.operations {
                        word().cast::<Option<op::$name>>().read()
                    } else {
                        None
                    },)+
                }
            }
        }

        /// The operations of a layout, in their order.
        #[cfg(test)]
        pub fn operations(layout: &Layout) -> Vec<&'static str> {
            [$(stringify!($name)),+].into_iter().filter(|name| since(name) <= layout.operations).collect()
        }
    };
}
with_operations!(newest);

/// How far before the `ibv_context` the size of the whole stands.
const SIZE_BEFORE: usize = offset_of!(verbs_context, context) - offset_of!(verbs_context, sz);

/// The `ibv_context` at the end of a `verbs_context` of that size.
///
/// # Safety
/// `verbs` points to as many bytes.
pub unsafe fn public(verbs: NonNull<verbs_context>, context_size: usize) -> NonNull<ibv_context> {
    // SAFETY: by the contract.
    unsafe { verbs.byte_add(context_size - size_of::<ibv_context>()).cast() }
}

/// The `ibv_context` of a context that [`_verbs_init_and_alloc_context`](super::context) has made, of whatever
/// layout; none if it was not.
///
/// The library itself has put each context's size behind its slots. In a longer one a slot stands where a
/// shorter one keeps its size, and no function has so low an address.
///
/// # Safety
/// `verbs` points to such a context, which a plugin hands back.
pub unsafe fn of_any_size(verbs: NonNull<verbs_context>) -> Option<NonNull<ibv_context>> {
    let mut sizes = LAYOUTS.iter().map(|layout| layout.context_size);
    // SAFETY: sizes ascend, and every context is at least as long as the first that fits.
    unsafe {
        let size =
            sizes.find(|&size| public(verbs, size).byte_sub(SIZE_BEFORE).cast::<usize>().read() == size)?;
        Some(public(verbs, size))
    }
}

/// The sizes (bytes) of what providers ask for as their context, by kernel driver: in releases 59 to 61, and in
/// 62 and 63. The number of the ABI is the same, `verbs_context` is not, and nothing else in the call tells.
#[cfg(target_arch = "x86_64")]
const SIZES_OF_59: &[(u32, &[usize], &[usize])] = &[
    // mlx5's device over VFIO, which has no driver in the kernel.
    (RDMA_DRIVER_UNKNOWN, &[47_584], &[47_592]),
    (RDMA_DRIVER_BNXT_RE, &[824], &[832]),
    (RDMA_DRIVER_CXGB4, &[688], &[696]),
    (RDMA_DRIVER_EFA, &[744], &[752, 768]),
    (RDMA_DRIVER_ERDMA, &[66352], &[66360]),
    (RDMA_DRIVER_HFI1, &[672], &[680]),
    (RDMA_DRIVER_HNS, &[9072], &[9080]),
    (RDMA_DRIVER_IONIC, &[49920], &[49928]),
    (RDMA_DRIVER_IRDMA, &[744], &[752]),
    (RDMA_DRIVER_MANA, &[131_816], &[131_824]),
    (RDMA_DRIVER_MLX4, &[9160], &[9168]),
    (RDMA_DRIVER_MLX5, &[268_016], &[268_024]),
    (RDMA_DRIVER_MTHCA, &[4856], &[4864]),
    (RDMA_DRIVER_OCRDMA, &[728], &[736]),
    (RDMA_DRIVER_QEDR, &[768], &[776]),
    (RDMA_DRIVER_QIB, &[672], &[680]),
    (RDMA_DRIVER_RXE, &[672], &[680]),
    (RDMA_DRIVER_SIW, &[680], &[688]),
    (RDMA_DRIVER_VMW_PVRDMA, &[704], &[712]),
];

/// The same where a mutex is longer: some of these sizes are those of another release on x86-64.
#[cfg(target_arch = "aarch64")]
const SIZES_OF_59: &[(u32, &[usize], &[usize])] = &[
    (RDMA_DRIVER_UNKNOWN, &[47_872], &[47_880]),
    (RDMA_DRIVER_BNXT_RE, &[840], &[848]),
    (RDMA_DRIVER_CXGB4, &[696], &[704]),
    (RDMA_DRIVER_EFA, &[752], &[760, 776]),
    (RDMA_DRIVER_ERDMA, &[66_376], &[66_384]),
    (RDMA_DRIVER_HFI1, &[680], &[688]),
    (RDMA_DRIVER_HNS, &[9104], &[9112]),
    (RDMA_DRIVER_IONIC, &[49_936], &[49_944]),
    (RDMA_DRIVER_IRDMA, &[752], &[760]),
    (RDMA_DRIVER_MANA, &[131_832], &[131_840]),
    (RDMA_DRIVER_MLX4, &[9192], &[9200]),
    (RDMA_DRIVER_MLX5, &[268_088], &[268_096]),
    (RDMA_DRIVER_MTHCA, &[4872], &[4880]),
    (RDMA_DRIVER_OCRDMA, &[744], &[752]),
    (RDMA_DRIVER_QEDR, &[776], &[784]),
    (RDMA_DRIVER_QIB, &[680], &[688]),
    (RDMA_DRIVER_RXE, &[680], &[688]),
    (RDMA_DRIVER_SIW, &[688], &[696]),
    (RDMA_DRIVER_VMW_PVRDMA, &[712], &[720]),
];

/// Not measured: every plugin of this generation is refused.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SIZES_OF_59: &[(u32, &[usize], &[usize])] = &[];

/// The layout of a plugin that makes a context of `alloc_size` bytes; what to say if it cannot be told.
pub fn of_context(
    generation: Generation,
    driver_id: u32,
    alloc_size: usize,
) -> Result<&'static Layout, String> {
    let mut layouts = generation.layouts();
    let (Some(first), second) = (layouts.next(), layouts.next()) else {
        return Err(format!("private version {} is not supported", generation.0));
    };
    let Some(second) = second else { return Ok(first) };
    let known = SIZES_OF_59.iter().find(|row| row.0 == driver_id);
    match known {
        Some((_, sizes, _)) if sizes.contains(&alloc_size) => Ok(first),
        Some((_, _, sizes)) if sizes.contains(&alloc_size) => Ok(second),
        _ => Err(format!(
            "cannot tell of which release a plugin is: private version {}, kernel driver {driver_id}, \
             context of \
             {alloc_size} bytes; supported are {}",
            generation.0,
            known.map_or("the providers of rdma-core 59 to 63".to_owned(), |(_, first, second)| format!(
                "{first:?} (rdma-core 59 to 61) and {second:?} (62 and 63)"
            )),
        )),
    }
}

#[cfg(test)]
mod tests;
