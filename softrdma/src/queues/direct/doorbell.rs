//! Where a sender says that a message is in a ring that nobody looks at with each poll.

/// A bit of a word that rings of a completion queue share. Who writes a message sets it; who polls takes all
/// that are set, and looks at the rings that have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doorbell {
    /// Offset of the word in the owner's segment, in bytes: a multiple of 8, and not 0.
    pub at: u64,
    /// The bit: below [`Doorbell::BITS`].
    pub bit: u32,
}

impl Doorbell {
    /// Bits of a word.
    pub const BITS: u32 = u64::BITS;
    /// Where the bit stands in the word of the ring.
    const SHIFT: u32 = 58;

    /// The word of the ring for it.
    #[must_use]
    pub fn pack(self) -> u64 {
        self.at >> 3 | u64::from(self.bit) << Self::SHIFT
    }

    /// What the word of the ring says; `None` for none.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        let at = (word & ((1 << Self::SHIFT) - 1)) << 3;
        (at != 0).then_some(Self { at, bit: (word >> Self::SHIFT) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_where_it_is() {
        for doorbell in [Doorbell { at: 8, bit: 0 }, Doorbell { at: (1 << 58) - 64, bit: 63 }] {
            assert_eq!(Doorbell::unpack(doorbell.pack()), Some(doorbell));
        }
        assert_eq!(Doorbell::unpack(0), None);
        assert_eq!(Doorbell::unpack(u64::MAX << 58), None, "a bit of no word");
    }
}
