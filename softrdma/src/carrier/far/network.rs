//! The network as one process has it: packets out, many to one peer at a time, and packets in.

use std::convert::Infallible;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use ironverbs_os::growth::try_filled;
use queue_lock::{QueueGuard, QueueLock};

use super::batch::Batch;
use super::datagram::Arrived;
use super::late::Late;
use super::port::error::{PortError, SendError};
use super::port::flow::Flow;
use super::port::number::udp_port;
use super::port::options::Options;
use super::port::receive::{Inbox, Segment, TOGETHER};
use super::port::send::{Outbox, Packets, Part, is_train};
use super::port::socket::Socket;
use super::port::{Port, groups};
use crate::capture;
use crate::error::Error;
use crate::faults;
use crate::shm::copy::Span;
use crate::wire::connection::Mtu;
use crate::wire::flow::Flow as WireFlow;
use crate::wire::icrc::{self, Ahead, ICRC_BYTES, Recent};
use crate::wire::packet::{Head, MAX_HEAD, Packet};

/// Packets that leave together: two datagrams full of the longest.
pub(crate) const BURST: usize = 30;
/// Rooms for them and an acknowledgement.
const ROOMS: usize = BURST + 1;
/// Room for a packet: headers, payload, pad and ICRC, from one cache line on.
const ROOM: usize = (MAX_HEAD + Mtu::MOST.bytes() as usize + 3 + ICRC_BYTES).next_multiple_of(64);
/// How often one look takes what has arrived, before others get their turn.
const ROUNDS: usize = 8;

/// Why there is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The port is not to be had.
    Port(PortError),
    /// There is no memory.
    NoMemory,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Network {
    port: Port,
    outgoing: QueueLock<Outgoing>,
    incoming: QueueLock<Incoming>,
    /// When what is taken later than it came is taken, on the device's clock; never, where there is none.
    late: AtomicU64,
}

#[derive(Debug)]
struct Incoming {
    inbox: Box<Inbox>,
    late: Late,
    recent: Recent,
}

/// Packets that are about to leave, each in a room of its own: what the program sends is copied, so that the
/// checksum is that of what leaves, whatever the program writes meanwhile.
#[derive(Debug)]
struct Outgoing {
    outbox: Box<Outbox>,
    rooms: Rooms,
    recent: Recent,
}

#[derive(Debug)]
struct Rooms {
    rooms: Box<[[u8; ROOM]]>,
    /// Bytes of each packet.
    lengths: [usize; ROOMS],
    /// With which identification each was sealed.
    identifications: [u16; ROOMS],
}

/// Packets in rooms, which end with their checksums there.
struct Launched<'a> {
    rooms: &'a mut Rooms,
    count: usize,
    /// The one in the last room leaves first.
    is_turned: bool,
    ahead: Ahead,
    /// So many have their checksums, the first of them.
    sealed: usize,
}

impl Launched<'_> {
    /// The room of a packet.
    #[inline(always)]
    fn room(&self, nth: usize) -> usize {
        match (self.is_turned, nth) {
            (false, _) => nth,
            (true, 0) => self.count - 1,
            (true, _) => nth - 1,
        }
    }
}

impl Packets for Launched<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn length(&self, nth: usize) -> usize {
        self.rooms.lengths[self.room(nth)] + ICRC_BYTES
    }

    #[inline(always)]
    fn parts(&self, _: usize) -> usize {
        1
    }

    #[inline(always)]
    fn seal(&mut self, nth: usize, identification: u16, _: &mut [u8; ICRC_BYTES], parts: &mut [Part]) {
        let room = self.room(nth);
        let Rooms { rooms, lengths, identifications } = &mut *self.rooms;
        let (packet, behind) = rooms[room].split_at_mut(lengths[room]);
        behind[..ICRC_BYTES].copy_from_slice(&self.ahead.icrc(identification, packet));
        identifications[room] = identification;
        self.sealed = self.sealed.max(nth + 1);
        // SAFETY: the room is the burst's until the packets have left.
        parts[0] = unsafe { Part::of(&mut rooms[room][..lengths[room] + ICRC_BYTES]) };
    }
}

impl Network {
    /// That of the process with this slot.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn open(slot: u16) -> Result<Self, Missing> {
        let no_memory = |_: Error| Missing::NoMemory;
        let (outbox, inbox) = (Outbox::new().map_err(no_memory)?, Inbox::new().map_err(no_memory)?);
        let rooms = try_filled(ROOMS, || [0; ROOM]).map_err(|_| Missing::NoMemory)?;
        let rooms = Rooms { rooms, lengths: [0; ROOMS], identifications: [0; ROOMS] };
        let port = Port::open(slot, Options::default()).map_err(Missing::Port)?;
        let outgoing = QueueLock::new(Outgoing { outbox, rooms, recent: Recent::default() });
        let incoming = QueueLock::new(Incoming { inbox, late: Late::default(), recent: Recent::default() });
        Ok(Self { port, outgoing, incoming, late: u64::MAX.into() })
    }

    /// The port.
    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// Packets to a peer, which leave when there are many, and at the end.
    #[inline(always)]
    pub(crate) fn burst(&self, flow: &Flow) -> Burst<'_> {
        Burst { port: &self.port, outgoing: self.outgoing.lock(), flow: *flow, count: 0, train: BURST }
    }

    /// The same where no other burst is made just now.
    pub(crate) fn try_burst(&self, flow: &Flow) -> Option<Burst<'_>> {
        let outgoing = self.outgoing.try_lock()?;
        Some(Burst { port: &self.port, outgoing, flow: *flow, count: 0, train: BURST })
    }

    /// Joins a group at these interfaces.
    ///
    /// # Errors
    /// [`Error::NoMemory`] at the limits of the host: the process is not in the group at any of them then.
    pub(crate) fn join(&self, group: Ipv6Addr, interfaces: &[u32]) -> Result<(), Error> {
        if interfaces.is_empty() {
            return Ok(());
        }
        let socket = self.port.open_groups().map_err(|_| Error::NoMemory)?;
        let joined = interfaces.iter().try_for_each(|at| groups::join(socket, group, *at).map(drop));
        joined.map_err(|_| {
            self.leave(group, interfaces);
            Error::NoMemory
        })
    }

    /// Leaves a group at these interfaces.
    pub(crate) fn leave(&self, group: Ipv6Addr, interfaces: &[u32]) {
        if let Some(socket) = self.port.groups() {
            interfaces.iter().for_each(|interface| groups::leave(socket, group, *interface));
        }
    }

    /// Tells the packets that have come, at this time of the device's clock, those together that came so, and
    /// what that leaves, unless another thread does so just now. Those that are damaged are dropped.
    pub(crate) fn receive(&self, now: u64, mut tell: impl FnMut(&[Arrived<'_>])) -> Looked {
        let Some(mut incoming) = self.incoming.try_lock() else {
            return Looked { by_another: true, ..Looked::NONE };
        };
        let mut looked = take(&mut incoming, self.port.own(), now, &mut tell);
        if let Some(groups) = self.port.groups() {
            // No answer comes there that may be missed.
            looked.more |= take(&mut incoming, groups, now, &mut tell).more;
        }
        if let Some(faults) = faults::active() {
            incoming.late.tell_due(faults, now, &mut |flow, bytes| tell_packet(flow, bytes, &mut tell));
            self.late.store(incoming.late.next_due(), Ordering::Relaxed);
        }
        looked
    }

    /// When packets are to be [taken](Self::receive) that have come already; never, where there are none.
    pub(crate) fn next_late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
}

/// Tells the packets that have come at a socket, and what that leaves.
fn take(incoming: &mut Incoming, socket: &Socket, now: u64, tell: &mut impl FnMut(&[Arrived<'_>])) -> Looked {
    let Incoming { inbox, late, recent } = incoming;
    for _ in 0..ROUNDS {
        let received = inbox.receive(socket, |flow, all| {
            let mut arrived = Batch::<_, TOGETHER>::new();
            let Some(wire) = wire_flow_of(flow) else { return tell(&[]) };
            let ahead = recent.of(&wire);
            for Segment { bytes, nth } in all {
                // rule: wire-icrc
                if let Some(identification) = ahead.identification(*nth, bytes)
                    && let Some(packet) = &packet(bytes)
                {
                    if let Some(capture) = capture::active() {
                        capture.batch().add(&wire, identification, bytes);
                    }
                    match faults::active() {
                        None => arrived.push(Arrived { flow, wire, packet: *packet, identification }),
                        Some(faults) => {
                            late.came(faults, now, flow, bytes, &mut |flow, bytes| {
                                tell_packet(flow, bytes, tell);
                            });
                        }
                    }
                }
            }
            tell(arrived.all());
        });
        // Where the socket gives an error nothing has come: it is asked again with the next look.
        let Ok(received) = received else { return Looked { is_all: true, ..Looked::NONE } };
        if !received.more {
            return Looked { is_all: !received.may_be_more, ..Looked::NONE };
        }
    }
    Looked { more: true, ..Looked::NONE }
}

fn tell_packet(flow: &Flow, bytes: &[u8], tell: &mut impl FnMut(&[Arrived<'_>])) {
    if let Some((wire, packet, identification)) = open(flow, 0, bytes) {
        tell(&[Arrived { flow, wire, packet, identification }]);
    }
}

/// The packet in a UDP payload, where it is whole, between which addresses it goes, and its identification,
/// which is soon found where it is the `likely` one.
pub(super) fn open<'a>(flow: &Flow, likely: u16, bytes: &'a [u8]) -> Option<(WireFlow, Packet<'a>, u16)> {
    let wire = wire_flow_of(flow)?;
    // rule: wire-icrc
    let identification = icrc::identification(&wire, likely, bytes)?;
    Some((wire, packet(bytes)?, identification))
}

/// The packet in a UDP payload.
#[inline(always)]
fn packet(bytes: &[u8]) -> Option<Packet<'_>> {
    Packet::parse(bytes.get(..bytes.len().checked_sub(ICRC_BYTES)?)?)
}

/// The flow of a packet that came.
#[inline]
fn wire_flow_of(flow: &Flow) -> Option<WireFlow> {
    wire_flow(flow.source, flow.source_port, flow.destination)
}

pub(super) fn wire_flow(source: Ipv6Addr, source_port: u16, destination: Ipv6Addr) -> Option<WireFlow> {
    WireFlow::of_socket((source, source_port), (destination, udp_port()))
}

/// What a look at the socket leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// Another thread takes what there is just now, so this look was none.
    pub(crate) by_another: bool,
    /// There may be more, of which it is worth asking at once.
    pub(crate) more: bool,
    /// All is taken that was there.
    pub(crate) is_all: bool,
}

impl Looked {
    const NONE: Self = Self { by_another: false, more: false, is_all: false };
}

/// See [`Network::burst`].
#[derive(Debug)]
pub(crate) struct Burst<'n> {
    port: &'n Port,
    outgoing: QueueGuard<'n, Outgoing>,
    flow: Flow,
    count: usize,
    /// How many packets may leave by one call.
    train: usize,
}

impl Burst<'_> {
    /// So many packets may leave by one call.
    pub(crate) fn set_train(&mut self, packets: u32) {
        self.train = packets as usize;
    }

    /// One more packet, with so many bytes of payload, which `fill` writes.
    ///
    /// # Errors
    /// Those of `fill`: the packet is not sent.
    #[inline]
    pub(crate) fn push<E>(
        &mut self,
        head: &Head,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_full() {
            self.launch();
        }
        self.add(head, length, fill)
    }

    /// The same, where there is a room: one more than [`BURST`].
    #[inline(always)]
    fn add<E>(
        &mut self,
        head: &Head,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Rooms { rooms, lengths, .. } = &mut self.outgoing.rooms;
        let room = &mut rooms[self.count];
        let (headers, _) = room.split_first_chunk_mut().expect("longer than headers");
        let before = head.write(headers);
        fill(&mut room[before..][..length])?;
        let end = before + length + usize::from(head.bth.pad);
        room[before + length..end].iter_mut().for_each(|pad| *pad = 0);
        lengths[self.count] = end;
        self.count += 1;
        Ok(())
    }

    /// One more packet, whose payload is written before it leaves: where that goes.
    pub(crate) fn push_later(&mut self, head: &Head, length: usize) -> Span {
        let mut there = Span { addr: 0, len: length as u64 };
        let Ok(()) = self.push::<Infallible>(head, length, |room| {
            there.addr = room.as_mut_ptr().expose_provenance() as u64;
            Ok(())
        });
        there
    }

    /// The last packets do not leave after all.
    pub(crate) fn drop_last(&mut self, packets: usize) {
        self.count = self.count.saturating_sub(packets);
    }

    /// Launches it with the acknowledgement that this packet is: how many of the others have left, and whether
    /// it has. In one train with them, where they make one and it `may_be_last` there; else it leaves before
    /// them, since whoever takes one datagram after the other is to have it before what it came with.
    pub(crate) fn launch_with(&mut self, acknowledgement: &Head, may_be_last: bool) -> (usize, bool) {
        let others = self.count;
        let Ok(()) = self.add::<Infallible>(acknowledgement, 0, |_| Ok(()));
        let lengths = &self.outgoing.rooms.lengths[..self.count];
        if may_be_last && self.port.own().sends_trains() && is_train(lengths, self.train) {
            let sent = self.launch_all(false);
            (sent.min(others), sent > others)
        } else {
            let sent = self.launch_all(true);
            (sent.saturating_sub(1), sent > 0)
        }
    }

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.count == BURST
    }

    /// Sends what there is: how many have left, the first of them, where there was no room for the others. What
    /// does not leave for another reason is lost, as on the way.
    #[inline(always)]
    pub(crate) fn launch(&mut self) -> usize {
        self.launch_all(false)
    }

    /// The same; the last first, if it `is_turned`.
    fn launch_all(&mut self, is_turned: bool) -> usize {
        let count = std::mem::take(&mut self.count);
        let wire = wire_flow(self.flow.source, udp_port(), self.flow.destination);
        let (Some(wire), Outgoing { outbox, rooms, recent }) = (wire, &mut *self.outgoing) else {
            return count;
        };
        if let Some(faults) = faults::active() {
            if faults.is_link_down() {
                return count;
            }
            faults.packets_leave(rooms.lengths[..count].iter().map(|length| *length as u64).sum());
        }
        let mut packets = Launched { rooms, count, is_turned, ahead: recent.of(&wire), sealed: 0 };
        let sent = outbox.send_in_trains(self.port.own(), &self.flow, &mut packets, self.train);
        let left = if sent.error == Some(SendError::Full) { sent.packets } else { count };
        if let Some(capture) = capture::active() {
            let mut batch = capture.batch();
            for room in (0..left.min(packets.sealed)).map(|nth| packets.room(nth)) {
                let Rooms { rooms, lengths, identifications } = &*packets.rooms;
                let (packet, behind) = rooms[room].split_at(lengths[room]);
                let icrc = behind.first_chunk().expect("room for it");
                batch.add_sealed(&wire, identifications[room], packet, icrc);
            }
        }
        left
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.launch();
        }
    }
}
