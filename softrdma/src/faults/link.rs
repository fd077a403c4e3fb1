//! A link that goes down and comes back.

use std::time::Duration;

/// When it does, from the beginning on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// When it goes down.
    pub(super) down: Duration,
    /// When it comes back; `None`: never.
    pub(super) up: Option<Duration>,
}

impl Link {
    /// How often it has changed by this time: it is down after an odd number of times.
    pub(super) fn changes_by(self, time: Duration) -> u32 {
        u32::from(time >= self.down) + u32::from(self.up.is_some_and(|up| time >= up))
    }

    /// When it changes next after so many times.
    pub(super) fn next_after(self, changes: u32) -> Option<Duration> {
        match changes {
            0 => Some(self.down),
            1 => self.up,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_down_in_between() {
        let seconds = Duration::from_secs;
        let link = Link { down: seconds(2), up: Some(seconds(5)) };
        assert_eq!([0, 1, 2, 4, 5, 9].map(|at| link.changes_by(seconds(at))), [0, 0, 1, 1, 2, 2]);
        assert_eq!(
            [0, 1, 2].map(|changes| link.next_after(changes)),
            [Some(seconds(2)), Some(seconds(5)), None]
        );
        let lost = Link { up: None, ..link };
        assert_eq!((lost.changes_by(seconds(9)), lost.next_after(1)), (1, None));
    }
}
