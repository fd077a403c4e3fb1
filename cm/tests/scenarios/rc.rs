//! Reliable connections, from the request to the end.

use super::*;
use ironverbs_cm::address::gid_of;
use ironverbs_cm_testing::{GUID, SCOPE};

#[test]
fn a_connection_begins_and_ends() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let client = client(net, TCP, v4("10.0.0.1", 7471));
    client.connect(net, &param(b"hello")).unwrap();
    client.nothing(net);

    let event = server.expect(net, EventKind::ConnectRequest, 0);
    assert_eq!(event.uid, 0x1000 + u64::from(TCP));
    let request = conn(&event);
    assert_eq!(request.private_data_len, 56);
    assert_eq!(request.private_data[..6], *b"hello\0");
    // What the client asks at once, the server answers at once.
    assert_eq!((request.responder_resources, request.initiator_depth), (2, 1));
    assert_eq!((request.retry_count, request.rnr_retry_count, request.qp_num), (7, 6, 0x1234));

    let new = Side { id: event.id, ..server };
    new.accept(net, 77, &param(b"yes")).unwrap();
    let event = client.expect(net, EventKind::ConnectResponse, 0);
    assert_eq!(conn(&event).private_data_len, 196);
    assert_eq!(conn(&event).private_data[..4], *b"yes\0");
    client.establish(net).unwrap();
    let event = new.expect(net, EventKind::Established, 0);
    assert_eq!((event.uid, event.id, &event.param), (77, new.id, &Param::None));

    client.disconnect(net).unwrap();
    client.nothing(net);
    let event = new.expect(net, EventKind::Disconnected, 0);
    assert_eq!((event.uid, event.id), (77, new.id));
    new.disconnect(net).unwrap();
    client.expect(net, EventKind::Disconnected, 0);
    // Both leave time-wait after 2.048 s.
    let before = net.shared.now;
    client.expect(net, EventKind::TimewaitExit, 0);
    new.expect(net, EventKind::TimewaitExit, 0);
    assert_eq!((net.shared.now - before).as_millis(), 2048);
    assert_eq!(client.destroy(net), Ok(5));
    assert_eq!(new.destroy(net), Ok(3));
    assert_eq!(server.destroy(net), Ok(1));
}

#[test]
fn the_new_id_has_the_requests_addresses() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    let of = |net: &mut Net, side: Side| match net.command(
        side.pid,
        side.file,
        &Command::Query { id: side.id, option: 0 },
    ) {
        Ok(Answer::Addresses(addresses)) => addresses,
        other => panic!("{other:?}"),
    };
    let (active, passive) = (of(net, client), of(net, server));
    assert_eq!(active.source, passive.destination);
    assert_eq!(active.destination, passive.source);
    assert_eq!(passive.source, v4("10.0.0.1", 7471));
    assert_eq!((passive.node_guid, passive.index, passive.port, passive.pkey), (GUID, 3, 1, 0));
    let path = |net: &mut Net, side: Side| match net.command(
        side.pid,
        side.file,
        &Command::Query { id: side.id, option: 1 },
    ) {
        Ok(Answer::Paths(paths)) => paths[0],
        other => panic!("{other:?}"),
    };
    let (active, passive) = (path(net, client), path(net, server));
    assert_eq!((active.sgid, active.dgid), (passive.dgid, passive.sgid));
    assert_eq!(active.dgid, gid_of("10.0.0.1".parse().unwrap()));
    assert_eq!((active.packet_life_time, passive.packet_life_time), (18, 18));
    assert_eq!((passive.mtu, passive.hop_limit, passive.service), (3, 64, 0x0106_1d2f));
}

#[test]
fn nobody_listens() {
    let net = &mut Net::new(2, 1);
    let side = client(net, TCP, v4("10.0.0.1", 7471));
    side.connect(net, &param(b"")).unwrap();
    let event = side.expect(net, EventKind::Rejected, 8);
    assert_eq!(conn(&event).private_data_len, 148);
    // Somebody does, but not at this address.
    listener(net, TCP, v4("10.0.0.2", 7471));
    let side = client(net, TCP, v4("10.0.0.1", 7471));
    side.connect(net, &param(b"")).unwrap();
    side.expect(net, EventKind::Rejected, 28);
    assert_eq!(side.connect(net, &param(b"")), Err(Errno::EINVAL));
}

#[test]
fn a_request_is_rejected() {
    for (reason, status) in [(0, 28), (28, 28), (35, 35)] {
        let net = &mut Net::new(2, 1);
        let (client, server) = requested(net);
        assert_eq!(server.reject(net, 1, b""), Err(Errno::EINVAL));
        assert_eq!(server.reject(net, 28, &[0; 149]), Err(Errno::EINVAL));
        server.reject(net, reason, b"no").unwrap();
        let event = client.expect(net, EventKind::Rejected, status);
        assert_eq!(conn(&event).private_data[..3], *b"no\0");
        assert_eq!(server.reject(net, reason, b"no"), Err(Errno::EINVAL));
        assert_eq!(server.accept(net, 5, &param(b"")), Err(Errno::EINVAL));
        server.nothing(net);
    }
}

#[test]
fn an_answer_is_rejected() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    server.accept(net, 77, &param(b"")).unwrap();
    client.expect(net, EventKind::ConnectResponse, 0);
    client.reject(net, 28, b"changed my mind").unwrap();
    let event = server.expect(net, EventKind::Rejected, 28);
    assert_eq!(conn(&event).private_data[..15], *b"changed my mind");
}

#[test]
fn private_data_has_its_limits() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let client = client(net, TCP, v4("10.0.0.1", 7471));
    assert_eq!(client.connect(net, &param(&[1; 57])), Err(Errno::EINVAL));
    assert_eq!(client.connect(net, &param(&[1; 255])), Err(Errno::EINVAL));
    client.connect(net, &param(&[1; 56])).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    assert_eq!(conn(&event).private_data[..57], [[1; 56].as_slice(), &[0]].concat());
    let new = Side { id: event.id, ..server };
    new.accept(net, 7, &param(&[2; 196])).unwrap();
    let event = client.expect(net, EventKind::ConnectResponse, 0);
    assert_eq!(conn(&event).private_data[..196], [2; 196]);
}

#[test]
fn an_accept_that_fails_rejects() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    assert_eq!(server.accept(net, 7, &param(&[2; 197])), Err(Errno::EINVAL));
    client.expect(net, EventKind::Rejected, 28);
}

#[test]
fn notify_stands_for_rtu() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    let notify = Command::Notify { id: server.id, event: 4 };
    assert_eq!(server.run(net, notify.clone()), Err(Errno::EINVAL));
    server.accept(net, 77, &param(b"")).unwrap();
    server.run(net, notify.clone()).unwrap();
    server.expect(net, EventKind::Established, 0);
    assert_eq!(server.run(net, notify), Err(Errno::EISCONN));
    // The server may end it before the client says RTU: the client hears that after it did.
    server.disconnect(net).unwrap();
    client.expect(net, EventKind::ConnectResponse, 0);
    client.nothing(net);
    client.establish(net).unwrap();
    client.expect(net, EventKind::Disconnected, 0);
    client.disconnect(net).unwrap();
    server.expect(net, EventKind::Disconnected, 0);
}

#[test]
fn both_disconnect_at_once() {
    let net = &mut Net::new(2, 1);
    let (client, server) = connected(net);
    client.disconnect(net).unwrap();
    server.disconnect(net).unwrap();
    client.expect(net, EventKind::Disconnected, 0);
    server.expect(net, EventKind::Disconnected, 0);
    client.disconnect(net).unwrap();
    server.disconnect(net).unwrap();
    client.expect(net, EventKind::TimewaitExit, 0);
    server.expect(net, EventKind::TimewaitExit, 0);
    assert_eq!(client.disconnect(net), Ok(()));
}

#[test]
fn ece_travels_both_ways() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let client = client(net, TCP, v4("10.0.0.1", 7471));
    let ece = Ece { vendor: 0x15b3, options: 9 };
    client.run(net, Command::Connect { id: client.id, param: &param(b""), ece }).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    assert_eq!(event.ece, ece);
    let answer = Ece { vendor: 0x15b3, options: 1 };
    let new = Side { id: event.id, ..server };
    new.run(net, Command::Accept { id: new.id, uid: 1, param: &param(b""), ece: answer }).unwrap();
    assert_eq!(client.expect(net, EventKind::ConnectResponse, 0).ece, answer);
}

#[test]
fn loopback_works() {
    for (any, host) in [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::", "2001:db8::1")] {
        let net = &mut Net::new(2, 1);
        let server = listener(net, TCP, v4(any, 4420));
        let side = client(net, TCP, v4(host, 4420));
        side.connect(net, &param(b"")).unwrap();
        let event = server.expect(net, EventKind::ConnectRequest, 0);
        let new = Side { id: event.id, ..server };
        new.accept(net, 1, &param(b"")).unwrap();
        side.expect(net, EventKind::ConnectResponse, 0);
        side.establish(net).unwrap();
        new.expect(net, EventKind::Established, 0);
    }
}

#[test]
fn a_listener_of_all_families_takes_ipv4() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("::", 4420));
    let side = client(net, TCP, v4("10.0.0.2", 4420));
    side.connect(net, &param(b"")).unwrap();
    server.expect(net, EventKind::ConnectRequest, 0);
    // One of IPv4 alone takes no IPv6.
    let net = &mut Net::new(2, 1);
    listener(net, TCP, v4("0.0.0.0", 4420));
    let side = client(net, TCP, v4("2001:db8::1", 4420));
    side.connect(net, &param(b"")).unwrap();
    side.expect(net, EventKind::Rejected, 28);
}

#[test]
fn link_local_addresses_need_their_scope() {
    let net = &mut Net::new(2, 1);
    let local = v4("fe80::1", 4420);
    let server = Side::new(net, 0, TCP);
    assert_eq!(server.bind(net, local), Err(Errno::EINVAL));
    server.bind(net, local.with_scope(SCOPE)).unwrap();
    server.listen(net, 1).unwrap();
    let side = client(net, TCP, local.with_scope(SCOPE));
    side.connect(net, &param(b"")).unwrap();
    server.expect(net, EventKind::ConnectRequest, 0);
}
