//! The kernel's interface, one file per kernel header: structures and numbers under the header's own names.
//!
//! Every structure is declared with the size and the offsets that a C compiler gives for the kernel header; a
//! difference stops the compilation, and so does padding, so that no undefined byte can go to the kernel.

#![allow(non_camel_case_types)]
#![allow(missing_docs, reason = "constants and fields carry the kernel header's names, and its meaning")]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the kernel interface is described for 64-bit machines");

pub mod ib_user_ioctl_cmds;
pub mod ib_user_ioctl_verbs;
pub mod ib_user_sa;
pub mod ib_user_verbs;
pub mod mlx5_abi;
pub mod rdma_netlink;
pub mod rdma_user_ioctl_cmds;
pub mod rdma_user_rxe;
pub mod siw_user;

/// Plain data: every byte pattern is a value, and there is no padding.
///
/// # Safety
///
/// Implemented by integers, arrays of them, and structures that `layout!` has proved to be made of such fields
/// only.
pub unsafe trait Pod: Copy + 'static {
    /// The value of which every byte is zero.
    #[must_use]
    fn zeroed() -> Self {
        // SAFETY: every byte pattern is a value of this type.
        unsafe { core::mem::zeroed() }
    }

    /// The bytes of the value.
    #[must_use]
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the reference covers size_of::<Self>() bytes, all initialised because there is no padding.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The bytes of the value, to be overwritten.
    #[must_use]
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_bytes`; whatever is written there is a value, because every byte pattern is.
        unsafe { core::slice::from_raw_parts_mut(core::ptr::from_mut(self).cast(), size_of::<Self>()) }
    }

    /// The value that starts `bytes`, or nothing when there are too few.
    #[must_use]
    fn read_from(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < size_of::<Self>() {
            return None;
        }
        // SAFETY: there are enough bytes, the read does not ask for alignment, and every byte pattern is a
        // value.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

macro_rules! pod_integers {
    ($($t:ty)*) => { $(
        // SAFETY: an integer has no padding and no invalid pattern.
        unsafe impl Pod for $t {}
    )* };
}
pod_integers!(u8 u16 u32 u64 i8 i16 i32 i64);

// SAFETY: an array puts its elements side by side, without padding of its own.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

/// Declares kernel structures with their size and the offset of every field, checks both, and makes them
/// [`Pod`].
macro_rules! layout {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident($size:literal) { $($field:ident : $ty:ty => $offset:literal,)* }
    )*) => { $(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $(pub $field: $ty,)* }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(0 $(+ size_of::<$ty>())* == $size, "implicit padding");
            $(assert!(core::mem::offset_of!($name, $field) == $offset);)*
            const fn all_pod<T: $crate::abi::uapi::Pod>() {}
            $(all_pod::<$ty>();)*
        };
        // SAFETY: the fields are plain data, and their sizes add up to the size, so there is no padding.
        unsafe impl $crate::abi::uapi::Pod for $name {}
        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::abi::uapi::Pod>::zeroed()
            }
        }
    )* };
}
use layout;

#[cfg(test)]
mod tests {
    use super::Pod;
    use super::ib_user_verbs::{ib_uverbs_cmd_hdr, ib_uverbs_query_port};

    #[test]
    fn bytes_and_values_are_two_views_of_one_thing() {
        let hdr = ib_uverbs_cmd_hdr { command: 0x0102_0304, in_words: 5, out_words: 6 };
        let bytes = hdr.as_bytes().to_vec();
        assert_eq!(bytes.len(), 8);
        let back = ib_uverbs_cmd_hdr::read_from(&bytes).expect("enough bytes");
        assert_eq!((back.command, back.in_words, back.out_words), (0x0102_0304, 5, 6));
        assert!(ib_uverbs_cmd_hdr::read_from(&bytes[..7]).is_none());
    }

    #[test]
    fn the_default_is_all_zero() {
        assert!(ib_uverbs_query_port::default().as_bytes().iter().all(|byte| *byte == 0));
    }
}
