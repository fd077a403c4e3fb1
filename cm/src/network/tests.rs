//! What becomes of each message that is lost, comes twice, or is not what it says.

use super::*;
use crate::wire::{Lap, Refused, Rej, Rep, Rtu, SidrRep, SidrReq, UNSUPPORTED, decode, encode};

const LINK: Link = Link(1);
const START: Duration = Duration::from_secs(100);

fn gid(last: u8) -> Gid {
    crate::address::gid_of([10, 0, 0, last].into())
}

/// What host 1 knows of host 2.
fn peer() -> Peer {
    Peer { address: gid(2), own: gid(1), interface: 0 }
}

fn message(body: Body) -> Message {
    encode(&Mad { transaction: 7, body })
}

/// From host 1 to host 2, or back.
fn req(back: bool, local_comm_id: u32) -> Message {
    let (local_gid, remote_gid) = if back { (gid(2), gid(1)) } else { (gid(1), gid(2)) };
    message(Body::Req(Box::new(Req {
        local_comm_id,
        service: 0x0106_1d2f,
        qpn: 0x55,
        ca_guid: [6; 8],
        remote_response_timeout: 20,
        local_response_timeout: 20,
        ack_timeout: 19,
        max_retries: 15,
        local_gid,
        remote_gid,
        ..Req::default()
    })))
}

fn rep(local_comm_id: u32, remote_comm_id: u32) -> Message {
    message(Body::Rep(Box::new(Rep { local_comm_id, remote_comm_id, qpn: 0x55, ..Rep::default() })))
}

fn rtu(local_comm_id: u32, remote_comm_id: u32) -> Message {
    message(Body::Rtu(Rtu { local_comm_id, remote_comm_id }))
}

fn dreq(local_comm_id: u32, remote_comm_id: u32) -> Message {
    message(Body::Dreq(wire::Dreq { local_comm_id, remote_comm_id, remote_qpn: 0x55 }))
}

fn drep(local_comm_id: u32, remote_comm_id: u32) -> Message {
    message(Body::Drep(Drep { local_comm_id, remote_comm_id }))
}

fn rej(local_comm_id: u32, remote_comm_id: u32) -> Message {
    message(Body::Rej(Box::new(Rej {
        local_comm_id,
        remote_comm_id,
        refused: Refused::Req,
        reason: 28,
        ca_guid: None,
        private_data: [0; 148],
    })))
}

fn all(exchanges: &mut Exchanges) -> Vec<Output> {
    std::iter::from_fn(|| exchanges.next_output()).collect()
}

fn packet(message: Message) -> Output {
    Output::Packet { peer: peer(), message }
}

fn told(message: Message) -> Output {
    Output::Message { link: LINK, message }
}

/// What leaves when the first time comes for which something waits.
fn wait(exchanges: &mut Exchanges) -> Vec<Output> {
    exchanges.expire(exchanges.next_due().unwrap());
    all(exchanges)
}

fn arrive(exchanges: &mut Exchanges, message: &Message) -> Vec<Output> {
    assert_eq!(exchanges.arrived(peer(), &message[..], START), Arrived::Taken);
    all(exchanges)
}

/// Host 1 has asked for a connection.
fn asking() -> Exchanges {
    let mut exchanges = Exchanges::default();
    exchanges.connect(LINK, peer(), &req(false, 11), START);
    assert_eq!(all(&mut exchanges), [packet(req(false, 11))]);
    exchanges
}

/// Host 2 has, and host 1 has taken it.
fn asked() -> Exchanges {
    let mut exchanges = Exchanges::default();
    assert_eq!(exchanges.arrived(peer(), &req(true, 22)[..], START), Arrived::Request);
    exchanges.accepted(LINK, peer(), &req(true, 22)[..], 11);
    exchanges
}

/// A connection that either host asked for.
fn established(active: bool) -> Exchanges {
    let mut exchanges = if active { asking() } else { asked() };
    if active {
        assert_eq!(arrive(&mut exchanges, &rep(22, 11)), [told(rep(22, 11))]);
        exchanges.send(LINK, rtu(11, 22), START);
    } else {
        exchanges.send(LINK, rep(11, 22), START);
        assert_eq!(all(&mut exchanges), [packet(rep(11, 22))]);
        assert_eq!(arrive(&mut exchanges, &rtu(22, 11)), [told(rtu(22, 11))]);
    }
    all(&mut exchanges);
    exchanges
}

#[test]
fn a_request_is_repeated_until_it_is_answered() {
    let mut exchanges = asking();
    assert_eq!(wait(&mut exchanges), [packet(req(false, 11))]);
    assert_eq!(arrive(&mut exchanges, &rep(22, 11)), [told(rep(22, 11))]);
    assert_eq!(exchanges.next_due(), None);
}

#[test]
fn nobody_answers() {
    let mut exchanges = asking();
    let mut sent = 0;
    let end = loop {
        let at = exchanges.next_due().unwrap();
        match &wait(&mut exchanges)[..] {
            [Output::Packet { .. }] => sent += 1,
            [Output::Unreachable { link: LINK }] => break at,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((sent, (end - START).as_secs()), (20, 106));
}

#[test]
fn a_request_that_comes_again_is_answered_as_far_as_it_is() {
    let mut exchanges = asked();
    let again = arrive(&mut exchanges, &req(true, 22));
    let [Output::Packet { message, .. }] = &again[..] else { panic!("{again:?}") };
    let mra = Mad {
        transaction: 7,
        body: Body::Mra(wire::Mra { local_comm_id: 11, remote_comm_id: 22, message: 0, service_timeout: 24 }),
    };
    assert_eq!(decode(&message[..]), Ok(mra));
    exchanges.send(LINK, rep(11, 22), START);
    all(&mut exchanges);
    assert_eq!(arrive(&mut exchanges, &req(true, 22)), [packet(rep(11, 22))]);
    // Lost, too: it is said again unasked.
    assert_eq!(wait(&mut exchanges), [packet(rep(11, 22))]);
    assert_eq!(arrive(&mut exchanges, &rtu(22, 11)), [told(rtu(22, 11))]);
    assert_eq!(arrive(&mut exchanges, &rtu(22, 11)), []);
    assert_eq!(arrive(&mut exchanges, &req(true, 22)), []);
}

#[test]
fn more_time_is_given_once_it_is_asked_for() {
    let mut exchanges = asking();
    let mra = wire::Mra { local_comm_id: 22, remote_comm_id: 11, message: 0, service_timeout: 24 };
    // Of another message it says nothing.
    arrive(&mut exchanges, &message(Body::Mra(wire::Mra { message: 1, ..mra })));
    assert_eq!(exchanges.next_due(), Some(START + Duration::from_millis(250)));
    arrive(&mut exchanges, &message(Body::Mra(mra)));
    assert_eq!(exchanges.next_due(), Some(START + Duration::from_millis(65536 + 6144)));
}

#[test]
fn a_lost_rtu_is_said_again() {
    let mut exchanges = established(true);
    assert_eq!(arrive(&mut exchanges, &rep(22, 11)), [packet(rtu(11, 22))]);
}

#[test]
fn an_offer_that_the_program_has_not_answered_is_asked_to_wait() {
    let mut exchanges = asking();
    arrive(&mut exchanges, &rep(22, 11));
    let again = arrive(&mut exchanges, &rep(22, 11));
    let [Output::Packet { message, .. }] = &again[..] else { panic!("{again:?}") };
    assert!(matches!(decode(&message[..]).unwrap().body, Body::Mra(wire::Mra { message: 1, .. })));
}

#[test]
fn an_end_is_asked_for_until_it_is_agreed_to() {
    for active in [true, false] {
        let mut exchanges = established(active);
        exchanges.send(LINK, dreq(11, 22), START);
        assert_eq!(all(&mut exchanges), [packet(dreq(11, 22))]);
        assert_eq!(wait(&mut exchanges), [packet(dreq(11, 22))]);
        assert_eq!(arrive(&mut exchanges, &drep(22, 11)), [told(drep(22, 11))]);
        exchanges.close(LINK, START);
        assert_eq!(wait(&mut exchanges), []);
        assert!(exchanges.is_empty());
    }
}

#[test]
fn who_agreed_to_an_end_agrees_again() {
    let mut exchanges = established(false);
    assert_eq!(arrive(&mut exchanges, &dreq(22, 11)), [told(dreq(22, 11))]);
    assert_eq!(arrive(&mut exchanges, &dreq(22, 11)), []);
    exchanges.send(LINK, drep(11, 22), START);
    exchanges.close(LINK, START);
    all(&mut exchanges);
    assert_eq!(arrive(&mut exchanges, &dreq(22, 11)), [packet(drep(11, 22))]);
}

#[test]
fn an_id_that_is_destroyed_says_so_until_it_is_heard_or_a_while() {
    let mut exchanges = established(true);
    exchanges.send(LINK, dreq(11, 22), START);
    exchanges.close(LINK, START);
    all(&mut exchanges);
    assert_eq!(wait(&mut exchanges), [packet(dreq(11, 22))]);
    // Both at once.
    let agreed = arrive(&mut exchanges, &dreq(22, 11));
    assert_eq!(agreed, [packet(drep(11, 22))]);
    while !exchanges.is_empty() {
        assert_eq!(wait(&mut exchanges), []);
    }
}

#[test]
fn a_refusal_is_said_again() {
    let mut exchanges = asked();
    exchanges.send(LINK, rej(11, 22), START);
    exchanges.close(LINK, START);
    all(&mut exchanges);
    assert_eq!(arrive(&mut exchanges, &req(true, 22)), [packet(rej(11, 22))]);
    // Who gave up before it knew the other's number says it with that.
    let mut exchanges = asking();
    exchanges.send(LINK, rej(11, 0), START);
    exchanges.close(LINK, START);
    all(&mut exchanges);
    assert_eq!(arrive(&mut exchanges, &rep(22, 11)), [packet(rej(11, 22))]);
}

#[test]
fn an_offer_that_comes_too_late_is_refused() {
    let mut exchanges = asking();
    while !wait(&mut exchanges).contains(&Output::Unreachable { link: LINK }) {}
    exchanges.close(LINK, START);
    for _ in 0..2 {
        let out = arrive(&mut exchanges, &rep(22, 11));
        let [Output::Packet { message, .. }] = &out[..] else { panic!("{out:?}") };
        let Body::Rej(rej) = decode(&message[..]).unwrap().body else { panic!("{message:?}") };
        assert_eq!((rej.local_comm_id, rej.remote_comm_id, rej.refused), (11, 22, Refused::Rep));
    }
}

#[test]
fn a_request_that_was_dropped_may_come_again() {
    let mut exchanges = asked();
    exchanges.close(LINK, START);
    assert!(exchanges.is_empty());
    assert_eq!(exchanges.arrived(peer(), &req(true, 22)[..], START), Arrived::Request);
}

#[test]
fn who_gives_up_before_he_has_a_number_is_heard() {
    let mut exchanges = asked();
    assert_eq!(arrive(&mut exchanges, &rej(22, 0)), [told(rej(22, 0))]);
    // Later he has.
    assert_eq!(arrive(&mut established(false), &rej(22, 0)), []);
}

#[test]
fn others_are_not_heard() {
    for (active, strange) in [
        (true, rep(22, 12)),
        (true, rej(23, 12)),
        (false, rtu(23, 11)),
        (false, rtu(22, 12)),
        (false, rej(23, 11)),
        (false, rep(22, 11)),
        (false, req(false, 22)),
    ] {
        let mut exchanges = if active { asking() } else { asked() };
        if !active {
            exchanges.send(LINK, rep(11, 22), START);
            all(&mut exchanges);
        }
        assert_eq!(arrive(&mut exchanges, &strange), [], "{strange:?}");
    }
    // Without the number there: one that was told is named by every message that follows.
    for active in [true, false] {
        let mut exchanges = established(active);
        for strange in [rej(0, 11), rej(23, 11), dreq(0, 11), drep(0, 11)] {
            assert!(!arrive(&mut exchanges, &strange).contains(&told(strange.clone())), "{strange:?}");
        }
        assert_eq!(arrive(&mut exchanges, &dreq(22, 11)), [told(dreq(22, 11))]);
    }
    // A request's refusal comes from who has no number yet.
    assert_eq!(arrive(&mut asking(), &rej(0, 11)), [told(rej(0, 11))]);
    // From another host, or to another address of this one.
    for other in [Peer { address: gid(3), ..peer() }, Peer { own: gid(4), ..peer() }] {
        let mut exchanges = established(true);
        for message in [dreq(22, 11), drep(22, 11), rej(22, 11), rep(22, 11)] {
            exchanges.arrived(other, &message[..], START);
            let heard = all(&mut exchanges);
            // That there is no connection of it is all that it learns.
            assert!(heard.iter().all(|out| matches!(out, Output::Packet { peer, .. } if *peer == other)));
        }
        assert_eq!(arrive(&mut exchanges, &dreq(22, 11)), [told(dreq(22, 11))]);
    }
}

#[test]
fn a_queue_pair_has_one_connection() {
    for active in [true, false] {
        let mut exchanges = established(active);
        let new = Link(2);
        assert_eq!(exchanges.arrived(peer(), &req(true, 33)[..], START), Arrived::Request);
        exchanges.accepted(new, peer(), &req(true, 33)[..], 12);
        exchanges.send(new, rep(12, 33), START);
        // Anybody may have sent the request.
        assert_eq!(all(&mut exchanges), [packet(rep(12, 33))]);
        assert_eq!(arrive(&mut exchanges, &rtu(33, 13)), []);
        let heard = Output::Message { link: new, message: rtu(33, 12) };
        assert_eq!(arrive(&mut exchanges, &rtu(33, 12)), [heard, Output::Ended { link: LINK }]);
        exchanges.close(LINK, START);
        // The new one has the queue pair from now on, whatever is heard of the one before.
        arrive(&mut exchanges, &dreq(22, 11));
        exchanges.accepted(Link(3), peer(), &req(true, 44)[..], 14);
        exchanges.send(Link(3), rep(14, 44), START);
        all(&mut exchanges);
        assert_eq!(arrive(&mut exchanges, &rtu(44, 14))[1..], [Output::Ended { link: new }]);
    }
}

#[test]
fn an_offer_of_a_queue_pair_with_a_connection_is_refused() {
    let mut exchanges = established(true);
    let new = Link(2);
    exchanges.connect(new, peer(), &req(false, 12), START);
    all(&mut exchanges);
    let stale = |local_comm_id, remote_comm_id, refused| {
        let (reason, ca_guid, private_data) = (reason::STALE_CONNECTION, None, [0; 148]);
        message(Body::Rej(Box::new(Rej {
            local_comm_id,
            remote_comm_id,
            refused,
            reason,
            ca_guid,
            private_data,
        })))
    };
    // The connection that is there is over; the request waits on.
    let refused = [Output::Ended { link: LINK }, packet(stale(12, 33, Refused::Rep))];
    assert_eq!(arrive(&mut exchanges, &rep(33, 12)), refused);
    exchanges.close(LINK, START);
    all(&mut exchanges);
    assert_eq!(wait(&mut exchanges), [packet(req(false, 12))]);
    // Its sender has no other for that request, as it heard of none.
    let answer = stale(33, 12, Refused::None);
    assert_eq!(arrive(&mut exchanges, &answer), [Output::Message { link: new, message: answer.clone() }]);
    // The same number and address again, for another request, is an offer like any.
    exchanges.connect(Link(3), peer(), &req(false, 13), START);
    all(&mut exchanges);
    let offer = Output::Message { link: Link(3), message: rep(44, 13) };
    assert_eq!(arrive(&mut exchanges, &rep(44, 13)), [offer]);
}

#[test]
fn an_offer_of_a_queue_pair_whose_connection_is_over_is_one_like_any() {
    for agreed in [false, true] {
        let mut exchanges = established(true);
        arrive(&mut exchanges, &dreq(22, 11));
        if agreed {
            exchanges.send(LINK, drep(11, 22), START);
        }
        // Its id is there still.
        let new = Link(2);
        exchanges.connect(new, peer(), &req(false, 12), START);
        all(&mut exchanges);
        assert_eq!(
            arrive(&mut exchanges, &rep(33, 12)),
            [Output::Message { link: new, message: rep(33, 12) }]
        );
    }
}

#[test]
fn a_request_that_comes_again_after_the_end_is_stale() {
    let stale = |exchanges: &mut Exchanges| {
        let out = arrive(exchanges, &req(true, 22));
        let [Output::Packet { message, .. }] = &out[..] else { panic!("{out:?}") };
        let Body::Rej(rej) = decode(&message[..]).unwrap().body else { panic!("{message:?}") };
        assert_eq!((rej.local_comm_id, rej.remote_comm_id, rej.reason), (11, 22, reason::STALE_CONNECTION));
        assert_eq!(rej.refused, Refused::None);
    };
    // Its sender has ended it.
    let mut exchanges = established(false);
    arrive(&mut exchanges, &dreq(22, 11));
    exchanges.send(LINK, drep(11, 22), START);
    all(&mut exchanges);
    stale(&mut exchanges);
    exchanges.close(LINK, START);
    stale(&mut exchanges);
    // Who was asked has.
    let mut exchanges = established(false);
    exchanges.send(LINK, dreq(11, 22), START);
    all(&mut exchanges);
    arrive(&mut exchanges, &drep(22, 11));
    exchanges.close(LINK, START);
    stale(&mut exchanges);
}

#[test]
fn an_end_that_nobody_agreed_to_is_not_forgotten_for_others() {
    let mut exchanges = established(true);
    exchanges.send(LINK, dreq(11, 22), START);
    exchanges.close(LINK, START);
    let most = u32::try_from(MOST_OVER).unwrap();
    for number in 0..=most {
        let (link, own) = (Link(2 + u64::from(number)), 100 + number);
        exchanges.connect(link, peer(), &req(false, own), START);
        arrive(&mut exchanges, &rej(0, own));
        exchanges.close(link, START);
    }
    all(&mut exchanges);
    assert_eq!(exchanges.all.len(), 1 + MOST_OVER, "others are");
    assert!(!exchanges.has(Link(2)));
    assert_eq!(wait(&mut exchanges), [packet(dreq(11, 22))]);
    // Once it is over it is one of many.
    arrive(&mut exchanges, &drep(22, 11));
    assert_eq!(exchanges.all.len(), MOST_OVER);
    assert!(exchanges.has(LINK));
}

#[test]
fn another_path_is_not_taken() {
    let mut exchanges = established(false);
    let lap = Lap { local_comm_id: 22, remote_comm_id: 11 };
    let apr = Body::Apr(wire::Apr { local_comm_id: 11, remote_comm_id: 22, status: UNSUPPORTED });
    assert_eq!(arrive(&mut exchanges, &message(Body::Lap(lap))), [packet(message(apr))]);
}

#[test]
fn what_nobody_has_ends() {
    assert_eq!(arrive(&mut Exchanges::default(), &dreq(22, 11)), [packet(drep(11, 22))]);
    let refused = refuse(&req(true, 22)[..], false).unwrap();
    let Body::Rej(rej) = decode(&refused[..]).unwrap().body else { panic!() };
    assert_eq!((rej.remote_comm_id, rej.reason), (22, 8));
    assert_eq!(refuse(&dreq(1, 2)[..], true), None);
}

#[test]
fn a_question_for_a_queue_pair_is_repeated_and_answered_again() {
    let ask = |request_id| {
        message(Body::SidrReq(Box::new(SidrReq {
            request_id,
            pkey: 0xffff,
            service: 0x0111_1d2f,
            private_data: [0; 216],
        })))
    };
    let answer = |request_id| {
        message(Body::SidrRep(Box::new(SidrRep {
            request_id,
            status: 0,
            qpn: 9,
            service: 0x0111_1d2f,
            qkey: 1,
            ece: Default::default(),
            private_data: [0; 136],
        })))
    };
    let mut exchanges = Exchanges::default();
    exchanges.connect(LINK, peer(), &ask(11), START);
    all(&mut exchanges);
    assert_eq!(wait(&mut exchanges), [packet(ask(11))]);
    assert_eq!(arrive(&mut exchanges, &answer(11)), [told(answer(11))]);
    assert_eq!(arrive(&mut exchanges, &answer(11)), []);
    let mut exchanges = Exchanges::default();
    assert_eq!(exchanges.arrived(peer(), &ask(22)[..], START), Arrived::Request);
    exchanges.accepted(LINK, peer(), &ask(22)[..], 0);
    assert_eq!(arrive(&mut exchanges, &ask(22)), []);
    exchanges.send(LINK, answer(22), START);
    exchanges.close(LINK, START);
    all(&mut exchanges);
    assert_eq!(arrive(&mut exchanges, &ask(22)), [packet(answer(22))]);
}

#[test]
fn who_ends_says_so() {
    let said = |exchanges: &Exchanges| {
        let all: Vec<_> =
            exchanges.farewells().map(|(_, message)| decode(&message[..]).unwrap().body).collect();
        assert_eq!(all.len(), 1);
        all[0].clone()
    };
    let Body::Rej(rej) = said(&asking()) else { panic!() };
    assert_eq!((rej.reason, rej.ca_guid, rej.local_comm_id), (reason::TIMEOUT, Some([6; 8]), 11));
    let Body::Rej(rej) = said(&asked()) else { panic!() };
    assert_eq!((rej.reason, rej.remote_comm_id), (reason::CONSUMER_DEFINED, 22));
    for active in [true, false] {
        let end = wire::Dreq { local_comm_id: 11, remote_comm_id: 22, remote_qpn: 0x55 };
        assert_eq!(said(&established(active)), Body::Dreq(end));
        // One that nobody has agreed to is said once more.
        let mut exchanges = established(active);
        exchanges.send(LINK, dreq(11, 22), START);
        assert_eq!(said(&exchanges), Body::Dreq(end));
        exchanges.close(LINK, START);
        assert_eq!(said(&exchanges), Body::Dreq(end));
        all(&mut exchanges);
        arrive(&mut exchanges, &drep(22, 11));
        assert_eq!(exchanges.farewells().count(), 0);
        let mut exchanges = established(active);
        arrive(&mut exchanges, &dreq(22, 11));
        exchanges.send(LINK, drep(11, 22), START);
        exchanges.close(LINK, START);
        assert_eq!(said(&exchanges), Body::Drep(Drep { local_comm_id: 11, remote_comm_id: 22 }));
    }
}

#[test]
fn requests_say_where_they_are_from() {
    let header =
        |source: [u8; 4]| IpHeader { port: 5, source: source.into(), destination: [10, 0, 0, 1].into() };
    let with = |header: IpHeader| {
        let mut bytes = req(true, 22);
        header.write(&mut bytes[24 + 140..]);
        bytes
    };
    let honest = header([10, 0, 0, 2]);
    let listener = Addressee::Listener { service: 0x0106_1d2f, header: Some(honest) };
    assert_eq!(addressee(&peer(), &with(honest)[..]), Some(listener));
    assert_eq!(addressee(&peer(), &with(header([10, 0, 0, 3]))[..]), None);
    assert_eq!(addressee(&Peer { address: gid(3), ..peer() }, &with(honest)[..]), None);
    assert_eq!(addressee(&peer(), &rtu(1, 2)[..]), Some(Addressee::Connection(2)));
    assert_eq!(addressee(&peer(), &[0; 256]), None);
}

#[test]
fn fuzz_network_messages() {
    corpus::check!().with_type::<Vec<(u8, u8, Vec<(u8, u8)>)>>().for_each(|messages| {
        let mut exchanges = established(false);
        exchanges.connect(Link(2), peer(), &req(false, 12), START);
        let mut now = START;
        for (kind, host, changes) in messages.iter().take(64) {
            let mut bytes = match kind % 11 {
                0 => req(true, 22),
                1 => rep(33, 12),
                2 => rtu(22, 11),
                3 => dreq(22, 11),
                4 => drep(22, 11),
                5 => rej(22, 11),
                6 => message(Body::Lap(Lap { local_comm_id: 22, remote_comm_id: 11 })),
                7 => message(Body::Mra(wire::Mra {
                    local_comm_id: 33,
                    remote_comm_id: 12,
                    message: 0,
                    service_timeout: 31,
                })),
                8 => req(true, u32::from(*host)),
                9 => Box::new([*host; 256]),
                _ => rep(22, 11),
            };
            for (at, value) in changes {
                bytes[usize::from(*at)] = *value;
            }
            let from = Peer { address: gid(2 + host % 2), ..peer() };
            let _ = addressee(&from, &bytes[..]);
            let _ = refuse(&bytes[..], host % 3 == 0);
            if exchanges.arrived(from, &bytes[..], now) == Arrived::Request {
                exchanges.accepted(Link(3 + u64::from(*host)), from, &bytes[..], u32::from(*host));
            }
            now += Duration::from_millis(u64::from(*host) * 100);
            exchanges.expire(now);
            assert!(all(&mut exchanges).len() < 16, "what answers is no more than came");
            assert!(exchanges.next_due().is_none_or(|at| at > now), "nothing is due for ever");
        }
    });
}
