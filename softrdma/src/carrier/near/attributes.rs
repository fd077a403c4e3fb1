//! What a queue's owner set, as its peers read it behind the queue's lock.

use crate::queues::shared::{ATTRIBUTES, Memory, Object, Word};
use crate::rules::responder::TargetQp;
use crate::rules::verbs::{Access, QpState, QpType};

/// What the rules of a responder need of a queue pair. Its owner stores it behind the queue pair's lock when it
/// is made and at each change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttributes {
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: u32,
    /// Protection domain of its receive requests: that of the shared receive queue, where it has one.
    pub receive_pd: u32,
    /// `qp_access_flags`
    pub access: Access,
    /// The peer's number.
    pub dest_qp_num: u32,
    /// Datagrams: the key.
    pub qkey: u32,
    /// `max_dest_rd_atomic`
    pub max_dest_rd_atomic: u8,
    /// `min_rnr_timer`
    pub min_rnr_timer: u8,
    /// Index of its receive completion queue; none for an XRC target.
    pub cq: Option<u32>,
    /// Index of the shared receive queue it receives from; none for an XRC target, whose messages name one.
    pub srq: Option<u32>,
    /// XRC domain.
    pub xrcd: u32,
    /// Where its direct ring is; of datagrams, the table of its rings ([`Place::TABLE`]).
    pub direct: Option<Place>,
}

/// The peer's number of a queue pair that is connected to one on another host: no queue pair of the folder has
/// it.
pub const FAR: u32 = u32::MAX;

/// Where a direct ring is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Offset in the segment, in bytes, a multiple of 64.
    pub at: u64,
    /// Slots: a power of two.
    pub slots: u32,
}

impl Place {
    /// In place of slots: it is the table of a datagram queue pair's rings
    /// ([`direct::datagrams`](super::direct::datagrams)).
    pub const TABLE: u32 = 1;

    /// In 32 bits; 0 for a place that is too far.
    pub(crate) fn pack(self) -> u32 {
        let at = u32::try_from(self.at >> 6).unwrap_or(u32::MAX);
        if at >> 28 == 0 { at | self.slots.trailing_zeros() << 28 } else { 0 }
    }

    /// What stands in 32 bits; rings of more than 1024 slots are no rings of ours.
    pub(crate) fn unpack(word: u32) -> Option<Self> {
        let (at, bits) = (u64::from(word << 4 >> 4) << 6, word >> 28);
        (at != 0 && bits <= 10).then_some(Self { at, slots: 1 << bits })
    }
}

fn some(index: Option<u32>) -> u64 {
    u64::from(index.map_or(0, |index| index + 1))
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Words of a queue pair's attributes.
pub const QP_WORDS: usize = 5;

impl QpAttributes {
    /// The words.
    #[must_use]
    pub fn pack(&self) -> [u64; QP_WORDS] {
        [
            self.qp_type as u64
                | u64::from(self.max_dest_rd_atomic) << 8
                | u64::from(self.min_rnr_timer) << 16
                | u64::from(self.access.0) << 32,
            pair(self.pd, self.receive_pd),
            pair(self.dest_qp_num, self.qkey),
            some(self.cq) | some(self.srq) << 32,
            pair(self.xrcd, self.direct.map_or(0, Place::pack)),
        ]
    }

    /// The attributes in these words; `None` when the type is no number of ours.
    #[must_use]
    pub fn unpack(words: &[u64; QP_WORDS]) -> Option<Self> {
        Some(Self {
            qp_type: QpType::from_number(words[0] as u32 & 0xff)?,
            max_dest_rd_atomic: (words[0] >> 8) as u8,
            min_rnr_timer: (words[0] >> 16) as u8,
            access: Access((words[0] >> 32) as u32),
            pd: words[1] as u32,
            receive_pd: (words[1] >> 32) as u32,
            dest_qp_num: words[2] as u32,
            qkey: (words[2] >> 32) as u32,
            cq: (words[3] as u32).checked_sub(1),
            srq: ((words[3] >> 32) as u32).checked_sub(1),
            xrcd: words[4] as u32,
            direct: Place::unpack((words[4] >> 32) as u32),
        })
    }

    /// The queue pair with this number and state, as the responder's rules look at it.
    #[must_use]
    #[inline]
    pub fn target(&self, qp_num: u32, state: QpState) -> TargetQp {
        TargetQp {
            qp_num,
            qp_type: self.qp_type,
            state,
            pd: self.pd,
            receive_pd: self.receive_pd,
            access: self.access,
            dest_qp_num: self.dest_qp_num,
            qkey: self.qkey,
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
            srq: self.srq.is_some(),
        }
    }

    /// Stores them, by the owner.
    pub fn store(&self, memory: &impl Memory, qp: u32) {
        store(memory, Object::Qp(qp), &self.pack());
    }
}

/// What a queue pair shows to who looks at the folder. Nobody goes by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpShown {
    /// Index of its send completion queue.
    pub send_cq: Option<u32>,
    /// The peer's number, also on another host; 0 before it was said.
    pub peer: u32,
    /// The peer's address; zeros where it is named by LID, or not yet.
    pub address: [u8; 16],
}

/// Words of it, behind [`QP_WORDS`].
pub const SHOWN_WORDS: usize = 3;
const _: () = assert!(QP_WORDS + SHOWN_WORDS <= ATTRIBUTES as usize);

impl QpShown {
    /// The words.
    #[must_use]
    pub fn pack(&self) -> [u64; SHOWN_WORDS] {
        let half = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&self.address[at..at + 8]);
            u64::from_ne_bytes(half)
        };
        [some(self.send_cq) | u64::from(self.peer) << 32, half(0), half(8)]
    }

    /// What these words say.
    #[must_use]
    pub fn unpack(words: &[u64; SHOWN_WORDS]) -> Self {
        let mut address = [0; 16];
        address.copy_from_slice([words[1], words[2]].map(u64::to_ne_bytes).as_flattened());
        Self { send_cq: (words[0] as u32).checked_sub(1), peer: (words[0] >> 32) as u32, address }
    }

    /// Stores them, by the owner.
    pub fn store(&self, memory: &impl Memory, qp: u32) {
        let first = Word::Attribute { object: Object::Qp(qp), word: QP_WORDS as u32 };
        for (count, value) in (0..).zip(self.pack()) {
            memory.store(first.after(count), value);
        }
    }
}

/// What others need of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttributes {
    /// Protection domain.
    pub pd: u32,
    /// XRC: index of its completion queue, and the domain. None for a basic one.
    pub xrc: Option<(u32, u32)>,
}

/// Words of a shared receive queue's attributes.
pub const SRQ_WORDS: usize = 2;

impl SrqAttributes {
    /// The words.
    #[must_use]
    pub fn pack(&self) -> [u64; SRQ_WORDS] {
        [
            u64::from(self.pd),
            some(self.xrc.map(|xrc| xrc.0)) | u64::from(self.xrc.map_or(0, |xrc| xrc.1)) << 32,
        ]
    }

    /// The attributes in these words.
    #[must_use]
    pub fn unpack(words: &[u64; SRQ_WORDS]) -> Self {
        let cq = (words[1] as u32).checked_sub(1);
        Self { pd: words[0] as u32, xrc: cq.map(|cq| (cq, (words[1] >> 32) as u32)) }
    }

    /// Stores them, by the owner.
    pub fn store(&self, memory: &impl Memory, srq: u32) {
        store(memory, Object::Srq(srq), &self.pack());
    }
}

fn store(memory: &impl Memory, object: Object, words: &[u64]) {
    for (word, value) in (0..).zip(words) {
        memory.store(Word::Attribute { object, word }, *value);
    }
}

/// The words of an object's attributes.
#[inline]
pub(crate) fn load<const N: usize>(memory: &impl Memory, object: Object) -> [u64; N] {
    let mut words = [0; N];
    memory.load_all(Word::Attribute { object, word: 0 }, &mut words);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_attributes_come_back() {
        let attributes = QpAttributes {
            qp_type: QpType::XrcRecv,
            pd: u32::MAX,
            receive_pd: 3,
            access: Access(0x30f),
            dest_qp_num: 0xff_fffe,
            qkey: u32::MAX,
            max_dest_rd_atomic: 255,
            min_rnr_timer: 31,
            cq: Some(0),
            srq: None,
            xrcd: 9,
            direct: None,
        };
        assert_eq!(QpAttributes::unpack(&attributes.pack()), Some(attributes));
        let direct = Some(Place { at: 1 << 30 | 64, slots: 64 });
        let other = QpAttributes { cq: None, srq: Some(0xff_ffff), direct, ..attributes };
        assert_eq!(QpAttributes::unpack(&other.pack()), Some(other));
        assert_eq!(QpAttributes::unpack(&[0xff; QP_WORDS]), None);
        let shown = QpShown { send_cq: Some(0), peer: 0xff_fffe, address: *b"0123456789abcdef" };
        assert_eq!(QpShown::unpack(&shown.pack()), shown);
        assert_eq!(QpShown::unpack(&[0; SHOWN_WORDS]), QpShown::default());
        for xrc in [None, Some((0, 7))] {
            let attributes = SrqAttributes { pd: 5, xrc };
            assert_eq!(SrqAttributes::unpack(&attributes.pack()), attributes);
        }
    }
}
