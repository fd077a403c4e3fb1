//! Management datagrams (MADs) to and from other hosts: packets to queue pair 1, which come for no process in
//! particular. Who asks for them shares the port with those of this user that have it.

use std::net::Ipv6Addr;
use std::os::fd::RawFd;
use std::time::Duration;

use super::network::{Missing, open as packet, wire_flow};
use super::port::error::PortError;
use super::port::flow::Flow;
use super::port::number::udp_port;
use super::port::options::Options;
use super::port::receive::{Inbox, Segment};
use super::port::send::{Outbox, Packet as Sealed, Piece};
use super::port::set::COMMON;
use super::port::share::{Shared, poll};
use super::port::socket::Socket;
use crate::capture;
use crate::error::Error;
use crate::wire::datagram::is_of_partition;
use crate::wire::icrc::{ICRC_BYTES, Icrc};
use crate::wire::management::{GENERAL_SERVICES, MAD_BYTES, Q_KEY, management_head};
use crate::wire::opcode::{Operation, Transport};
use crate::wire::packet::{MAX_HEAD, Packet};
use crate::wire::psn::Psn;

/// How often one look takes what has arrived, and after how many MADs it ends: a peer can send many in what
/// the kernel counts as one message, and whoever looks has others wait.
const ROUNDS: usize = 8;
const ENOUGH: usize = 64;
/// How long who reads has not read what waits for nobody.
const UNREAD: Duration = Duration::from_millis(20);

/// Between which addresses a MAD goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    /// Who sends it.
    pub source: Ipv6Addr,
    /// Who it is for.
    pub destination: Ipv6Addr,
    /// Index of the own network interface: where it came in, or leaves for a link-local address.
    pub interface: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Management {
    shared: Shared,
    common: Socket,
    outbox: Box<Outbox>,
    inbox: Box<Inbox>,
    psn: Psn,
}

impl Management {
    /// Shares the port. Waits for other processes that begin or end at the same time, some seconds at most, and
    /// others wait for this one until it [admits](Self::admit) them.
    ///
    /// # Errors
    /// Why the port is not to be had.
    pub fn open() -> Result<Self, Missing> {
        let no_memory = |_: Error| Missing::NoMemory;
        let (outbox, inbox) = (Outbox::new().map_err(no_memory)?, Inbox::new().map_err(no_memory)?);
        let options = Options::default();
        let shared = Shared::join(options).map_err(Missing::Port)?;
        let [common] = shared.take([COMMON]).map_err(Missing::Port)?;
        let adopted = Socket::adopt(common, COMMON, options);
        let common = adopted.map_err(|error| Missing::Port(PortError::Os(error)))?;
        // What nobody has read is of before.
        if poll(common.raw(), Duration::ZERO).unwrap_or(false) {
            std::thread::sleep(UNREAD);
            if poll(common.raw(), Duration::ZERO).unwrap_or(false) {
                common.drain();
            }
        }
        Ok(Self { shared, common, outbox, inbox, psn: Psn::new(0) })
    }

    /// Descriptors that are readable when a MAD has come, which any of those that share the port may take, and
    /// when a process is to be [admitted](Self::admit).
    #[must_use]
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.common.raw(), self.shared.door()]
    }

    /// Answers the processes that ask for the port. Waits for nothing. `false` where some could not be answered
    /// now.
    pub fn admit(&self) -> bool {
        self.shared.admit()
    }

    /// Sends a MAD. What does not leave is lost, as on the way; what left or came is in the process's capture.
    pub fn send(&mut self, between: &Between, mad: &[u8; MAD_BYTES]) {
        let Between { source, destination, interface } = *between;
        let head = management_head(self.psn);
        self.psn = self.psn.plus(1);
        let mut headers = [0; MAX_HEAD];
        let length = head.write(&mut headers);
        let headers = &headers[..length];
        let flow = Flow {
            source,
            destination,
            source_port: udp_port(),
            destination_port: udp_port(),
            interface: if destination.is_unicast_link_local() { interface } else { 0 },
            traffic_class: 0,
            hop_limit: 0,
            label: 0,
        };
        let Some(wire) = wire_flow(source, udp_port(), destination) else { return };
        let pieces = [Piece::of(headers), Piece::of(mad)];
        let mut sealed = (0, [0; ICRC_BYTES]);
        let sent = self.outbox.send(&self.common, &flow, &[Sealed(&pieces)], |_, identification| {
            let mut icrc = Icrc::new(&wire, identification, headers, headers.len() + mad.len());
            icrc.update(mad);
            sealed = (identification, icrc.finish());
            sealed.1
        });
        if let Some(capture) = capture::active().filter(|_| sent.packets == 1) {
            let mut packet = [0; MAX_HEAD + MAD_BYTES];
            packet[..length].copy_from_slice(headers);
            packet[length..length + MAD_BYTES].copy_from_slice(mad);
            capture.batch().add_sealed(&wire, sealed.0, &packet[..length + MAD_BYTES], &sealed.1);
        }
    }

    /// Tells the MADs that have come; whether there may be more. What else is sent to queue pair 1, or is
    /// damaged, is dropped.
    pub fn receive(&mut self, mut tell: impl FnMut(&Between, &[u8; MAD_BYTES])) -> bool {
        let mut taken = 0;
        for _ in 0..ROUNDS {
            if taken >= ENOUGH {
                break;
            }
            let received = self.inbox.receive(&self.common, |flow, all| {
                taken += all.len();
                for Segment { bytes, .. } in all {
                    if let Some((wire, packet, identification)) = packet(flow, 0, bytes)
                        && let Some(mad) = mad(&packet)
                    {
                        if let Some(capture) = capture::active() {
                            capture.batch().add(&wire, identification, bytes);
                        }
                        let Flow { source, destination, interface, .. } = *flow;
                        tell(&Between { source, destination, interface }, mad);
                    }
                }
            });
            if !received.is_ok_and(|received| received.may_be_more) {
                return false;
            }
        }
        true
    }
}

/// The MAD in a packet.
fn mad<'a>(packet: &Packet<'a>) -> Option<&'a [u8; MAD_BYTES]> {
    let (opcode, deth) = (packet.bth.opcode, packet.headers.deth?);
    let is_send = opcode.transport() == Transport::Ud && opcode.operation() == Operation::Send;
    let is_to_services = packet.bth.dest_qp == GENERAL_SERVICES && is_of_partition(packet.bth.p_key);
    let is_from_services = (deth.source_qp, deth.qkey) == (GENERAL_SERVICES, Q_KEY);
    (is_send && is_to_services && is_from_services).then(|| packet.payload.try_into().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        let mut headers = [0; MAX_HEAD];
        let length = management_head(Psn::new(5)).write(&mut headers);
        let mut bytes = headers[..length].to_vec();
        bytes.extend((0..MAD_BYTES).map(|byte| byte as u8));
        bytes
    }

    #[test]
    fn a_mad_is_a_datagram_between_general_services() {
        let sent = bytes();
        // BTH: UD SEND_ONLY, migrated, to queue pair 1; DETH: the well-known key, from queue pair 1.
        assert_eq!(sent[..12], [0x64, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5]);
        assert_eq!(sent[12..20], [0x80, 1, 0, 0, 0, 0, 0, 1]);
        let packet = Packet::parse(&sent).unwrap();
        assert_eq!(mad(&packet).unwrap()[..], sent[20..]);
    }

    #[test]
    fn what_is_no_mad_is_dropped() {
        // Opcode, partition, destination, key, source.
        for at in [0, 3, 7, 12, 15, 19] {
            let mut sent = bytes();
            sent[at] ^= 1;
            let taken = Packet::parse(&sent).is_some_and(|packet| mad(&packet).is_some());
            assert!(!taken, "byte {at}");
        }
        let sent = bytes();
        for length in [0, 12, 20, 21, sent.len() - 4] {
            let taken = Packet::parse(&sent[..length]).is_some_and(|packet| mad(&packet).is_some());
            assert!(!taken, "{length} bytes");
        }
    }
}
