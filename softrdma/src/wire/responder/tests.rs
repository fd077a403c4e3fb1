use super::super::opcode::Extra;
use super::*;

fn responder(mtu: Mtu) -> Responder {
    let connection =
        Connection { transport: Transport::Rc, mtu, dest_qp: 1, p_key: 0xffff, psn: Psn::new(0xff_ffff) };
    let mut responder = Responder::new(4).unwrap();
    responder.start(connection, 4);
    responder
}

fn send(psn: Psn, position: Position, payload: &[u8]) -> Packet<'_> {
    let opcode = Opcode::new(Transport::Rc, Operation::Send, position, Extra::Nothing).unwrap();
    Packet { bth: Bth::new(opcode, 1, psn), headers: Headers::NONE, payload }
}

#[test]
fn the_longest_send() {
    let data = [0; 4096];
    for too_long in [false, true] {
        let mut responder = responder(Mtu::MOST);
        let packets = (1 << 31) / 4096;
        for packet in 0..packets {
            let last = !too_long && packet + 1 == packets;
            let position = Position::of(packet == 0, last);
            let step = responder.take(&send(Psn::new(0xff_ffff) + packet, position, &data));
            let Step::Execute(piece) = step else { panic!("{packet}") };
            assert_eq!((piece.offset, piece.ends), (packet * 4096, last));
            responder.executed(Executed::Done);
        }
        let step = responder.take(&send(Psn::new(0xff_ffff) + packets, Position::Last, &data[..1]));
        assert_eq!(step, Step::Refused);
        assert!(responder.is_failed());
    }
}

#[test]
fn what_was_not_carried_out_is_taken_again() {
    let mut responder = responder(Mtu::LEAST);
    for _ in 0..2 {
        let step = responder.take(&send(Psn::new(0xff_ffff), Position::Only, &[1]));
        assert!(matches!(step, Step::Execute(Piece { ends: true, .. })));
    }
    responder.executed(Executed::Done);
    responder.executed(Executed::Done);
    assert_eq!(responder.take(&send(Psn::new(0xff_ffff), Position::Only, &[1])), Step::Nothing);
    assert!(matches!(responder.take(&send(Psn::new(0), Position::Only, &[1])), Step::Execute(_)));
}

#[test]
fn a_new_start_forgets_the_connection_before() {
    let mut responder = responder(Mtu::LEAST);
    let opcode = Opcode::FETCH_ADD;
    let headers = Headers { atomic: Some(super::super::packet::AtomicEth::default()), ..Headers::NONE };
    let atomic = Packet { bth: Bth::new(opcode, 1, Psn::new(0xff_ffff)), headers, payload: &[] };
    responder.take(&atomic);
    responder.executed(Executed::Original(5));
    responder.take(&send(Psn::new(3), Position::Only, &[]));
    let connection = Connection { psn: Psn::new(0), ..responder.connection };
    responder.start(connection, 4);
    assert_eq!(responder.next_response(0), None);
    assert_eq!(responder.take(&atomic), Step::Nothing);
    assert_eq!(responder.next_response(0), None);
}

#[test]
fn no_acknowledgement_is_alone_beside_a_notification_of_congestion() {
    let mut responder = responder(Mtu::LEAST);
    let mut packet = send(Psn::new(0xff_ffff), Position::Only, &[1]);
    packet.bth.ack_req = true;
    assert!(matches!(responder.take(&packet), Step::Execute(_)));
    responder.executed(Executed::Done);
    assert!(responder.has_lone_acknowledgement());
    responder.marked(1);
    assert!(!responder.has_lone_acknowledgement());
    assert_eq!(responder.next_response(0).unwrap().head.bth.opcode, Opcode::CONGESTION_NOTIFICATION);
    assert!(responder.has_lone_acknowledgement());
}

#[test]
fn packets_that_are_joined_are_answered_as_one() {
    let data = [0; 256];
    let packets = [Position::First, Position::Middle, Position::Last].into_iter().zip(0..);
    let packets: Vec<_> = packets.map(|(at, n)| send(Psn::new(0xff_ffff) + n, at, &data)).collect();
    for (asks, executed, syndrome, answered) in [
        ([false, true, false], Executed::Done, syndrome::ACKNOWLEDGED, Some(1)),
        ([false, false, true], Executed::Done, syndrome::ACKNOWLEDGED, Some(1)),
        ([false; 3], Executed::Done, 0, None),
        ([true; 3], Executed::NotReady(5), syndrome::NOT_READY | 5, Some(0xff_ffff)),
        ([true; 3], Executed::Refused(Syndrome::Access), syndrome::ACCESS, Some(0xff_ffff)),
    ] {
        let mut responder = responder(Mtu::LEAST);
        let mut packets = packets.clone();
        packets.iter_mut().zip(asks).for_each(|(packet, asks)| packet.bth.ack_req = asks);
        assert!(matches!(responder.take(&packets[0]), Step::Execute(_)));
        // Neither what is behind a gap, nor what comes twice.
        assert_eq!(responder.join(&packets[2]), None);
        assert_eq!(responder.join(&packets[0]), None);
        let joined = responder.join(&packets[1]).unwrap();
        assert_eq!((joined.begins, joined.ends, joined.offset), (true, false, 0));
        assert!(responder.join(&packets[2]).unwrap().ends);
        // Nor the next message.
        assert_eq!(responder.join(&send(Psn::new(2), Position::Only, &data)), None);
        responder.executed(executed);
        let answer = responder.next_response(0).map(|answer| answer.head);
        assert_eq!(answer.map(|head| head.bth.psn), answered.map(Psn::new));
        assert_eq!(answer.map_or(0, |head| head.headers.aeth.unwrap().syndrome), syndrome);
        assert_eq!(responder.msn, u32::from(executed == Executed::Done));
    }
}

#[test]
fn immediate_data_of_a_write_is_taken_by_itself() {
    let data = [0; 256];
    let mut responder = responder(Mtu::LEAST);
    let write = |n, position, extra| {
        let opcode = Opcode::new(Transport::Rc, Operation::Write, position, extra).unwrap();
        let reth = (position == Position::First).then_some(Reth { va: 0, rkey: 1, length: 768 });
        let imm = (extra == Extra::Immediate).then_some(7);
        let headers = Headers { reth, imm, ..Headers::NONE };
        Packet { bth: Bth::new(opcode, 1, Psn::new(0xff_ffff) + n), headers, payload: &data }
    };
    assert!(matches!(responder.take(&write(0, Position::First, Extra::Nothing)), Step::Execute(_)));
    assert!(responder.join(&write(1, Position::Middle, Extra::Nothing)).is_some());
    let last = write(2, Position::Last, Extra::Immediate);
    assert_eq!(responder.join(&last), None);
    responder.executed(Executed::Done);
    for _ in 0..2 {
        let step = responder.take(&last);
        assert!(matches!(step, Step::Execute(Piece { offset: 512, ends: true, imm: Some(7), .. })));
        responder.executed(Executed::NotReady(3));
        assert_eq!(responder.next_response(0).unwrap().head.bth.psn, Psn::new(1));
    }
}
