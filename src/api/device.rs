//! Devices: finding, naming, opening, asking (`man ibv_get_device_list`, `man ibv_open_device`, `man
//! ibv_query_device`).

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::mem::size_of;

use ironverbs_os::fork::ProcessMutex;
use ironverbs_os::growth::{TryPush, try_collect, try_room};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;

use super::{entry, fork, table};
use crate::abi::verbs::*;
use crate::environment;
use crate::errno::{Errno, Result};
use crate::log::{self, trace};
use crate::observe::shown::Address;
use crate::observe::{self, Call, attributes, call};
use crate::provider::device::{Device, DeviceRef, Found};
use crate::provider::object::Handle;
use crate::provider::{Opening, context, discovery};
use crate::uverbs;

/// Below this a program can hardly register anything.
const SMALL_MEMLOCK_LIMIT: u64 = 32_768;

/// The devices of the last list. A device keeps its pointer from list to list while it stays plugged in.
static KNOWN: ProcessMutex<Known> = ProcessMutex::new(Known { devices: Vec::new(), settled: false });

#[derive(Default)]
struct Known {
    devices: Vec<DeviceRef>,
    /// Whether the settings were read.
    settled: bool,
}

/// Set, and not exactly `0`: how rdma-core reads switches in the environment.
fn switched_on(name: &str) -> bool {
    environment::harmless(name).is_some_and(|value| value != "0")
}

/// What the environment and the limits of the process say, looked at before the first list.
fn read_settings() {
    if (switched_on("RDMAV_FORK_SAFE") || switched_on("IBV_FORK_SAFE")) && fork::initialise().is_err() {
        log::warn(format_args!("fork()-safety requested but init failed"));
    }
    uverbs::set_allow_disassociate_destroy(
        switched_on("RDMAV_ALLOW_DISASSOC_DESTROY") || switched_on("MLX4_DEVICE_FATAL_CLEANUP"),
    );
    warn_of_small_memlock_limit();
}

fn warn_of_small_memlock_limit() {
    if geteuid().is_root() {
        return;
    }
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return log::warn(format_args!("getrlimit(RLIMIT_MEMLOCK) failed."));
    };
    if limit <= SMALL_MEMLOCK_LIMIT {
        log::warn(format_args!(
            "RLIMIT_MEMLOCK is {} bytes.\n    This will severely limit memory registrations.",
            limit
        ));
    }
}

/// Brings the known devices up to date: those that are gone leave, new ones stand before the old ones.
fn refresh(known: &mut Vec<DeviceRef>) -> Result<()> {
    let mut found = discovery::devices()?;
    known.retain(|device| {
        let place =
            device.info().ok().and_then(|known| found.iter().position(|info| info.same_device(known)));
        place.map(|place| found.remove(place)).is_some()
    });
    let mut unclaimed = try_room(found.len())?;
    for info in found {
        unclaimed.push_reserved(Found::new(info)?);
    }
    let (mut fresh, left) = discovery::claim(unclaimed)?;
    fresh.try_reserve(known.len())?;
    if log::enabled(log::Level::Info) {
        for device in &fresh {
            let name = device.info().map_or("", |info| info.ibdev_name.as_str());
            trace!(Info, "{name}: driven by {}", device.provider_name());
        }
    }
    for found in left {
        let name = &found.info().ibdev_name;
        if environment::harmless("IBV_SHOW_WARNINGS").is_some() {
            log::warn(format_args!("no userspace device-specific driver found for {name}"));
        } else {
            trace!(Info, "{name}: no provider drives it");
        }
    }
    fresh.try_extend(known.drain(..))?;
    *known = fresh;
    Ok(())
}

/// The devices there are now.
pub(super) fn list() -> Result<Vec<DeviceRef>> {
    let mut known = KNOWN.lock().map_err(|error| Errno(error.errno()).also_set())?;
    if !std::mem::replace(&mut known.settled, true) {
        read_settings();
    }
    refresh(&mut known.devices)?;
    Ok(try_collect(known.devices.iter().cloned())?)
}

/// A NULL-terminated array of the devices there are, for [`ibv_free_device_list`]; `num` (or NULL) gets their
/// number. NULL and `errno` on failure; no device at all is an empty array.
///
/// # Safety
/// `num` is null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_device_list@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_get_device_list(num: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: by the contract.
    let mut count = unsafe { num.as_mut() };
    if let Some(count) = &mut count {
        **count = 0;
    }
    let array = || {
        let devices = list()?;
        // SAFETY: calloc of a plain array; zeroed, so it ends with NULL.
        let array = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) };
        let array = array.cast::<*mut ibv_device>();
        if array.is_null() {
            return Err(Errno::ENOMEM);
        }
        if let Some(count) = count {
            *count = devices.len() as c_int;
        }
        for (place, device) in devices.into_iter().enumerate() {
            // SAFETY: the array has one place for each device, and one more.
            unsafe { *array.add(place) = device.into_c() };
        }
        Ok(array)
    };
    entry::number(call!("ibv_get_device_list", out num), array, |errno| {
        errno.set();
        core::ptr::null_mut()
    })
}

/// Lets go of a list. Devices that are open stay usable.
///
/// # Safety
/// `list` is null or came from [`ibv_get_device_list`] and has not been freed.
#[cfg_attr(not(test), unsafe(export_name = "ibv_free_device_list@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    entry::nothing(call!("ibv_free_device_list", list = Address(list)), || {
        if list.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract this is an array that ends with NULL, each element a reference given by
        // `into_c`.
        unsafe {
            let mut place = list;
            while let Ok(device) = Handle::from_c(*place) {
                drop(DeviceRef::from_c(device));
                place = place.add(1);
            }
            libc::free(list.cast());
        }
        Ok(())
    });
}

/// # Safety
/// `device` is null or live.
unsafe fn known_device<'a>(device: *mut ibv_device) -> Result<&'a Device> {
    // SAFETY: every ibv_device that we give out is the first field of a Device.
    unsafe { Ok(Handle::from_c(device)?.object::<Device>()) }
}

/// The kernel's name of the device, for example `rxe0`; it lives as long as the device.
///
/// # Safety
/// `device` is null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_device_name@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    entry::plain(call!("ibv_get_device_name", device), || {
        if device.is_null() {
            return core::ptr::null();
        }
        // SAFETY: a live device; its name is a NUL-terminated array inside it.
        unsafe { (&raw const (*device).name).cast::<c_char>() }
    })
}

/// The node GUID in network byte order; 0 where it cannot be read.
///
/// # Safety
/// `device` is null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_device_guid@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> __be64 {
    entry::number_shown(
        call!("ibv_get_device_guid", device),
        || {
            // SAFETY: handed on to the caller.
            let info = unsafe { known_device(device) }?.info()?;
            Ok(info.node_guid().map_or(0, u64::to_be))
        },
        |_| 0,
        |guid, line| {
            let _ = write!(line, "{:#018x}", u64::from_be(*guid));
        },
    )
}

/// The kernel's index of the device, which no other device gets until it is gone; -1 from kernels without it.
///
/// # Safety
/// `device` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    entry::number(
        call!("ibv_get_device_index", device), // SAFETY: handed on to the caller.
        || Ok(unsafe { known_device(device) }?.found().map_or(-1, |found| found.info().ibdev_idx)),
        |_| -1,
    )
}

/// Opens a device; NULL and `errno` on failure.
///
/// # Safety
/// `device` is null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_open_device@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: handed on to the caller.
    unsafe { open(call!("ibv_open_device", device), device, core::ptr::null_mut()) }
}

/// As [`ibv_open_device`], for a plugin's own library, whose `private_data` the plugin gets.
///
/// # Safety
/// `device` is null or live, `private_data` what its plugin expects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_open_device(
    device: *mut ibv_device,
    private_data: *mut c_void,
) -> *mut ibv_context {
    // SAFETY: handed on to the caller.
    unsafe { open(call!("verbs_open_device", device, private_data), device, private_data) }
}

/// # Safety
/// As for [`verbs_open_device`].
unsafe fn open(call: Call<'_>, device: *mut ibv_device, private_data: *mut c_void) -> *mut ibv_context {
    entry::pointer(call, || {
        // SAFETY: the caller passes a live device.
        let device = DeviceRef::acquire(unsafe { Handle::from_c(device) }?);
        // SAFETY: handed on to the caller.
        let opening = unsafe { device.open(private_data) }?;
        finish_open(device, opening)
    })
}

/// Completes the C context of a device that its provider has opened.
pub(super) fn finish_open(device: DeviceRef, opening: Opening) -> Result<Handle<ibv_context>> {
    match opening {
        Opening::Native(opened) => {
            let async_fd = opened.context.open_async_events()?;
            let context = context::create(device, opened, async_fd);
            table::fill(context::verbs(context));
            if observe::may_be_seen() {
                table::observe(context::verbs(context));
            }
            Ok(context)
        }
        Opening::Plugin(context) => {
            table::library(context::verbs(context));
            if observe::may_be_seen() {
                table::observe_plugin(context::verbs(context));
            }
            // A device that the kernel's list does not name has no command file either.
            if device.found().is_some() {
                match context::private(context).context().open_async_events() {
                    Ok(async_fd) => context::set_async_fd(context, async_fd),
                    Err(errno) => {
                        context::destroy(context);
                        return Err(errno);
                    }
                }
            }
            Ok(context)
        }
    }
}

/// Closes a device. Objects that the program has not destroyed are lost with it; 0 or an errno value.
///
/// # Safety
/// `context` is null or open.
#[cfg_attr(not(test), unsafe(export_name = "ibv_close_device@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    entry::value(call!("ibv_close_device", context), || {
        // SAFETY: the caller passes an open context and gives it up.
        context::destroy(unsafe { Handle::from_c(context) }?);
        Ok(())
    })
}

/// The first attributes of a device; 0 or an errno value. The provider alone decides what of `device_attr`
/// changes, also when it fails.
///
/// # Safety
/// `context` is null or open, `device_attr` null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_device@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    device_attr: *mut ibv_device_attr,
) -> c_int {
    entry::value(call!("ibv_query_device", context, out device_attr), || {
        // SAFETY: the caller passes an open context and a place to write.
        let (provider, device_attr) =
            unsafe { (context::provider(context)?, device_attr.as_mut().ok_or(Errno::EINVAL)?) };
        let mut attr = ibv_device_attr_ex { orig_attr: *device_attr, ..empty_attributes() };
        let done = provider.query_device(None, &mut attr, size_of::<ibv_device_attr>());
        *device_attr = attr.orig_attr;
        done
    })
}

/// `ibv_query_device_ex`: all attributes, of which the program has room for the first `attr_size` bytes.
pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
) -> c_int {
    entry::value(
        call!("ibv_query_device_ex", context, input, out attr = attributes::DeviceAttrEx(attr), attr_size),
        || {
            // SAFETY: the caller passes an open context and valid or null input.
            let (provider, input) = unsafe { (context::provider(context)?, input.as_ref()) };
            if attr.is_null() {
                return Err(Errno::EINVAL);
            }
            if input.is_some_and(|input| input.comp_mask != 0) || attr_size < size_of::<ibv_device_attr>() {
                return Err(Errno::EINVAL);
            }
            let mut all = empty_attributes();
            let target = attr.cast::<u8>();
            // SAFETY: the caller has room for `attr_size` bytes.
            unsafe { target.write_bytes(0, attr_size) };
            let outcome = provider.query_device(input, &mut all, attr_size);
            let known = attr_size.min(size_of::<ibv_device_attr_ex>());
            // Also after a failure the program finds what the provider had written by then.
            // SAFETY: the caller has room for `attr_size` bytes, and `known` bytes exist in `all`.
            unsafe { target.copy_from_nonoverlapping((&raw const all).cast(), known) };
            outcome
        },
    )
}

fn empty_attributes() -> ibv_device_attr_ex {
    // SAFETY: plain C data without pointers; all zeros is its empty value.
    unsafe { core::mem::zeroed() }
}

/// `ibv_query_rt_values_ex`: values that change while the device runs, such as its raw clock.
pub(super) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    entry::value(call!("ibv_query_rt_values_ex", context, out values), || {
        // SAFETY: the caller passes an open context and a place to write.
        let (provider, values) =
            unsafe { (context::provider(context)?, values.as_mut().ok_or(Errno::EINVAL)?) };
        provider.query_rt_values(values)
    })
}
