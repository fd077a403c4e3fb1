use proptest::prelude::*;

use super::*;
use crate::wire::opcode::Transport;

/// Bits of the BTH that are not read: MigReq, and those reserved beside the congestion bits and the
/// acknowledge request.
const NOT_READ: [(usize, u8); 3] = [(1, 0x40), (4, 0x3f), (8, 0x7f)];

/// Where a datagram has the reserved byte of its DETH.
const RESERVED_OF_DETH: usize = 16;

fn opcodes() -> Vec<Opcode> {
    (0..=u8::MAX).filter_map(Opcode::from_byte).collect()
}

/// A packet as a sender gathers it.
fn written(head: &Head, payload: &[u8]) -> Vec<u8> {
    let mut room = [0xaa; MAX_HEAD];
    let bytes = head.write(&mut room);
    assert_eq!(bytes, head.bytes());
    assert!(room[bytes..].iter().all(|byte| *byte == 0xaa), "nothing is written behind");
    [&room[..bytes], payload, &[0; 3][..usize::from(head.bth.pad)]].concat()
}

fn headers(opcode: Opcode, numbers: [u64; 4], small: u32, byte: u8) -> Headers {
    let has = |header| opcode.headers().has(header);
    let [va, swap_or_add, compare, original] = numbers;
    let of_24 = small & 0xff_ffff;
    Headers {
        deth: has(HeaderSet::DETH).then_some(Deth { qkey: small, source_qp: of_24 }),
        reth: has(HeaderSet::RETH).then_some(Reth { va, rkey: small, length: !small }),
        atomic: has(HeaderSet::ATOMIC_ETH).then_some(AtomicEth { va, rkey: small, swap_or_add, compare }),
        aeth: has(HeaderSet::AETH).then_some(Aeth { syndrome: byte, msn: of_24 }),
        atomic_ack: has(HeaderSet::ATOMIC_ACK_ETH).then_some(original),
        imm: has(HeaderSet::IMM_DT).then_some(small),
        ieth: has(HeaderSet::IETH).then_some(small),
        reserved: has(HeaderSet::RESERVED),
    }
}

prop_compose! {
    fn any_head()(
        opcode in prop::sample::select(opcodes()),
        flags: [bool; 4],
        p_key: u16,
        numbers: [u64; 4],
        [dest_qp, psn, small]: [u32; 3],
        byte: u8,
    ) -> Head {
        let [solicited, ack_req, fecn, becn] = flags;
        let bth = Bth::new(opcode, dest_qp & 0xff_ffff, Psn::new(psn));
        let bth = Bth { solicited, ack_req, fecn, becn, p_key, ..bth };
        Head { bth, headers: headers(opcode, numbers, small, byte) }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(head in any_head(), payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let payload = if head.bth.opcode.has_payload() { &payload[..] } else { &[] };
        let head = Head { bth: Bth { pad: pad_of(payload.len()), ..head.bth }, ..head };
        let bytes = written(&head, payload);
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet, Packet { bth: head.bth, headers: head.headers, payload });
        prop_assert_eq!(packet.head(), head);
    }
}

/// A packet that is read is the same when it is written and read again, and its bytes are, but for those that
/// do not matter.
fn look(bytes: &[u8]) {
    let Some(packet) = Packet::parse(bytes) else { return };
    let again = written(&packet.head(), packet.payload);
    assert_eq!(Packet::parse(&again), Some(packet));
    let mut plain = bytes.to_vec();
    for (at, bits) in NOT_READ {
        plain[at] = plain[at] & !bits | again[at] & bits;
    }
    if packet.bth.opcode.transport() == Transport::Ud {
        plain[RESERVED_OF_DETH] = 0;
    }
    if packet.bth.opcode == Opcode::CONGESTION_NOTIFICATION {
        plain[BTH_BYTES..].fill(0);
    }
    let pad = plain.len() - usize::from(packet.bth.pad);
    plain[pad..].fill(0);
    assert_eq!(again, plain);
}

#[test]
fn fuzz_packets() {
    corpus::check!().for_each(|bytes| {
        look(bytes);
        // The same as what is a packet sooner: of the version that there is, of whole words.
        let mut likelier = bytes[..bytes.len() / 4 * 4].to_vec();
        if let [_, flags, ..] = &mut likelier[..] {
            *flags &= 0xf0;
        }
        look(&likelier);
    });
}

/// One of each opcode, with three bytes of payload where it may have any.
fn one_of_each() -> Vec<Vec<u8>> {
    let numbers =
        [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];
    opcodes()
        .into_iter()
        .map(|opcode| {
            let payload: &[u8] = if opcode.has_payload() { &[0xa0, 0xa1, 0xa2] } else { &[] };
            let bth = Bth { pad: pad_of(payload.len()), ..Bth::new(opcode, 0x11, Psn::new(0xff_fffe)) };
            written(&Head { bth, headers: headers(opcode, numbers, 0x4142_4344, 0x1f) }, payload)
        })
        .collect()
}

#[test]
// rule: wire-headers
fn fields_stand_where_the_specification_has_them() {
    let numbers =
        [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];
    let bth = Bth {
        opcode: Opcode::COMPARE_SWAP,
        solicited: true,
        pad: 0,
        p_key: 0x8765,
        dest_qp: 0xff12_3456,
        ack_req: true,
        psn: Psn::new(0xab_cdef),
        fecn: true,
        becn: false,
    };
    let bytes = written(&Head { bth, headers: headers(bth.opcode, numbers, 0x4142_4344, 0) }, &[]);
    let of_bth = [0x13, 0xc0, 0x87, 0x65, 0x80, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef];
    let va_and_key = [1, 2, 3, 4, 5, 6, 7, 8, 0x41, 0x42, 0x43, 0x44];
    let swap = [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
    let compare = [0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28];
    assert_eq!(bytes, [&of_bth[..], &va_and_key, &swap, &compare].concat());

    let imm = u32::from_ne_bytes([1, 2, 3, 4]);
    let bth = Bth { pad: 3, becn: true, ..Bth::new(Opcode::from_byte(0x65).unwrap(), 1, Psn::new(2)) };
    let deth = Some(Deth { qkey: 0x8001_0203, source_qp: 0x77_8899 });
    let bytes = written(&Head { bth, headers: Headers { deth, imm: Some(imm), ..Headers::NONE } }, b"x");
    let of_bth = [0x65, 0x70, 0xff, 0xff, 0x40, 0, 0, 1, 0, 0, 0, 2];
    let of_deth = [0x80, 1, 2, 3, 0, 0x77, 0x88, 0x99];
    assert_eq!(bytes, [&of_bth[..], &of_deth, &[1, 2, 3, 4], b"x\0\0\0"].concat());

    let bth = Bth::new(Opcode::ATOMIC_ACKNOWLEDGE, 1, Psn::new(2));
    let aeth = Some(Aeth { syndrome: 0x1f, msn: 0x0a_0b0c });
    let bytes = written(&Head { bth, headers: Headers { aeth, atomic_ack: Some(9), ..Headers::NONE } }, &[]);
    assert_eq!(bytes[12..], [0x1f, 0x0a, 0x0b, 0x0c, 0, 0, 0, 0, 0, 0, 0, 9]);

    let bth = Bth::new(Opcode::READ_REQUEST, 1, Psn::new(2));
    let reth = Some(Reth { va: 1, rkey: 2, length: 3 });
    let bytes = written(&Head { bth, headers: Headers { reth, ..Headers::NONE } }, &[]);
    assert_eq!(bytes[12..], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
}

#[test]
fn what_is_cut_off_is_no_packet() {
    for packet in one_of_each() {
        let whole = Packet::parse(&packet).unwrap();
        let least = whole.head().bytes() + if whole.bth.pad > 0 { 4 } else { 0 };
        for bytes in 0..packet.len() {
            let expected = bytes >= least && bytes.is_multiple_of(4);
            assert_eq!(Packet::parse(&packet[..bytes]).is_some(), expected, "{:?} {bytes}", whole.bth.opcode);
        }
    }
}

#[test]
// rule: wire-version
fn what_no_packet_has_is_refused() {
    for packet in one_of_each() {
        let opcode = Packet::parse(&packet).unwrap().bth.opcode;
        for version in 1..16 {
            let mut changed = packet.clone();
            changed[1] |= version;
            assert_eq!(Packet::parse(&changed), None, "{opcode:?} of version {version}");
        }
        if !opcode.has_payload() {
            let longer = [&packet[..], &[0; 4]].concat();
            assert_eq!(Packet::parse(&longer), None, "{opcode:?} has no payload");
            let mut padded = packet.clone();
            padded[1] |= 0x10;
            assert_eq!(Packet::parse(&padded), None, "{opcode:?} has no pad");
        }
    }
    let mut unknown = one_of_each().swap_remove(0);
    for opcode in (0..=u8::MAX).filter(|byte| Opcode::from_byte(*byte).is_none()) {
        unknown[0] = opcode;
        assert_eq!(Packet::parse(&unknown), None, "{opcode:#x}");
    }
}

#[test]
fn pad_fills_a_word() {
    assert_eq!([0, 1, 2, 3, 4, 5, 4095, 4096].map(pad_of), [0, 3, 2, 1, 0, 3, 1, 0]);
    let longest = opcodes().into_iter().map(|opcode| BTH_BYTES + opcode.headers().bytes()).max();
    assert_eq!(longest, Some(MAX_HEAD));
}

#[test]
fn a_congestion_notification_is_as_adapters_send_it() {
    // Of a ConnectX-4 Lx, without its ICRC.
    let mut sent = vec![0x81, 0, 0xff, 0xff, 0x40, 0, 1, 0x18, 0, 0, 0, 0];
    sent.resize(28, 0);
    let packet = Packet::parse(&sent).unwrap();
    assert_eq!((packet.bth, packet.payload), (Bth::notification(0x118), &[][..]));
    assert_eq!(written(&packet.head(), &[]), sent);
    assert_eq!(Packet::parse(&sent[..24]), None);
}
