//! Packets as lines of a script: `PSN WHAT [BYTES] [solicited] [ack_req] [KEY=VALUE…]`.
//!
//! WHAT is operation, position and what is handed over (`send last immediate`, `read response first`), where
//! requests of reads and atomic operations, and answers to the latter, need no position. An acknowledgement is
//! `ack`, `nak sequence`, `nak invalid`, `nak access`, `nak operational`, `nak N` or `rnr CODE`. `cnp` is a
//! congestion notification.

use softrdma::wire::opcode::{HeaderSet, Opcode, Transport};
use softrdma::wire::packet::{Aeth, AtomicEth, Bth, Head, Headers, Reth, pad_of};
use softrdma::wire::psn::Psn;

/// The name of an opcode.
fn name(opcode: Opcode) -> String {
    let said = format!("{opcode:?}").to_lowercase();
    let (_, said) = said.split_once(' ').unwrap();
    let said = said
        .replace("readrequest only", "read request")
        .replace("readresponse", "read response")
        .replace("atomicacknowledge only", "atomic ack")
        .replace("acknowledge only", "ack")
        .replace("compareswap only", "compare swap")
        .replace("fetchadd only", "fetch add")
        .replace("congestionnotification only", "cnp");
    said.replace(" nothing", "")
}

const NAKS: [&str; 4] = ["sequence", "invalid", "access", "operational"];

/// A number, with `0x` in front or without.
pub fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|_| panic!("no number: {text}"))
}

/// The line of a packet with so many bytes of payload.
pub fn line(head: &Head, length: u32) -> String {
    let mut line = format!("{} ", head.bth.psn.number());
    let aeth = head.headers.aeth;
    match aeth.filter(|_| head.bth.opcode == Opcode::ACKNOWLEDGE).map(|aeth| aeth.syndrome) {
        Some(syndrome @ 0..32) if syndrome != 31 => line += &format!("ack credits={syndrome}"),
        Some(syndrome @ 0x20..0x40) => line += &format!("rnr {}", syndrome & 31),
        Some(syndrome @ 0x60..0x80) => {
            let code = syndrome & 31;
            line += "nak ";
            line += NAKS.get(usize::from(code)).map_or(&code.to_string(), |name| name);
        }
        _ => line += &name(head.bth.opcode),
    }
    if head.bth.opcode.has_payload() {
        line += &format!(" {length}");
    }
    for (flag, name) in [(head.bth.solicited, "solicited"), (head.bth.ack_req, "ack_req")] {
        if flag {
            line += " ";
            line += name;
        }
    }
    let headers = &head.headers;
    if let Some(Reth { va, rkey, length }) = headers.reth {
        line += &format!(" va={va:#x} rkey={rkey} length={length}");
    }
    if let Some(atomic) = headers.atomic {
        line += &format!(" va={:#x} rkey={} swap_or_add={}", atomic.va, atomic.rkey, atomic.swap_or_add);
        line += &format!(" compare={}", atomic.compare);
    }
    if let Some(aeth) = aeth {
        line += &format!(" msn={}", aeth.msn);
    }
    if let Some(original) = headers.atomic_ack {
        line += &format!(" original={original}");
    }
    if let Some(imm) = headers.imm {
        line += &format!(" imm={imm}");
    }
    if let Some(key) = headers.ieth {
        line += &format!(" key={key}");
    }
    line
}

/// The packet of a line, and how many bytes of payload it has.
pub fn packet(transport: Transport, line: &str) -> (Head, u32) {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let psn = Psn::new(number(words.remove(0)) as u32);
    let keys: Vec<(&str, &str)> = words.iter().filter_map(|word| word.split_once('=')).collect();
    words.retain(|word| !word.contains('='));
    let flag = |words: &mut Vec<&str>, name| {
        let before = words.len();
        words.retain(|word| *word != name);
        before != words.len()
    };
    let (solicited, ack_req) = (flag(&mut words, "solicited"), flag(&mut words, "ack_req"));
    let mut syndrome = 31;
    match words[..] {
        ["ack"] => {}
        ["nak", code] => {
            let named = NAKS.iter().position(|name| *name == code);
            syndrome = 0x60 | named.map_or_else(|| number(code) as u8, |code| code as u8);
            words = vec!["ack"];
        }
        ["rnr", code] => {
            syndrome = 0x20 | number(code) as u8;
            words = vec!["ack"];
        }
        ["reserved", code] => {
            syndrome = 0x40 | number(code) as u8;
            words = vec!["ack"];
        }
        _ => {}
    }
    let length = match words.last().map(|word| word.parse()) {
        Some(Ok(length)) => {
            words.pop();
            length
        }
        _ => 0,
    };
    let wanted = words.join(" ");
    let opcode = (0..=255)
        .filter_map(Opcode::from_byte)
        .find(|opcode| [transport, Transport::Cnp].contains(&opcode.transport()) && name(*opcode) == wanted)
        .unwrap_or_else(|| panic!("no packet: {wanted}"));
    let value = |name: &str| keys.iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| number(value));
    if keys.iter().any(|(key, _)| *key == "syndrome") {
        syndrome = value("syndrome") as u8;
    }
    let has = |header| opcode.headers().has(header);
    let (va, rkey) = (value("va"), value("rkey") as u32);
    let headers = Headers {
        deth: None,
        reth: has(HeaderSet::RETH).then(|| Reth { va, rkey, length: value("length") as u32 }),
        atomic: has(HeaderSet::ATOMIC_ETH).then(|| AtomicEth {
            va,
            rkey,
            swap_or_add: value("swap_or_add"),
            compare: value("compare"),
        }),
        aeth: has(HeaderSet::AETH).then(|| Aeth { syndrome, msn: value("msn") as u32 }),
        atomic_ack: has(HeaderSet::ATOMIC_ACK_ETH).then(|| value("original")),
        imm: has(HeaderSet::IMM_DT).then(|| value("imm") as u32),
        ieth: has(HeaderSet::IETH).then(|| value("key") as u32),
        reserved: has(HeaderSet::RESERVED),
    };
    let bth = Bth { solicited, ack_req, pad: pad_of(length as usize), ..Bth::new(opcode, 1, psn) };
    (Head { bth, headers }, length)
}
