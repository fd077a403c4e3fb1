//! Messages between two sides: MADs of the communication management class (InfiniBand specification, volume 1,
//! chapter 12).
//!
//! Everything is bounded by the format: a field that is too large is cut to its width when it is written, and
//! every pattern of bits can be read. What [`decode`] refuses is what the kernel does not take either: another
//! length, class, version, method or message.

mod dreq;
mod field;
mod ip_header;
mod lap;
mod mra;
mod rej;
mod rep;
mod req;
mod sidr;
#[cfg(test)]
mod tests;

pub use dreq::{Drep, Dreq, Rtu};
pub use ip_header::{HEADER_SIZE, IpHeader};
pub use lap::{Apr, Lap, UNSUPPORTED};
pub use mra::Mra;
pub use rej::{Refused, Rej, reason};
pub use rep::Rep;
pub use req::Req;
pub use sidr::{SidrRep, SidrReq, status};

use field::{Fields, FieldsMut};

use crate::address::{Gid, gid_of};

/// Size of a MAD in bytes.
pub const MAD_SIZE: usize = 256;

/// Size of the MAD's header.
const HEADER: usize = 24;

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// A message with its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mad {
    /// Transaction: the same in a request and the answers to it.
    pub transaction: u64,
    /// What it says.
    pub body: Body,
}

/// The messages that the machine speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Body {
    Req(Box<Req>),
    Mra(Mra),
    Rej(Box<Rej>),
    Rep(Box<Rep>),
    Rtu(Rtu),
    Dreq(Dreq),
    Drep(Drep),
    SidrReq(Box<SidrReq>),
    SidrRep(Box<SidrRep>),
    Lap(Lap),
    Apr(Apr),
}

/// A message that no side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Writes a message.
pub fn encode(mad: &Mad) -> Box<[u8; MAD_SIZE]> {
    let mut bytes = Box::new([0; MAD_SIZE]);
    let (header, body) = bytes.split_at_mut(HEADER);
    let mut body = FieldsMut(body);
    let (number, modifier) = match &mad.body {
        Body::Req(m) => (0x10, m.write(&mut body)),
        Body::Mra(m) => (0x11, m.write(&mut body)),
        Body::Rej(m) => (0x12, m.write(&mut body)),
        Body::Rep(m) => (0x13, m.write(&mut body)),
        Body::Rtu(m) => (0x14, m.write(&mut body)),
        Body::Dreq(m) => (0x15, m.write(&mut body)),
        Body::Drep(m) => (0x16, m.write(&mut body)),
        Body::SidrReq(m) => (0x17, m.write(&mut body)),
        Body::SidrRep(m) => (0x18, m.write(&mut body)),
        Body::Lap(m) => (0x19, m.write(&mut body)),
        Body::Apr(m) => (0x1a, m.write(&mut body)),
    };
    header[0] = BASE_VERSION;
    header[1] = CLASS;
    header[2] = CLASS_VERSION;
    header[3] = METHOD_SEND;
    let mut header = FieldsMut(header);
    header.put(8, 64, mad.transaction);
    header.put(16, 16, number);
    header.put(20, 32, u64::from(modifier));
    bytes
}

/// The GIDs of who sends the first message of a connection, and of who is to get it, as that says; `None` of
/// another message.
#[must_use]
pub fn ends(bytes: &[u8]) -> Option<(Gid, Gid)> {
    match decode(bytes).ok()?.body {
        Body::Req(req) => Some((req.local_gid, req.remote_gid)),
        Body::SidrReq(req) => {
            let ip = IpHeader::read(&req.private_data)?;
            Some((gid_of(ip.source), gid_of(ip.destination)))
        }
        _ => None,
    }
}

/// Reads a message.
///
/// # Errors
///
/// [`Malformed`], see the module.
///
/// # Examples
///
/// ```
/// use ironverbs_cm::wire::{Body, Dreq, Mad, Malformed, decode, encode};
///
/// let end = Dreq { local_comm_id: 1, remote_comm_id: 2, remote_qpn: 0x11 };
/// let mad = Mad { transaction: 9, body: Body::Dreq(end) };
/// let bytes = encode(&mad);
/// assert_eq!(decode(&bytes[..]), Ok(mad));
/// assert_eq!(decode(&bytes[1..]), Err(Malformed));
/// ```
pub fn decode(bytes: &[u8]) -> Result<Mad, Malformed> {
    let bytes: &[u8; MAD_SIZE] = bytes.try_into().map_err(|_| Malformed)?;
    if bytes[..4] != [BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND] {
        return Err(Malformed);
    }
    let (header, body) = bytes.split_at(HEADER);
    let (header, body) = (Fields(header), Fields(body));
    let modifier = header.get(20, 32) as u32;
    let body = match header.get(16, 16) {
        0x10 => Body::Req(Box::new(Req::read(&body, modifier))),
        0x11 => Body::Mra(Mra::read(&body)),
        0x12 => Body::Rej(Box::new(Rej::read(&body))),
        0x13 => Body::Rep(Box::new(Rep::read(&body, modifier))),
        0x14 => Body::Rtu(Rtu::read(&body)),
        0x15 => Body::Dreq(Dreq::read(&body)),
        0x16 => Body::Drep(Drep::read(&body)),
        0x17 => Body::SidrReq(Box::new(SidrReq::read(&body))),
        0x18 => Body::SidrRep(Box::new(SidrRep::read(&body, modifier))),
        0x19 => Body::Lap(Lap::read(&body)),
        0x1a => Body::Apr(Apr::read(&body)),
        _ => return Err(Malformed),
    };
    Ok(Mad { transaction: header.get(8, 64), body })
}
