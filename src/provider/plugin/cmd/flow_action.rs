//! Flow actions.

use core::ffi::c_int;
use core::mem::offset_of;

use super::ioctl::prepared;
use super::{file, live, value};
use crate::abi::driver::{ibv_command_buffer, verbs_flow_action};
use crate::abi::uapi::Pod;
use crate::abi::verbs::*;
use crate::uverbs;
use crate::uverbs::flow_action::Esp;

/// `IBV_FLOW_ACTION_ESP`.
const FLOW_ACTION_ESP: u32 = 1;

/// # Safety
/// See [the module](super).
unsafe fn esp<'a>(attr: &'a ibv_flow_action_esp_attr) -> Esp<'a> {
    const ENCAP_SIZE: usize = size_of::<ib_uverbs_flow_action_esp_encap>();
    const _: () = assert!(offset_of!(ib_uverbs_flow_action_esp_encap, next_ptr) == 8 && ENCAP_SIZE == 24);
    // SAFETY: see the module; the lengths are those that the program states for its own memory.
    unsafe {
        let part = |start: *const u8, length: usize| -> Option<&'a [u8]> {
            (!start.is_null()).then(|| core::slice::from_raw_parts(start, length))
        };
        Esp {
            esn: (attr.comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN as u32 != 0).then(|| attr.esn.as_bytes()),
            keymat: part(attr.keymat_ptr.cast(), attr.keymat_len.into())
                .map(|keymat| (attr.keymat_proto as u8, keymat)),
            replay: part(attr.replay_ptr.cast(), attr.replay_len.into())
                .map(|replay| (attr.replay_proto as u8, replay)),
            encap: part(attr.esp_encap.cast(), ENCAP_SIZE),
            attrs: part(attr.esp_attr.cast(), size_of::<ib_uverbs_flow_action_esp>()),
        }
    }
}

/// Makes an ESP action; fills in all of it. `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_flow_action_esp(
    ctx: *mut ibv_context,
    attr: *mut ibv_flow_action_esp_attr,
    flow_action: *mut verbs_flow_action,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (attr, action) = (live(attr)?, live(flow_action)?);
        let handle = uverbs::flow_action::create_esp(file(ctx)?, &esp(&*attr), prepared(driver)?)?;
        (*action).action.context = ctx;
        (*action).type_ = FLOW_ACTION_ESP;
        (*action).handle = handle;
        Ok(())
    })
}

/// Changes an ESP action. `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_modify_flow_action_esp(
    flow_action: *mut verbs_flow_action,
    attr: *mut ibv_flow_action_esp_attr,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (attr, action) = (live(attr)?, live(flow_action)?);
        let file = file((*action).action.context)?;
        uverbs::flow_action::modify_esp(file, (*action).handle, &esp(&*attr), prepared(driver)?)
    })
}

/// Destroys an action in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_flow_action(action: *mut verbs_flow_action) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let action = live(action)?;
        uverbs::flow_action::destroy(file((*action).action.context)?, (*action).handle)
    })
}
