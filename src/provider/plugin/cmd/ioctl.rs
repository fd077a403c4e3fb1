//! Commands whose attributes a provider builds itself, alone or behind those of a command of the core.

use core::ffi::{c_int, c_uint};
use core::slice;

use super::{file, live, value};
use crate::abi::driver::{
    BUFFER_ERROR, FALLBACK_IOCTL_ONLY, FALLBACK_REQUIRE_EX, UHW_NO_INDEX, ibv_command_buffer,
};
use crate::abi::uapi::rdma_user_ioctl_cmds::ib_uverbs_attr;
use crate::abi::verbs::ibv_context;
use crate::errno::{Errno, Result};
use crate::uverbs::command::{Prepared, execute_frame};

/// A link's attributes so far.
///
/// # Safety
/// See [the module](super).
unsafe fn attrs<'a>(link: *mut ibv_command_buffer) -> Result<&'a mut [ib_uverbs_attr]> {
    // SAFETY: see the module; the attributes follow the structure and end where the next one goes.
    unsafe {
        let first = link.add(1).cast::<ib_uverbs_attr>();
        let count = (*link).next_attr.addr().checked_sub(first.addr()).ok_or(Errno::EINVAL)?;
        Ok(slice::from_raw_parts_mut(first, count / size_of::<ib_uverbs_attr>()))
    }
}

/// The links of a chain, from `link` on.
///
/// # Safety
/// See [the module](super).
unsafe fn chain(link: *mut ibv_command_buffer) -> impl Iterator<Item = *mut ibv_command_buffer> {
    let start = (!link.is_null()).then_some(link);
    // SAFETY: see the module.
    core::iter::successors(start, |link| unsafe {
        let next = (**link).next;
        (!next.is_null()).then_some(next)
    })
}

/// The attributes that a provider links to a command of the core; none for null.
///
/// # Safety
/// See [the module](super).
pub(super) unsafe fn prepared<'a>(link: *mut ibv_command_buffer) -> Result<Prepared<'a>> {
    let mut prepared = Prepared::none();
    // SAFETY: see the module; a chain names every link once.
    unsafe {
        for link in chain(link) {
            prepared.push(attrs(link)?);
            let flags = (*link).flags;
            prepared.restrict(flags & FALLBACK_REQUIRE_EX != 0, flags & FALLBACK_IOCTL_ONLY != 0);
        }
    }
    Ok(prepared)
}

/// How many attributes a command has that brings `num_attrs` of its own to those of the chain `link`.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ioctl_final_num_attrs(num_attrs: c_uint, link: *mut ibv_command_buffer) -> c_uint {
    // SAFETY: see the module.
    let linked = unsafe { chain(link).map(|link| attrs(link).map_or(0, |attrs| attrs.len())) };
    num_attrs.wrapping_add(linked.sum::<usize>() as c_uint)
}

/// Gives the command that `cmd` and the links behind it describe, in one ioctl: the attributes of the links are
/// copied behind those of `cmd`, which has room for them, and get the kernel's answers. 0 or an errno value,
/// left in `errno` as well.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execute_ioctl(context: *mut ibv_context, cmd: *mut ibv_command_buffer) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let cmd = live(cmd)?;
        if (*cmd).flags & BUFFER_ERROR != 0 {
            return Err(Errno::EINVAL.also_set());
        }
        let own = attrs(cmd)?.len();
        let mut count = own;
        for link in chain((*cmd).next) {
            if (*link).uhw_in_idx != UHW_NO_INDEX {
                (*cmd).uhw_in_idx = (count + usize::from((*link).uhw_in_idx)) as u8;
            }
            count += attrs(link)?.len();
        }
        let first = cmd.add(1).cast::<ib_uverbs_attr>();
        let room = (*cmd).last_attr.addr().saturating_sub(first.addr()) / size_of::<ib_uverbs_attr>();
        (*cmd).hdr.num_attrs = u16::try_from(count).map_err(|_| Errno::EINVAL.also_set())?;
        if count > room {
            return Err(Errno::EINVAL.also_set());
        }
        let mut at = own;
        for link in chain((*cmd).next) {
            let linked = attrs(link)?;
            first.add(at).copy_from_nonoverlapping(linked.as_ptr(), linked.len());
            at += linked.len();
        }
        inline_driver_request(slice::from_raw_parts_mut(first, count), (*cmd).uhw_in_idx);
        execute_frame(file(context)?, &raw mut (*cmd).hdr)?;
        let mut at = own;
        for link in chain((*cmd).next) {
            let linked = attrs(link)?;
            linked.as_mut_ptr().copy_from_nonoverlapping(first.add(at), linked.len());
            at += linked.len();
        }
        Ok(())
    })
}

/// A driver's request of up to eight bytes goes inside its attribute, which has held its address until now.
///
/// # Safety
/// See [the module](super).
unsafe fn inline_driver_request(attrs: &mut [ib_uverbs_attr], index: u8) {
    if index == UHW_NO_INDEX {
        return;
    }
    if let Some(attr) = attrs.get_mut(usize::from(index))
        && usize::from(attr.len) <= size_of::<u64>()
    {
        let mut data = attr.data.to_ne_bytes();
        let start = core::ptr::with_exposed_provenance::<u8>(attr.data as usize);
        // SAFETY: see the module; the attribute says where its bytes are and how many.
        let request = unsafe { slice::from_raw_parts(start, attr.len.into()) };
        data[..request.len()].copy_from_slice(request);
        attr.data = u64::from_ne_bytes(data);
    }
}
