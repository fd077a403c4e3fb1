//! A line over which no more bytes go in a second than it may have.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// See the module. Times are nanoseconds of one clock.
#[derive(Debug)]
pub(super) struct Line {
    /// Bytes a second; 0: any number.
    rate: u64,
    /// When all that was sent has gone.
    free: AtomicU64,
}

impl Line {
    /// One over which nothing has gone.
    pub(super) fn new(rate: u64) -> Self {
        Self { rate, free: 0.into() }
    }

    /// Sends so many bytes at this time, behind those that have not gone; when they have.
    pub(super) fn send(&self, now: u64, bytes: u64) -> u64 {
        if self.rate == 0 {
            return now;
        }
        let takes = u128::from(bytes) * SECOND / u128::from(self.rate);
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        let behind = |free: u64| free.max(now).saturating_add(takes);
        let before = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(behind(free)));
        behind(before.unwrap_or(now))
    }

    /// How long it takes until all has gone; `None`: it has.
    pub(super) fn busy_for(&self, now: u64) -> Option<u64> {
        let free = self.free.load(Ordering::Relaxed);
        (free > now).then(|| free - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_one_after_the_other() {
        let line = Line::new(1000);
        assert_eq!(line.send(5_000_000, 10), 15_000_000);
        assert_eq!(line.send(6_000_000, 10), 25_000_000);
        assert_eq!((line.busy_for(20_000_000), line.busy_for(25_000_000)), (Some(5_000_000), None));
        assert_eq!(line.send(100_000_000, 1), 101_000_000);
        let free = Line::new(0);
        assert_eq!((free.send(7, u64::MAX), free.busy_for(7)), (7, None));
        assert_eq!(Line::new(1).send(7, u64::MAX), u64::MAX);
    }
}
