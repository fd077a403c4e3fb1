//! What two devices do, and what a third process writes between it.

use bolero::TypeGenerator;
use bolero::generator::produce;

/// An address or a key that means something.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub struct Spot {
    pub other: bool,
    pub key: u8,
    pub at: u16,
    pub length: u16,
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum Place {
    Qp(u8, u8),
    Cq(u8, u8),
    Srq(u8),
    Receive {
        queue: u8,
        slot: u8,
        word: u8,
    },
    Entry {
        cq: u8,
        slot: u8,
        word: u8,
    },
    Attribute {
        queue: u8,
        word: u8,
    },
    /// A word of the entry in the table: what it is made of, its lock.
    Table {
        queue: u8,
        word: u8,
    },
    /// A word of the key table's start, or of multicast groups.
    Root(u8, u16),
    Header(u8),
    Any(u16),
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum Value {
    Small(u8),
    Any(u64),
    Halves(u8, u8),
    /// An offset in the segment.
    Offset(u16),
    Address(Spot),
    Key(Spot),
    Number {
        other: bool,
        qp: u8,
    },
    Add(i8),
    Flip(u8),
    From(Place),
    /// Its name in a lock; a living process's would be waited for.
    Dead {
        slot: u8,
        contended: bool,
    },
}

#[derive(Clone, Debug, TypeGenerator)]
pub struct Send {
    pub qp: u8,
    pub opcode: u8,
    pub flags: u8,
    pub inline: bool,
    #[generator(produce::<Vec<Spot>>().with().len(0usize..4))]
    pub sges: Vec<Spot>,
    pub remote: Spot,
    pub operand: u64,
}

#[derive(Clone, Debug, TypeGenerator)]
pub enum Step {
    Lie { victim: bool, place: Place, value: Value },
    Send(#[generator(produce::<Vec<Send>>().with().len(1usize..4))] Vec<Send>),
    Receive { qp: u8, sge: Spot },
    ReceiveShared { sge: Spot },
    Poll { cq: u8, count: u8 },
    Modify { qp: u8, state: u8 },
    Connect { qp: u8 },
    Replace { qp: u8 },
    Resize { cq: u8, cqe: u8 },
    Arm { cq: u8, solicited: bool },
    Events,
    Limit { limit: u8, size: u8 },
    Register { access: u8 },
    Deregister,
    Window { two: bool },
    FreeWindow,
    Pin(Spot),
    Join { qp: u8, leave: bool },
}

/// Steps, each with the device that takes it.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Play {
    pub group: bool,
    #[generator(produce::<Vec<(bool, Step)>>().with().len(1usize..48))]
    pub steps: Vec<(bool, Step)>,
}
