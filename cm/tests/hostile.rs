//! A peer that says anything, at any time, on any link.
#![allow(missing_docs)] // A test.

use bolero::TypeGenerator;
use ironverbs_cm::command::{Command, ConnParam, Ece};
use ironverbs_cm::event::EventKind;
use ironverbs_cm::wire::{self, MAD_SIZE};
use ironverbs_cm::{Address, Answer, File, Link};
use ironverbs_cm_testing::{Arrival, End, Net, View, param, v4};

/// What happens next.
#[derive(Clone, Debug, TypeGenerator)]
enum Act {
    /// A message comes on a link: this one with these bytes changed.
    Message {
        link: u8,
        kind: u8,
        honest: bool,
        changes: Vec<(u8, u8)>,
    },
    /// Bytes that are no message at all.
    Bytes {
        link: u8,
        bytes: Vec<u8>,
    },
    /// A link to a listener.
    Request {
        listener: u8,
        kind: u8,
        changes: Vec<(u8, u8)>,
    },
    Ended {
        link: u8,
    },
    Refused {
        link: u8,
        known: bool,
    },
    Unreachable {
        link: u8,
    },
    Sleep,
    Fetch {
        file: bool,
    },
    Connect {
        datagrams: bool,
    },
    Accept {
        id: u8,
        valid: bool,
    },
    Reject {
        id: u8,
    },
    Disconnect {
        id: u8,
    },
    Notify {
        id: u8,
    },
    Migrate {
        id: u8,
        to: bool,
    },
    Destroy {
        id: u8,
    },
}

struct Stage {
    net: Net,
    files: [File; 2],
    ids: Vec<u32>,
}

const KINDS: u8 = 9;

/// A message that fits a connection whose numbers are these, with some bytes changed.
fn message(kind: u8, local: u32, remote: u32, service: u64, changes: &[(u8, u8)]) -> [u8; MAD_SIZE] {
    let gid = ironverbs_cm::address::gid_of("10.0.0.1".parse().unwrap());
    let header = wire::IpHeader { port: 9, source: [10, 0, 0, 2].into(), destination: [10, 0, 0, 1].into() };
    let mut private_data = [0; 216];
    header.write(&mut private_data);
    let first = std::array::from_fn(|i| private_data[i]);
    let (local_comm_id, remote_comm_id, request_id) = (local, remote, remote);
    let body = match kind % KINDS {
        0 => wire::Body::Req(Box::new(wire::Req {
            local_comm_id,
            service,
            local_gid: gid,
            remote_gid: gid,
            private_data: first,
            ..Default::default()
        })),
        1 => wire::Body::Mra(wire::Mra { local_comm_id, remote_comm_id, message: 0, service_timeout: 0 }),
        2 => wire::Body::Rej(Box::new(wire::Rej {
            local_comm_id,
            remote_comm_id,
            refused: wire::Refused::Req,
            reason: 28,
            ca_guid: None,
            private_data: [0; 148],
        })),
        3 => wire::Body::Rep(Box::new(wire::Rep { local_comm_id, remote_comm_id, ..Default::default() })),
        4 => wire::Body::Rtu(wire::Rtu { local_comm_id, remote_comm_id }),
        5 => wire::Body::Dreq(wire::Dreq { local_comm_id, remote_comm_id, remote_qpn: 0 }),
        6 => wire::Body::Drep(wire::Drep { local_comm_id, remote_comm_id }),
        7 => wire::Body::SidrReq(Box::new(wire::SidrReq {
            request_id: local,
            pkey: 0xffff,
            service,
            private_data,
        })),
        _ => wire::Body::SidrRep(Box::new(wire::SidrRep {
            request_id,
            status: 0,
            qpn: 1,
            service,
            qkey: 0x0123_4567,
            ece: Ece::default(),
            private_data: [0; 136],
        })),
    };
    let mut bytes = *wire::encode(&wire::Mad { transaction: 1, body });
    for &(at, value) in changes {
        bytes[usize::from(at)] = value;
    }
    bytes
}

impl Stage {
    fn new() -> Stage {
        let mut net = Net::new(1, 1);
        let files = [net.open(0), net.open(0)];
        let mut stage = Stage { net, files, ids: Vec::new() };
        for space in [0x106, 0x111] {
            let id = stage.create(0, space);
            stage.run(0, &Command::Bind { id, address: v4("0.0.0.0", 7) });
            stage.run(0, &Command::Listen { id, backlog: 2 });
        }
        stage
    }

    fn run(&mut self, file: usize, command: &Command<'_>) -> Option<Answer> {
        self.net.command(0, self.files[file], command).ok()
    }

    /// Runs a command on whichever channel the id is.
    fn on_id(&mut self, command: &Command<'_>) {
        if self.run(0, command).is_none() {
            self.run(1, command);
        }
    }

    fn create(&mut self, file: usize, space: u16) -> u32 {
        match self.run(file, &Command::CreateId { uid: 1, space, qp_type: 2 }) {
            Some(Answer::Created(id)) => {
                self.ids.push(id);
                id
            }
            other => panic!("{other:?}"),
        }
    }

    fn id(&self, choice: u8) -> u32 {
        self.ids.get(usize::from(choice) % self.ids.len().max(1)).copied().unwrap_or(0)
    }

    /// Puts something before the manager as if it came on a link.
    fn arrive(&mut self, choice: u8, arrival: Arrival) {
        let link = Link(u64::from(choice) % 12);
        let manager = self.net.managers[0].as_mut().unwrap();
        arrival.tell(manager, link, &mut View { shared: &mut self.net.shared, pid: 0 });
        self.net.act(0);
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Message { link, kind, honest, changes } => {
                // The numbers of connections are small, so that many guesses are right.
                let (local, remote) = if *honest { (1, u32::from(*link) % 12) } else { (0, 0) };
                let bytes = message(*kind, local, remote, 0x0106_0007, changes);
                self.arrive(*link, Arrival::Message(Box::new(bytes)));
            }
            Act::Bytes { link, bytes } => {
                let manager = self.net.managers[0].as_mut().unwrap();
                let mut world = View { shared: &mut self.net.shared, pid: 0 };
                manager.message(Link(u64::from(*link) % 12), bytes, &mut world);
                self.net.act(0);
            }
            Act::Request { listener, kind, changes } => {
                let kind = if kind % 4 == 0 { *kind } else { 7 * (kind % 2) };
                let service = if kind == 7 { 0x0111_0007 } else { 0x0106_0007 };
                let bytes = message(kind, 1, 0, service, changes);
                let listener = u32::from(listener % 4);
                self.net.give(0, listener, &bytes);
            }
            Act::Ended { link } => self.arrive(*link, Arrival::End),
            Act::Refused { link, known } => self.arrive(*link, Arrival::Refused(*known)),
            Act::Unreachable { link } => self.arrive(*link, Arrival::Unreachable),
            Act::Sleep => drop(self.net.sleep()),
            Act::Fetch { file } => {
                if let Some(event) = self.net.event(0, self.files[usize::from(*file)])
                    && event.kind == EventKind::ConnectRequest
                {
                    self.ids.push(event.id);
                }
            }
            Act::Connect { datagrams } => {
                let id = self.create(1, if *datagrams { 0x111 } else { 0x106 });
                let destination: Address = v4("10.0.0.2", 99);
                let resolve = Command::ResolveAddr { id, source: None, destination, timeout_ms: 1 };
                self.run(1, &resolve);
                self.run(1, &Command::ResolveRoute { id, timeout_ms: 1 });
                self.run(1, &Command::Connect { id, param: &param(b"x"), ece: Ece::default() });
                // Nobody has said yet that nobody listens.
                self.net.shared.ends.iter_mut().for_each(|end| end.inbox.clear());
            }
            Act::Accept { id, valid } => {
                let param = if *valid { param(b"y") } else { ConnParam::default() };
                self.on_id(&Command::Accept { uid: 3, id: self.id(*id), param: &param, ece: Ece::default() });
            }
            Act::Reject { id } => self.on_id(&Command::Reject { id: self.id(*id), reason: 0, data: b"z" }),
            Act::Disconnect { id } => self.on_id(&Command::Disconnect { id: self.id(*id) }),
            Act::Notify { id } => self.on_id(&Command::Notify { id: self.id(*id), event: 4 }),
            Act::Migrate { id, to } => {
                let (to, from) = (usize::from(*to), self.files[usize::from(!*to)]);
                self.run(to, &Command::Migrate { id: self.id(*id), from });
            }
            Act::Destroy { id } => self.on_id(&Command::DestroyId { id: self.id(*id) }),
        }
    }

    /// Whatever was said, nothing is left of it when the channels are closed.
    fn end(mut self) {
        for file in self.files {
            self.net.close(0, file);
            assert!(!self.net.managers[0].as_ref().unwrap().ready(file));
        }
        assert!(self.net.shared.ports.is_empty() && self.net.timers.is_empty());
        assert!(self.net.shared.ends.iter().all(|end: &End| !end.open || end.link.is_none()));
        let file = self.net.open(0);
        let create = Command::CreateId { uid: 1, space: 0x106, qp_type: 2 };
        assert_eq!(self.net.command(0, file, &create), Ok(Answer::Created(0)));
    }
}

#[test]
fn fuzz_peers() {
    corpus::check!().with_type::<Vec<Act>>().for_each(|acts| {
        let mut stage = Stage::new();
        acts.iter().take(64).for_each(|act| stage.act(act));
        stage.end();
    });
}
