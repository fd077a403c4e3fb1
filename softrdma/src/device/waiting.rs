//! Send requests that wait, in memory that was taken when the queue pair was made.

use ironverbs_os::growth::{TryFill, TryPush, try_room};

use crate::carrier::far::way::Route;
use crate::carrier::wr::{Data, Datagram, Wr};
use crate::rules::receive::Sge;
use crate::rules::request::{ATOMIC_WRITE_BYTES, Limits, Operands};
use crate::rules::requester::Posted;
use crate::rules::verbs::{Opcode, SendFlags};

/// A request without its data.
#[derive(Debug, Clone, Copy)]
struct Slot {
    wr_id: u64,
    opcode: Opcode,
    flags: SendFlags,
    operands: Operands,
    imm_or_key: u32,
    srq_num: u32,
    sges: usize,
    inline: Option<usize>,
}

/// A [`Datagram`] with its header.
#[derive(Debug, Clone, Copy)]
struct Address {
    qp_num: u32,
    qkey: u32,
    grh: [u8; 40],
    dgid: [u8; 16],
    route: Option<Route>,
}

/// Requests that wait, oldest first. The vectors never hold more than they were made for.
#[derive(Debug)]
pub(super) struct Ring {
    slots: Vec<Slot>,
    datagrams: Vec<Option<Address>>,
    sges: Vec<Sge>,
    inline: Vec<u8>,
    capacity: usize,
    sges_each: usize,
    inline_each: usize,
    head: usize,
    len: usize,
}

impl Ring {
    pub(super) fn new(limits: &Limits) -> super::Result<Self> {
        let capacity = limits.max_send_wr as usize;
        let (sges_each, inline_each) =
            (limits.max_send_sge as usize, limits.max_inline.max(ATOMIC_WRITE_BYTES) as usize);
        Ok(Self {
            slots: try_room(capacity)?,
            datagrams: try_room(capacity)?,
            sges: try_room(capacity * sges_each)?,
            inline: try_room(capacity * inline_each)?,
            capacity,
            sges_each,
            inline_each,
            head: 0,
            len: 0,
        })
    }

    pub(super) fn len(&self) -> u32 {
        self.len as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn clear(&mut self) {
        (self.head, self.len) = (0, 0);
    }

    /// Copies a request that was accepted.
    pub(super) fn push(&mut self, wr: &Wr<'_>) {
        if self.len == 0 {
            self.head = 0;
        }
        let place = self.place(self.len);
        let (mut sges, mut inline) = (0, None);
        if place == self.slots.len() {
            // The first time that this place is used.
            self.datagrams.fill_reserved(place + 1, || None);
            self.sges.fill_reserved((place + 1) * self.sges_each, Sge::default);
            self.inline.fill_reserved((place + 1) * self.inline_each, || 0);
        }
        let bytes = &mut self.inline[place * self.inline_each..][..self.inline_each];
        match wr.data {
            Data::Sges(from) => {
                sges = from.len();
                let to = &mut self.sges[place * self.sges_each..][..sges];
                match (to, from) {
                    // What most requests have, without a call.
                    ([to], [from]) => *to = *from,
                    (to, from) => to.copy_from_slice(from),
                }
            }
            Data::Inline(from) => {
                bytes[..from.len()].copy_from_slice(from);
                inline = Some(from.len());
            }
            Data::InlineSges(from) => {
                let mut filled = 0;
                for sge in from {
                    let length = sge.length as usize;
                    let to = &mut bytes[filled..filled + length];
                    // SAFETY: the program says that it may be read there, as for any memcpy; `to` is ours
                    // alone.
                    unsafe {
                        let from = std::ptr::with_exposed_provenance::<u8>(sge.addr as usize);
                        std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), length);
                    }
                    filled += length;
                }
                inline = Some(filled);
            }
        }
        let slot = Slot {
            wr_id: wr.wr_id,
            opcode: wr.opcode,
            flags: wr.flags,
            operands: wr.operands,
            imm_or_key: wr.imm_or_key,
            srq_num: wr.srq_num,
            sges,
            inline,
        };
        let datagram = &mut self.datagrams[place];
        // None is one word, and not all that an address has.
        match wr.datagram {
            None => *datagram = None,
            Some(d) => {
                *datagram = Some(Address {
                    qp_num: d.qp_num,
                    qkey: d.qkey,
                    grh: *d.grh,
                    dgid: d.dgid,
                    route: d.route.copied(),
                });
            }
        }
        if place == self.slots.len() {
            self.slots.push_reserved(slot);
        } else {
            self.slots[place] = slot;
        }
        self.len += 1;
    }

    /// Where the request with this number is, from the oldest on: at most the capacity.
    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        let place = self.head + number;
        if place < self.capacity { place } else { place - self.capacity }
    }

    /// The oldest request.
    #[inline(always)]
    pub(super) fn front(&self) -> Option<Wr<'_>> {
        self.nth(0)
    }

    /// What its completion says of it.
    pub(super) fn front_posted(&self) -> Option<Posted> {
        self.nth(0).map(|wr| wr.posted())
    }

    /// The request with this number, from the oldest on.
    #[inline(always)]
    pub(super) fn nth(&self, number: usize) -> Option<Wr<'_>> {
        if number >= self.len {
            return None;
        }
        let place = self.place(number);
        let slot = &self.slots[place];
        let data = match slot.inline {
            Some(length) => Data::Inline(&self.inline[place * self.inline_each..][..length]),
            None => Data::Sges(&self.sges[place * self.sges_each..][..slot.sges]),
        };
        let datagram = self.datagrams[place].as_ref().map(|address| Datagram {
            qp_num: address.qp_num,
            qkey: address.qkey,
            grh: &address.grh,
            dgid: address.dgid,
            route: address.route.as_ref(),
        });
        let Slot { wr_id, opcode, flags, operands, imm_or_key, srq_num, .. } = *slot;
        Some(Wr { wr_id, opcode, flags, data, operands, imm_or_key, srq_num, datagram })
    }

    pub(super) fn pop(&mut self) {
        self.head = self.place(1);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wr<'a>(wr_id: u64, data: Data<'a>, datagram: Option<Datagram<'a>>) -> Wr<'a> {
        Wr {
            wr_id,
            opcode: Opcode::Send,
            flags: SendFlags::default(),
            data,
            operands: Operands::None,
            imm_or_key: 0,
            srq_num: 0,
            datagram,
        }
    }

    #[test]
    fn a_place_keeps_nothing_of_the_request_before() {
        let mut ring = Ring::new(&Limits { max_send_wr: 3, max_send_sge: 2, max_inline: 16 }).unwrap();
        let (grh, sge) = ([7; 40], Sge { addr: 1, length: 2, lkey: 3 });
        let datagram = Datagram { qp_num: 5, qkey: 6, grh: &grh, dgid: [8; 16], route: None };
        let (mut first, mut next) = (0, 0);
        // It goes around several times, with one to three that wait.
        for waiting in [1, 3, 2, 3, 1, 2, 3, 3] {
            while next - first < waiting {
                match next % 4 {
                    0 => ring.push(&wr(next, Data::Sges(&[sge, sge]), None)),
                    1 => ring.push(&wr(next, Data::Inline(b"inline"), Some(datagram))),
                    2 => ring.push(&wr(next, Data::Sges(&[]), Some(datagram))),
                    _ => ring.push(&wr(next, Data::Inline(&[]), None)),
                }
                next += 1;
            }
            for (number, wr_id) in (first..next).enumerate() {
                let there = ring.nth(number).unwrap();
                assert_eq!(there.wr_id, wr_id);
                assert_eq!(
                    there.datagram.map(|to| (to.qp_num, to.grh)),
                    match wr_id % 4 {
                        1 | 2 => Some((5, &grh)),
                        _ => None,
                    }
                );
                match (wr_id % 4, there.data) {
                    (0, Data::Sges(sges)) => assert_eq!(sges, [sge, sge]),
                    (1, Data::Inline(bytes)) => assert_eq!(bytes, b"inline"),
                    (2, Data::Sges([])) | (3, Data::Inline([])) => {}
                    (_, data) => panic!("{wr_id}: {data:?}"),
                }
            }
            assert!(ring.nth((next - first) as usize).is_none());
            ring.pop();
            first += 1;
        }
    }
}
