//! `umad_register2(3)`

use core::ffi::{c_int, c_uint};

use ironverbs_os::errno::{Errno, Result};

use super::entry;
use super::umad_register::{queue_pair, register};
use crate::abi::umad::umad_reg_attr;
use crate::abi::user_mad::{IB_USER_MAD_REGISTER_AGENT2, ib_user_mad_reg_req, ib_user_mad_reg_req2};
use crate::debug::trace;

/// Registers an agent. 0 and its number in `agent_id`; or an errno value, also in `errno`, and in the flags of
/// `attr` those that could be used.
///
/// # Safety
/// `attr` is null or what is wanted; `agent_id` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register2(
    port_fd: c_int,
    attr: *mut umad_reg_attr,
    agent_id: *mut u32,
) -> c_int {
    entry::value(|| {
        // SAFETY: by the contract.
        let (attr, agent_id) = unsafe { (attr.as_mut(), agent_id.as_mut()) };
        let (Some(attr), Some(agent_id)) = (attr, agent_id) else { return Err(Errno::EINVAL) };
        trace!(
            "umad_register2",
            "fd %d mgmt_class %u mgmt_class_version %u flags 0x%08x method_mask 0x%016lx %016lx\
             oui 0x%06x rmpp_version %u ",
            port_fd,
            c_uint::from(attr.mgmt_class),
            c_uint::from(attr.mgmt_class_version),
            attr.flags,
            attr.method_mask[0],
            attr.method_mask[1],
            attr.oui,
            c_uint::from(attr.rmpp_version),
        );
        if (0x30..=0x4f).contains(&attr.mgmt_class)
            && (attr.oui & 0x00ff_ffff == 0 || attr.oui & 0xff00_0000 != 0)
        {
            trace!(
                "umad_register2",
                "mgmt class %d is in vendor range 2 but oui (0x%08x) is invalid",
                c_int::from(attr.mgmt_class),
                attr.oui,
            );
            return Err(Errno::EINVAL);
        }

        let mut request = ib_user_mad_reg_req2 {
            qpn: queue_pair(attr.mgmt_class.into()).into(),
            mgmt_class: attr.mgmt_class,
            mgmt_class_version: attr.mgmt_class_version,
            flags: attr.flags,
            method_mask: attr.method_mask,
            oui: attr.oui,
            rmpp_version: attr.rmpp_version,
            ..Default::default()
        };
        match ask(port_fd, &mut request, attr.flags) {
            Ok(id) => {
                trace!(
                    "umad_register2",
                    "fd %d registered to use agent %d qp %d class 0x%x oui 0x%06x",
                    port_fd,
                    id,
                    request.qpn,
                    c_int::from(request.mgmt_class),
                    attr.oui,
                );
                *agent_id = id;
                Ok(())
            }
            Err(errno) => {
                attr.flags = request.flags;
                trace!(
                    "umad_register2",
                    "fd %d registering qp %d class 0x%x version %d oui 0x%06x failed flags returned 0x%x : %m",
                    port_fd,
                    request.qpn,
                    c_int::from(request.mgmt_class),
                    c_int::from(request.mgmt_class_version),
                    attr.oui,
                    request.flags,
                );
                Err(errno)
            }
        }
    })
}

/// Registers in the second form, or in the first one where the kernel does not know it and no flags are wanted.
fn ask(fd: c_int, request: &mut ib_user_mad_reg_req2, wanted_flags: u32) -> Result<u32> {
    // SAFETY: the kernel reads and writes the struct whose size is part of the request's number.
    if unsafe { libc::ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, core::ptr::from_mut(request)) } == 0 {
        return Ok(request.id);
    }
    let errno = Errno::last();
    if errno != Errno::ENOTTY && errno != Errno::EINVAL {
        return Err(errno);
    }
    trace!("umad_register2", "no kernel support for registration flags");
    // What the kernel answered there is not what a program learns from rdma-core.
    request.flags = 0;
    if wanted_flags != 0 {
        return Err(errno);
    }
    trace!("umad_register2", "attempting original register ioctl");
    let [_, a, b, c] = request.oui.to_be_bytes();
    let mut first_form = ib_user_mad_reg_req {
        qpn: request.qpn as u8,
        mgmt_class: request.mgmt_class,
        mgmt_class_version: request.mgmt_class_version,
        oui: [a, b, c],
        rmpp_version: request.rmpp_version,
        method_mask: words(request.method_mask),
        ..Default::default()
    };
    match register(fd, &mut first_form) {
        Ok(()) => Ok(first_form.id),
        Err(_) => Err(Errno::last()),
    }
}

/// The same bytes in words of 32 bits.
fn words(mask: [u64; 2]) -> [u32; 4] {
    // SAFETY: both types have 16 bytes and take every value.
    unsafe { core::mem::transmute(mask) }
}
