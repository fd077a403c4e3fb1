//! Ports and their partition keys (`man ibv_query_port`, `man ibv_query_pkey`).

use core::ffi::c_int;
use core::mem::{offset_of, size_of};

use super::entry;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::observe::shown::Hex;
use crate::observe::{attributes, call};
use crate::provider::context;
use crate::provider::object::Handle;

/// The size of `ibv_port_attr` that programs linked to the function, rather than to the macro of `verbs.h`,
/// have.
const COMPATIBLE_SIZE: usize = offset_of!(ibv_port_attr, port_cap_flags2);
/// The size that programs built before rdma-core 49 have.
const SHORT_SIZE: usize = offset_of!(ibv_port_attr, active_speed_ex);

/// Writes the first `length` bytes of the port's attributes; what the library does not know becomes zero.
///
/// # Safety
/// `context` is null or open; `attr` is null or can be written for `length` bytes.
unsafe fn query(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
    length: usize,
) -> Result<()> {
    // SAFETY: by the contract.
    let provider = unsafe { context::provider(context) }?;
    if attr.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: plain C data; all zeros is its empty value.
    let mut all: ibv_port_attr = unsafe { core::mem::zeroed() };
    let target = attr.cast::<u8>();
    let whole = length >= SHORT_SIZE;
    if whole {
        // SAFETY: the caller has room for `length` bytes.
        unsafe { target.write_bytes(0, length) };
    }
    let done = provider.query_port(port_num, &mut all);
    // As with the rdma-core that the program was built with, a failure leaves what the provider wrote in a
    // struct of full size, and nothing in a smaller one.
    if whole || done.is_ok() {
        let known = length.min(size_of::<ibv_port_attr>());
        // SAFETY: as above; `known` bytes exist in `all`.
        unsafe { target.copy_from_nonoverlapping((&raw const all).cast(), known) };
    }
    done
}

/// The port's attributes in the form of old programs, without `port_cap_flags2`; 0 or an errno value.
///
/// # Safety
/// `context` is null or open; `port_attr` is null or can be written for 48 bytes.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_port@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: handed on to the caller.
    entry::value(
        call!("ibv_query_port", context, port_num, out port_attr = attributes::Port(port_attr.cast())),
        || unsafe { query(context, port_num, port_attr.cast(), COMPATIBLE_SIZE) },
    )
}

/// What the `ibv_query_port` macro of `verbs.h` calls: the attributes in the size that the program was compiled
/// with.
pub(super) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    port_attr_len: usize,
) -> c_int {
    // SAFETY: handed on to the caller.
    entry::value(
        call!(
            "ibv_query_port",
            context,
            port_num,
            out port_attr = attributes::Port(port_attr.cast()),
            port_attr_len
        ),
        || unsafe { query(context, port_num, port_attr, port_attr_len) },
    )
}

/// Speed of a port in units of 100 Mb/s, as what the device has of it now; 0 or an errno value.
///
/// # Safety
/// `context` is null or open; `port_speed` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    port_speed: *mut u64,
) -> c_int {
    entry::value(call!("ibv_query_port_speed", context, port_num, out port_speed), || {
        // SAFETY: handed on to the caller.
        let (provider, speed) =
            unsafe { (context::provider(context)?, port_speed.as_mut().ok_or(Errno::EINVAL)?) };
        provider.query_port_speed(port_num, speed)
    })
}

/// # Safety
/// `context` is null or open.
unsafe fn pkey(context: *mut ibv_context, port_num: u8, index: c_int) -> Result<__be16> {
    // SAFETY: by the contract.
    let private = context::private(unsafe { Handle::from_c(context) }?);
    private.context().query_pkey(private.device().info()?, port_num, index)
}

/// The partition key at `index` of the port's table, in network byte order with the membership bit as it is; 0,
/// or -1.
///
/// # Safety
/// `context` is null or open; `pkey` is null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_pkey@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut __be16,
) -> c_int {
    entry::minus_one(call!("ibv_query_pkey", context, port_num, index, out pkey), || {
        // SAFETY: the caller passes an open context and a place to write.
        let out = unsafe { pkey.as_mut() }.ok_or(Errno::EINVAL)?;
        // SAFETY: as above.
        *out = unsafe { self::pkey(context, port_num, index) }?;
        Ok(())
    })
}

/// The index of a partition key (network byte order, membership bit included) in the port's table; -1 where it
/// is not in.
///
/// # Safety
/// `context` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: __be16) -> c_int {
    let search = || {
        for index in 0.. {
            // SAFETY: handed on to the caller.
            if unsafe { self::pkey(context, port_num, index) }? == pkey {
                return Ok(index);
            }
        }
        Err(Errno::ENOENT)
    };
    entry::number(call!("ibv_get_pkey_index", context, port_num, pkey = Hex(pkey.into())), search, |errno| {
        errno.set();
        -1
    })
}

const _: () = assert!(COMPATIBLE_SIZE == 48 && SHORT_SIZE == 52);
