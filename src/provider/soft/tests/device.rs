//! What a device says of itself, and contexts that share its objects.

use super::*;
use crate::provider::Opening;
use crate::provider::discovery::device_of;

#[test]
fn a_context_and_its_device_describe_themselves() {
    let room = Room::new();
    // SAFETY: an open context.
    unsafe {
        assert!((*room.context).cmd_fd >= 0);
        assert!((*room.context).async_fd >= 0);
        let mut attr: ibv_device_attr = zeroed();
        assert_eq!(api::device::ibv_query_device(room.context, &mut attr), 0);
        assert_eq!((attr.phys_port_cnt, attr.node_guid), (1, 7_u64.to_be()));
        let mut ex: ibv_device_attr_ex = zeroed();
        let query = room.verbs().query_device_ex.unwrap();
        assert_eq!(query(room.context, core::ptr::null(), &mut ex, size_of::<ibv_device_attr_ex>()), 0);
        // What a transport can do, it can do in memory that nobody has touched.
        let caps = ex.odp_caps.per_transport_caps;
        let atomic_write = |caps: u32| caps & IBV_ODP_SUPPORT_ATOMIC_WRITE as u32 != 0;
        assert!(atomic_write(caps.rc_odp_caps) && !atomic_write(caps.uc_odp_caps));
        let mut pkey = 0;
        assert_eq!(api::port::ibv_query_pkey(room.context, 1, 0, &mut pkey), 0);
        assert_eq!(pkey, 0xffff);
        assert_eq!(api::port::ibv_query_pkey(room.context, 1, 1, &mut pkey), -1);
        let mut gid = ibv_gid { raw: [0; 16] };
        assert_eq!(api::gid::ibv_query_gid(room.context, 2, 0, &mut gid), -1);
        assert_eq!(api::gid::ibv_query_gid(room.context, 1, 61, &mut gid), 0);
        assert_eq!(gid.raw, [0; 16]);
        assert_eq!(api::gid::ibv_query_gid(room.context, 1, 64, &mut gid), -1);
    }
}

#[test]
fn objects_of_one_context_are_imported_by_another() {
    let room = Room::new();
    let device = device();
    // SAFETY: live objects of this test; the copy of the descriptor is given away.
    unsafe {
        let copy = libc::dup((*room.context).cmd_fd);
        assert_eq!(device_of(copy).as_deref(), Some("uverbs-soft_test"));
        let Opening::Native(opened) = device.import(copy).unwrap() else { panic!() };
        let events = opened.context.open_async_events().unwrap();
        let other = context::create(device.clone(), opened, events);
        assert_eq!((*other.as_ptr()).cmd_fd, copy);

        let pd = api::import::ibv_import_pd(other.as_ptr(), (*room.pd).handle);
        assert!(!pd.is_null());
        assert!(api::import::ibv_import_pd(other.as_ptr(), 1 << 30).is_null());
        assert_eq!(Errno::last(), Errno::ENOENT);
        let mr = api::import::ibv_import_mr(pd, (*room.mr).handle);
        assert!(!mr.is_null());
        assert_eq!(((*mr).rkey, (*mr).length, (*mr).addr), ((*room.mr).rkey, LENGTH, null_mut()));

        let mut attr = ibv_alloc_dm_attr { length: 64, log_align_req: 0, comp_mask: 0 };
        let dm = room.verbs().alloc_dm.unwrap()(room.context, &mut attr);
        let same = api::import::ibv_import_dm(other.as_ptr(), (*dm).handle);
        assert!(!same.is_null() && (*same).context == other.as_ptr());
        let (from, mut to) = (*b"on board", [0_u8; 8]);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 0, from.as_ptr().cast(), 8), 0);
        assert_eq!((*same).memcpy_from_dm.unwrap()(to.as_mut_ptr().cast(), same, 0, 8), 0);
        assert_eq!(to, from);
        api::import::ibv_unimport_dm(same);
        assert_eq!(room.verbs().free_dm.unwrap()(dm), 0);
        api::import::ibv_unimport_mr(mr);
        api::import::ibv_unimport_pd(pd);
        assert_eq!(api::device::ibv_close_device(other.as_ptr()), 0);
    }
}
