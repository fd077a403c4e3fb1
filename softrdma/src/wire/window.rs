//! How many packets may be under way: what neither network nor receive buffer of the peer has to lose.
//!
//! A window of packets that are sent and not yet acknowledged, which grows as TCP's does (RFC 5681): by every
//! packet that is acknowledged until something was lost, then by about three packets in two round trips. With
//! one in each as TCP has it, flows that meet at one queue take turns so seldom that their shares differ by a
//! fifth over seconds; three in two cost 3 of 100 of the bandwidth there (`benches/congestion.rs`). A loss
//! takes three tenths of it (RFC 9438 §4.6: the shares of flows that meet differ less than where it takes
//! half), a mark of congestion half, once for all that was lost or marked in one round trip: as long as no
//! packet is acknowledged that was sent after it.
//!
//! Where a round trip is short, more packets than [`MOST`] would wait in queues and in the peer's receive
//! buffer alone. Where it is long, they are on the way, so there may be more, and they become more one by one.

/// Most packets under way, as soft-RoCE's requester has (`RXE_MAX_UNACKED_PSNS`), where a round trip is short.
pub const MOST: u32 = 128;

/// Most on any way.
pub const MOST_FAR: u32 = 1024;

/// Nanoseconds in which a processor sends about as many packets as [`MOST`]: a round trip that takes no longer
/// is short.
const SHORT: u64 = 200_000;

/// Packets under way at the beginning.
pub const START: u32 = 16;

/// Fewest: with two, the peer is asked for an acknowledgement of the first before the second is answered.
const LEAST: u32 = 2;

/// A window. Packets are counted from the queue pair's first on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    size: u32,
    limit: u32,
    /// By the round trip.
    most: u32,
    /// Below that it grows by every packet.
    threshold: u32,
    /// Acknowledged since it grew last, above the threshold.
    acknowledged: u32,
    /// Losses of packets before that one have been answered for.
    answered_for: u64,
}

impl Window {
    /// That of a fresh connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: START, limit: MOST_FAR, most: MOST, threshold: MOST, acknowledged: 0, answered_for: 0 }
    }

    /// How many packets may be under way.
    #[must_use]
    #[inline]
    pub const fn size(&self) -> u32 {
        if self.size < self.limit { self.size } else { self.limit }
    }

    /// Whether something was lost, and it has not grown to what it was before.
    #[must_use]
    #[inline]
    pub const fn was_cut(&self) -> bool {
        self.threshold < MOST && self.size < MOST
    }

    /// Sets how many it may be at most: what the peer has room for. At least one, at most [`MOST_FAR`].
    pub fn set_limit(&mut self, packets: u32) {
        self.limit = packets.clamp(1, MOST_FAR);
    }

    /// A round trip takes so many nanoseconds where nothing waits on the way: the shortest that was seen.
    pub fn set_round_trip(&mut self, nanoseconds: u64) {
        let most = nanoseconds.saturating_mul(MOST.into()) / SHORT;
        self.most = most.clamp(MOST.into(), MOST_FAR.into()) as u32;
    }

    /// So many packets were acknowledged, of so many that were under way. One that was not used by half says
    /// nothing of what the network bears, and does not grow.
    pub fn acknowledged(&mut self, packets: u32, under_way: u32) {
        if under_way.saturating_mul(2) < self.size() {
            return;
        }
        if self.size < self.threshold {
            self.size = self.size.saturating_add(packets).min(self.threshold);
        } else {
            self.acknowledged = self.acknowledged.saturating_add(packets);
            if self.acknowledged.saturating_mul(3) >= self.size * 2 {
                self.acknowledged = 0;
                self.size += 1;
            }
        }
        self.size = self.size.min(self.most);
    }

    /// The packet `lost` was lost; `sent` is the one behind the last that was sent.
    pub fn lost(&mut self, lost: u64, sent: u64) {
        self.cut(lost, sent, 7);
    }

    /// The network is congested, and `oldest` is the oldest packet that is not acknowledged.
    // rule: wire-congestion
    pub fn congested(&mut self, oldest: u64, sent: u64) {
        self.cut(oldest, sent, 5);
    }

    /// So many tenths of it are left.
    fn cut(&mut self, lost: u64, sent: u64, tenths: u32) {
        if lost < self.answered_for {
            return;
        }
        // Where all are acknowledged, once for those that are next.
        self.answered_for = sent.max(lost + 1);
        self.size = (self.size() * tenths / 10).max(LEAST);
        self.threshold = self.size;
        self.acknowledged = 0;
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_fast_then_slowly() {
        let mut window = Window::new();
        assert_eq!(window.size(), START);
        window.acknowledged(16, 16);
        assert_eq!(window.size(), 32);
        window.lost(16, 48);
        assert_eq!(window.size(), 22);
        window.acknowledged(14, 22);
        assert_eq!(window.size(), 22);
        window.acknowledged(1, 22);
        assert_eq!(window.size(), 23);
        (0..100_000).for_each(|_| window.acknowledged(1, 128));
        assert_eq!(window.size(), MOST);
    }

    #[test]
    fn holds_more_where_a_round_trip_is_long() {
        let grown = |nanoseconds| {
            let mut window = Window::new();
            window.set_round_trip(nanoseconds);
            (0..2_000_000).for_each(|_| window.acknowledged(1, window.size()));
            window.size()
        };
        assert_eq!([0, 20_000, SHORT].map(grown), [MOST; 3]);
        assert_eq!([2 * SHORT, 3 * SHORT].map(grown), [2 * MOST, 3 * MOST]);
        assert_eq!([8 * SHORT, u64::MAX].map(grown), [MOST_FAR; 2]);
        // Not at once: of what is lost beyond that all is sent again.
        let mut window = Window::new();
        window.set_round_trip(u64::MAX);
        (0..7).for_each(|_| window.acknowledged(window.size(), window.size()));
        assert_eq!(window.size(), MOST + 4);
        // The way has become another.
        (0..2_000_000).for_each(|_| window.acknowledged(1, window.size()));
        window.set_round_trip(SHORT);
        window.acknowledged(1, window.size());
        assert_eq!(window.size(), MOST);
    }

    #[test]
    fn what_was_not_used_does_not_grow() {
        let mut window = Window::new();
        (0..1000).for_each(|_| window.acknowledged(1, 7));
        assert_eq!(window.size(), START);
        window.acknowledged(1, 8);
        assert_eq!(window.size(), START + 1);
    }

    #[test]
    fn is_cut_once_a_round_trip() {
        let mut window = Window::new();
        window.acknowledged(48, 64);
        assert_eq!(window.size(), 64);
        window.congested(10, 74);
        window.congested(10, 74);
        window.lost(73, 90);
        assert_eq!(window.size(), 32);
        window.lost(74, 90);
        assert_eq!(window.size(), 22);
        (90..1000).for_each(|packet| window.lost(packet, packet + 1));
        assert_eq!(window.size(), LEAST);
    }

    #[test]
    // rule: wire-congestion
    fn is_cut_once_where_nothing_is_under_way() {
        let mut window = Window::new();
        (0..5).for_each(|_| window.congested(7, 7));
        assert_eq!(window.size(), START / 2);
        window.congested(8, 8);
        assert_eq!(window.size(), START / 4);
    }

    #[test]
    fn keeps_to_what_the_peer_has_room_for() {
        let mut window = Window::new();
        window.set_limit(5);
        assert_eq!(window.size(), 5);
        window.acknowledged(5, 5);
        assert_eq!(window.size(), 5);
        window.lost(0, 5);
        assert_eq!(window.size(), 3);
        window.set_limit(0);
        assert_eq!(window.size(), 1);
        window.set_limit(1000);
        assert_eq!(window.size(), 3);
    }
}
