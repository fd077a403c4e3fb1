//! What moves, as packets of RoCE v2 in a file that Wireshark opens (pcapng).
//!
//! Packets of other hosts are those that left and came. Within the host no packets move: the process that
//! carries a message out writes the packets that it would have been, and those of its answer. So all that a
//! message caused is written by one process, in order, and each process appends to the same file what belongs
//! together by one call.
//!
//! | file | what |
//! |---|---|
//! | this | whether there is a capture; packets with their headers of IP and UDP |
//! | [`file`] | the file: its blocks, and several in turn |
//!
//! `IRONVERBS_SOFT_CAPTURE` names the file, with `IRONVERBS_SOFT_CAPTURE_SNAP` (bytes that are kept of each)
//! and `IRONVERBS_SOFT_CAPTURE_RING` (how many files there are, in turn). It is read once, when a process opens
//! the device for the first time.

pub mod file;

use std::ffi::OsString;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ironverbs_os::environment::trusted;
use ironverbs_os::growth::{TryFill, try_box, try_room};
use once_cell::race::OnceBox;

use crate::wire::datagram::{HEADER_BYTES, IPV4_AT, Seen, header_before};
use crate::wire::flow::{Addresses, Flow, ROCE_PORT};
use crate::wire::icrc::{ICRC_BYTES, Icrc};
use crate::wire::management::{GENERAL_SERVICES, MAD_BYTES, management_head};
use crate::wire::packet::{BTH_BYTES, Head, MAX_HEAD, Packet, pad_of};
use crate::wire::psn::Psn;

use file::File;

const UDP_BYTES: usize = 8;
const UDP_PROTOCOL: u8 = 17;
/// Routers that a packet may go through which has gone through none.
const HOPS: u8 = 64;

/// A capture, of which a process has one at most.
#[derive(Debug)]
pub struct Capture {
    file: File,
}

// Without a lock, which a forked child would find taken for ever.
static ACTIVE: OnceBox<Capture> = OnceBox::new();

/// The process's capture; `None` before the device is opened, and where none was asked for.
#[inline]
pub(crate) fn active() -> Option<&'static Capture> {
    ACTIVE.get()
}

/// Begins the capture that the environment asks for, once.
///
/// What is wrong with it is said on standard error: a program is not kept from its work by what looks at it.
pub(crate) fn begin() {
    begin_and(|why| {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            eprintln!("ironverbs: {why}");
        }
    });
}

/// The same in another library of a process, which leaves it to the first one to say what is wrong.
pub fn begin_quietly() {
    begin_and(|_| {});
}

fn begin_and(say: impl FnOnce(&str)) {
    if active().is_some() {
        return;
    }
    let Some(path) = trusted("IRONVERBS_SOFT_CAPTURE").filter(|path| !path.is_empty()) else { return };
    let snap = number("IRONVERBS_SOFT_CAPTURE_SNAP", trusted("IRONVERBS_SOFT_CAPTURE_SNAP"));
    let ring = number("IRONVERBS_SOFT_CAPTURE_RING", trusted("IRONVERBS_SOFT_CAPTURE_RING"));
    let opened = snap.and_then(|snap| File::open(path.as_ref(), snap, ring?).map_err(|why| why.to_string()));
    let made = opened.and_then(|file| try_box(Capture { file }).map_err(|_| "no memory".to_string()));
    match made {
        // Another thread may have been first: it is the same capture.
        Ok(capture) => drop(ACTIVE.set(capture)),
        Err(why) => say(&format!("no capture in {}: {why}", path.to_string_lossy())),
    }
}

/// The number in a variable.
fn number(name: &str, value: Option<OsString>) -> Result<Option<u32>, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().and_then(|value| value.parse().ok());
    number.map(Some).ok_or_else(|| format!("{name} is no number"))
}

/// Writes a management datagram that goes from one GID to another within the host, where there is a capture.
pub fn management(source: [u8; 16], destination: [u8; 16], mad: &[u8; MAD_BYTES]) {
    static PSN: AtomicU32 = AtomicU32::new(0);
    if let Some(capture) = active() {
        let head = management_head(Psn::new(PSN.fetch_add(1, Ordering::Relaxed)));
        let flow = flow(source, destination, GENERAL_SERVICES);
        capture.batch().make_common(&flow, &head, MAD_BYTES, |room| room.copy_from_slice(mad));
    }
}

/// Packets that are written together.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    capture: &'a Capture,
    blocks: Vec<u8>,
    time: u64,
}

impl Capture {
    /// Packets of this moment.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch { capture: self, blocks: Vec::new(), time: file::now() }
    }
}

impl Batch<'_> {
    /// Adds a packet: what follows the UDP header, with its ICRC, which is right with this identification.
    pub(crate) fn add(&mut self, flow: &Flow, identification: u16, packet: &[u8]) {
        if let Some((packet, icrc)) = packet.split_last_chunk()
            && Packet::parse(packet).is_some()
        {
            self.add_sealed(flow, identification, packet, icrc);
        }
    }

    /// The same of a packet and its ICRC.
    pub(crate) fn add_sealed(
        &mut self,
        flow: &Flow,
        identification: u16,
        packet: &[u8],
        icrc: &[u8; ICRC_BYTES],
    ) {
        let seen = Seen { identification, traffic_class: 0, hop_limit: HOPS, label: 0 };
        let ip = header_before(flow, &seen, packet.len());
        let ip = match flow.addresses {
            Addresses::V4 { .. } => &ip[IPV4_AT..HEADER_BYTES],
            Addresses::V6 { .. } => &ip[..],
        };
        let bytes = (UDP_BYTES + packet.len() + ICRC_BYTES) as u16;
        let mut udp = [0; UDP_BYTES];
        udp[..2].copy_from_slice(&flow.source_port.to_be_bytes());
        udp[2..4].copy_from_slice(&flow.destination_port.to_be_bytes());
        udp[4..6].copy_from_slice(&bytes.to_be_bytes());
        // Over IPv4 there need not be a checksum.
        if let Addresses::V6 { .. } = flow.addresses {
            let pseudo = [0, UDP_PROTOCOL, udp[4], udp[5]];
            let checksum = match internet_checksum_of(&[&ip[8..40], &pseudo, &udp, packet, icrc]) {
                0 => u16::MAX,
                checksum => checksum,
            };
            udp[6..].copy_from_slice(&checksum.to_be_bytes());
        }
        // Without memory for it the packet is left out.
        let _ = self.capture.file.block(&mut self.blocks, self.time, &[ip, &udp, packet, icrc]);
    }

    /// Adds a packet that was never one: its headers, and payload that `fill` writes.
    pub(crate) fn make(&mut self, flow: &Flow, head: &[u8], length: usize, fill: impl FnOnce(&mut [u8])) {
        let end = head.len() + length;
        let Ok(mut packet) = try_room::<u8>(end + 3) else { return };
        packet.fill_reserved(end + usize::from(pad_of(length)), || 0);
        packet[..head.len()].copy_from_slice(head);
        fill(&mut packet[head.len()..end]);
        let (bth, behind) = packet.split_at(BTH_BYTES);
        let mut icrc = Icrc::new(flow, 0, bth, packet.len());
        icrc.update(behind);
        let icrc = icrc.finish();
        self.add_sealed(flow, 0, &packet, &icrc);
    }

    /// The same of headers that packets of other hosts have, too.
    pub(crate) fn make_common(
        &mut self,
        flow: &Flow,
        head: &Head,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let mut headers = [0; MAX_HEAD];
        let bytes = head.write(&mut headers);
        self.make(flow, &headers[..bytes], length, fill);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.blocks.is_empty() {
            self.capture.file.append(&self.blocks);
        }
    }
}

/// The checksum of pieces of an even length each (RFC 1071).
fn internet_checksum_of(pieces: &[&[u8]]) -> u16 {
    let words = pieces.iter().flat_map(|piece| piece.chunks_exact(2));
    let mut sum: u64 = words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The way between two addresses within the host. The port says which queue pair sends, as adapters have it.
/// Addresses of two families, or none, are the loopback one's: packets need some.
pub(crate) fn flow(source: [u8; 16], destination: [u8; 16], queue_pair: u32) -> Flow {
    let port = 0xc000 | (queue_pair ^ queue_pair >> 14) as u16 & 0x3fff;
    let at = |address: [u8; 16], port| SocketAddr::from((Ipv6Addr::from(address), port));
    let to = ROCE_PORT;
    let found = Flow::new(at(source, port), at(destination, to));
    let loopback = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    found.unwrap_or(Flow { addresses: loopback, source_port: port, destination_port: to })
}
