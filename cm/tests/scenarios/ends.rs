//! Either side goes: what the other one hears, by state.

use super::*;
use ironverbs_cm::wire;
use ironverbs_cm_testing::Arrival;

#[test]
fn the_server_goes_before_it_accepts() {
    for kill in [false, true] {
        let net = &mut Net::new(2, 1);
        let (client, server) = requested(net);
        if kill {
            net.kill(0);
        } else {
            server.destroy(net).unwrap();
        }
        client.expect(net, EventKind::Rejected, 28);
    }
}

#[test]
fn the_server_goes_before_it_fetches() {
    for way in 0..4 {
        let net = &mut Net::new(2, 1);
        let server = listener(net, TCP, v4("0.0.0.0", 7471));
        let client = client(net, TCP, v4("10.0.0.1", 7471));
        client.connect(net, &param(b"")).unwrap();
        if way > 1 {
            // The request is in the list of events already.
            assert!(net.feed(0, server.file));
        }
        if way % 2 == 0 {
            net.kill(0);
        } else {
            net.close(0, server.file);
        }
        client.expect(net, EventKind::Rejected, 28);
    }
}

#[test]
fn the_client_goes_before_the_answer() {
    for kill in [false, true] {
        // Before ACCEPT: the server hears nothing, and ACCEPT fails.
        let net = &mut Net::new(2, 1);
        let (client, server) = requested(net);
        if kill {
            net.kill(1);
        } else {
            client.destroy(net).unwrap();
        }
        server.nothing(net);
        assert_eq!(server.accept(net, 7, &param(b"")), Err(Errno::EINVAL));
        // After ACCEPT.
        let net = &mut Net::new(2, 1);
        let (client, server) = requested(net);
        server.accept(net, 7, &param(b"")).unwrap();
        if kill {
            net.kill(1);
        } else {
            client.destroy(net).unwrap();
        }
        // A client that never fetched the answer destroys a request; a dead one's kernel would have taken the
        // answer.
        server.expect(net, EventKind::Rejected, if kill { 28 } else { 4 });
    }
}

#[test]
fn an_established_side_goes() {
    for way in 0..4 {
        let net = &mut Net::new(2, 1);
        let (client, server) = connected(net);
        let (goes, stays, pid) = if way % 2 == 0 { (client, server, 1) } else { (server, client, 0) };
        if way > 1 {
            net.kill(pid);
        } else {
            goes.destroy(net).unwrap();
        }
        stays.expect(net, EventKind::Disconnected, 0);
        stays.disconnect(net).unwrap();
        stays.expect(net, EventKind::TimewaitExit, 0);
    }
}

#[test]
fn a_side_that_waits_for_drep_hears_of_the_end() {
    for kill in [false, true] {
        let net = &mut Net::new(2, 1);
        let (client, server) = connected(net);
        client.disconnect(net).unwrap();
        if kill {
            net.kill(0);
        } else {
            server.destroy(net).unwrap();
        }
        client.expect(net, EventKind::Disconnected, 0);
        client.expect(net, EventKind::TimewaitExit, 0);
    }
}

#[test]
fn answers_that_never_come() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    let before = net.shared.now;
    client.expect(net, EventKind::Unreachable, -110);
    assert_eq!((net.shared.now - before).as_millis(), 16 * (2048 + 4096 + 65536));
    server.nothing(net);
    assert_eq!(server.accept(net, 7, &param(b"")), Err(Errno::EINVAL));

    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    server.accept(net, 7, &param(b"")).unwrap();
    server.expect(net, EventKind::Unreachable, -110);
    client.expect(net, EventKind::ConnectResponse, 0);

    let net = &mut Net::new(2, 1);
    let (client, _) = connected(net);
    client.disconnect(net).unwrap();
    let before = net.shared.now;
    client.expect(net, EventKind::Disconnected, -110);
    assert_eq!((net.shared.now - before).as_millis(), 16 * (2048 + 4096));
    client.expect(net, EventKind::TimewaitExit, 0);
}

#[test]
fn a_destroyed_id_has_no_events() {
    let net = &mut Net::new(2, 1);
    let (client, server) = connected(net);
    net.command(
        1,
        client.file,
        &Command::WriteEvent { id: client.id, event: 18, status: -5, argument: 1 << 32 | 2 },
    )
    .unwrap();
    let event = client.expect(net, EventKind::User, -5);
    assert_eq!(event.param, Param::Argument([2, 1]));
    server.disconnect(net).unwrap();
    assert!(net.feed(1, client.file));
    assert_eq!(client.destroy(net), Ok(4));
    client.nothing(net);
    server.expect(net, EventKind::Disconnected, 0);
    assert_eq!(client.destroy(net), Err(Errno::ENOENT));
}

#[test]
fn a_dead_server_still_can_be_followed_by_another() {
    let net = &mut Net::new(3, 1);
    listener(net, TCP, v4("10.0.0.1", 7471));
    net.kill(0);
    let side = Side::new(net, 2, TCP);
    side.bind(net, v4("10.0.0.1", 7471)).unwrap();
    side.listen(net, 1).unwrap();
}

/// The last message on the way to an id of this process, which must be followed by the end of the link.
fn last_word(net: &Net, pid: usize) -> wire::Body {
    let end = net.shared.ends.iter().rev().find(|end| end.pid == pid && end.open).expect("a link");
    let mut inbox = end.inbox.iter().rev();
    assert!(matches!(inbox.next(), Some(Arrival::End)));
    match inbox.next() {
        Some(Arrival::Message(message)) => wire::decode(&message[..]).expect("a message").body,
        _ => panic!("it says nothing"),
    }
}

#[test]
fn whoever_goes_says_so() {
    let reason = |body| match body {
        wire::Body::Rej(rej) => rej.reason,
        other => panic!("{other:?}"),
    };
    let net = &mut Net::new(2, 1);
    let (client, _) = requested(net);
    client.destroy(net).unwrap();
    assert_eq!(reason(last_word(net, 0)), 4);

    let net = &mut Net::new(2, 1);
    let (_, server) = requested(net);
    server.destroy(net).unwrap();
    assert_eq!(reason(last_word(net, 1)), 28);

    let net = &mut Net::new(2, 1);
    let (_, server) = requested(net);
    server.accept(net, 7, &param(b"")).unwrap();
    server.destroy(net).unwrap();
    assert_eq!(reason(last_word(net, 1)), 28);

    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    server.accept(net, 7, &param(b"")).unwrap();
    client.expect(net, EventKind::ConnectResponse, 0);
    client.destroy(net).unwrap();
    assert_eq!(reason(last_word(net, 0)), 28);
    server.expect(net, EventKind::Rejected, 28);

    let net = &mut Net::new(2, 1);
    let (client, server) = connected(net);
    client.destroy(net).unwrap();
    assert!(matches!(last_word(net, 0), wire::Body::Dreq(_)));
    server.expect(net, EventKind::Disconnected, 0);

    let net = &mut Net::new(2, 1);
    let (client, server) = connected(net);
    client.disconnect(net).unwrap();
    server.expect(net, EventKind::Disconnected, 0);
    server.destroy(net).unwrap();
    assert!(matches!(last_word(net, 1), wire::Body::Drep(_)));
}

/// A DREQ is answered also where its sender is gone before the program agrees: once, whatever the program does.
#[test]
fn who_has_gone_is_answered() {
    let answers = |net: &Net| {
        let end = net.shared.ends.iter().find(|end| end.pid == 0 && end.link.is_some()).expect("a link");
        let drep = |said: &&wire::Body| matches!(said, wire::Body::Drep(_));
        end.said.iter().map(|message| wire::decode(&message[..]).unwrap().body).filter(|b| drep(&b)).count()
    };
    for way in 0..4 {
        let net = &mut Net::new(2, 1);
        let (client, server) = connected(net);
        client.disconnect(net).unwrap();
        server.expect(net, EventKind::Disconnected, 0);
        if way % 2 == 0 {
            net.kill(1);
        } else {
            client.destroy(net).unwrap();
        }
        server.nothing(net);
        if way > 1 {
            server.disconnect(net).unwrap();
        }
        server.destroy(net).unwrap();
        assert_eq!(answers(net), 1, "way {way}");
    }
}
