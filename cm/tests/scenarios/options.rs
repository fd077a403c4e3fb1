//! Options.

use super::*;
use ironverbs_cm::answer::Path;
use ironverbs_cm::command::PATH_FLAGS;

fn set(net: &mut Net, side: Side, level: u32, name: u32, value: &[u8]) -> Result<(), Errno> {
    side.run(net, Command::SetOption { id: side.id, level, name, value })
}

fn path(net: &mut Net, side: Side) -> Path {
    match net.command(side.pid, side.file, &Command::Query { id: side.id, option: 1 }) {
        Ok(Answer::Paths(paths)) => paths[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_and_names_are_checked() {
    let net = &mut Net::new(2, 1);
    let side = Side::new(net, 1, TCP);
    let one = 1i32.to_ne_bytes();
    for (level, name, value, expected) in [
        (0, 0, &one[..1], Ok(())),
        (0, 0, &one[..], Err(Errno::EINVAL)),
        (0, 1, &one[..], Ok(())),
        (0, 1, &one[..1], Err(Errno::EINVAL)),
        (0, 2, &one[..], Ok(())),
        (0, 2, &one[..0], Err(Errno::EINVAL)),
        (0, 3, &one[..1], Ok(())),
        (0, 3, &one[..2], Err(Errno::EINVAL)),
        (0, 4, &one[..], Err(Errno::ENOSYS)),
        (1, 0, &one[..], Err(Errno::ENOSYS)),
        (1, 1, &one[..], Err(Errno::EINVAL)),
        (1, 1, &one[..0], Err(Errno::EINVAL)),
        (2, 0, &one[..], Err(Errno::ENOSYS)),
    ] {
        assert_eq!(set(net, side, level, name, value), expected, "{level} {name} {value:?}");
    }
    let datagrams = Side::new(net, 1, UDP);
    assert_eq!(set(net, datagrams, 0, 3, &[5]), Err(Errno::EINVAL));
    let server = listener(net, TCP, v4("0.0.0.0", 1));
    assert_eq!(set(net, server, 0, 1, &one), Err(Errno::EINVAL));
    assert_eq!(set(net, server, 0, 2, &one), Err(Errno::EINVAL));
}

#[test]
fn reuse_is_taken_back_in_idle_alone() {
    let net = &mut Net::new(2, 1);
    let (yes, no) = (1i32.to_ne_bytes(), 0i32.to_ne_bytes());
    let side = Side::new(net, 1, TCP);
    assert_eq!(set(net, side, 0, 1, &no), Ok(()));
    side.bind(net, v4("10.0.0.1", 1)).unwrap();
    assert_eq!(set(net, side, 0, 1, &no), Err(Errno::EINVAL));
    assert_eq!(set(net, side, 0, 1, &yes), Ok(()));
    assert_eq!(set(net, side, 0, 1, &no), Err(Errno::EINVAL));
    side.listen(net, 0).unwrap();
    assert_eq!(set(net, side, 0, 1, &yes), Err(Errno::EINVAL));
    assert_eq!(set(net, side, 0, 1, &no), Err(Errno::EINVAL));
}

#[test]
fn the_path_follows_them() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let side = Side::new(net, 1, TCP);
    set(net, side, 0, 0, &[96]).unwrap();
    set(net, side, 0, 3, &[15]).unwrap();
    side.resolve(net, v4("10.0.0.1", 7471)).unwrap();
    side.expect(net, EventKind::AddrResolved, 0);
    side.route(net).unwrap();
    side.expect(net, EventKind::RouteResolved, 0);
    let own = path(net, side);
    assert_eq!((own.traffic_class, own.packet_life_time), (96, 14));
    side.connect(net, &param(b"")).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    let theirs = path(net, Side { id: event.id, ..server });
    assert_eq!((theirs.traffic_class, theirs.packet_life_time), (96, 14));
}

#[test]
fn a_program_may_bring_its_path() {
    let net = &mut Net::new(2, 1);
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let side = client(net, TCP, v4("10.0.0.1", 7471));
    let known = path(net, side);
    let side = Side::new(net, 1, TCP);
    let mut entry = Vec::from(PATH_FLAGS.to_ne_bytes());
    entry.extend([0; 4]);
    entry.extend(Path { hop_limit: 9, ..known }.pack());
    assert_eq!(set(net, side, 1, 1, &entry), Err(Errno::EINVAL));
    side.resolve(net, v4("10.0.0.1", 7471)).unwrap();
    side.expect(net, EventKind::AddrResolved, 0);
    let mut other = entry.clone();
    other[0] = 0;
    assert_eq!(set(net, side, 1, 1, &other), Err(Errno::EINVAL));
    other.extend(&entry);
    set(net, side, 1, 1, &other).unwrap();
    side.expect(net, EventKind::RouteResolved, 0);
    assert_eq!(path(net, side), Path { hop_limit: 9, ..known });
    side.connect(net, &param(b"")).unwrap();
    server.expect(net, EventKind::ConnectRequest, 0);
}

#[test]
fn paths_survive_their_bytes() {
    let bytes: [u8; 64] = std::array::from_fn(|i| (i * 37) as u8);
    let path = Path::unpack(&bytes);
    assert_eq!(Path::unpack(&path.pack()), path);
    assert_eq!(path.pack()[..44], bytes[..44]);
    assert_eq!(path.pack()[48..58], bytes[48..58]);
}
