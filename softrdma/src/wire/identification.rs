//! Which identifications of IPv4 a peer's packets have, of which the kernel shows none.
//!
//! The ICRC covers the identification, so a packet shows its own ([`icrc::identification`](super::icrc)): some
//! number makes the ICRC of nearly every damaged packet in 65536 right. An ironverbs host has those from 0 on,
//! as its kernel counts them in a train; others have a counter. So of a peer that was seen to be of the first
//! kind no others are taken.

/// Identifications of a train's packets are below (`UDP_MAX_SEGMENTS`).
const TRAIN: u16 = 64;
/// So many packets with such identifications, and the peer is taken to have no others.
const ENOUGH: u8 = 3;
/// A counter goes on by no more between two packets that come.
const STEP: u16 = 1024;

/// What is known of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identifications {
    /// Packets that had one of a train, up to [`ENOUGH`].
    low: u8,
    /// The last other one that was not taken.
    other: Option<u16>,
    /// It has a counter.
    counts: bool,
}

impl Identifications {
    /// Whether a packet with this one is taken.
    pub fn admits(&mut self, identification: u16) -> bool {
        if identification < TRAIN {
            self.low = (self.low + 1).min(ENOUGH);
            return true;
        }
        if self.counts || self.low < ENOUGH {
            return true;
        }
        // Two that follow each other are no accident.
        let step = self.other.map(|other| identification.wrapping_sub(other));
        self.counts = step.is_some_and(|step| (1..=STEP).contains(&step));
        self.other = Some(identification);
        self.counts
    }

    /// Whether the peer is one that was seen to have no others than those of trains.
    #[inline]
    #[must_use]
    pub fn are_of_trains(&self) -> bool {
        self.low == ENOUGH && !self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_a_counter_has_no_other_identifications() {
        let mut known = Identifications::default();
        assert!(known.admits(40_000) && !known.are_of_trains(), "nothing is known yet");
        assert!((0..64).all(|number| known.admits(number)) && known.are_of_trains());
        for damaged in [64, 9_000, 400, 65_535, 3_000] {
            assert!(!known.admits(damaged), "{damaged}");
            assert!(known.admits(0));
        }
    }

    #[test]
    fn a_counter_goes_on_wherever_it_stood() {
        let mut known = Identifications::default();
        // It passes those of trains at first.
        assert!((60..64).all(|number| known.admits(number)));
        assert!(!known.admits(64));
        assert!(known.admits(66) && !known.are_of_trains(), "it counts");
        assert!([67, 1_000, 65_535, 0, 9].into_iter().all(|number| known.admits(number)));
        let mut known = Identifications::default();
        assert!((1_000..2_000).all(|number| known.admits(number)));
    }
}
