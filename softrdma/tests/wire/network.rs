//! A network that loses, doubles, delays, marks and changes packets.

use std::collections::BTreeMap;

use softrdma::wire::flow::Flow;
use softrdma::wire::icrc::{self, Icrc};
use softrdma::wire::packet::MAX_HEAD;

use crate::random::Random;

/// What it does to packets, each of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u64,
    pub doubled: u64,
    /// How many are late, and by how many nanoseconds at most.
    pub late: u64,
    pub by: u64,
    /// Nanoseconds that any packet takes.
    pub delay: u64,
    /// Come with a mark of congestion.
    pub marked: u64,
    /// Changed in few bits, which the ICRC shows: lost as well.
    pub damaged: u64,
    /// Changed so that nothing shows it.
    pub changed: u64,
}

/// A packet, to which end, and whether it is marked.
pub type Arrival = (usize, Vec<u8>, bool);

/// Packets under way, by the time when they arrive and in the order in which they were sent.
#[derive(Default)]
pub struct Network {
    packets: BTreeMap<(u64, u64), Arrival>,
    serial: u64,
    pub sent: u64,
    pub lost: u64,
    /// Packets between the ends of each pair that were lost or late.
    trouble: BTreeMap<usize, u64>,
}

impl Network {
    /// Sends a packet to an end.
    pub fn send(&mut self, now: u64, to: usize, packet: &[u8], weather: &Weather, random: &mut Random) {
        self.sent += 1;
        if random.per_mille(weather.lost) || random.per_mille(weather.damaged) && is_seen(packet, random) {
            self.lost += 1;
            *self.trouble.entry(to / 2).or_default() += 1;
            return;
        }
        let copies = 1 + u64::from(random.per_mille(weather.doubled));
        for _ in 0..copies {
            let mut packet = packet.to_vec();
            if random.per_mille(weather.changed) {
                change(&mut packet, random);
            }
            let late = random.per_mille(weather.late);
            *self.trouble.entry(to / 2).or_default() += u64::from(late);
            let at = now + weather.delay + if late { random.below(weather.by + 1) } else { 0 };
            self.serial += 1;
            self.packets.insert((at, self.serial), (to, packet, random.per_mille(weather.marked)));
        }
    }

    /// How many packets of a pair were lost or late.
    pub fn trouble(&self, pair: usize) -> u64 {
        self.trouble.get(&pair).copied().unwrap_or(0)
    }

    /// Packets to these ends are gone.
    pub fn forget(&mut self, ends: [usize; 2]) {
        self.packets.retain(|_, (to, ..)| !ends.contains(to));
    }

    /// When the next packet arrives.
    pub fn next_arrival(&self) -> Option<u64> {
        self.packets.first_key_value().map(|((at, _), _)| *at)
    }

    /// A packet that has arrived.
    pub fn arrived(&mut self, now: u64) -> Option<Arrival> {
        let entry = self.packets.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

/// Bits of the headers flip, or the packet is longer or shorter.
fn change(packet: &mut Vec<u8>, random: &mut Random) {
    if random.per_mille(200) {
        let words = random.below(packet.len() as u64 / 4 + 4) as usize;
        return packet.resize(words * 4, random.next() as u8);
    }
    for _ in 0..=random.below(3) {
        let bit = random.below(packet.len().min(40) as u64 * 8) as usize;
        packet[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Whether who receives the packet sees that up to 32 bits in a row have changed: always, but for the bits that
/// routers may change (FECN, BECN), and these change nothing here.
fn is_seen(packet: &[u8], random: &mut Random) -> bool {
    let flow = Flow::new("10.0.0.1:49152".parse().unwrap(), "10.0.0.2:4791".parse().unwrap()).unwrap();
    let head = packet.len().min(MAX_HEAD);
    let mut icrc = Icrc::new(&flow, 0, &packet[..head], packet.len());
    icrc.update(&packet[head..]);
    let mut sent = packet.to_vec();
    sent.extend(icrc.finish());
    let mut came = sent.clone();
    let first = random.below((came.len() as u64 - 4) * 8);
    for _ in 0..=random.below(3) {
        let bit = (first + random.below(32)) as usize;
        came[bit / 8] ^= 1 << (bit % 8);
    }
    sent[4] = came[4];
    let seen = !icrc::is_right(&flow, 0, &came);
    assert_eq!(seen, came != sent, "the ICRC does not show what has changed");
    seen
}
