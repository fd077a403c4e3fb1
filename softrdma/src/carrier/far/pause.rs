//! What did not leave, and when it is tried again.

/// The first pause, in nanoseconds: a packet or two leave meanwhile.
const SHORTEST: u64 = 5_000;
/// The longest, where nothing leaves at all.
const LONGEST: u64 = 4_000_000;

/// A pause, each twice as long as the one before it where nothing left between them.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pause {
    until: u64,
    length: u64,
}

impl Pause {
    /// There was no room at this time, or too little: until when there is a pause.
    pub(crate) fn begin(&mut self, now: u64, has_sent: bool) -> u64 {
        self.length = if has_sent { SHORTEST } else { (2 * self.length).clamp(SHORTEST, LONGEST) };
        self.until = now.saturating_add(self.length);
        self.until
    }

    /// There is none until this time.
    pub(crate) fn hold(&mut self, until: u64) {
        *self = Self { until, length: SHORTEST };
    }

    /// There was room.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Until when there is a pause, or was one.
    pub(crate) fn until(&self) -> Option<u64> {
        (self.length > 0).then_some(self.until)
    }
}

/// What is left of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// None.
    Nothing,
    /// Some that leave with the next look at the network.
    Some,
    /// Those for which there was no room, behind some that have left or not.
    NoRoom { has_sent: bool },
    /// Some that leave at this time.
    Later(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_longer_until_there_is_room() {
        let mut pause = Pause::default();
        assert_eq!(pause.until(), None);
        for length in (0..10).map(|n| 5_000 << n).chain([4_000_000]) {
            assert_eq!(pause.begin(7, false), 7 + length);
            assert_eq!(pause.until(), Some(7 + length));
        }
        assert_eq!(pause.begin(7, true), 5_007);
        pause.end();
        assert_eq!((pause.until(), pause.begin(0, false)), (None, 5_000));
        pause.hold(9);
        assert_eq!(pause.until(), Some(9));
    }
}
