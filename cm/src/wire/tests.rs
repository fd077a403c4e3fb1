//! Messages survive the way through bytes, and stand where the specification has them.

use super::*;
use crate::command::Ece;

fn samples() -> Vec<Body> {
    let ece = Ece { vendor: 0xabcdef, options: 0x1234_5678 };
    vec![
        Body::Req(Box::new(Req {
            local_comm_id: 1,
            service: 0x0106_1d2f,
            ca_guid: [1, 2, 3, 4, 5, 6, 7, 8],
            qkey: 9,
            qpn: 0x11_2233,
            responder_resources: 16,
            initiator_depth: 17,
            remote_response_timeout: 20,
            transport: 1,
            flow_control: true,
            starting_psn: 0xfe_dcba,
            local_response_timeout: 21,
            retry_count: 7,
            pkey: 0xffff,
            mtu: 3,
            rnr_retry_count: 6,
            max_retries: 15,
            srq: true,
            extended_transport: 1,
            local_lid: 0xffff,
            remote_lid: 0xfffe,
            local_gid: [7; 16],
            remote_gid: [8; 16],
            flow_label: 0xf_1234,
            rate: 5,
            traffic_class: 96,
            hop_limit: 64,
            sl: 3,
            subnet_local: true,
            ack_timeout: 19,
            ece,
            private_data: std::array::from_fn(|i| i as u8),
        })),
        Body::Mra(Mra { local_comm_id: 1, remote_comm_id: 2, message: 1, service_timeout: 24 }),
        Body::Rej(Box::new(Rej {
            local_comm_id: 1,
            remote_comm_id: 2,
            refused: Refused::Rep,
            reason: 28,
            ca_guid: Some([4; 8]),
            private_data: [3; 148],
        })),
        Body::Rep(Box::new(Rep {
            local_comm_id: 1,
            remote_comm_id: 2,
            qkey: 3,
            qpn: 0xaa_bbcc,
            eecn: 0x77_8899,
            starting_psn: 0x12_3456,
            responder_resources: 4,
            initiator_depth: 5,
            target_ack_delay: 15,
            failover: 2,
            flow_control: true,
            rnr_retry_count: 7,
            srq: true,
            ca_guid: [9; 8],
            ece,
            private_data: std::array::from_fn(|i| i as u8),
        })),
        Body::Rtu(Rtu { local_comm_id: 1, remote_comm_id: 2 }),
        Body::Dreq(Dreq { local_comm_id: 1, remote_comm_id: 2, remote_qpn: 0x33_2211 }),
        Body::Drep(Drep { local_comm_id: 1, remote_comm_id: 2 }),
        Body::SidrReq(Box::new(SidrReq {
            request_id: 1,
            pkey: 0xffff,
            service: 0x0111_1234,
            private_data: [6; 216],
        })),
        Body::SidrRep(Box::new(SidrRep {
            request_id: 1,
            status: 2,
            qpn: 0x12_3456,
            service: 0x0111_1234,
            qkey: 0x0123_4567,
            ece,
            private_data: [7; 136],
        })),
        Body::Lap(Lap { local_comm_id: 1, remote_comm_id: 2 }),
        Body::Apr(Apr { local_comm_id: 1, remote_comm_id: 2, status: UNSUPPORTED }),
    ]
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for (i, body) in samples().into_iter().enumerate() {
        let mad = Mad { transaction: 0x1122_3344_5566_7788 + i as u64, body };
        assert_eq!(decode(&encode(&mad)[..]), Ok(mad));
    }
}

#[test]
fn fields_stand_where_the_specification_has_them() {
    let of = |i: usize| encode(&Mad { transaction: 0x0102_0304_0506_0708, body: samples()[i].clone() });
    let req = of(0);
    assert_eq!(req[..4], [1, 7, 2, 3]);
    assert_eq!(req[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(req[16..18], [0, 0x10]);
    assert_eq!(req[20..24], [0x12, 0x34, 0x56, 0x78]);
    assert_eq!(req[24 + 5..24 + 8], [0xab, 0xcd, 0xef]);
    assert_eq!(req[24 + 8..24 + 16], [0, 0, 0, 0, 1, 6, 0x1d, 0x2f]);
    assert_eq!(req[24 + 32..24 + 36], [0x11, 0x22, 0x33, 16]);
    assert_eq!(req[24 + 43], 20 << 3 | 1 << 1 | 1);
    assert_eq!(req[24 + 47], 21 << 3 | 7);
    assert_eq!(req[24 + 50], 3 << 4 | 6);
    assert_eq!(req[24 + 51], 15 << 4 | 1 << 3 | 1);
    assert_eq!(req[24 + 88..24 + 92], [0xf1, 0x23, 0x40, 5]);
    assert_eq!(req[24 + 94], 3 << 4 | 1 << 3);
    assert_eq!(req[24 + 95], 19 << 3);
    assert_eq!(req[24 + 141], 1);
    let rep = of(3);
    assert_eq!(
        rep[24 + 12..24 + 24],
        [0xaa, 0xbb, 0xcc, 0xab, 0x77, 0x88, 0x99, 0xcd, 0x12, 0x34, 0x56, 0xef]
    );
    assert_eq!(rep[24 + 26..24 + 28], [15 << 3 | 2 << 1 | 1, 7 << 5 | 1 << 4]);
    let rej = of(2);
    assert_eq!(rej[24 + 8..24 + 13], [1 << 6, 8 << 1, 0, 28, 4]);
    let dreq = of(5);
    assert_eq!(dreq[24 + 8..24 + 11], [0x33, 0x22, 0x11]);
    let apr = of(10);
    assert_eq!(apr[24 + 7..24 + 11], [2, 0, UNSUPPORTED, 0]);
    let sidr = of(8);
    assert_eq!(sidr[24 + 4..24 + 12], [2, 0, 0xab, 0xcd, 0x12, 0x34, 0x56, 0xef]);
}

#[test]
fn what_no_side_sends_is_refused() {
    let good = encode(&Mad { transaction: 1, body: samples()[4].clone() });
    assert!(decode(&good[..]).is_ok());
    assert_eq!(decode(&good[..255]), Err(Malformed));
    assert_eq!(decode(&[&good[..], &[0]].concat()), Err(Malformed));
    for at in [0, 1, 2, 3, 16, 17] {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        assert_eq!(decode(&bad[..]), Err(Malformed), "byte {at}");
    }
}

#[test]
fn addresses_of_a_request_survive() {
    let mut room = [0xff; 92];
    for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "2001:db8::2")] {
        let header = IpHeader {
            port: 0x1234,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        };
        header.write(&mut room);
        assert_eq!(IpHeader::read(&room), Some(header));
        assert_eq!(room[2..4], [0x12, 0x34]);
    }
    assert_eq!(IpHeader::read(&room[..35]), None);
    room[1] = 5 << 4;
    assert_eq!(IpHeader::read(&room), None);
    room[..2].copy_from_slice(&[1, 4 << 4]);
    assert_eq!(IpHeader::read(&room), None);
}

#[test]
fn fuzz_messages() {
    corpus::check!().with_type::<(u8, Vec<u8>)>().for_each(|(kind, bytes)| {
        let mut mad = [0; MAD_SIZE];
        mad[..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
        mad[17] = 0x10 + kind % 11;
        for (to, from) in mad[HEADER..].iter_mut().zip(bytes) {
            *to = *from;
        }
        let read = decode(&mad).expect("every pattern of bits is a message");
        // What is read is all that the machine acts upon: it says the same when written and read again.
        assert_eq!(decode(&encode(&read)[..]), Ok(read));
        let _ = decode(bytes);
        let _ = IpHeader::read(bytes);
    });
}

#[test]
fn the_first_message_says_between_whom_it_goes() {
    let (own, other) = ([1; 16], [2; 16]);
    let req = Req { local_gid: own, remote_gid: other, ..Req::default() };
    let bytes = |body| encode(&Mad { transaction: 1, body });
    assert_eq!(ends(&bytes(Body::Req(Box::new(req)))[..]), Some((own, other)));
    let mut private_data = [0; 216];
    let ip = IpHeader { port: 1, source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
    ip.write(&mut private_data);
    let sidr =
        |private_data| Body::SidrReq(Box::new(SidrReq { request_id: 1, pkey: 0, service: 2, private_data }));
    assert_eq!(ends(&bytes(sidr(private_data))[..]), Some((gid_of(ip.source), gid_of(ip.destination))));
    assert_eq!(ends(&bytes(sidr([0xff; 216]))[..]), None);
    let end = Dreq { local_comm_id: 1, remote_comm_id: 2, remote_qpn: 3 };
    assert_eq!(ends(&bytes(Body::Dreq(end))[..]), None);
}
