//! Multicast groups.

use super::*;
use ironverbs_cm::address::gid_of;

fn join(net: &mut Net, side: Side, group: Address, flags: u16) -> Result<u32, Errno> {
    let join = Command::JoinMulticast { id: side.id, uid: 0x99, address: group, flags };
    match net.command(side.pid, side.file, &join)? {
        Answer::Created(id) => Ok(id),
        other => panic!("{other:?}"),
    }
}

fn leave(net: &mut Net, side: Side, id: u32) -> Result<u32, Errno> {
    match net.command(side.pid, side.file, &Command::LeaveMulticast { id })? {
        Answer::Reported(count) => Ok(count),
        other => panic!("{other:?}"),
    }
}

fn bound(net: &mut Net) -> Side {
    let side = Side::new(net, 0, UDP);
    side.bind(net, v4("10.0.0.1", 0)).unwrap();
    side
}

#[test]
fn a_group_is_joined_and_left() {
    let net = &mut Net::new(1, 1);
    let side = bound(net);
    for flags in [0, 1] {
        let id = join(net, side, v4("239.1.2.3", 0), flags).unwrap();
        let event = side.expect(net, EventKind::MulticastJoin, 0);
        assert_eq!((event.uid, event.id), (0x99, id));
        let Param::Ud(param) = event.param else { panic!("{event:?}") };
        assert_eq!((param.qp_num, param.qkey), (0xff_ffff, 0x0123_4567));
        assert_eq!(param.ah.dgid, gid_of("239.1.2.3".parse().unwrap()));
        assert_eq!(
            (param.ah.hop_limit, param.ah.is_global, param.ah.port, param.ah.sgid_index),
            (64, 1, 1, 1)
        );
        assert_eq!(leave(net, side, id), Ok(1));
        assert_eq!(leave(net, side, id), Err(Errno::ENOENT));
    }
    assert_eq!(side.destroy(net), Ok(2));
}

#[test]
fn an_unread_event_goes_with_its_join() {
    let net = &mut Net::new(1, 1);
    let side = bound(net);
    let first = join(net, side, v4("239.1.2.3", 0), 0).unwrap();
    let second = join(net, side, v4("239.1.2.4", 0), 0).unwrap();
    assert_eq!(leave(net, side, first), Ok(0));
    assert_eq!(side.expect(net, EventKind::MulticastJoin, 0).id, second);
    side.nothing(net);
    // The lowest number that is free is the next one's.
    assert_eq!(join(net, side, v4("239.1.2.5", 0), 0), Ok(first));
    assert_eq!(side.destroy(net), Ok(1));
    side.nothing(net);
    assert_eq!(leave(net, side, second), Err(Errno::ENOENT));
    // A destroyed id gives the numbers of its joins back.
    let side = bound(net);
    assert_eq!(join(net, side, v4("239.1.2.5", 0), 0), Ok(0));
    assert_eq!(join(net, side, v4("239.1.2.5", 0), 0), Ok(1));
}

#[test]
fn what_cannot_be_joined() {
    let net = &mut Net::new(1, 1);
    let group = v4("239.1.2.3", 0);
    let side = Side::new(net, 0, UDP);
    assert_eq!(join(net, side, group, 0), Err(Errno::EINVAL));
    let side = bound(net);
    assert_eq!(join(net, side, group, 2), Err(Errno::EINVAL));
    assert_eq!(join(net, side, Address::Unspecified, 0), Err(Errno::EINVAL));
    assert_eq!(join(net, side, v4("0.0.0.0", 0), 0), Err(Errno::EINVAL));
    assert_eq!(join(net, side, v4("ff0e::1", 0), 0), Err(Errno::ENOTSUPP));
    assert_eq!(join(net, Side { id: 99, ..side }, group, 0), Err(Errno::ENOENT));
    let tcp = Side::new(net, 0, TCP);
    tcp.bind(net, v4("10.0.0.1", 0)).unwrap();
    assert_eq!(join(net, tcp, group, 0), Err(Errno::EINVAL));
    let id = join(net, side, group, 0).unwrap();
    assert_eq!(leave(net, tcp, id), Err(Errno::EINVAL));
    side.expect(net, EventKind::MulticastJoin, 0);
    side.nothing(net);
}
