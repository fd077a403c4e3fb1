//! BIND and LISTEN: addresses and ports.

use super::*;
use ironverbs_cm::Action;
use ironverbs_cm::address::IbAddress;

fn bound(net: &mut Net, pid: usize, host: &str, port: u16) -> Result<Side, Errno> {
    let side = Side::new(net, pid, TCP);
    side.bind(net, v4(host, port)).map(|()| side)
}

fn reusable(net: &mut Net, pid: usize, host: &str, port: u16) -> Result<Side, Errno> {
    let side = Side::new(net, pid, TCP);
    let value = 1i32.to_ne_bytes();
    side.run(net, Command::SetOption { id: side.id, level: 0, name: 1, value: &value }).unwrap();
    side.bind(net, v4(host, port)).map(|()| side)
}

#[test]
fn addresses_are_the_hosts_own() {
    let net = &mut Net::new(2, 1);
    assert_eq!(bound(net, 0, "10.0.0.77", 0).err(), Some(Errno::EADDRNOTAVAIL));
    let side = Side::new(net, 0, TCP);
    assert_eq!(side.bind(net, Address::Unspecified), Err(Errno::EINVAL));
    side.bind(net, v4("10.0.0.1", 5)).unwrap();
    assert_eq!(side.bind(net, v4("10.0.0.1", 6)), Err(Errno::EINVAL));
    // IPoIB's port space has nothing on RoCE.
    let side = Side::new(net, 0, 2);
    assert_eq!(side.bind(net, v4("10.0.0.1", 5)), Err(Errno::EINVAL));
    assert_eq!(
        net.command(0, side.file, &Command::CreateId { uid: 1, space: 3, qp_type: 2 }),
        Err(Errno::EINVAL)
    );
}

#[test]
fn a_refused_id_shows_what_was_tried() {
    let net = &mut Net::new(1, 1);
    let shown = |net: &mut Net, side: &Side| {
        let answer = net.command(0, side.file, &Command::Query { id: side.id, option: 0 });
        let Ok(Answer::Addresses(shown)) = answer else { panic!("{answer:?}") };
        (shown.source, shown.destination)
    };
    let (own, to) = (v4("10.0.0.1", 4420), v4("10.0.0.2", 9));
    bound(net, 0, "10.0.0.1", 4420).unwrap();
    let side = Side::new(net, 0, TCP);
    assert_eq!(shown(net, &side), (Address::Unspecified, Address::Unspecified));
    assert_eq!(side.bind(net, own), Err(Errno::EADDRINUSE));
    assert_eq!(shown(net, &side), (own, v4("0.0.0.0", 0)));
    // The address is looked at before there is a destination.
    let side = Side::new(net, 0, TCP);
    assert_eq!(side.bind(net, v4("10.0.0.77", 5)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(shown(net, &side), (v4("10.0.0.77", 5), Address::Unspecified));
    let side = Side::new(net, 0, TCP);
    let resolve = Command::ResolveAddr { id: side.id, source: Some(own), destination: to, timeout_ms: 1000 };
    assert_eq!(side.run(net, resolve), Err(Errno::EADDRINUSE));
    assert_eq!(shown(net, &side), (own, to));
    // It is no binding: the id can have another address.
    side.bind(net, v4("10.0.0.1", 4421)).unwrap();
    assert_eq!(shown(net, &side), (v4("10.0.0.1", 4421), v4("0.0.0.0", 0)));
}

#[test]
fn any_port_is_one_of_the_range() {
    let net = &mut Net::new(1, 1);
    for _ in 0..33 {
        bound(net, 0, "0.0.0.0", 0).unwrap();
    }
    let ports: std::collections::BTreeSet<u16> =
        net.shared.ports.iter().map(|p| p.binding.source.port()).collect();
    assert_eq!(ports, (32768..=32800).collect());
    assert_eq!(bound(net, 0, "0.0.0.0", 0).err(), Some(Errno::EADDRNOTAVAIL));
    // Connections to different places share one.
    let side = Side::new(net, 0, TCP);
    net.shared.ports.truncate(1);
    assert_eq!(side.resolve(net, v4("10.0.0.2", 9)), Ok(()));
}

#[test]
fn ports_conflict_as_on_linux() {
    let (any, one, two) = ("0.0.0.0", "10.0.0.1", "10.0.0.2");
    for (first, second, expected) in [
        (any, any, Err(Errno::EADDRNOTAVAIL)),
        (any, one, Err(Errno::EADDRNOTAVAIL)),
        (one, any, Err(Errno::EADDRNOTAVAIL)),
        (one, "127.0.0.1", Err(Errno::EADDRNOTAVAIL)),
        (one, one, Err(Errno::EADDRINUSE)),
        (one, two, Ok(())),
        // Both for their family alone: IPv4 always is, IPv6 is not.
        (any, "::", Err(Errno::EADDRNOTAVAIL)),
    ] {
        let net = &mut Net::new(2, 1);
        bound(net, 0, first, 4420).unwrap();
        assert_eq!(bound(net, 1, second, 4420).map(drop), expected, "{first} {second}");
        // Another port space, another port.
        let other = Side::new(net, 1, UDP);
        other.bind(net, v4(second, 4420)).unwrap();
        bound(net, 1, second, 4421).unwrap();
    }
    let net = &mut Net::new(1, 1);
    net.shared.low = false;
    assert_eq!(bound(net, 0, any, 1023).err(), Some(Errno::EACCES));
    bound(net, 0, any, 1024).unwrap();
}

#[test]
fn a_family_alone_leaves_the_other_one() {
    let net = &mut Net::new(1, 1);
    bound(net, 0, "0.0.0.0", 4420).unwrap();
    let side = Side::new(net, 0, TCP);
    let value = 1i32.to_ne_bytes();
    side.run(net, Command::SetOption { id: side.id, level: 0, name: 2, value: &value }).unwrap();
    side.bind(net, v4("::", 4420)).unwrap();
    side.listen(net, 1).unwrap();
}

#[test]
fn reuse_is_for_all_but_listeners() {
    let net = &mut Net::new(2, 1);
    let first = reusable(net, 0, "0.0.0.0", 4420).unwrap();
    let second = reusable(net, 1, "0.0.0.0", 4420).unwrap();
    assert_eq!(bound(net, 1, "0.0.0.0", 4420).err(), Some(Errno::EADDRNOTAVAIL));
    assert_eq!(first.listen(net, 1), Err(Errno::EADDRNOTAVAIL));
    second.destroy(net).unwrap();
    first.listen(net, 1).unwrap();
    // It has lost its reuse.
    assert_eq!(reusable(net, 1, "0.0.0.0", 4420).err(), Some(Errno::EADDRNOTAVAIL));
    assert_eq!(first.listen(net, 1), Err(Errno::EINVAL));
}

#[test]
fn destroyed_ids_give_their_port_back() {
    let net = &mut Net::new(2, 1);
    let side = bound(net, 0, "0.0.0.0", 4420).unwrap();
    side.destroy(net).unwrap();
    let side = bound(net, 1, "0.0.0.0", 4420).unwrap();
    net.close(1, side.file);
    bound(net, 0, "0.0.0.0", 4420).unwrap();
}

#[test]
fn ports_are_given_back_before_anybody_hears_of_the_end() {
    let net = &mut Net::new(2, 1);
    let (client, _) = connected(net);
    let other = Side::on(net, 1, client.file, TCP);
    other.bind(net, v4("10.0.0.1", 5)).unwrap();
    let manager = net.managers[1].as_mut().unwrap();
    manager.close(client.file);
    let actions: Vec<Action> = std::iter::from_fn(|| manager.next_action()).collect();
    let releases = |action: &Action| matches!(action, Action::Release { .. });
    assert!(actions[..2].iter().all(releases) && matches!(actions[2], Action::Send { .. }), "{actions:?}");
}

#[test]
fn native_addresses_can_be_had() {
    let net = &mut Net::new(1, 1);
    let probe = Address::Ib(IbAddress { service: 0x0106_0000, mask: !0xffff, ..IbAddress::default() });
    let side = Side::new(net, 0, IB);
    side.bind(net, probe).unwrap();
    let addresses = match net.command(0, side.file, &Command::Query { id: side.id, option: 0 }) {
        Ok(Answer::Addresses(addresses)) => addresses,
        other => panic!("{other:?}"),
    };
    let Address::Ib(own) = addresses.source else { panic!("{addresses:?}") };
    assert_eq!((own.service >> 16, own.mask), (0x0106, u64::MAX));
    assert_ne!(own.service & 0xffff, 0);
    assert_eq!(addresses.node_guid, [0; 8]);
    // It took a port of TCP's space.
    let port = own.service as u16;
    assert_eq!(bound(net, 0, "0.0.0.0", port).err(), Some(Errno::EADDRNOTAVAIL));
    // A service id of no port space.
    let side = Side::new(net, 0, IB);
    let odd = Address::Ib(IbAddress { service: 0x0999_0000, mask: !0xffff, ..IbAddress::default() });
    assert_eq!(side.bind(net, odd), Err(Errno::EPROTONOSUPPORT));
}
