//! Requests that nobody fetched.

use super::*;

#[test]
fn no_more_are_taken_than_the_program_wants() {
    let net = &mut Net::new(2, 1);
    let server = Side::new(net, 0, TCP);
    server.bind(net, v4("0.0.0.0", 1)).unwrap();
    server.listen(net, 2).unwrap();
    let sides: Vec<Side> = (0..5).map(|_| client(net, TCP, v4("10.0.0.1", 1))).collect();
    for side in &sides {
        side.connect(net, &param(b"")).unwrap();
    }
    // Two are taken; the others wait outside, and are taken as the program fetches.
    assert!(net.feed(0, server.file) && net.feed(0, server.file));
    assert!(!net.feed(0, server.file));
    assert!(!net.managers[0].as_ref().unwrap().accepting(server.id));
    for _ in 0..5 {
        server.expect(net, EventKind::ConnectRequest, 0);
    }
    server.nothing(net);
    assert_eq!(server.destroy(net), Ok(5));
}

#[test]
fn what_was_accepted_too_early_waits_inside() {
    let net = &mut Net::new(2, 1);
    let server = Side::new(net, 0, TCP);
    server.bind(net, v4("0.0.0.0", 1)).unwrap();
    server.listen(net, 1).unwrap();
    let sides: Vec<Side> = (0..3).map(|_| client(net, TCP, v4("10.0.0.1", 1))).collect();
    for side in &sides {
        side.connect(net, &param(b"")).unwrap();
        net.shared.ports.iter_mut().for_each(|p| p.room = true);
        assert!(net.feed(0, server.file));
        net.shared.ports.iter_mut().for_each(|p| p.room = false);
    }
    server.expect(net, EventKind::ConnectRequest, 0);
    // The second one came in its place; the third one gives up.
    net.kill(1);
    while net.feed(0, server.file) {}
    server.expect(net, EventKind::ConnectRequest, 0);
    server.nothing(net);
}

#[test]
fn those_who_wait_inside_are_told_of_the_end() {
    let net = &mut Net::new(2, 1);
    let server = Side::new(net, 0, TCP);
    server.bind(net, v4("0.0.0.0", 1)).unwrap();
    server.listen(net, 1).unwrap();
    let sides: Vec<Side> = (0..2).map(|_| client(net, TCP, v4("10.0.0.1", 1))).collect();
    for side in &sides {
        side.connect(net, &param(b"")).unwrap();
        net.shared.ports.iter_mut().for_each(|p| p.room = true);
        assert!(net.feed(0, server.file));
        net.shared.ports.iter_mut().for_each(|p| p.room = false);
    }
    server.destroy(net).unwrap();
    sides[0].expect(net, EventKind::Rejected, 28);
    sides[1].expect(net, EventKind::Rejected, 8);
}

#[test]
fn out_of_range_is_the_maximum() {
    for backlog in [0, -1, i32::MIN, 1025, i32::MAX] {
        let net = &mut Net::new(2, 1);
        let server = Side::new(net, 0, TCP);
        server.listen(net, backlog).unwrap();
        let port = net.shared.ports[0].binding.source.port();
        let sides: Vec<Side> = (0..30).map(|_| client(net, IB, v4("10.0.0.1", port))).collect();
        drop(sides);
        assert!(net.managers[0].as_ref().unwrap().accepting(server.id));
    }
}

#[test]
fn who_finds_no_room_waits_as_long_as_for_an_answer() {
    let net = &mut Net::new(2, 1);
    let server = Side::new(net, 0, TCP);
    server.bind(net, v4("0.0.0.0", 1)).unwrap();
    server.listen(net, 1).unwrap();
    let sides: Vec<Side> = (0..2).map(|_| client(net, TCP, v4("10.0.0.1", 1))).collect();
    let before = net.shared.now;
    for side in &sides {
        side.connect(net, &param(b"")).unwrap();
    }
    while net.feed(0, server.file) {}
    for side in &sides {
        side.expect(net, EventKind::Unreachable, -110);
    }
    assert_eq!((net.shared.now - before).as_millis(), 16 * (2048 + 4096 + 65536));
}
