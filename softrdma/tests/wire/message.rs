//! A message of the simulation: what is posted, and what must come of it.

use std::sync::OnceLock;

use softrdma::rules::verbs::Opcode;
use softrdma::wire::requester::message::Message;

use crate::random::Random;

/// Memory of each end: cells of atomic operations, bytes that nobody changes, bytes that the peer writes.
pub const BASE: u64 = 0x7000_0000_0000;
pub const RKEY: u32 = 0x1234;
pub const CELLS: usize = 4;
pub const CONSTANT: usize = CELLS * 8;
pub const WRITTEN: usize = CONSTANT + (1 << 16);
pub const END: usize = WRITTEN + (1 << 16);

/// A message that was posted.
#[derive(Clone, Debug)]
pub struct Posted {
    pub message: Message,
    /// Of a send or write.
    pub payload: Vec<u8>,
    /// What a read must bring; what must have stood before an atomic operation.
    pub expected: Vec<u8>,
    /// What a read or atomic operation brought.
    pub answer: Vec<u8>,
    /// The peer refuses it.
    pub refused: bool,
}

/// The memory of an end at the beginning.
pub fn memory(end: usize) -> Vec<u8> {
    static MADE: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    MADE[end].get_or_init(|| make_memory(end)).clone()
}

fn make_memory(end: usize) -> Vec<u8> {
    let mut memory = vec![0; END];
    for (at, byte) in memory[CONSTANT..].iter_mut().enumerate() {
        *byte = (at * 13 + (at >> 8) * 5 + end * 101) as u8;
    }
    memory
}

/// Bytes that say which message they are of, and where in it they stand.
pub fn payload(number: u64, length: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length)
        .map(|at| (at.wrapping_mul(7) + (at >> 8)) as u8 ^ (number as u8).wrapping_mul(29))
        .collect();
    if length >= 8 {
        bytes[..8].copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// What the memory of the peer will be when all that was posted has been carried out.
pub struct Shadow {
    pub memory: Vec<u8>,
    /// A read of what was written is under way: before the next write it must have been answered.
    pub read_since: bool,
}

/// A random length: none, few, at the edges of packets, several packets.
fn length(mtu: u32, random: &mut Random) -> u32 {
    let packets = random.below(7) as u32;
    match random.below(6) {
        0 => 0,
        1 | 2 => random.below(64) as u32,
        3 => (packets * mtu).min(32_000),
        4 => (packets * mtu + 1).min(32_000),
        _ => random.below(u64::from(8 * mtu)).min(32_000) as u32,
    }
}

/// A random message, the `number`-th; what it does to the peer's memory is done in the shadow.
pub fn random(
    number: u64,
    mtu: u32,
    answered: bool,
    refused: bool,
    shadow: &mut Shadow,
    random: &mut Random,
) -> Posted {
    let opcode = if answered {
        random.one_of(&[
            Opcode::Send,
            Opcode::SendWithImm,
            Opcode::SendWithInv,
            Opcode::RdmaWrite,
            Opcode::RdmaWriteWithImm,
            Opcode::RdmaRead,
            Opcode::RdmaRead,
            Opcode::CmpAndSwp,
            Opcode::FetchAndAdd,
        ])
    } else {
        random.one_of(&[Opcode::Send, Opcode::SendWithImm, Opcode::RdmaWrite, Opcode::RdmaWriteWithImm])
    };
    let mut message = Message::new(opcode, length(mtu, random));
    if !answered {
        // Which message it is must be told by what arrives.
        message.length = message.length.max(8);
    }
    message.imm_or_key = number as u32 ^ 0xabcd_0000;
    message.rkey = RKEY;
    message.solicited = random.per_mille(300);
    message.fence = random.per_mille(100);
    let names_memory = !matches!(opcode, Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv);
    let refused = refused && names_memory && message.length > 0;
    let mut posted = Posted { message, payload: vec![], expected: vec![], answer: vec![], refused };
    let message = &mut posted.message;
    let room = |length: u32, random: &mut Random| random.below((1 << 16) - u64::from(length)) as usize;
    match opcode {
        Opcode::RdmaRead => {
            let written = random.per_mille(500);
            let at = if written { WRITTEN } else { CONSTANT } + room(message.length, random);
            shadow.read_since |= written;
            message.va = BASE + at as u64;
            posted.expected = shadow.memory[at..at + message.length as usize].to_vec();
        }
        Opcode::CmpAndSwp | Opcode::FetchAndAdd => {
            let at = random.below(CELLS as u64) as usize * 8;
            message.length = 8;
            message.va = BASE + at as u64;
            let before = u64::from_ne_bytes(shadow.memory[at..at + 8].try_into().unwrap());
            message.swap_or_add = random.next();
            message.compare = if random.per_mille(700) { before } else { 7 };
            posted.expected = before.to_ne_bytes().to_vec();
            if !refused {
                let after = atomic(opcode == Opcode::CmpAndSwp, before, message.swap_or_add, message.compare);
                shadow.memory[at..at + 8].copy_from_slice(&after.to_ne_bytes());
            }
        }
        _ => posted.payload = payload(number, message.length),
    }
    if matches!(opcode, Opcode::RdmaWrite | Opcode::RdmaWriteWithImm) {
        let at = WRITTEN + room(message.length, random);
        message.va = BASE + at as u64;
        message.fence |= shadow.read_since;
        shadow.read_since &= !message.fence;
        if !refused {
            shadow.memory[at..at + posted.payload.len()].copy_from_slice(&posted.payload);
        }
    }
    if refused {
        posted.message.rkey = RKEY + 1;
    }
    posted
}

/// What stands there after an atomic operation.
pub fn atomic(compares: bool, before: u64, swap_or_add: u64, compare: u64) -> u64 {
    match (compares, before == compare) {
        (false, _) => before.wrapping_add(swap_or_add),
        (true, true) => swap_or_add,
        (true, false) => before,
    }
}
