//! Flow rules.

use core::ffi::{c_int, c_void};

use super::{file, flow_spec, live, value};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::ib_uverbs_flow_attr;
use crate::abi::verbs::*;
use crate::uverbs::{self, Udata};

/// Installs a rule; fills in context and handle. `ucmd` is null or `ucmd_size` bytes for the driver. EINVAL or
/// EOPNOTSUPP, also in `errno`, for a specification that the kernel cannot be told.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_flow(
    qp: *mut ibv_qp,
    flow_id: *mut ibv_flow,
    flow_attr: *mut ibv_flow_attr,
    ucmd: *mut c_void,
    ucmd_size: usize,
) -> c_int {
    // SAFETY: see the module; the specifications follow the attributes.
    value(|| unsafe {
        let (qp, flow, attr) = (live(qp)?, live(flow_id)?, live(flow_attr)?);
        let specs = flow_spec::to_kernel(attr.add(1).cast(), (*attr).num_of_specs)
            .inspect_err(|errno| errno.set())?;
        let input = if ucmd.is_null() || ucmd_size == 0 {
            &[]
        } else {
            core::slice::from_raw_parts(ucmd.cast::<u8>(), ucmd_size)
        };
        let rule = ib_uverbs_flow_attr {
            type_: (*attr).type_,
            priority: (*attr).priority,
            num_of_specs: (*attr).num_of_specs,
            port: (*attr).port,
            flags: (*attr).flags,
            ..Pod::zeroed()
        };
        let context = (*qp).context;
        let udata = Udata { input, output: &mut [] };
        let handle = uverbs::flow::create(file(context)?, (*qp).handle, rule, &specs, udata)?;
        (*flow).context = context;
        (*flow).handle = handle;
        Ok(())
    })
}

/// Removes a rule in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_flow(flow_id: *mut ibv_flow) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let flow = live(flow_id)?;
        uverbs::flow::destroy(file((*flow).context)?, (*flow).handle)
    })
}
