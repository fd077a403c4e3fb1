//! Packet sequence numbers: 24 bits that wrap around (IBA vol. 1 §9.2.1, §9.7.1).

use std::ops::{Add, Sub};

/// Packet sequence number. There is no order of all of them, as they stand in a circle: of two that are less
/// than 2^23 apart it is known which comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Psn(u32);

impl Psn {
    /// How many there are: 2^24.
    pub const COUNT: u32 = 1 << 24;

    const MASK: u32 = Self::COUNT - 1;

    /// The low 24 bits of a number, as `rq_psn` and `sq_psn` of queue pairs are taken.
    #[must_use]
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number & Self::MASK)
    }

    /// Its number, below 2^24.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The one behind it.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// The one before it.
    #[must_use]
    #[inline]
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// The one so many steps further.
    #[must_use]
    #[inline]
    pub const fn plus(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_add(steps))
    }

    /// By how many steps it is ahead of another, negative where it is behind: from -2^23 to 2^23 - 1.
    #[must_use]
    #[inline]
    pub const fn ahead_of(self, other: Self) -> i32 {
        // rule: wire-psn
        (self.0.wrapping_sub(other.0) << 8).cast_signed() >> 8
    }

    /// How many steps lead from another to this one, always forwards: from 0 to 2^24 - 1.
    #[must_use]
    #[inline]
    pub const fn steps_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0) & Self::MASK
    }

    /// Whether it comes before another.
    #[must_use]
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.ahead_of(other) < 0
    }

    /// Whether it comes behind another.
    #[must_use]
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        self.ahead_of(other) > 0
    }

    /// Whether it is one of `count` numbers in a row from `first` on.
    #[must_use]
    #[inline]
    pub const fn is_within(self, first: Self, count: u32) -> bool {
        self.steps_from(first) < count
    }
}

impl Add<u32> for Psn {
    type Output = Self;

    #[inline]
    fn add(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_add(steps))
    }
}

impl Sub<u32> for Psn {
    type Output = Self;

    #[inline]
    fn sub(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_sub(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAST: Psn = Psn(0xff_ffff);

    #[test]
    fn behind_the_last_is_the_first() {
        assert_eq!(LAST.next(), Psn(0));
        assert_eq!(Psn(0).previous(), LAST);
        assert_eq!(Psn::new(0x1234_5678), Psn(0x34_5678));
        assert_eq!(LAST + 2, Psn(1));
        assert_eq!(Psn(1) - 2, LAST);
        assert!(LAST.is_before(Psn(0)) && Psn(0).is_after(LAST));
        assert!(Psn(1).is_within(LAST, 3) && !Psn(2).is_within(LAST, 3) && !LAST.is_within(LAST, 0));
    }

    #[test]
    // rule: wire-psn
    fn half_the_circle_away_is_behind() {
        let half = Psn(1 << 23);
        assert_eq!(half.ahead_of(Psn(0)), -(1 << 23));
        assert_eq!(Psn(0).ahead_of(half), -(1 << 23));
        assert_eq!(half.previous().ahead_of(Psn(0)), (1 << 23) - 1);
        assert_eq!(half.steps_from(Psn(0)), 1 << 23);
        assert!(!LAST.is_before(LAST) && !LAST.is_after(LAST));
    }

    proptest! {
        #[test]
        fn steps_lead_there_and_back(from: u32, steps: u32) {
            let from = Psn::new(from);
            let to = from + steps;
            prop_assert_eq!(to - steps, from);
            prop_assert_eq!(to.steps_from(from), steps % Psn::COUNT);
            prop_assert_eq!(from + to.steps_from(from), to);
            let ahead = to.ahead_of(from);
            prop_assert_eq!(ahead.rem_euclid(1 << 24).unsigned_abs(), steps % Psn::COUNT);
            prop_assert_eq!(to.is_before(from), ahead < 0);
            prop_assert_eq!(to.is_after(from), ahead > 0);
        }
    }
}
