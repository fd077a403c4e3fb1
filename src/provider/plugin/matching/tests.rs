//! A driver's table and functions against devices, with tables made here as a plugin has them.

use super::*;
use crate::abi::driver::{verbs_device, verbs_match_ent_u, verbs_sysfs_dev};
use crate::uverbs::discovery::DeviceInfo;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};

fn device(name: &str, driver_id: Option<u32>, modalias: &str) -> Box<Found> {
    let mut info = DeviceInfo::for_tests(name, modalias);
    info.driver_id = driver_id;
    info.abi_ver = 2;
    Found::new(info).unwrap()
}

fn line(kind: u8, u: verbs_match_ent_u) -> verbs_match_ent {
    verbs_match_ent { driver_data: null_mut(), u, vendor: 0, device: 0, kind }
}

fn number(driver_id: u64) -> verbs_match_ent {
    line(match_kind::DRIVER_ID, verbs_match_ent_u { driver_id })
}

fn pattern(text: &'static CStr) -> verbs_match_ent {
    line(match_kind::MODALIAS, verbs_match_ent_u { modalias: text.as_ptr() })
}

fn pci(vendor: u16, device: u16) -> verbs_match_ent {
    verbs_match_ent { vendor, device, ..line(match_kind::PCI, verbs_match_ent_u { driver_id: 0 }) }
}

unsafe extern "C" fn alloc_device(_sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    // SAFETY: plain C data; all zeros is its empty value.
    Box::into_raw(Box::new(unsafe { core::mem::zeroed() }))
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: what `alloc_device` made, given back once.
    drop(unsafe { Box::from_raw(device) });
}

/// A driver with that table, for as long as the test process lives.
fn driver(name: &'static CStr, table: Vec<verbs_match_ent>) -> &'static mut verbs_device_ops {
    let table = table.into_iter().chain([line(match_kind::SENTINEL, verbs_match_ent_u { driver_id: 0 })]);
    Box::leak(Box::new(verbs_device_ops {
        name: name.as_ptr(),
        match_min_abi_version: 1,
        match_max_abi_version: 3,
        match_table: Vec::leak(table.collect()).as_ptr(),
        static_providers: null_mut(),
        match_device: None,
        alloc_context: None,
        import_context: None,
        alloc_device: Some(alloc_device),
        uninit_device: Some(uninit_device),
    }))
}

fn registered(ops: &'static mut verbs_device_ops) -> Driver {
    // SAFETY: leaked, so valid for the rest of the process.
    unsafe { Driver::new(NonNull::from(ops), Generation(34)) }
}

/// The name of the driver that takes the device.
fn taker(drivers: &[Driver], found: Box<Found>) -> Option<String> {
    claim(drivers, found).ok().map(|device| device.provider_name())
}

#[test]
fn the_number_of_the_kernels_driver_comes_before_order_and_name() {
    let drivers = [
        registered(driver(c"by_name", vec![pattern(c"rdma_device:*Nrxe*")])),
        registered(driver(c"by_number", vec![number(14)])),
    ];
    assert_eq!(taker(&drivers, device("rxe0", Some(14), "")).as_deref(), Some("by_number"));
    assert_eq!(taker(&drivers, device("rxe0", None, "")).as_deref(), Some("by_name"));
    assert_eq!(taker(&drivers, device("rxe0", Some(9), "")).as_deref(), Some("by_name"));
    assert_eq!(taker(&drivers, device("siw0", Some(9), "")), None);
    // 0 stands for an unknown driver and is no number to match.
    assert_eq!(taker(&[registered(driver(c"zero", vec![number(0)]))], device("x", Some(0), "")), None);
}

#[test]
fn bus_addresses_fit_numbers_and_patterns() {
    const CARD: &str = "pci:v000015B3d00001017sv000015B3sd00000020bc02sc07i00";
    let by_pci = [registered(driver(c"card", vec![pci(0x15b3, 0x1013), pci(0x15b3, 0x1017)]))];
    assert_eq!(taker(&by_pci, device("mlx5_0", None, CARD)).as_deref(), Some("card"));
    assert_eq!(taker(&by_pci, device("mlx5_0", None, "pci:v000015B3d00001018sv0")), None);
    assert_eq!(taker(&by_pci, device("mlx5_0", None, "")), None);
    let by_pattern = [registered(driver(c"acpi", vec![pattern(c"acpi*:HISI00D1:*")]))];
    assert_eq!(taker(&by_pattern, device("hns_0", None, "acpi:HISI00D1:")).as_deref(), Some("acpi"));
}

#[test]
fn the_line_that_fits_is_there_for_the_driver() {
    static DATA: u8 = 7;
    let data: *const u8 = &DATA;
    unsafe extern "C" fn has_data(sysfs: *mut verbs_sysfs_dev) -> bool {
        // SAFETY: called while the struct lives; `match_` is null or a line of the table.
        unsafe { (*sysfs).match_.as_ref() }.is_some_and(|line| !line.driver_data.is_null())
    }
    let with_data = verbs_match_ent { driver_data: data.cast_mut().cast(), ..number(14) };
    let ops = driver(c"picky", vec![number(13), with_data]);
    ops.match_device = Some(has_data);
    let drivers = [registered(ops)];
    assert!(taker(&drivers, device("rxe0", Some(14), "")).is_some());
    assert_eq!(taker(&drivers, device("rxe0", Some(13), "")), None);
}

#[test]
fn a_function_decides_also_without_a_table() {
    unsafe extern "C" fn yes(_sysfs: *mut verbs_sysfs_dev) -> bool {
        true
    }
    let ops = driver(c"any", vec![]);
    ops.match_table = null();
    let without = registered(driver(c"none", vec![]));
    assert_eq!(taker(&[without], device("rxe0", Some(14), "")), None);
    ops.match_device = Some(yes);
    assert_eq!(taker(&[without, registered(ops)], device("rxe0", None, "")).as_deref(), Some("any"));
}

#[test]
fn other_versions_of_the_kernels_interface_are_refused() {
    let ops = driver(c"new", vec![number(14)]);
    ops.match_min_abi_version = 3;
    let (new, old) = (registered(ops), registered(driver(c"old", vec![number(14)])));
    assert_eq!(taker(&[new, old], device("rxe0", Some(14), "")).as_deref(), Some("old"));
    assert_eq!(taker(&[new], device("rxe0", Some(14), "")), None);
}

#[test]
fn a_driver_without_memory_leaves_the_device_to_the_next() {
    unsafe extern "C" fn no_memory(_sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
        null_mut()
    }
    let ops = driver(c"poor", vec![number(14)]);
    ops.alloc_device = Some(no_memory);
    let drivers = [registered(ops), registered(driver(c"rich", vec![number(14)]))];
    assert_eq!(taker(&drivers, device("rxe0", Some(14), "")).as_deref(), Some("rich"));
}

#[test]
fn the_last_reference_gives_the_device_back_to_its_driver() {
    static GIVEN_BACK: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(device: *mut verbs_device) {
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
        // SAFETY: handed on.
        unsafe { uninit_device(device) };
    }
    let ops = driver(c"counting", vec![number(14)]);
    ops.uninit_device = Some(count);
    let device = claim(&[registered(ops)], device("rxe7", Some(14), "")).ok().expect("it fits");
    assert_eq!((device.info().unwrap().ibdev_name.as_str(), device.core_support()), ("rxe7", 0));
    // SAFETY: a live device.
    let name = unsafe { CStr::from_ptr((*device.as_c()).name.as_ptr()) };
    assert_eq!(name, c"rxe7");
    let second = device.clone();
    drop(device);
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 0);
    drop(second);
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 1);
}

#[test]
fn a_driver_of_release_33_finds_the_version_where_it_looks() {
    let found = device("cxgb4_0", Some(4), "");
    let ports = found.info().num_ports;
    // SAFETY: a struct of which nobody else has a reference.
    let words = || unsafe { ((*found.sysfs()).num_ports, (*found.sysfs()).abi_ver) };
    shape(Generation(33), &found);
    assert_eq!(words(), (2, 2));
    shape(Generation(34), &found);
    assert_eq!(words(), (ports, 2));
}
