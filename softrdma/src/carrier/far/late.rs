//! Packets that are taken later than they came, where faults on request ask for that: all of them, by a delay,
//! or some behind the next one.

use std::collections::VecDeque;

use ironverbs_os::growth::{TryPush, try_collect};

use super::port::flow::Flow;
use crate::faults::Faults;

/// So many packets wait at most: others are lost, as in a network whose queues are full.
const MOST: usize = 4096;
/// So long one waits for the next, in nanoseconds.
const ALONE: u64 = 2_000_000;

/// See the module. Times are nanoseconds of one clock.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Those of a delay, oldest first.
    waiting: VecDeque<Kept>,
    /// One that comes behind the next.
    behind: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    at: u64,
    flow: Flow,
    bytes: Vec<u8>,
}

impl Kept {
    /// `None` where there is no memory: the packet is lost.
    fn new(at: u64, flow: &Flow, bytes: &[u8]) -> Option<Self> {
        Some(Self { at, flow: *flow, bytes: try_collect(bytes.iter().copied()).ok()? })
    }
}

impl Late {
    /// A packet came: tells it now, twice, later or not at all, as the faults say.
    pub(super) fn came(
        &mut self,
        faults: &Faults,
        now: u64,
        flow: &Flow,
        bytes: &[u8],
        tell: &mut impl FnMut(&Flow, &[u8]),
    ) {
        let fate = faults.packet();
        if fate.is_behind && fate.copies > 0 && self.behind.is_none() {
            self.behind = Kept::new(now.saturating_add(ALONE), flow, bytes);
            return;
        }
        let at = now.saturating_add(faults.packet_delay());
        for _ in 0..fate.copies {
            self.deliver(now, at, flow, bytes, tell);
        }
        if fate.copies > 0
            && let Some(Kept { flow, bytes, .. }) = self.behind.take()
        {
            self.deliver(now, at, &flow, &bytes, tell);
        }
    }

    fn deliver(&mut self, now: u64, at: u64, flow: &Flow, bytes: &[u8], tell: &mut impl FnMut(&Flow, &[u8])) {
        if at <= now {
            tell(flow, bytes);
        } else if self.waiting.len() < MOST
            && let Some(kept) = Kept::new(at, flow, bytes)
        {
            let _lost = self.waiting.try_push(kept);
        }
    }

    /// Tells those whose time has come.
    pub(super) fn tell_due(&mut self, faults: &Faults, now: u64, tell: &mut impl FnMut(&Flow, &[u8])) {
        if let Some(Kept { flow, bytes, .. }) = self.behind.take_if(|kept| kept.at <= now) {
            self.deliver(now, now.saturating_add(faults.packet_delay()), &flow, &bytes, tell);
        }
        while self.waiting.front().is_some_and(|kept| kept.at <= now)
            && let Some(Kept { flow, bytes, .. }) = self.waiting.pop_front()
        {
            tell(&flow, &bytes);
        }
    }

    /// When the next is to be told; never, where none waits.
    pub(super) fn next_due(&self) -> u64 {
        let first = self.waiting.front().into_iter().chain(&self.behind);
        first.map(|kept| kept.at).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn flow() -> Flow {
        Flow {
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::LOCALHOST,
            source_port: 1,
            destination_port: 2,
            interface: 0,
            traffic_class: 0,
            hop_limit: 0,
            label: 0,
        }
    }

    /// Packets that came one after the other at these times, and were looked for at others: what was told.
    fn told(spec: &str, came: &[(u64, u8)], looks: &[u64]) -> Vec<(u64, u8)> {
        let faults = Faults::asked_for(spec);
        let (mut late, mut told) = (Late::default(), Vec::new());
        let mut came = came.iter().peekable();
        for now in looks {
            let mut tell = |_: &Flow, bytes: &[u8]| told.push((*now, bytes[0]));
            while let Some((_, byte)) = came.next_if(|(at, _)| at <= now) {
                late.came(&faults, *now, &flow(), &[*byte], &mut tell);
            }
            late.tell_due(&faults, *now, &mut tell);
        }
        told
    }

    #[test]
    fn a_delay_keeps_their_order() {
        let all = told("delay=1ms", &[(0, 1), (500_000, 2)], &[0, 500_000, 999_999, 1_000_000, 1_500_000]);
        assert_eq!(all, [(1_000_000, 1), (1_500_000, 2)]);
    }

    #[test]
    fn one_comes_behind_the_next_or_a_little_later() {
        let all = told("reorder=100%", &[(0, 1), (1, 2), (2, 3)], &[0, 1, 2, ALONE, ALONE + 2]);
        assert_eq!(all, [(1, 2), (1, 1), (ALONE + 2, 3)]);
        let both = told("reorder=100%,delay=1ms", &[(0, 1), (1, 2)], &[0, 1, 1_000_001]);
        assert_eq!(both, [(1_000_001, 2), (1_000_001, 1)]);
    }

    #[test]
    fn what_is_lost_takes_no_room() {
        let mut late = Late::default();
        late.came(&Faults::asked_for("loss=100%,delay=1s"), 0, &flow(), &[1], &mut |_, _| ());
        assert_eq!(late.next_due(), u64::MAX);
        let faults = Faults::asked_for("delay=1s");
        for _ in 0..MOST + 5 {
            late.came(&faults, 0, &flow(), &[1], &mut |_, _| ());
        }
        assert_eq!((late.waiting.len(), late.next_due()), (MOST, 1_000_000_000));
    }
}
