//! Native addresses and the port space of the caller's choice.

use super::*;
use ironverbs_cm::address::{IbAddress, gid_of};

const SERVICE: u64 = 0x013f_0000;

fn native(host: Option<&str>, service: u64) -> Address {
    let gid = host.map_or([0; 16], |host| gid_of(host.parse().unwrap()));
    Address::Ib(IbAddress { pkey: 0xffff, gid, service, mask: u64::MAX, ..IbAddress::default() })
}

fn side(net: &mut Net, pid: usize, qp_type: u8) -> Side {
    let file = net.open(pid);
    match net.command(pid, file, &Command::CreateId { uid: 5, space: IB, qp_type }) {
        Ok(Answer::Created(id)) => Side { pid, file, id },
        other => panic!("{other:?}"),
    }
}

fn routed(net: &mut Net, qp_type: u8, to: Address) -> Side {
    let client = side(net, 1, qp_type);
    client.resolve(net, to).unwrap();
    client.expect(net, EventKind::AddrResolved, 0);
    client.route(net).unwrap();
    client.expect(net, EventKind::RouteResolved, 0);
    client
}

#[test]
fn requests_have_no_header() {
    for host in [None, Some("10.0.0.1")] {
        let net = &mut Net::new(2, 1);
        let server = side(net, 0, 2);
        server.bind(net, native(host, SERVICE | 77)).unwrap();
        server.listen(net, 1).unwrap();
        let client = routed(net, 2, native(Some("10.0.0.1"), SERVICE | 77));
        assert_eq!(client.connect(net, &param(&[1; 93])), Err(Errno::EINVAL));
        client.connect(net, &param(&[1; 92])).unwrap();
        let event = server.expect(net, EventKind::ConnectRequest, 0);
        assert_eq!(conn(&event).private_data_len, 92);
        assert_eq!(conn(&event).private_data[..92], [1; 92]);
        let new = Side { id: event.id, ..server };
        new.accept(net, 9, &param(b"")).unwrap();
        client.expect(net, EventKind::ConnectResponse, 0);
        client.establish(net).unwrap();
        new.expect(net, EventKind::Established, 0);
    }
}

#[test]
fn datagrams_have_the_queue_key_of_the_program() {
    let net = &mut Net::new(2, 1);
    let server = side(net, 0, 4);
    server.bind(net, native(Some("10.0.0.1"), SERVICE | 77)).unwrap();
    server.listen(net, 1).unwrap();
    let client = routed(net, 4, native(Some("10.0.0.1"), SERVICE | 77));
    client.connect(net, &param(&[1; 216])).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    let new = Side { id: event.id, ..server };
    new.accept(net, 9, &ConnParam { qkey: 0x77, ..param(b"") }).unwrap();
    let event = client.expect(net, EventKind::Established, 0);
    let Param::Ud(answer) = event.param else { panic!("{event:?}") };
    assert_eq!(answer.qkey, 0x77);
}

#[test]
fn a_client_of_datagrams_that_has_another_queue_key_says_so() {
    let net = &mut Net::new(2, 1);
    let server = side(net, 0, 4);
    server.bind(net, native(Some("10.0.0.1"), SERVICE | 77)).unwrap();
    server.listen(net, 1).unwrap();
    let client = routed(net, 4, native(Some("10.0.0.1"), SERVICE | 77));
    client.run(net, Command::InitQpAttr { id: client.id, state: 1 }).unwrap();
    client.connect(net, &param(b"")).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    let new = Side { id: event.id, ..server };
    new.accept(net, 9, &ConnParam { qkey: 0x77, ..param(b"") }).unwrap();
    client.expect(net, EventKind::AddrError, -22);
}

#[test]
fn xrc_connects_an_initiator_with_a_target() {
    let net = &mut Net::new(2, 1);
    let server = side(net, 0, 10);
    server.bind(net, v4("0.0.0.0", 77)).unwrap();
    server.listen(net, 1).unwrap();
    let client = routed(net, 9, v4("10.0.0.1", 77));
    client.connect(net, &param(b"")).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    let new = Side { id: event.id, ..server };
    let masks = |net: &mut Net, side: Side| {
        [2, 3].map(|state| {
            match net.command(side.pid, side.file, &Command::InitQpAttr { id: side.id, state }) {
                Ok(Answer::QpAttr(attr)) => (attr.mask, attr.dest_qp_num),
                other => panic!("{other:?}"),
            }
        })
    };
    new.accept(net, 9, &ConnParam { qp_num: 0xabcd, ..param(b"") }).unwrap();
    let event = client.expect(net, EventKind::ConnectResponse, 0);
    assert_eq!((conn(&event).qp_num, conn(&event).srq), (0xabcd, 1));
    // The initiator sends, the target receives.
    assert_eq!(masks(net, client), [(0x101181, 0xabcd), (0x12e01, 0)]);
    assert_eq!(masks(net, new), [(0x129181, 0x1234), (0x10201, 0)]);
    // A program that listens for reliable connections has no target.
    let server = listener(net, TCP, v4("0.0.0.0", 78));
    let client = routed(net, 9, v4("10.0.0.1", 78));
    client.connect(net, &param(b"")).unwrap();
    client.expect(net, EventKind::Rejected, 8);
    server.nothing(net);
}
