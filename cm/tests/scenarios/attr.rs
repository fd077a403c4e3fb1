//! INIT_QP_ATTR in every state.

use super::*;
use ironverbs_cm::answer::QpAttr;

const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;

fn attr(net: &mut Net, side: Side, state: u32) -> Result<QpAttr, Errno> {
    match net.command(side.pid, side.file, &Command::InitQpAttr { id: side.id, state })? {
        Answer::QpAttr(attr) => Ok(*attr),
        other => panic!("{other:?}"),
    }
}

/// Whether INIT, RTR and RTS are answered.
fn answered(net: &mut Net, side: Side) -> [bool; 3] {
    [INIT, RTR, RTS].map(|state| attr(net, side, state).is_ok())
}

#[test]
fn it_needs_a_device_and_a_state() {
    let net = &mut Net::new(2, 1);
    let side = Side::new(net, 1, TCP);
    assert_eq!(attr(net, side, INIT), Err(Errno::EINVAL));
    side.bind(net, v4("0.0.0.0", 0)).unwrap();
    assert_eq!(attr(net, side, INIT), Err(Errno::EINVAL));
    let side = client(net, TCP, v4("10.0.0.1", 1));
    assert_eq!(attr(net, side, 7), Err(Errno::EINVAL));
    let first = attr(net, side, INIT).unwrap();
    assert_eq!((first.mask, first.state, first.access, first.port), (0x39, 1, 0, 1));
    // The kernel does not look at the state before there is a connection.
    assert_eq!(attr(net, side, RTS).unwrap(), QpAttr { state: RTS, ..first });
}

#[test]
fn both_sides_get_what_fits() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    assert_eq!(answered(net, client), [true, false, false]);
    assert_eq!(answered(net, server), [true; 3]);
    // Peers that answer reads and atomics let them in.
    assert_eq!(attr(net, client, INIT).unwrap().access, 14);
    assert_eq!(attr(net, server, INIT).unwrap().access, 14);
    server.accept(net, 7, &param(b"")).unwrap();
    assert_eq!(answered(net, server), [true; 3]);
    client.expect(net, EventKind::ConnectResponse, 0);
    let (near, far) = (attr(net, client, RTR).unwrap(), attr(net, server, RTR).unwrap());
    assert_eq!((near.mask, far.mask), (0x129181, 0x129181));
    assert_eq!((near.dest_qp_num, far.dest_qp_num), (0x1234, 0x1234));
    assert_eq!((near.path_mtu, far.path_mtu), (3, 3));
    assert_eq!((near.ah.is_global, near.ah.hop_limit, near.ah.port, near.ah.sgid_index), (1, 64, 1, 1));
    assert_eq!(near.ah.dgid, far.ah.dgid);
    assert_eq!((near.max_dest_rd_atomic, far.max_dest_rd_atomic), (2, 1));
    let (sends, receives) = (attr(net, client, RTS).unwrap(), attr(net, server, RTS).unwrap());
    assert_eq!((sends.mask, receives.mask), (0x12e01, 0x12e01));
    // What one side sends first, the other one receives first.
    assert_eq!((sends.sq_psn, receives.sq_psn), (far.rq_psn, near.rq_psn));
    assert_ne!(near.rq_psn, far.rq_psn);
    assert_eq!((sends.retry, sends.rnr_retry, sends.timeout), (7, 6, 19));
    assert_eq!((receives.retry, receives.rnr_retry, receives.timeout), (7, 6, 19));
    assert_eq!((sends.max_rd_atomic, receives.max_rd_atomic), (1, 2));
    client.establish(net).unwrap();
    server.expect(net, EventKind::Established, 0);
    assert_eq!(answered(net, client), [true; 3]);
    client.disconnect(net).unwrap();
    assert_eq!(answered(net, client), [false; 3]);
    server.expect(net, EventKind::Disconnected, 0);
    assert_eq!(answered(net, server), [false; 3]);
}

#[test]
fn each_side_has_the_timeout_that_it_set() {
    let net = &mut Net::new(2, 1);
    let (client, server) = requested(net);
    server.run(net, Command::SetOption { id: server.id, level: 0, name: 3, value: &[21] }).unwrap();
    // The other side keeps what was agreed.
    assert_eq!(attr(net, server, RTS).unwrap().timeout, 21);
    server.accept(net, 7, &param(b"")).unwrap();
    client.expect(net, EventKind::ConnectResponse, 0);
    assert_eq!(attr(net, client, RTS).unwrap().timeout, 19);
    // Where no timeout is asked for, none is said.
    assert_eq!(attr(net, server, INIT).unwrap().timeout, 0);
    client.run(net, Command::SetOption { id: client.id, level: 0, name: 3, value: &[0] }).unwrap();
    assert_eq!(attr(net, client, RTS).unwrap().timeout, 0);
}

#[test]
fn a_peer_that_answers_no_reads_lets_none_in() {
    let net = &mut Net::new(2, 1);
    let side = client(net, TCP, v4("10.0.0.1", 1));
    listener(net, TCP, v4("10.0.0.1", 1));
    side.connect(net, &ConnParam { responder_resources: 0, ..param(b"") }).unwrap();
    assert_eq!(attr(net, side, INIT).unwrap().access, 2);
}

#[test]
fn datagrams_have_a_queue_key() {
    let net = &mut Net::new(2, 1);
    let side = client(net, UDP, v4("10.0.0.1", 1));
    for state in [INIT, RTR, RTS] {
        let attr = attr(net, side, state).unwrap();
        assert_eq!((attr.mask, attr.qkey, attr.state, attr.port), (0x71, 0x0123_4567, state, 1));
    }
}

#[test]
fn a_listener_with_a_device_has_none() {
    let net = &mut Net::new(2, 1);
    let side = listener(net, TCP, v4("10.0.0.1", 1));
    assert_eq!(answered(net, side), [false; 3]);
}
