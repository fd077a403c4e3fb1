//! Faults on request, for programs whose error paths are to be tried: requests that get no answer, come late,
//! twice, in another order or end with a status, registrations that fail, messages of rdma_cm that are lost, a
//! link that goes down.
//!
//! `IRONVERBS_SOFT_FAULTS` says which ([`Spec::parse`]), and is read once, when a process opens the device for
//! the first time. All that is left to chance follows from a seed: the n-th decision of a process is the same
//! each time.
//!
//! | file | subject |
//! |---|---|
//! | `spec` | how they are asked for |
//! | `line` | when so many bytes have gone |
//! | `link` | when the link goes down and comes back |
//! | this | what becomes of a request, a packet, a registration, a message |

mod line;
mod link;
mod spec;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ironverbs_os::environment::trusted;
use ironverbs_os::growth::try_box;
use once_cell::race::OnceBox;

use crate::rules::verbs::{Opcode, Status};
use line::Line;
pub use spec::Spec;
use spec::Which;

const NOT_YET: u64 = u64::MAX;

/// What becomes of a try of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out.
    Carried,
    /// It is, twice.
    Twice,
    /// It is behind the next one.
    Behind,
    /// It is not, and nobody answers.
    Lost,
    /// It ends with this status.
    Fails(Status),
}

/// What becomes of a packet of another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// How often it has come.
    pub(crate) copies: usize,
    /// It comes behind the next one.
    pub(crate) is_behind: bool,
}

/// The faults of a process.
#[derive(Debug)]
pub struct Faults {
    spec: Spec,
    made: Instant,
    line: Line,
    /// When the link's time began, in nanoseconds since then; [`NOT_YET`].
    link_began: AtomicU64,
    decisions: AtomicU64,
    requests: AtomicU32,
    registrations: AtomicU32,
    messages: AtomicU32,
}

// Without a lock, which a forked child would find taken for ever.
static ACTIVE: OnceBox<Faults> = OnceBox::new();

/// The process's faults; `None` before the device is opened, and where none are asked for.
#[inline]
pub fn active() -> Option<&'static Faults> {
    ACTIVE.get()
}

/// Begins with the faults that the environment asks for, once. A mistake is said on standard error.
pub(crate) fn begin() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if let Err(why) = read()
        && !IS_SAID.swap(true, Ordering::Relaxed)
    {
        eprintln!("ironverbs: no faults: {why}");
    }
}

/// The same for a library beside the one that opens the device, which has faults of its own and counts for
/// itself.
///
/// # Errors
/// What is wrong with the environment's words: there are no faults then.
pub fn try_begin() -> Result<(), String> {
    read()?;
    if let Some(faults) = active() {
        faults.begin_link();
    }
    Ok(())
}

fn read() -> Result<(), String> {
    if active().is_some() {
        return Ok(());
    }
    let Some(text) = trusted("IRONVERBS_SOFT_FAULTS").filter(|text| !text.is_empty()) else { return Ok(()) };
    let spec = Spec::parse(&text.to_string_lossy())?;
    let faults = try_box(Faults::new(spec)).map_err(|_| "no memory".to_string())?;
    // Another thread may have been first, with the same faults.
    drop(ACTIVE.set(faults));
    Ok(())
}

impl Faults {
    fn new(spec: Spec) -> Self {
        Self {
            spec,
            made: Instant::now(),
            line: Line::new(spec.rate),
            link_began: NOT_YET.into(),
            decisions: 0.into(),
            requests: 0.into(),
            registrations: 0.into(),
            messages: 0.into(),
        }
    }

    #[cfg(test)]
    pub(crate) fn asked_for(text: &str) -> Self {
        Self::new(Spec::parse(text).unwrap())
    }

    /// Whether what has this share of a million happens now: splitmix64 of the seed and the decision's number.
    fn happens(&self, share: u32) -> bool {
        if share == 0 {
            return false;
        }
        let nth = self.decisions.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut state = self.spec.seed.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (state ^ state >> 31) % 1_000_000 < u64::from(share)
    }

    /// The status with which a request ends that is tried for the first time, where it does.
    pub(crate) fn failure(&self, opcode: Opcode) -> Option<Status> {
        let fail = self.spec.fail.filter(|fail| fail.operation.is(opcode))?;
        let nth = self.requests.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        (nth == fail.nth).then_some(fail.status)
    }

    /// What becomes of a request of so many bytes. `is_first`: it was not tried before. Waits as long as it is
    /// late.
    pub(crate) fn request(&self, opcode: Opcode, bytes: u64, is_datagram: bool, is_first: bool) -> Fate {
        if is_first && let Some(status) = self.failure(opcode) {
            return Fate::Fails(status);
        }
        if matches!(opcode, Opcode::LocalInv | Opcode::BindMw) {
            // Nobody else takes part.
            return Fate::Carried;
        }
        if self.is_link_down() {
            return Fate::Lost;
        }
        self.wait_for_line(bytes);
        if self.happens(self.spec.loss) {
            Fate::Lost
        } else if is_datagram && self.happens(self.spec.duplicate) {
            Fate::Twice
        } else if is_datagram && self.happens(self.spec.reorder) {
            Fate::Behind
        } else {
            Fate::Carried
        }
    }

    /// What becomes of a packet of another host.
    pub(crate) fn packet(&self) -> Arrival {
        if self.is_link_down() || self.happens(self.spec.loss) {
            return Arrival { copies: 0, is_behind: false };
        }
        let copies = 1 + usize::from(self.happens(self.spec.duplicate));
        Arrival { copies, is_behind: self.happens(self.spec.reorder) }
    }

    /// How much later a packet of another host is taken, in nanoseconds.
    pub(crate) fn packet_delay(&self) -> u64 {
        u64::try_from(self.spec.delay.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Packets of so many bytes leave for another host.
    pub(crate) fn packets_leave(&self, bytes: u64) {
        if self.spec.rate > 0 {
            self.line.send(self.elapsed(), bytes);
        }
    }

    /// How many nanoseconds it is until others may; `None`: now.
    pub(crate) fn line_is_busy_for(&self) -> Option<u64> {
        if self.spec.rate > 0 { self.line.busy_for(self.elapsed()) } else { None }
    }

    /// Waits until that is over.
    pub(crate) fn wait_while_line_is_busy(&self) {
        if let Some(busy) = self.line_is_busy_for() {
            std::thread::sleep(Duration::from_nanos(busy));
        }
    }

    /// Waits until so many bytes have gone, and come.
    fn wait_for_line(&self, bytes: u64) {
        if self.spec.rate == 0 && self.spec.delay.is_zero() {
            return;
        }
        let now = self.elapsed();
        let gone = Duration::from_nanos(self.line.send(now, bytes).saturating_sub(now));
        std::thread::sleep(gone.saturating_add(self.spec.delay));
    }

    /// Whether a registration of memory fails.
    pub(crate) fn registration(&self) -> bool {
        let nth = self.spec.register;
        nth.is_some_and(|nth| self.registrations.fetch_add(1, Ordering::Relaxed) + 1 == nth)
    }

    /// Whether the link is down.
    pub fn is_link_down(&self) -> bool {
        self.has_link() && self.link_changes() % 2 == 1
    }

    /// Whether it ever is.
    pub(crate) fn has_link(&self) -> bool {
        self.spec.link.is_some()
    }

    /// The time counts from now on after which the link goes down, unless it does already; how often it has
    /// changed.
    pub(crate) fn begin_link(&self) -> u32 {
        let now = self.elapsed().min(NOT_YET - 1);
        let order = Ordering::Relaxed;
        // Who begins it finds it as it was at the beginning, however long that takes.
        let began = self.link_began.compare_exchange(NOT_YET, now, order, order);
        if began.is_ok() { self.changes_by(Duration::ZERO) } else { self.link_changes() }
    }

    /// How often it has changed.
    pub(crate) fn link_changes(&self) -> u32 {
        self.changes_by(self.link_time())
    }

    fn changes_by(&self, time: Duration) -> u32 {
        self.spec.link.map_or(0, |link| link.changes_by(time))
    }

    /// How long it is until it changes after so many times; `None`: it does not.
    pub(crate) fn until_link_change(&self, changes: u32) -> Option<Duration> {
        let at = self.spec.link.and_then(|link| link.next_after(changes))?;
        Some(at.saturating_sub(self.link_time()))
    }

    fn link_time(&self) -> Duration {
        match self.link_began.load(Ordering::Relaxed) {
            NOT_YET => Duration::ZERO,
            began => Duration::from_nanos(self.elapsed().saturating_sub(began)),
        }
    }

    /// Nanoseconds.
    fn elapsed(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether a message of rdma_cm that is about to leave is lost: a MAD of this kind (`AttributeID`).
    pub fn loses_message(&self, kind: u16) -> bool {
        if self.is_link_down() {
            return true;
        }
        let Some(lost) = self.spec.cm.filter(|lost| lost.kind.is_none_or(|meant| meant == kind)) else {
            return false;
        };
        match lost.which {
            Which::Nth(nth) => self.messages.fetch_add(1, Ordering::Relaxed).wrapping_add(1) == nth,
            Which::Share(share) => self.happens(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::link::Link;
    use super::spec::{Failure, LostMessages, Operation};
    use super::*;

    #[test]
    fn chance_follows_from_the_seed() {
        let fates = |seed: u64| {
            let faults = Faults::new(Spec { seed, loss: 300_000, duplicate: 300_000, ..Spec::default() });
            (0..1000).map(|_| faults.request(Opcode::Send, 8, true, true)).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
        let lost = fates(1).iter().filter(|fate| **fate == Fate::Lost).count();
        let twice = fates(1).iter().filter(|fate| **fate == Fate::Twice).count();
        assert!((200..400).contains(&lost) && (130..290).contains(&twice), "{lost} {twice}");
    }

    #[test]
    fn the_nth_request_fails_once() {
        let fail = Some(Failure { operation: Operation::Read, nth: 2, status: Status::RemOpErr });
        let faults = Faults::new(Spec { fail, register: Some(2), ..Spec::default() });
        let fate = |opcode, is_first| faults.request(opcode, 8, false, is_first);
        assert_eq!(fate(Opcode::RdmaRead, true), Fate::Carried);
        assert_eq!(fate(Opcode::RdmaWrite, true), Fate::Carried);
        assert_eq!(fate(Opcode::RdmaRead, false), Fate::Carried);
        assert_eq!(fate(Opcode::RdmaRead, true), Fate::Fails(Status::RemOpErr));
        assert_eq!(fate(Opcode::RdmaRead, true), Fate::Carried);
        assert_eq!([(); 3].map(|()| faults.registration()), [false, true, false]);
    }

    #[test]
    fn messages_are_lost_by_kind_and_number() {
        let lost = |kind, which| {
            let cm = Some(LostMessages { kind, which });
            let faults = Faults::new(Spec { cm, ..Spec::default() });
            [0x10, 0x14, 0x10, 0x14].map(|kind| faults.loses_message(kind))
        };
        assert_eq!(lost(Some(0x14), Which::Nth(2)), [false, false, false, true]);
        assert_eq!(lost(None, Which::Nth(2)), [false, true, false, false]);
        assert_eq!(lost(Some(0x10), Which::Share(1_000_000)), [true, false, true, false]);
        assert!(!Faults::new(Spec::default()).loses_message(0x10));
    }

    #[test]
    fn nothing_passes_while_the_link_is_down() {
        let faults = |link| Faults::new(Spec { link: Some(link), ..Spec::default() });
        let down = faults(Link { down: Duration::ZERO, up: None });
        assert_eq!((down.begin_link(), down.link_changes(), down.is_link_down()), (1, 1, true));
        assert_eq!(down.request(Opcode::RdmaWrite, 8, false, true), Fate::Lost);
        assert_eq!((down.packet().copies, down.loses_message(0x10)), (0, true));
        let later = faults(Link { down: Duration::from_secs(3000), up: None });
        assert_eq!((later.begin_link(), later.begin_link(), later.is_link_down()), (0, 0, false));
        assert!(later.until_link_change(0).is_some() && later.until_link_change(1).is_none());
        let back = faults(Link { down: Duration::ZERO, up: Some(Duration::ZERO) });
        assert_eq!((back.link_changes(), back.packet().copies), (2, 1));
    }
}
