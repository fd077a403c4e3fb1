//! What a responder remembers of the reads and atomic operations that it carried out last, to answer them again
//! (IBA vol. 1 §9.7.5: as many as may be under way), and which answers wait to be sent.

use std::collections::TryReserveError;

use ironverbs_os::growth::try_filled;

use crate::wire::connection::Mtu;
use crate::wire::packet::Reth;
use crate::wire::psn::Psn;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A read of this memory.
    Read(Reth),
    /// An atomic operation, before which this stood there.
    Atomic(u64),
}

/// A request that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// What it was.
    pub asked: Asked,
    /// PSN of the first packet of its answer.
    pub first: Psn,
    /// Packets of its answer.
    pub packets: u32,
    /// The count of messages with it.
    pub msn: u32,
    /// Packets of the answer that wait to be sent: from here…
    next: u32,
    /// … to before here …
    end: u32,
    /// … where bytes of the memory end. The answer began with packet `start`.
    bytes: u32,
    start: u32,
    /// Whether all of it was sent once.
    answered: bool,
}

/// A packet of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The request.
    pub record: Record,
    /// Which of the answer's packets.
    pub number: u32,
    /// Whether the answer begins with it.
    pub begins: bool,
    /// Whether it ends with it.
    pub ends: bool,
    /// Bytes of the memory before it.
    pub offset: u32,
    /// Bytes of it.
    pub length: u32,
}

/// The last requests, oldest first.
#[derive(Debug)]
pub struct Memory {
    /// A power of two.
    records: Box<[Option<Record>]>,
    /// How many it keeps.
    kept: u64,
    /// Number of the next one.
    tail: u64,
    /// No answer before that of this number waits.
    waiting: u64,
}

impl Memory {
    /// One that can keep so many.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(kept: u8) -> Result<Self, TryReserveError> {
        let places = usize::from(kept).max(1).next_power_of_two();
        Ok(Self { records: try_filled(places, || None)?, kept: 0, tail: 0, waiting: 0 })
    }

    /// Forgets all, and keeps so many from now on, at most as many as it can.
    pub fn start(&mut self, kept: u8) {
        self.records.fill(None);
        self.keep(kept);
        (self.tail, self.waiting) = (0, 0);
    }

    /// Keeps so many from now on, at most as many as it can.
    pub fn keep(&mut self, kept: u8) {
        self.kept = u64::from(kept).min(self.records.len() as u64);
        self.waiting = self.waiting.max(self.oldest());
    }

    /// Whether one more may be asked for: none is kept where the queue pair has no such resources, and the
    /// oldest has to make room, which is a defect of the peer where it was never answered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let oldest = self.tail.checked_sub(self.kept);
        self.kept > 0 && oldest.and_then(|oldest| self.get(oldest)).is_none_or(|record| record.answered)
    }

    /// Remembers a request, whose answer waits from now on.
    pub fn remember(&mut self, asked: Asked, first: Psn, packets: u32, msn: u32) {
        let bytes = if let Asked::Read(reth) = asked { reth.length } else { 0 };
        let record =
            Record { asked, first, packets, msn, next: 0, end: packets, bytes, start: 0, answered: false };
        let place = self.place(self.tail);
        self.records[place] = Some(record);
        self.tail += 1;
        self.waiting = self.waiting.max(self.oldest());
    }

    /// The request to whose answer the packet belongs, by its number, and which packet of that it is.
    #[must_use]
    pub fn find(&self, psn: Psn) -> Option<(u64, Record, u32)> {
        (self.oldest()..self.tail).rev().find_map(|number| {
            let record = self.get(number)?;
            let packet = psn.steps_from(record.first);
            (packet < record.packets).then_some((number, *record, packet))
        })
    }

    /// Whether the answer from this packet on waits as it is.
    #[must_use]
    pub fn will_be_sent(&self, record: &Record, packet: u32) -> bool {
        record.next <= packet && packet < record.end
    }

    /// The answer from a packet on is to be sent again, as far as this many bytes of the memory.
    pub fn repeat(&mut self, number: u64, packet: u32, bytes: u32, mtu: Mtu) {
        let place = self.place(number);
        if let Some(record) = &mut self.records[place] {
            (record.next, record.start, record.bytes) = (packet, packet, bytes);
            record.end = if let Asked::Read(_) = record.asked { mtu.packets(bytes) } else { 1 };
            self.waiting = self.waiting.min(number);
        }
    }

    /// The next packet of the answers that wait, which counts as sent from now on.
    pub fn next(&mut self, mtu: Mtu) -> Option<Packet> {
        while self.waiting < self.tail {
            let place = self.place(self.waiting);
            if let Some(record) = self.records[place].as_mut().filter(|record| record.next < record.end) {
                let number = record.next;
                record.next += 1;
                let ends = record.next == record.end;
                record.answered |= ends;
                let offset = mtu.offset(number);
                return Some(Packet {
                    record: *record,
                    number,
                    begins: number == record.start,
                    ends,
                    offset,
                    length: record.bytes.saturating_sub(offset).min(mtu.bytes()),
                });
            }
            self.waiting += 1;
        }
        None
    }

    /// Whether packets of answers wait.
    #[must_use]
    pub fn waits(&self) -> bool {
        (self.waiting..self.tail)
            .any(|number| self.get(number).is_some_and(|record| record.next < record.end))
    }

    /// The packet of an answer was not sent, and waits once more.
    pub fn unsend(&mut self, psn: Psn) {
        let Some((number, _, packet)) = self.find(psn) else { return };
        let place = self.place(number);
        if let Some(record) = &mut self.records[place] {
            record.next = record.next.min(packet);
            self.waiting = self.waiting.min(number);
        }
    }

    /// No answer waits any more.
    pub fn silence(&mut self) {
        for record in self.records.iter_mut().flatten() {
            record.next = record.end;
        }
        self.waiting = self.tail;
    }

    fn oldest(&self) -> u64 {
        self.tail.saturating_sub(self.kept)
    }

    fn place(&self, number: u64) -> usize {
        number as usize & (self.records.len() - 1)
    }

    fn get(&self, number: u64) -> Option<&Record> {
        self.records[self.place(number)].as_ref()
    }
}
