use super::*;
use crate::rules::verbs::Opcode as Verb;
use crate::wire::opcode::Operation;
use crate::wire::packet::Packet;
use message::Taken;

fn requester(transport: Transport, mtu: Mtu) -> Requester {
    let connection = Connection { transport, mtu, dest_qp: 1, p_key: 0xffff, psn: Psn::new(0xff_ffff) };
    let mut requester = Requester::new(16, 4).unwrap();
    requester.start(connection, Retry { timeout: 4, retry_cnt: 7, rnr_retry: 7 }, 4);
    requester
}

fn acknowledgement(psn: Psn) -> Packet<'static> {
    let aeth = Some(super::super::packet::Aeth { syndrome: 31, msn: 0 });
    let headers = Headers { aeth, ..Headers::NONE };
    Packet { bth: Bth::new(Opcode::ACKNOWLEDGE, 1, psn), headers, payload: &[] }
}

#[test]
fn the_longest_send() {
    for transport in [Transport::Rc, Transport::Uc] {
        let mut requester = requester(transport, Mtu::MOST);
        requester.post(&Message::new(Verb::Send, MAX_MESSAGE)).unwrap();
        let mut sent = 0;
        while sent < MAX_MESSAGE {
            let transmit = requester.next(0).unwrap();
            assert_eq!((transmit.offset, transmit.length), (sent, 4096));
            sent += transmit.length;
            assert_eq!(transmit.head.bth.opcode.position().ends(), sent == MAX_MESSAGE);
            if transmit.head.bth.ack_req {
                requester.take(&acknowledgement(transmit.head.bth.psn), 0);
            }
        }
        assert_eq!(requester.done().unwrap().status, Status::Success);
    }
}

#[test]
fn the_longest_read() {
    let mut requester = requester(Transport::Rc, Mtu::MOST);
    let data = [0; 4096];
    let message = Message { va: 1 << 40, rkey: 3, ..Message::new(Verb::RdmaRead, MAX_MESSAGE) };
    requester.post(&message).unwrap();
    let mut came = 0;
    while let Some(transmit) = requester.next(0) {
        let reth = transmit.head.headers.reth.unwrap();
        assert_eq!(reth.va, (1 << 40) + u64::from(transmit.offset));
        let packets = Mtu::MOST.packets(reth.length);
        for packet in 0..packets {
            let position = Position::of(packet == 0, packet + 1 == packets);
            let bth = Bth::new(Opcode::read_response(position), 1, transmit.head.bth.psn + packet);
            let response = Packet { bth, headers: Headers::NONE, payload: &data };
            let Taken::Read { offset, .. } = requester.take(&response, 0) else { panic!("{came}") };
            assert_eq!(offset, came);
            came += 4096;
        }
    }
    assert_eq!(came, MAX_MESSAGE);
    assert_eq!(requester.done().unwrap().status, Status::Success);
}

#[test]
fn a_new_start_forgets_the_connection_before() {
    let mut requester = requester(Transport::Rc, Mtu::LEAST);
    for opcode in [Verb::Send, Verb::RdmaRead] {
        requester.post(&Message::new(opcode, 300)).unwrap();
    }
    while requester.next(5).is_some() {}
    requester.fail(Ticket(1), Status::LocProtErr);
    requester.start(requester.connection, requester.retry, 4);
    assert_eq!((requester.waiting(), requester.deadline(), requester.done()), (0, None, None));
    assert!(requester.is_drained());
    assert_eq!(requester.next(0), None);
    assert_eq!(requester.post(&Message::new(Verb::Send, 1)), Ok(Ticket(0)));
    let transmit = requester.next(0).unwrap();
    assert_eq!(transmit.head.bth.psn, Psn::new(0xff_ffff));
    assert_eq!(transmit.head.bth.opcode.operation(), Operation::Send);
}

#[test]
fn what_has_ended_does_not_fail() {
    let mut requester = requester(Transport::Rc, Mtu::LEAST);
    for _ in 0..2 {
        requester.post(&Message::new(Verb::Send, 1)).unwrap();
        let transmit = requester.next(0).unwrap();
        requester.take(&acknowledgement(transmit.head.bth.psn), 0);
    }
    assert_eq!(requester.done().unwrap().ticket, Ticket(0));
    requester.fail(Ticket(0), Status::LocProtErr);
    // The payload of an answer that came is stored before the message is asked for.
    requester.fail(Ticket(1), Status::LocProtErr);
    assert!(requester.has_done());
    assert_eq!(requester.done().unwrap().status, Status::LocProtErr);
    requester.fail(Ticket(7), Status::LocProtErr);
    assert_eq!((requester.has_done(), requester.done()), (false, None));
}

#[test]
fn fewer_packets_leave_together_where_round_trips_are_long() {
    // The window is 16 packets, and grows by each that is acknowledged.
    for (round_trip, train) in
        [(50_000, 128), (999_999, 128), (1_000_000, 17), (4_000_000, 4), (40_000_000, 1)]
    {
        let mut requester = requester(Transport::Rc, Mtu::LEAST);
        assert_eq!(requester.train(), 128);
        for _ in 0..8 {
            requester.post(&Message::new(Verb::Send, 256)).unwrap();
        }
        let sent: Vec<_> = std::iter::from_fn(|| requester.next(0)).collect();
        assert_eq!(sent.len(), 8);
        requester.take(&acknowledgement(sent[0].head.bth.psn), round_trip);
        assert_eq!((requester.window(), requester.train()), (17, train));
    }
}

/// Sends one long message, whose answers take so many nanoseconds; how many packets were under way at most, and
/// the most that were sent without one that asks for an acknowledgement.
fn long_message(round_trip: u64) -> (u64, u32) {
    let mut requester = requester(Transport::Rc, Mtu::LEAST);
    requester.post(&Message::new(Verb::RdmaWrite, 1 << 28)).unwrap();
    let (mut now, mut under_way, mut unasked) = (0, 0, 0);
    while requester.done().is_none() {
        let mut asked = Vec::new();
        while let Some(transmit) = requester.next(now) {
            unasked = unasked.max(requester.unasked);
            asked.extend(transmit.head.bth.ack_req.then_some(transmit.head.bth.psn));
        }
        under_way = under_way.max(requester.sent - requester.oldest);
        now += round_trip;
        for psn in asked {
            requester.take(&acknowledgement(psn), now);
        }
    }
    (under_way, unasked)
}

#[test]
fn more_packets_are_under_way_where_round_trips_are_long() {
    assert_eq!(long_message(100_000), (128, 31));
    assert_eq!(long_message(400_000), (256, 31));
    assert_eq!(long_message(5_000_000), (1024, 31));
}

#[test]
fn a_read_is_asked_for_in_parts_that_a_receive_buffer_takes() {
    let mut requester = requester(Transport::Rc, Mtu::LEAST);
    requester.window.set_round_trip(u64::MAX);
    (0..1_000_000).for_each(|_| requester.window.acknowledged(1, requester.window.size()));
    assert_eq!(requester.window(), 1024);
    requester.post(&Message::new(Verb::RdmaRead, MAX_MESSAGE)).unwrap();
    let parts: Vec<_> = std::iter::from_fn(|| requester.next(0)).collect();
    let lengths = parts.iter().map(|part| part.head.headers.reth.unwrap().length);
    assert_eq!(lengths.collect::<Vec<_>>(), [128 * 256; 4]);
}

/// How many packets leave at once of those that are sent again, how many a millisecond later, and how many of
/// them are in the window.
fn sent_again(round_trip: u64) -> (usize, usize, u32) {
    let mut requester = requester(Transport::Rc, Mtu::LEAST);
    requester.post(&Message::new(Verb::RdmaWrite, 256 * 100)).unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| requester.next(0)).collect();
    requester.take(&acknowledgement(sent[3].head.bth.psn), round_trip);
    let gap = Some(super::super::packet::Aeth { syndrome: 3 << 5, msn: 0 });
    let bth = Bth::new(Opcode::ACKNOWLEDGE, 1, sent[4].head.bth.psn);
    let headers = Headers { aeth: gap, ..Headers::NONE };
    requester.take(&Packet { bth, headers, payload: &[] }, round_trip);
    let mut leave = |now| {
        let left = std::iter::from_fn(|| requester.next(now)).count();
        assert!(requester.deadline().is_some_and(|deadline| deadline <= now + 1_000_000 || left == 0));
        left
    };
    let left = [leave(round_trip), leave(round_trip + 999_999), leave(round_trip + 1_000_000)];
    assert_eq!(left[1], 0);
    (left[0], left[2], requester.window())
}

#[test]
fn what_is_sent_again_leaves_as_fast_as_the_window_lets_it() {
    // Of 20 packets seven tenths are left.
    assert_eq!(sent_again(4_000_000), (3, 3, 14));
    assert_eq!(sent_again(1_000_000), (14, 0, 14));
    assert_eq!(sent_again(999_999), (14, 0, 14));
}
