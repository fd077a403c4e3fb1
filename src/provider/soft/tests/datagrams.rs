//! Datagrams: to one queue pair by an address, to many by a group.

use super::*;

#[test]
fn a_datagram_arrives_with_the_way_back() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_UD);
    // SAFETY: live objects, and attributes of the test's own.
    unsafe {
        let mut address = room.address();
        let ah = room.ah(&mut address);
        room.bytes(0, 5).copy_from_slice(b"hello");
        room.receive(pair.b, 1, room.piece(1024, 200));
        let mut piece = room.piece(0, 5);
        let mut wr = send_wr(2, IBV_WR_SEND, &mut piece);
        wr.send_flags = IBV_SEND_INLINE as u32;
        wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: (*pair.b).qp_num, remote_qkey: QKEY };
        assert_eq!(room.send(pair.a, &mut wr), 0);
        let mut wc = room.success(pair.cq);
        assert_eq!((wc.wr_id, wc.byte_len, wc.src_qp), (1, 45, (*pair.a).qp_num));
        assert_eq!(wc.wc_flags, IBV_WC_GRH as u32);
        // RoCE v2 over IPv4 or IPv6, as the header says.
        let version = room.bytes(1024, 1)[0] >> 4;
        assert_eq!(wc.sl, if version == 6 { 9 } else { 10 });
        assert_eq!(room.bytes(1064, 5), b"hello");

        let grh = room.buffer.add(1024).cast::<ibv_grh>();
        let mut back: ibv_ah_attr = zeroed();
        assert_eq!(api::ah::ibv_init_ah_from_wc(room.context, 1, &mut wc, grh, &mut back), 0);
        assert_eq!((back.is_global, back.grh.dgid.raw), (1, room.gid().raw));
        let answer = api::ah::ibv_create_ah_from_wc(room.pd, &mut wc, grh, 1);
        assert!(!answer.is_null());
        room.receive(pair.a, 3, room.piece(2048, 200));
        wr.wr.ud = ibv_send_wr_wr_ud { ah: answer, remote_qpn: wc.src_qp, remote_qkey: QKEY };
        assert_eq!(room.send(pair.b, &mut wr), 0);
        assert_eq!(room.success(pair.cq).wr_id, 3);

        // A datagram without address, and a domain that still has addresses.
        wr.wr.ud.ah = null_mut();
        assert_eq!(room.send(pair.b, &mut wr), libc::EINVAL);
        assert_eq!(api::ah::ibv_destroy_ah(answer), 0);
        assert_eq!(api::ah::ibv_destroy_ah(ah), 0);
        address.is_global = 0;
        assert!(api::ah::ibv_create_ah(room.pd, &mut address).is_null());
        assert_eq!(Errno::last(), Errno::EINVAL);
    }
}

#[test]
fn a_group_is_left_by_the_lid_that_it_was_joined_with() {
    let room = Room::new();
    let pair = room.pair(IBV_QPT_UD);
    let mut group = ibv_gid { raw: [7; 16] };
    // SAFETY: live objects of this test; every view of the GID union is 16 plain bytes.
    unsafe {
        group.raw[0] = 0xff;
        let (attach, detach) = (api::mcast::ibv_attach_mcast, api::mcast::ibv_detach_mcast);
        assert_eq!(attach(pair.b, &group, 0), 0);
        assert_eq!(attach(pair.b, &group, 0), 0);
        assert_eq!(attach(pair.b, &group, 9), 0);
        assert_eq!(attach(pair.b, &room.gid(), 0), libc::EINVAL);

        let mut address = room.address();
        address.grh.dgid = group;
        let ah = room.ah(&mut address);
        let mut piece = room.piece(0, 5);
        let mut wr = send_wr(2, IBV_WR_SEND, &mut piece);
        wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: 0xff_ffff, remote_qkey: QKEY };
        room.receive(pair.b, 1, room.piece(1024, 200));
        assert_eq!(room.send(pair.a, &mut wr), 0);
        let (one, other) = (room.success(pair.cq), room.success(pair.cq));
        assert!([one.wr_id, other.wr_id] == [1, 2] || [one.wr_id, other.wr_id] == [2, 1]);
        assert!(room.poll(pair.cq).is_none());
        assert_eq!(api::ah::ibv_destroy_ah(ah), 0);

        assert_eq!(detach(pair.b, &group, 5), libc::EINVAL);
        assert_eq!(detach(pair.b, &group, 9), 0);
        assert_eq!(api::qp::ibv_destroy_qp(pair.b), libc::EBUSY);
        assert_eq!(detach(pair.b, &group, 0), 0);
        assert_eq!(detach(pair.b, &group, 0), libc::EINVAL);
    }
}

#[test]
fn a_sender_in_the_group_gets_its_own_unless_it_was_made_not_to() {
    const BLOCKS: u32 = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB as u32;
    let room = Room::new();
    let cq = room.cq();
    let create = |qp_type, create_flags| {
        let base = room.init(qp_type, cq);
        // SAFETY: live objects; attributes are plain C data.
        unsafe {
            let mut attr: ibv_qp_init_attr_ex = zeroed();
            (attr.qp_type, attr.cap, attr.send_cq, attr.recv_cq) = (base.qp_type, base.cap, cq, cq);
            attr.comp_mask = IBV_QP_INIT_ATTR_PD as u32 | IBV_QP_INIT_ATTR_CREATE_FLAGS as u32;
            (attr.pd, attr.create_flags) = (room.pd, create_flags);
            room.verbs().create_qp_ex.unwrap()(room.context, &mut attr)
        }
    };
    // Connected queue pairs have no groups, and the other flags are of packets on a wire.
    for (qp_type, flags) in [(IBV_QPT_RC, BLOCKS), (IBV_QPT_UC, BLOCKS)]
        .into_iter()
        .chain((0..32).map(|bit| (IBV_QPT_UD, 1 << bit)).filter(|(_, flag)| *flag != BLOCKS))
        .chain([(IBV_QPT_UD, BLOCKS | IBV_QP_CREATE_SCATTER_FCS as u32)])
    {
        assert!(create(qp_type, flags).is_null());
        assert_eq!(Errno::last(), Errno::EOPNOTSUPP);
    }
    let mut group = ibv_gid { raw: [7; 16] };
    // SAFETY: every view of the GID union is 16 plain bytes.
    unsafe { group.raw[0] = 0xff };
    let mut address = room.address();
    address.grh.dgid = group;
    let ah = room.ah(&mut address);
    for flags in [0, BLOCKS] {
        let pair = room.connected(room.cq(), create(IBV_QPT_UD, flags), create(IBV_QPT_UD, BLOCKS));
        // SAFETY: live objects of this test.
        unsafe {
            for (qp, wr_id) in [(pair.a, 1), (pair.b, 2)] {
                assert_eq!(api::mcast::ibv_attach_mcast(qp, &group, 0), 0);
                room.receive(qp, wr_id, room.piece(1024 * wr_id as usize, 200));
            }
            let mut piece = room.piece(0, 5);
            let mut wr = send_wr(3, IBV_WR_SEND, &mut piece);
            wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: 0xff_ffff, remote_qkey: QKEY };
            assert_eq!(room.send(pair.a, &mut wr), 0);
            let mut seen: Vec<u64> = std::iter::from_fn(|| room.poll(cq)).map(|wc| wc.wr_id).collect();
            seen.sort_unstable();
            assert_eq!(seen, if flags == BLOCKS { vec![2, 3] } else { vec![1, 2, 3] });
            for qp in [pair.a, pair.b] {
                assert_eq!(api::mcast::ibv_detach_mcast(qp, &group, 0), 0);
            }
        }
    }
    // SAFETY: live, and given up.
    assert_eq!(unsafe { api::ah::ibv_destroy_ah(ah) }, 0);
    destroy_cq(cq);
}

/// Of both ways to send, of each address of the table, with and without immediate data.
#[test]
fn the_ip_header_says_how_long_the_packet_would_be() {
    let room = Room::new();
    let cq = room.cq();
    let operations = IBV_QP_EX_WITH_SEND as u64 | IBV_QP_EX_WITH_SEND_WITH_IMM as u64;
    let pair = room.connected(cq, room.built_qp(IBV_QPT_UD, cq, operations), room.qp(IBV_QPT_UD, cq));
    let mut versions = [0; 2];
    for index in 0..256 {
        let mut address = room.address();
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: an open context and a place to write; every view of the GID union is 16 plain bytes.
        if unsafe { api::gid::ibv_query_gid(room.context, 1, index, &mut gid) != 0 || gid.raw == [0; 16] } {
            continue;
        }
        (address.grh.dgid, address.grh.sgid_index) = (gid, index as u8);
        let ah = room.ah(&mut address);
        for (length, padded) in [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8), (100, 100), (1021, 1024)] {
            for (immediate, built) in [(0, false), (4, false), (0, true), (4, true)] {
                room.receive(pair.b, 1, room.piece(2048, 2048));
                let mut piece = room.piece(0, length);
                // SAFETY: live objects of this test.
                unsafe {
                    let number = (*pair.b).qp_num;
                    if built {
                        let qpx = api::qp::ibv_qp_to_qp_ex(pair.a);
                        let table = *qpx;
                        table.wr_start.unwrap()(qpx);
                        ((*qpx).wr_id, (*qpx).wr_flags) = (2, IBV_SEND_SIGNALED as u32);
                        match immediate {
                            0 => table.wr_send.unwrap()(qpx),
                            _ => table.wr_send_imm.unwrap()(qpx, 7),
                        }
                        table.wr_set_ud_addr.unwrap()(qpx, ah, number, QKEY);
                        table.wr_set_sge.unwrap()(qpx, piece.lkey, piece.addr, piece.length);
                        assert_eq!(table.wr_complete.unwrap()(qpx), 0);
                    } else {
                        let opcode = if immediate == 0 { IBV_WR_SEND } else { IBV_WR_SEND_WITH_IMM };
                        let mut wr = send_wr(2, opcode, &mut piece);
                        wr.wr.ud = ibv_send_wr_wr_ud { ah, remote_qpn: number, remote_qkey: QKEY };
                        assert_eq!(room.send(pair.a, &mut wr), 0);
                    }
                }
                let mut seen = [room.success(cq), room.success(cq)];
                seen.sort_by_key(|wc| wc.wr_id);
                assert_eq!((seen[0].wr_id, seen[0].byte_len), (1, 40 + length));
                let header = room.bytes(2048, 40);
                let (ipv6, at) = if header[0] >> 4 == 6 { (true, 4) } else { (false, 22) };
                versions[usize::from(ipv6)] += 1;
                // UDP, base and datagram transport headers, immediate data, payload in words, checksum.
                let behind = 8 + 12 + 8 + immediate + padded + 4;
                let said = u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
                assert_eq!(
                    said,
                    if ipv6 { behind } else { 20 + behind },
                    "{length} bytes, immediate data {immediate}, IPv6 {ipv6}, built {built}"
                );
            }
        }
        // SAFETY: live, and given up.
        assert_eq!(unsafe { api::ah::ibv_destroy_ah(ah) }, 0);
    }
    assert!(versions.iter().all(|seen| *seen > 0), "headers of IPv4 and IPv6: {versions:?}");
}
