//! Memory regions, windows into them, memory of the device.

use super::*;

#[test]
fn a_window_opens_part_of_a_region() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_RC);
    let ops = room.ops();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let mw = ops.alloc_mw.unwrap()(room.pd, IBV_MW_TYPE_1 as u32);
        assert!(!mw.is_null(), "{:?}", Errno::last());
        assert!(ops.alloc_mw.unwrap()(room.pd, 3).is_null());
        let before = (*mw).rkey;
        let mut bind = ibv_mw_bind {
            wr_id: 1,
            send_flags: IBV_SEND_SIGNALED as u32,
            bind_info: ibv_mw_bind_info {
                mr: room.mr,
                addr: room.buffer as u64 + 1024,
                length: 8,
                mw_access_flags: IBV_ACCESS_REMOTE_WRITE as u32,
            },
        };
        assert_eq!(ops.bind_mw.unwrap()(pair.b, mw, &mut bind), 0);
        assert_ne!((*mw).rkey, before);
        assert_eq!(room.success(pair.cq).opcode, IBV_WC_BIND_MW as u32);
        let mut piece = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_RDMA_WRITE, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: bind.bind_info.addr, rkey: (*mw).rkey };
        assert_eq!(room.send(pair.a, &mut wr), 0);
        room.success(pair.cq);
        wr.wr.rdma.remote_addr += 1;
        assert_eq!(room.send(pair.a, &mut wr), 0);
        assert_eq!(room.poll(pair.cq).unwrap().status, IBV_WC_REM_ACCESS_ERR as u32);
        drop(pair);
        assert_eq!(ops.dealloc_mw.unwrap()(mw), 0);
    }
}

#[test]
fn memory_of_the_device_is_registered_from_its_start() {
    let room = Room::new();
    let verbs = room.verbs();
    // SAFETY: live objects of this test; attributes are plain C data.
    unsafe {
        let mut attr = ibv_alloc_dm_attr { length: 4096, log_align_req: 0, comp_mask: 0 };
        let dm = verbs.alloc_dm.unwrap()(room.context, &mut attr);
        assert!(!dm.is_null(), "{:?}", Errno::last());
        assert_eq!((*dm).context, room.context);
        let (from, mut to) = (*b"on board", [0_u8; 8]);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 8, from.as_ptr().cast(), 8), 0);
        assert_eq!((*dm).memcpy_from_dm.unwrap()(to.as_mut_ptr().cast(), dm, 8, 8), 0);
        assert_eq!(to, from);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 4090, from.as_ptr().cast(), 8), libc::EFAULT);
        let rights = RIGHTS as u32 | IBV_ACCESS_ZERO_BASED as u32;
        assert!(verbs.reg_dm_mr.unwrap()(room.pd, dm, 8, 4090, rights).is_null());
        assert!(verbs.reg_dm_mr.unwrap()(room.pd, dm, 0, 8, RIGHTS as u32).is_null());
        let mr = verbs.reg_dm_mr.unwrap()(room.pd, dm, 8, 16, rights);
        assert!(!mr.is_null(), "{:?}", Errno::last());

        let pair = room.pair(IBV_QPT_RC);
        let mut piece = room.piece(0, 8);
        let mut wr = send_wr(2, IBV_WR_RDMA_READ, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: 0, rkey: (*mr).rkey };
        assert_eq!(room.send(pair.a, &mut wr), 0);
        room.success(pair.cq);
        assert_eq!(room.bytes(0, 8), from);
        drop(pair);
        assert_eq!(verbs.free_dm.unwrap()(dm), libc::EBUSY);
        assert_eq!(api::mr::ibv_dereg_mr(mr), 0);
        assert_eq!(verbs.free_dm.unwrap()(dm), 0);
    }
}

#[test]
fn regions_are_refused_and_changed_as_on_kernel_devices() {
    let room = Room::new();
    // SAFETY: live objects of this test.
    unsafe {
        let register = |addr: *mut c_void, length: usize, rights: u32| {
            let mr = api::mr::ibv_reg_mr(room.pd, addr, length, rights as c_int);
            assert!(mr.is_null());
            Errno::last()
        };
        let start: *mut c_void = room.buffer.cast();
        assert_eq!(register(start, LENGTH, IBV_ACCESS_REMOTE_WRITE as u32), Errno::EINVAL);
        assert_eq!(register(start, LENGTH, 1 << 9), Errno::EINVAL);
        assert_eq!(register(4096 as *mut c_void, LENGTH, 1), Errno::EFAULT);
        let iova = api::mr::ibv_reg_mr_iova(room.pd, start, LENGTH, 1, 1);
        assert!(iova.is_null());
        assert_eq!(Errno::last(), Errno::EINVAL);
        let relaxed = IBV_ACCESS_RELAXED_ORDERING as c_int | IBV_ACCESS_HUGETLB as c_int;
        let mr = api::mr::ibv_reg_mr_iova2(room.pd, start, LENGTH, 1 << 40, relaxed as u32);
        assert!(!mr.is_null(), "{:?}", Errno::last());
        let access = IBV_REREG_MR_CHANGE_ACCESS as c_int;
        assert_eq!(api::mr::ibv_rereg_mr(mr, access, null_mut(), null_mut(), 0, RIGHTS), 0);
        assert_eq!(api::mr::ibv_dereg_mr(mr), 0);
    }
}

#[test]
fn pages_on_demand_need_not_be_there() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_RC);
    let rights = RIGHTS | IBV_ACCESS_ON_DEMAND as c_int;
    // SAFETY: live objects of this test.
    unsafe {
        let all = api::mr::ibv_reg_mr(room.pd, null_mut(), usize::MAX, rights);
        assert!(!all.is_null(), "{:?}", Errno::last());
        let hole = api::mr::ibv_reg_mr(room.pd, 4096 as *mut c_void, 4096, rights);
        assert!(!hole.is_null());
        let mut piece = room.piece(0, 8);
        let advise = room.verbs().advise_mr.unwrap();
        piece.lkey = (*all).lkey;
        let prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
        assert_eq!(advise(room.pd, prefetch, IBV_ADVISE_MR_FLAG_FLUSH, &mut piece, 1), 0);
        assert_eq!(advise(room.pd, prefetch, 0, &mut piece, 0), libc::EINVAL);
        assert_eq!(advise(room.pd, 7, 0, &mut piece, 1), libc::EOPNOTSUPP);

        room.bytes(0, 8).copy_from_slice(b"anywhere");
        let mut wr = send_wr(1, IBV_WR_RDMA_WRITE, &mut piece);
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: room.buffer as u64 + 512, rkey: (*all).rkey };
        assert_eq!(room.send(pair.a, &mut wr), 0);
        room.success(pair.cq);
        assert_eq!(room.bytes(512, 8), b"anywhere");
        wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: 4096, rkey: (*hole).rkey };
        assert_eq!(room.send(pair.a, &mut wr), 0);
        assert_ne!(room.poll(pair.cq).unwrap().status, IBV_WC_SUCCESS as u32);
        drop(pair);
        assert_eq!(api::mr::ibv_dereg_mr(hole), 0);
        assert_eq!(api::mr::ibv_dereg_mr(all), 0);
    }
}

/// All in a child, since protection stays on for ever. Its variables are its own, too.
#[test]
fn a_child_has_what_is_registered() {
    let status = crate::testing::in_child(|| {
        // SAFETY: the child of a fork has one thread.
        unsafe { crate::testing::set_variable(c"IRONVERBS_SOFT", c"1") };
        // What the kernel's devices registered before is other tests' and does not matter here.
        let _ = api::fork::ibv_fork_init();
        let room = Room::new();
        let before = Errno(libc::EXDEV);
        before.set();
        let answer = (api::fork::ibv_is_fork_initialized(), Errno::last());
        let has_others = std::fs::read_dir("/sys/class/infiniband_verbs").is_ok_and(|mut names| {
            names.any(|name| name.is_ok_and(|name| name.file_name() != "abi_version"))
        });
        // Beside a device of the kernel it is the kernel's answer.
        if !has_others {
            assert_eq!(answer, (IBV_FORK_UNNEEDED as u32, before));
        }
        // SAFETY: live objects of this test.
        unsafe {
            room.buffer.write(3);
            let changed = IBV_REREG_MR_CHANGE_TRANSLATION as c_int;
            let again = room.buffer.add(100).cast();
            for step in 0..2 {
                let read = crate::testing::in_child(|| i32::from(room.buffer.read()));
                assert_eq!(read, 3, "step {step}");
                assert_eq!(api::mr::ibv_rereg_mr(room.mr, changed, null_mut(), again, 8, 0), 0);
            }
        }
        0
    });
    assert_eq!(status, 0);
}
