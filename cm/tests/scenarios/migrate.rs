//! Ids that move to another channel.

use super::*;

fn migrate(net: &mut Net, side: Side) -> Side {
    let to = net.open(side.pid);
    match net.command(side.pid, to, &Command::Migrate { id: side.id, from: side.file }) {
        Ok(Answer::Reported(_)) => Side { file: to, ..side },
        other => panic!("{other:?}"),
    }
}

#[test]
fn unread_events_and_links_move() {
    let net = &mut Net::new(2, 1);
    let (client, server) = connected(net);
    client.disconnect(net).unwrap();
    assert!(net.feed(0, server.file));
    let moved = migrate(net, server);
    server.nothing(net);
    moved.expect(net, EventKind::Disconnected, 0);
    let client = migrate(net, client);
    moved.disconnect(net).unwrap();
    client.expect(net, EventKind::Disconnected, 0);
    // Time moves, too.
    let client = migrate(net, client);
    client.expect(net, EventKind::TimewaitExit, 0);
    assert_eq!(server.disconnect(net), Err(Errno::EINVAL));
}

#[test]
fn the_answer_counts_what_was_delivered() {
    let net = &mut Net::new(2, 1);
    let (client, _) = connected(net);
    let to = net.open(1);
    let from = client.file;
    let migrate = |id, from| Command::Migrate { id, from };
    assert_eq!(net.command(1, to, &migrate(client.id, from)), Ok(Answer::Reported(3)));
    assert_eq!(net.command(1, to, &migrate(client.id, from)), Err(Errno::EINVAL));
    assert_eq!(net.command(1, to, &migrate(client.id, to)), Ok(Answer::Reported(3)));
    assert_eq!(net.command(1, to, &migrate(99, to)), Err(Errno::ENOENT));
    net.close(1, from);
    assert_eq!(Side { file: to, ..client }.destroy(net), Ok(3));
}

#[test]
fn a_listener_moves_with_its_requests() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let one = client(net, TCP, v4("10.0.0.1", 7471));
    let two = client(net, TCP, v4("10.0.0.1", 7471));
    one.connect(net, &param(b"")).unwrap();
    two.connect(net, &param(b"")).unwrap();
    assert!(net.feed(0, server.file));
    let moved = migrate(net, server);
    server.nothing(net);
    for _ in 0..2 {
        let event = moved.expect(net, EventKind::ConnectRequest, 0);
        let new = Side { id: event.id, ..moved };
        new.accept(net, 5, &param(b"")).unwrap();
    }
    one.expect(net, EventKind::ConnectResponse, 0);
    two.expect(net, EventKind::ConnectResponse, 0);
    net.close(0, server.file);
    one.nothing(net);
    net.close(0, moved.file);
    one.expect(net, EventKind::Rejected, 28);
}

#[test]
fn a_request_moves_as_rdma_get_request_moves_it() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    let new = migrate(net, server);
    new.accept(net, 5, &param(b"")).unwrap();
    client.expect(net, EventKind::ConnectResponse, 0);
    client.establish(net).unwrap();
    server.nothing(net);
    new.expect(net, EventKind::Established, 0);
}
