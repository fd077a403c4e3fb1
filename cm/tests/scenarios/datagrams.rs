//! Datagrams: which queue pair serves a port.

use super::*;
use ironverbs_cm::event::UdParam;

fn ud(event: &Event) -> &UdParam {
    match &event.param {
        Param::Ud(param) => param,
        other => panic!("{other:?}"),
    }
}

fn asked(net: &mut Net, data: &[u8]) -> (Side, Side, Event) {
    let server = listener(net, UDP, v4("0.0.0.0", 7174));
    let client = client(net, UDP, v4("10.0.0.1", 7174));
    client.connect(net, &param(data)).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    (client, Side { id: event.id, ..server }, event)
}

#[test]
fn a_queue_pair_is_named() {
    let net = &mut Net::new(2, 1);
    let (client, server, event) = asked(net, b"who?");
    assert_eq!((ud(&event).private_data_len, ud(&event).qp_num), (180, 0));
    assert_eq!(ud(&event).private_data[..5], *b"who?\0");
    server.accept(net, 7, &ConnParam { qp_num: 0xabcdef, ..param(b"me") }).unwrap();
    let event = client.expect(net, EventKind::Established, 0);
    let answer = ud(&event);
    assert_eq!((answer.qp_num, answer.qkey, answer.private_data_len), (0xabcdef, 0x0123_4567, 136));
    assert_eq!(answer.private_data[..3], *b"me\0");
    assert_eq!((answer.ah.is_global, answer.ah.sgid_index, answer.ah.port), (1, 1, 1));
    assert_eq!(answer.ah.dgid[12..], [10, 0, 0, 1]);
    server.nothing(net);
    client.nothing(net);
    // There is nothing to end: neither says anything.
    client.destroy(net).unwrap();
    server.nothing(net);
    assert_eq!(server.accept(net, 7, &param(b"")), Err(Errno::EINVAL));
    server.destroy(net).unwrap();
}

#[test]
fn nobody_serves_it() {
    let net = &mut Net::new(2, 1);
    let side = client(net, UDP, v4("10.0.0.1", 7174));
    side.connect(net, &param(b"")).unwrap();
    side.expect(net, EventKind::Unreachable, 1);
}

#[test]
fn it_is_refused_or_forgotten() {
    for way in 0..3 {
        let net = &mut Net::new(2, 1);
        let (client, server, _) = asked(net, b"");
        match way {
            0 => server.reject(net, 28, b"no").unwrap(),
            1 => drop(server.destroy(net).unwrap()),
            _ => net.kill(0),
        }
        let event = client.expect(net, EventKind::Unreachable, 2);
        assert_eq!(ud(&event).private_data[..3], if way == 0 { *b"no\0" } else { [0; 3] });
    }
    let net = &mut Net::new(2, 1);
    let (client, _, _) = asked(net, b"");
    let before = net.shared.now;
    client.expect(net, EventKind::Unreachable, -110);
    assert_eq!((net.shared.now - before).as_millis(), 16 * 4096);
}

#[test]
fn a_client_that_went_is_answered_in_vain() {
    for kill in [false, true] {
        let net = &mut Net::new(2, 1);
        let (client, server, _) = asked(net, b"");
        if kill {
            net.kill(1);
        } else {
            client.destroy(net).unwrap();
        }
        server.nothing(net);
        server.accept(net, 7, &param(b"")).unwrap();
        server.nothing(net);
    }
}

#[test]
fn private_data_has_its_limits() {
    let net = &mut Net::new(2, 1);
    let side = client(net, UDP, v4("10.0.0.1", 7174));
    assert_eq!(side.connect(net, &param(&[1; 181])), Err(Errno::EINVAL));
    side.connect(net, &param(&[1; 180])).unwrap();
    let (client, server, _) = asked(net, b"");
    assert_eq!(server.accept(net, 7, &param(&[1; 137])), Err(Errno::EINVAL));
    client.expect(net, EventKind::Unreachable, 2);
}
