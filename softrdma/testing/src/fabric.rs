//! What a suite of tests needs to know of whatever carries requests between devices, and the two ends that most
//! tests begin with.

use softrdma::rules::verbs::QpType;

use crate::device::{End, Folder, Node, connect_ends};
use crate::processes::{Child, Words};

/// A way to carry requests between devices: makes a fabric for each test.
pub type Carrier = fn() -> Box<dyn Fabric>;

/// Devices that reach each other.
pub trait Fabric {
    /// Opens the `n`-th device, in this process, which may be a child of the test's. No two that are open have
    /// the same number.
    fn open(&self, n: usize) -> Node;

    /// The devices of both ends of a connection within this process: the first two, or one that carries to
    /// itself.
    fn pair(&self) -> [Node; 2];

    /// Waits until what this process posted has had the effect that it can have by now, completions and events
    /// of its targets among them. Those that a program waits for need no such call.
    fn settle(&self);
}

/// Processes of one folder meet in shared memory. Both ends within a process belong to one device, which
/// reaches itself.
pub fn near() -> Box<dyn Fabric> {
    Box::new(Folder::new())
}

impl Fabric for Folder {
    fn open(&self, _: usize) -> Node {
        Node::new(self)
    }

    fn pair(&self) -> [Node; 2] {
        let node = Node::new(self);
        [node.clone(), node]
    }

    /// Each request has had its effect before the call that posts it returns.
    fn settle(&self) {}
}

/// As [`near`], between two devices of the folder, each of which has an address of its own.
pub fn near_apart() -> Box<dyn Fabric> {
    Box::new(Apart(Folder::new()))
}

struct Apart(Folder);

impl Fabric for Apart {
    fn open(&self, n: usize) -> Node {
        let gid = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n as u8 + 1];
        let device = self.0.open_at(gid);
        Node::reached_by(device, gid)
    }

    fn pair(&self) -> [Node; 2] {
        [self.open(0), self.open(1)]
    }

    /// As [`near`].
    fn settle(&self) {}
}

/// Two connected ends.
pub fn pair(carrier: Carrier, qp_type: QpType) -> (Box<dyn Fabric>, [Node; 2], End, End) {
    let (fabric, nodes, one, other) = ends(carrier, qp_type);
    connect_ends(&one, &other);
    (fabric, nodes, one, other)
}

/// Two ends that are not connected yet.
pub fn ends(carrier: Carrier, qp_type: QpType) -> (Box<dyn Fabric>, [Node; 2], End, End) {
    let fabric = carrier();
    let nodes = fabric.pair();
    let [one, other] = [0, 1].map(|n| nodes[n].end(qp_type));
    (fabric, nodes, one, other)
}

/// A parent and a child, each with an end; the child runs `child` on its own.
pub fn between(
    carrier: Carrier,
    qp_type: QpType,
    child: impl Fn(&Node, &End, &Words),
    parent: impl Fn(&Node, &End, &Words, &Child),
) {
    let (fabric, words) = (carrier(), Words::new());
    let run = |side: usize| {
        let node = fabric.open(side);
        let end = node.end(qp_type);
        words.connect_ends(side, &end);
        (node, end)
    };
    let process = Child::run(|| {
        let (node, end) = run(1);
        child(&node, &end, &words);
    });
    let (node, end) = run(0);
    parent(&node, &end, &words, &process);
    process.kill();
    process.wait();
}

/// Bytes of which no two neighbours are the same.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251 + 1) as u8).collect()
}
