//! RESOLVE_ADDR and RESOLVE_ROUTE.

use super::*;

#[test]
fn the_source_is_what_the_route_says() {
    let net = &mut Net::new(2, 1);
    let side = client(net, TCP, v4("10.0.0.2", 5));
    match net.command(1, side.file, &Command::Query { id: side.id, option: 0 }) {
        Ok(Answer::Addresses(a)) => {
            assert_eq!(a.source, v4("10.0.0.1", a.source.port()));
            assert!((32768..=32800).contains(&a.source.port()));
            assert_eq!(a.destination, v4("10.0.0.2", 5));
        }
        other => panic!("{other:?}"),
    }
    match net.command(1, side.file, &Command::Query { id: side.id, option: 2 }) {
        Ok(Answer::Addresses(a)) => match (a.source, a.destination) {
            (Address::Ib(from), Address::Ib(to)) => {
                assert_eq!((&from.gid[12..], &to.gid[12..]), (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
                assert_eq!(to.service, 0x0106_0005);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    match net.command(1, side.file, &Command::QueryRoute { id: side.id }) {
        Ok(Answer::Route(route)) => {
            assert_eq!(route.num_paths, 1);
            let path = route.path;
            assert_eq!((path.pkey, path.mtu_selector, path.mtu, path.reversible), (0xffff, 2, 3, true));
            assert_eq!((path.packet_life_time_selector, path.packet_life_time), (2, 18));
            let ports = u32::from(route.addresses.source.port()) * 31 + 5;
            assert_eq!(path.flow_label, ports & 0xf_ffff);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn failures_are_errors_or_events() {
    let net = &mut Net::new(2, 1);
    let side = Side::new(net, 1, TCP);
    assert_eq!(side.resolve(net, v4("10.0.9.9", 5)), Err(Errno::ENETUNREACH));
    assert_eq!(side.resolve(net, Address::Unspecified), Err(Errno::EINVAL));
    // It is bound now, and can be tried again.
    assert_eq!(side.resolve(net, v4("::1", 5)), Err(Errno::EINVAL));
    side.resolve(net, v4("10.0.0.98", 5)).unwrap();
    side.expect(net, EventKind::AddrError, -113);
    let before = net.shared.now;
    side.resolve(net, v4("10.0.0.99", 5)).unwrap();
    assert_eq!(side.resolve(net, v4("10.0.0.2", 5)), Err(Errno::EINVAL));
    side.expect(net, EventKind::AddrError, -110);
    assert_eq!((net.shared.now - before).as_millis(), 2000);
    side.resolve(net, v4("10.0.5.5", 5)).unwrap();
    side.expect(net, EventKind::AddrError, -19);
    assert_eq!(side.route(net), Err(Errno::EINVAL));
    side.resolve(net, v4("10.0.0.2", 5)).unwrap();
    side.expect(net, EventKind::AddrResolved, 0);
    assert_eq!(side.resolve(net, v4("10.0.0.2", 5)), Err(Errno::EINVAL));
    assert_eq!(side.connect(net, &param(b"")), Err(Errno::EINVAL));
    let late = Command::ResolveRoute { id: side.id, timeout_ms: 0 };
    assert_eq!(side.run(net, late), Err(Errno::EINVAL));
    side.route(net).unwrap();
    side.expect(net, EventKind::RouteResolved, 0);
    assert_eq!(side.route(net), Err(Errno::EINVAL));
    assert_eq!(side.connect(net, &ConnParam { valid: 0, ..param(b"") }), Err(Errno::EINVAL));
}

#[test]
fn a_source_is_bound() {
    let net = &mut Net::new(2, 1);
    let side = Side::new(net, 1, TCP);
    let resolve =
        |id, source| Command::ResolveAddr { id, source, destination: v4("10.0.0.1", 5), timeout_ms: 1 };
    assert_eq!(side.run(net, resolve(side.id, Some(v4("10.0.0.66", 0)))), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(side.run(net, resolve(side.id, Some(Address::Unspecified))), Err(Errno::EINVAL));
    side.run(net, resolve(side.id, Some(v4("10.0.0.2", 77)))).unwrap();
    side.expect(net, EventKind::AddrResolved, 0);
    match net.command(1, side.file, &Command::Query { id: side.id, option: 0 }) {
        Ok(Answer::Addresses(a)) => assert_eq!(a.source, v4("10.0.0.2", 77)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bound_id_shows_the_destination_that_was_refused() {
    let net = &mut Net::new(1, 1);
    let side = Side::new(net, 0, TCP);
    side.bind(net, v4("0.0.0.0", 4420)).unwrap();
    let destination = Address::ip("fd00::1".parse().unwrap(), 5);
    assert_eq!(side.resolve(net, destination), Err(Errno::EINVAL));
    let answer = net.command(0, side.file, &Command::Query { id: side.id, option: 0 });
    let Ok(Answer::Addresses(shown)) = answer else { panic!("{answer:?}") };
    assert_eq!((shown.source, shown.destination), (v4("0.0.0.0", 4420), destination));
}

#[test]
fn ipoib_reaches_the_host_itself_without_a_route() {
    let net = &mut Net::new(2, 1);
    for destination in ["127.0.0.1", "0.0.0.0"] {
        let side = Side::new(net, 1, 2);
        side.resolve(net, v4("10.0.0.1", 5)).unwrap();
        side.expect(net, EventKind::AddrError, -22);
        side.resolve(net, v4(destination, 5)).unwrap();
        side.expect(net, EventKind::AddrResolved, 0);
        assert_eq!(side.route(net), Err(Errno::ENODEV));
    }
}

#[test]
fn ids_belong_to_their_channel() {
    let net = &mut Net::new(2, 1);
    let side = Side::new(net, 1, TCP);
    let other = Side { file: net.open(1), ..side };
    assert_eq!(other.resolve(net, v4("10.0.0.1", 5)), Err(Errno::EINVAL));
    assert_eq!(other.destroy(net), Err(Errno::EINVAL));
    let none = Side { id: 99, ..side };
    assert_eq!(none.resolve(net, v4("10.0.0.1", 5)), Err(Errno::ENOENT));
    // Without a device: no route, no connection.
    assert_eq!(side.route(net), Err(Errno::EINVAL));
    assert_eq!(side.connect(net, &param(b"")), Err(Errno::EINVAL));
    assert_eq!(side.disconnect(net), Err(Errno::EINVAL));
}
