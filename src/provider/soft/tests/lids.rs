//! A port of InfiniBand: peers by LID. Each test in a child, as the port is what the environment says at first.

use super::*;

/// A way by LID alone.
fn by_lid(lid: u16) -> ibv_ah_attr {
    // SAFETY: plain C data; all zeros is its empty value.
    let mut attr: ibv_ah_attr = unsafe { zeroed() };
    (attr.dlid, attr.port_num) = (lid, 1);
    attr
}

/// Where a datagram arrives in the room's buffer, its GRH first.
const GRH_AT: usize = 1024;

/// Sends 5 bytes by the way `attr` to the queue pair `to`, whose number is `qp_num`: its completion.
fn datagram(
    room: &Room,
    cq: *mut ibv_cq,
    (from, mut attr): (*mut ibv_qp, ibv_ah_attr),
    (to, qp_num): (*mut ibv_qp, u32),
) -> ibv_wc {
    let ah = room.ah(&mut attr);
    let mut piece = room.piece(0, 5);
    let mut wr = send_wr(1, IBV_WR_SEND, &mut piece);
    wr.send_flags = 0;
    wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: qp_num, remote_qkey: QKEY };
    room.receive(to, 2, room.piece(GRH_AT, 200));
    assert_eq!(room.send(from, &mut wr), 0);
    let wc = room.success(cq);
    assert_eq!(wc.wr_id, 2);
    // SAFETY: an address handle that nothing uses any more.
    assert_eq!(unsafe { api::ah::ibv_destroy_ah(ah) }, 0);
    wc
}

fn on_infiniband(body: impl FnOnce(&Room, u16)) {
    let status = crate::testing::in_child(|| {
        // SAFETY: the child of a fork has one thread.
        unsafe { crate::testing::set_variable(c"IRONVERBS_SOFT_LINK_LAYER", c"infiniband") };
        let room = Room::new();
        // SAFETY: an open context, and room for the attributes.
        let attr = unsafe {
            let mut attr: ibv_port_attr = zeroed();
            assert_eq!(api::port::ibv_query_port(room.context, 1, (&raw mut attr).cast()), 0);
            attr
        };
        assert_eq!((attr.link_layer, attr.sm_lid), (IBV_LINK_LAYER_INFINIBAND as u8, attr.lid));
        body(&room, attr.lid);
        0
    });
    assert_eq!(status, 0);
}

#[test]
fn a_connection_goes_by_lid() {
    on_infiniband(|room, lid| {
        let pair = room.pair_by(by_lid(lid), IBV_QPT_RC);
        // SAFETY: live objects of this test.
        unsafe {
            let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = (zeroed(), zeroed());
            assert_eq!(api::qp::ibv_query_qp(pair.a, &mut attr, IBV_QP_AV as c_int, &mut init), 0);
            assert_eq!(
                (attr.ah_attr.is_global, attr.ah_attr.dlid, attr.ah_attr.grh.dgid.raw),
                (0, lid, [0; 16])
            );
            room.bytes(0, 5).copy_from_slice(b"hello");
            let mut piece = room.piece(0, 5);
            let mut wr = send_wr(1, IBV_WR_RDMA_WRITE, &mut piece);
            wr.wr.rdma = room.remote(512);
            assert_eq!(room.send(pair.a, &mut wr), 0);
        }
        assert_eq!((room.success(pair.cq).wr_id, &*room.bytes(512, 5)), (1, &b"hello"[..]));
    });
}

#[test]
fn another_lid_leads_nowhere_and_none_is_refused() {
    on_infiniband(|room, lid| {
        let pair = room.pair_by(by_lid(lid + 1), IBV_QPT_RC);
        let mut piece = room.piece(0, 5);
        let mut wr = send_wr(1, IBV_WR_SEND, &mut piece);
        room.receive(pair.b, 2, room.piece(1024, 200));
        assert_eq!(room.send(pair.a, &mut wr), 0);
        let wc = std::iter::repeat_with(|| room.poll(pair.cq)).flatten().next().unwrap();
        assert_eq!((wc.wr_id, wc.status), (1, IBV_WC_RETRY_EXC_ERR as u32));
        // SAFETY: a live domain.
        let refused = unsafe { api::ah::ibv_create_ah(room.pd, &mut by_lid(0)) };
        assert_eq!((refused, Errno::last()), (null_mut(), Errno::EINVAL));
    });
}

#[test]
fn a_datagram_by_lid_has_no_grh_and_is_answered_by_lid() {
    on_infiniband(|room, lid| {
        let pair = room.pair(IBV_QPT_UD);
        let qp_num = |qp: *mut ibv_qp| {
            // SAFETY: a live queue pair of this test.
            unsafe { (*qp).qp_num }
        };
        let mut wc = datagram(room, pair.cq, (pair.a, by_lid(lid)), (pair.b, qp_num(pair.b)));
        assert_eq!((wc.byte_len, wc.wc_flags, wc.slid, wc.sl), (45, 0, lid, 0));
        // SAFETY: an open context, and a buffer with room for a GRH.
        let back = unsafe {
            let mut back: ibv_ah_attr = zeroed();
            let grh = room.buffer.add(GRH_AT).cast::<ibv_grh>();
            assert_eq!(api::ah::ibv_init_ah_from_wc(room.context, 1, &mut wc, grh, &mut back), 0);
            back
        };
        assert_eq!((back.is_global, back.dlid), (0, lid));
        datagram(room, pair.cq, (pair.b, back), (pair.a, wc.src_qp));
    });
}

#[test]
fn a_datagram_by_gid_has_the_grh_of_infiniband() {
    on_infiniband(|room, lid| {
        let pair = room.pair(IBV_QPT_UD);
        // SAFETY: live objects of this test, and room for the entry.
        unsafe {
            let wc = datagram(room, pair.cq, (pair.a, room.address()), (pair.b, (*pair.b).qp_num));
            assert_eq!((wc.wc_flags, wc.slid, wc.sl), (IBV_WC_GRH as u32, lid, 0));
            let mut entry: ibv_gid_entry = zeroed();
            let size = size_of::<ibv_gid_entry>();
            assert_eq!(api::gid::_ibv_query_gid_ex(room.context, 1, 0, &mut entry, 0, size), 0);
            assert_eq!((entry.gid_type, entry.ndev_ifindex), (IBV_GID_TYPE_IB as u32, 0));
        }
        // Version 6; base and datagram headers, 8 bytes of padded payload, checksum; the transport of
        // InfiniBand.
        let grh = room.bytes(GRH_AT, 40);
        assert_eq!((grh[0] >> 4, &grh[4..7]), (6, &[0, 12 + 8 + 8 + 4, 0x1b][..]));
        // SAFETY: every view of the GID union is 16 plain bytes.
        assert_eq!(grh[24..], unsafe { room.gid().raw });
    });
}
