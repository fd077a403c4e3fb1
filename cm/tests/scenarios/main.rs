//! What programs see, command by command, and how both sides get there.
#![allow(missing_docs)] // Tests have names.

mod attr;
mod backlog;
mod bind;
mod datagrams;
mod ends;
mod groups;
mod migrate;
mod native;
mod options;
mod rc;
mod resolve;

use ironverbs_cm::command::{Command, ConnParam, Ece};
use ironverbs_cm::event::{Event, EventKind, Param};
use ironverbs_cm::{Address, Answer, Errno, File};
use ironverbs_cm_testing::{Net, param, v4};

pub const TCP: u16 = 0x0106;
pub const UDP: u16 = 0x0111;
pub const IB: u16 = 0x013f;

/// An id with its channel.
#[derive(Clone, Copy)]
pub struct Side {
    pid: usize,
    file: File,
    id: u32,
}

impl Side {
    pub fn new(net: &mut Net, pid: usize, space: u16) -> Side {
        let file = net.open(pid);
        Side::on(net, pid, file, space)
    }

    pub fn on(net: &mut Net, pid: usize, file: File, space: u16) -> Side {
        let create = Command::CreateId { uid: 0x1000 + u64::from(space), space, qp_type: 2 };
        match net.command(pid, file, &create) {
            Ok(Answer::Created(id)) => Side { pid, file, id },
            other => panic!("CREATE_ID: {other:?}"),
        }
    }

    pub fn run(&self, net: &mut Net, command: Command<'_>) -> Result<(), Errno> {
        net.command(self.pid, self.file, &command).map(drop)
    }

    pub fn bind(&self, net: &mut Net, address: Address) -> Result<(), Errno> {
        self.run(net, Command::Bind { id: self.id, address })
    }

    pub fn listen(&self, net: &mut Net, backlog: i32) -> Result<(), Errno> {
        self.run(net, Command::Listen { id: self.id, backlog })
    }

    pub fn resolve(&self, net: &mut Net, destination: Address) -> Result<(), Errno> {
        self.run(net, Command::ResolveAddr { id: self.id, source: None, destination, timeout_ms: 2000 })
    }

    pub fn route(&self, net: &mut Net) -> Result<(), Errno> {
        self.run(net, Command::ResolveRoute { id: self.id, timeout_ms: 2000 })
    }

    pub fn connect(&self, net: &mut Net, param: &ConnParam) -> Result<(), Errno> {
        self.run(net, Command::Connect { id: self.id, param, ece: Ece::default() })
    }

    pub fn accept(&self, net: &mut Net, uid: u64, param: &ConnParam) -> Result<(), Errno> {
        self.run(net, Command::Accept { id: self.id, uid, param, ece: Ece::default() })
    }

    pub fn establish(&self, net: &mut Net) -> Result<(), Errno> {
        self.accept(net, 0, &ConnParam::default())
    }

    pub fn reject(&self, net: &mut Net, reason: u8, data: &[u8]) -> Result<(), Errno> {
        self.run(net, Command::Reject { id: self.id, reason, data })
    }

    pub fn disconnect(&self, net: &mut Net) -> Result<(), Errno> {
        self.run(net, Command::Disconnect { id: self.id })
    }

    pub fn destroy(&self, net: &mut Net) -> Result<u32, Errno> {
        match net.command(self.pid, self.file, &Command::DestroyId { id: self.id })? {
            Answer::Reported(count) => Ok(count),
            other => panic!("DESTROY_ID: {other:?}"),
        }
    }

    pub fn event(&self, net: &mut Net) -> Option<Event> {
        net.event(self.pid, self.file)
    }

    /// The next event, which must be of this kind and status; the clock runs if it has to.
    pub fn expect(&self, net: &mut Net, kind: EventKind, status: i32) -> Event {
        let event = loop {
            match self.event(net) {
                Some(event) => break event,
                None => assert!(net.sleep(), "{kind:?} never comes"),
            }
        };
        assert_eq!((event.kind, event.status), (kind, status));
        event
    }

    pub fn nothing(&self, net: &mut Net) {
        assert_eq!(self.event(net), None);
    }
}

/// A listener in process 0.
pub fn listener(net: &mut Net, space: u16, address: Address) -> Side {
    let side = Side::new(net, 0, space);
    side.bind(net, address).unwrap();
    side.listen(net, 0).unwrap();
    side
}

/// An id of process 1 with a resolved route.
pub fn client(net: &mut Net, space: u16, to: Address) -> Side {
    let side = Side::new(net, 1, space);
    side.resolve(net, to).unwrap();
    side.expect(net, EventKind::AddrResolved, 0);
    side.route(net).unwrap();
    side.expect(net, EventKind::RouteResolved, 0);
    side
}

/// Both ends of a request that the listener fetched.
pub fn requested(net: &mut Net) -> (Side, Side) {
    let server = listener(net, TCP, v4("0.0.0.0", 7471));
    let client = client(net, TCP, v4("10.0.0.1", 7471));
    client.connect(net, &param(b"hello")).unwrap();
    let event = server.expect(net, EventKind::ConnectRequest, 0);
    (client, Side { id: event.id, ..server })
}

/// Both ends of a connection: the active and the passive one.
pub fn connected(net: &mut Net) -> (Side, Side) {
    let (client, server) = requested(net);
    server.accept(net, 77, &param(b"yes")).unwrap();
    client.expect(net, EventKind::ConnectResponse, 0);
    client.establish(net).unwrap();
    server.expect(net, EventKind::Established, 0);
    (client, server)
}

pub fn conn(event: &Event) -> &ConnParam {
    match &event.param {
        Param::Conn(param) => param,
        other => panic!("{other:?}"),
    }
}
