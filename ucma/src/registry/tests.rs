//! Ports and listeners between processes, each of which is an open file here; and files of any content.

use std::os::unix::fs::FileExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ironverbs_cm::Errno;
use ironverbs_cm::address::{Address, PortSpace};
use ironverbs_cm::ports::Binding;
use softrdma::shm::folder::{Config, Folder};

use crate::registry::Registry;
use crate::registry::search::Search;
use crate::sockets::{Received, Socket};
use crate::sys;

/// A folder of its own, gone with the test.
struct Place(PathBuf);

impl Place {
    fn new() -> (Place, Folder) {
        let path = std::env::temp_dir().join(format!("ironverbs-ucma-{:x}", sys::random()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let folder = Folder::open(&Config { path: path.clone(), group: None }).unwrap();
        (Place(path), folder)
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn at(address: &str, port: u16) -> Binding {
    Binding {
        space: PortSpace::Tcp,
        source: Address::ip(address.parse().unwrap(), port),
        destination: Address::Unspecified,
        reuse: false,
        family_only: true,
    }
}

const SERVICE: u64 = 0x0106 << 16 | 7471;

#[test]
fn ports_are_everybodys_until_their_process_ends() {
    let (_place, folder) = Place::new();
    let mut one = Registry::open(&folder).unwrap();
    let mut two = Registry::open(&folder).unwrap();
    assert_eq!(one.reserve(&folder, 1, &at("192.0.2.2", 7471), true), Ok(7471));
    assert_eq!(two.reserve(&folder, 1, &at("192.0.2.2", 7471), true), Err(Errno::EADDRINUSE));
    assert_eq!(two.reserve(&folder, 1, &at("0.0.0.0", 7471), true), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(two.reserve(&folder, 1, &at("192.0.2.3", 7471), true), Ok(7471));
    assert_eq!(two.reserve(&folder, 2, &at("192.0.2.3", 80), false), Err(Errno::EACCES));
    let any = two.reserve(&folder, 2, &at("0.0.0.0", 0), true).unwrap();
    assert!(any != 0 && any != 7471);
    one.release(1);
    two.release(1);
    assert_eq!(two.reserve(&folder, 3, &at("0.0.0.0", 7471), true), Ok(7471));
    assert!(one.reserve(&folder, 1, &at("0.0.0.0", 7471), true).is_err());
    drop(two);
    assert_eq!(one.reserve(&folder, 1, &at("0.0.0.0", 7471), true), Ok(7471));
}

/// The file of the folder, as another process may write it.
fn written(place: &Place, at: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(place.0.join(&place.names()[0])).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_place_that_became_anothers_is_not_given_back() {
    let (place, folder) = Place::new();
    let mut one = Registry::open(&folder).unwrap();
    let mut two = Registry::open(&folder).unwrap();
    assert_eq!(one.reserve(&folder, 1, &at("0.0.0.0", 7471), true), Ok(7471));
    // Somebody took it for one of the dead, and a third one has the place.
    written(&place, 0, &[0; 128]);
    assert_eq!(two.reserve(&folder, 1, &at("0.0.0.0", 7471), true), Ok(7471));
    one.release(1);
    assert!(one.reserve(&folder, 1, &at("0.0.0.0", 7471), true).is_err());
}

#[test]
fn a_listener_is_found_and_talked_to_until_it_is_gone() {
    let (place, folder) = Place::new();
    let mut server = Registry::open(&folder).unwrap();
    let mut client = Registry::open(&folder).unwrap();
    let binding = at("192.0.2.2", 7471);
    server.reserve(&folder, 5, &binding, true).unwrap();
    assert_eq!(client.find(&folder, SERVICE, &binding.source, true, &|_| true), Ok(Search::Soon));
    let mut socket = None;
    let listens = server.listen(&folder, 5, &binding, |name| {
        socket = Some(Socket::listen(&folder, name)?);
        Ok(())
    });
    let (name, socket) = (listens.unwrap(), socket.unwrap());
    let other = Address::ip("192.0.2.3".parse().unwrap(), 7471);
    assert_eq!(client.find(&folder, SERVICE, &other, true, &|_| true), Ok(Search::OtherAddress));
    assert_eq!(client.find(&folder, SERVICE + 1, &binding.source, true, &|_| true), Ok(Search::Nobody));
    let Ok(Search::Listener(found)) = client.find(&folder, SERVICE, &binding.source, true, &|_| true) else {
        panic!()
    };

    assert!(socket.accept(&folder).unwrap().is_none());
    let near = Socket::connect(&folder, &found.name()).unwrap();
    let far = socket.accept(&folder).unwrap().unwrap();
    let mut place_for = [0; 8];
    assert_eq!(far.receive(&mut place_for), Received::Nothing);
    near.send(b"12345678");
    near.send(b"123456789");
    assert_eq!(far.receive(&mut place_for), Received::Message(8));
    assert_eq!(far.receive(&mut place_for), Received::End, "too long");
    // What was sent before an end is read before it, also where the other side left something unread.
    near.send(b"unread");
    far.send(b"last");
    drop(far);
    assert_eq!(near.receive(&mut place_for), Received::Message(4));
    assert_eq!(near.receive(&mut place_for), Received::End);

    // The process dies: its name stays until somebody needs the ports.
    drop((server, socket));
    assert_eq!(Socket::connect(&folder, &found.name()).err(), Some(libc::ECONNREFUSED));
    assert_eq!(place.names().len(), 2);
    assert_eq!(client.find(&folder, SERVICE, &binding.source, true, &|_| true), Ok(Search::Nobody));
    assert_eq!(place.names().len(), 1, "{:?}", place.names());
    client.forget(&folder, name);
}

#[test]
fn who_is_at_work_is_not_waited_for() {
    let (_place, folder) = Place::new();
    let mut client = Registry::open(&folder).unwrap();
    let nowhere = at("192.0.2.9", 7471);
    client.reserve(&folder, 9, &nowhere, true).unwrap();
    let mut find = || client.find(&folder, SERVICE, &nowhere.source, true, &|_| true).unwrap();
    assert_eq!(find(), Search::Nobody, "alone, with the port itself");
    let mut listener = Registry::open(&folder).unwrap();
    assert_eq!(find(), Search::Soon, "it may be about to listen");
    let own = at("192.0.2.2", 4420);
    listener.reserve(&folder, 1, &own, true).unwrap();
    assert_eq!(find(), Search::Soon, "it has a port");
    listener.listen(&folder, 1, &own, |_| Ok(())).unwrap();
    assert_eq!(find(), Search::Nobody, "it listens somewhere else");
    let mut other = Registry::open(&folder).unwrap();
    let own = at("192.0.2.2", 4421);
    other.reserve(&folder, 1, &own, true).unwrap();
    assert_eq!(find(), Search::Soon);
    other.update(1, &Binding { destination: nowhere.source, ..own });
    assert_eq!(find(), Search::Nobody, "it is a client");
    listener.release(1);
    assert_eq!(find(), Search::Soon);
    drop(listener);
    assert_eq!(find(), Search::Nobody);
}

#[test]
fn other_networks_are_looked_at_and_swept() {
    let (place, folder) = Place::new();
    let gid = std::net::Ipv4Addr::new(10, 9, 0, 1).to_ipv6_mapped().octets();
    let mut server = Registry::open(&folder).unwrap();
    let binding = at("0.0.0.0", 7471);
    server.reserve(&folder, 5, &binding, true).unwrap();
    server.publish(&folder, &[gid, [3; 16]]).unwrap();
    server.publish(&folder, &[gid]).unwrap();
    let name = server.listen(&folder, 5, &binding, |_| Ok(())).unwrap();
    // As if its process were in another one.
    let own = place.names().remove(0);
    std::fs::rename(place.0.join(own), place.0.join("cm-77-99")).unwrap();
    let mut client = Registry::open(&folder).unwrap();
    let to = |text: &str| Address::ip(text.parse().unwrap(), 7471);
    assert!(client.knows(&folder, &gid) && !client.knows(&folder, &[3; 16]));
    assert!(matches!(
        client.find(&folder, SERVICE, &to("10.9.0.1"), true, &|_| true),
        Ok(Search::Listener(_))
    ));
    assert_eq!(client.find(&folder, SERVICE, &to("10.9.0.1"), false, &|_| true), Ok(Search::Nobody));
    assert_eq!(client.find(&folder, SERVICE, &to("10.9.0.2"), true, &|_| true), Ok(Search::Nobody));
    server.release(5);
    let mut find = |text| client.find(&folder, SERVICE, &to(text), true, &|_| true);
    assert_eq!(find("10.9.0.1"), Ok(Search::Soon), "it may be about to listen again");
    assert_eq!(find("10.9.0.2"), Ok(Search::Nobody), "that is another host");
    drop(Registry::open(&folder).unwrap());
    assert!(place.names().contains(&"cm-77-99".to_owned()), "it lives");
    drop(server);
    drop(Registry::open(&folder).unwrap());
    assert!(!place.names().contains(&"cm-77-99".to_owned()));
    client.forget(&folder, name);
}

#[test]
fn fuzz_cm_ports() {
    let (place, folder) = Place::new();
    let mut registry = Registry::open(&folder).unwrap();
    let name = place.names().remove(0);
    let file = std::fs::OpenOptions::new().write(true).open(place.0.join(name)).unwrap();
    let wanted = at("192.0.2.2", 7471);
    bolero::check!().for_each(|bytes: &[u8]| {
        file.set_len(0).unwrap();
        // Several records of these bytes, some of which belong to a process that lives.
        file.write_all_at(bytes, 0).unwrap();
        file.write_all_at(bytes, 128).unwrap();
        let _ = registry.find(&folder, SERVICE, &wanted.source, true, &|_| true);
        if registry.reserve(&folder, 1, &wanted, true).is_ok() {
            registry.update(1, &wanted);
            let _ = registry.publish(&folder, &[[1; 16]]);
            registry.release(1);
        }
    });
}
