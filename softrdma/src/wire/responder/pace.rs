//! How fast answers leave, once the peer has said that the network is congested on their way.
//!
//! No acknowledgement says what became of an answer. So it is not counted how many are under way, as of
//! requests, but how many leave in a stretch of time that is like a round trip: half as many as before in the
//! one in which a notification came, one more in each that is without.

/// Packets of answers in a stretch: what may be under way of requests, which is as good as no limit.
const MOST: u32 = 128;
/// The fewest.
const LEAST: u32 = 2;
/// A stretch, in nanoseconds.
const STRETCH: u64 = 100_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    /// Packets of a stretch.
    size: u32,
    /// Those that may still leave in this one, and when it ends.
    left: u32,
    ends: u64,
    /// In this one a notification came.
    is_told: bool,
}

impl Pace {
    /// As fast as it goes.
    pub(super) const fn new() -> Self {
        Self { size: MOST, left: 0, ends: 0, is_told: false }
    }

    /// A notification came.
    // rule: wire-congestion
    pub(super) fn congested(&mut self, now: u64) {
        self.follow(now);
        if !self.is_told {
            if self.size == MOST {
                (self.left, self.ends) = (MOST, now.saturating_add(STRETCH));
            }
            self.size = (self.size / 2).max(LEAST);
            (self.left, self.is_told) = (self.left.min(self.size), true);
        }
    }

    /// Whether a packet may leave at this time.
    pub(super) fn allows(&mut self, now: u64) -> bool {
        self.size == MOST || {
            self.follow(now);
            self.left > 0 || self.size == MOST
        }
    }

    /// A packet leaves.
    pub(super) fn leaves(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// When the next one may, where none may now.
    pub(super) fn resumes(&self) -> u64 {
        self.ends
    }

    /// Goes on to the stretch of this time.
    fn follow(&mut self, now: u64) {
        if self.size == MOST || now < self.ends {
            return;
        }
        let stretches = (now - self.ends) / STRETCH + u64::from(!self.is_told);
        self.size = self.size.saturating_add(u32::try_from(stretches).unwrap_or(MOST)).min(MOST);
        (self.left, self.ends, self.is_told) = (self.size, now.saturating_add(STRETCH), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(pace: &mut Pace, now: u64) -> u32 {
        let mut left = 0;
        while left < 1000 && pace.allows(now) {
            pace.leaves();
            left += 1;
        }
        left
    }

    #[test]
    // rule: wire-congestion
    fn half_as_many_leave_once_in_a_stretch_and_more_later() {
        let mut pace = Pace::new();
        assert_eq!(leave(&mut pace, 5), 1000);
        pace.congested(10);
        pace.congested(11);
        assert_eq!((leave(&mut pace, 12), pace.resumes()), (64, 10 + STRETCH));
        assert_eq!(leave(&mut pace, 9 + STRETCH), 0);
        // None more behind the stretch in which it was told.
        assert_eq!(leave(&mut pace, 10 + STRETCH), 64);
        assert_eq!(leave(&mut pace, 10 + 2 * STRETCH), 65);
        for stretch in 3..20 {
            pace.congested(10 + stretch * STRETCH);
        }
        assert_eq!(leave(&mut pace, 11 + 19 * STRETCH), LEAST);
        // What nobody used passes as well.
        assert_eq!(leave(&mut pace, 10 + 30 * STRETCH), LEAST + 10);
        assert_eq!(leave(&mut pace, 10 + 1000 * STRETCH), 1000);
    }
}
