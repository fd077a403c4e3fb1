//! Faults on request, for programs whose error paths are to be tried: requests that get no answer, come late,
//! twice or end with a status, registrations that fail.
//!
//! `IRONVERBS_SOFT_FAULTS` says which ([`Spec::parse`]), and is read once, when a process opens the device for
//! the first time. All that is left to chance follows from a seed: the n-th decision of a process is the same
//! each time.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ironverbs_os::environment::trusted;
use ironverbs_os::growth::try_box;
use once_cell::race::OnceBox;

use crate::rules::verbs::{Opcode, Status};

/// Longest delay of a request.
const MOST_DELAY: Duration = Duration::from_secs(10);

/// Which faults there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spec {
    seed: u64,
    /// Of a million tries, those that get no answer.
    loss: u32,
    /// Of a million datagrams or packets, those that come twice.
    duplicate: u32,
    delay: Duration,
    fail: Option<Failure>,
    register: Option<u32>,
}

/// The request that ends with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    operation: Operation,
    nth: u32,
    status: Status,
}

/// Operations by the words of a specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Any,
    Send,
    Write,
    Read,
    Atomic,
}

const WORDS: [&str; 6] = ["seed", "loss", "duplicate", "delay", "fail", "register"];
const OPERATIONS: [(&str, Operation); 5] = [
    ("any", Operation::Any),
    ("send", Operation::Send),
    ("write", Operation::Write),
    ("read", Operation::Read),
    ("atomic", Operation::Atomic),
];
const STATUSES: [(&str, Status); 16] = [
    ("loc_len_err", Status::LocLenErr),
    ("loc_qp_op_err", Status::LocQpOpErr),
    ("loc_prot_err", Status::LocProtErr),
    ("wr_flush_err", Status::WrFlushErr),
    ("mw_bind_err", Status::MwBindErr),
    ("bad_resp_err", Status::BadRespErr),
    ("loc_access_err", Status::LocAccessErr),
    ("rem_inv_req_err", Status::RemInvReqErr),
    ("rem_access_err", Status::RemAccessErr),
    ("rem_op_err", Status::RemOpErr),
    ("retry_exc_err", Status::RetryExcErr),
    ("rnr_retry_exc_err", Status::RnrRetryExcErr),
    ("rem_abort_err", Status::RemAbortErr),
    ("fatal_err", Status::FatalErr),
    ("resp_timeout_err", Status::RespTimeoutErr),
    ("general_err", Status::GeneralErr),
];

impl Operation {
    fn is(self, opcode: Opcode) -> bool {
        match self {
            Self::Any => true,
            Self::Send => matches!(opcode, Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv),
            Self::Write => matches!(opcode, Opcode::RdmaWrite | Opcode::RdmaWriteWithImm),
            Self::Read => opcode == Opcode::RdmaRead,
            Self::Atomic => matches!(opcode, Opcode::CmpAndSwp | Opcode::FetchAndAdd | Opcode::AtomicWrite),
        }
    }
}

/// How many letters must be changed, added or left out to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let mut row = [0; 33];
    let other = other.as_bytes().get(..other.len().min(32)).unwrap_or_default();
    for (at, place) in row.iter_mut().enumerate() {
        *place = at;
    }
    for (line, letter) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = line + 1;
        for (at, also) in other.iter().enumerate() {
            let changed = before + usize::from(letter != *also);
            before = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

/// What an unknown word is answered by: a few words, once.
#[allow(clippy::disallowed_methods)]
fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|one| distance(word, one)).filter(|one| distance(word, one) <= 3);
    match nearest {
        Some(meant) => format!("no {what} is called '{word}': is '{meant}' meant?"),
        None => format!("no {what} is called '{word}': they are {}", known.join(", ")),
    }
}

fn named<T: Copy>(what: &str, word: &str, known: &[(&str, T)]) -> Result<T, String> {
    let lower = word.to_ascii_lowercase();
    let lower = lower.strip_prefix("ibv_wc_").unwrap_or(&lower);
    let found = known.iter().find(|(name, _)| *name == lower).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let mut names = [""; 16];
        for (to, (name, _)) in names.iter_mut().zip(known) {
            *to = name;
        }
        unknown(what, lower, &names[..known.len().min(16)])
    })
}

/// A share of a million, of a number of percent.
fn share(word: &str, value: &str) -> Result<u32, String> {
    let meant = || format!("{word}={value}: a number of percent from 0 to 100 is meant, as {word}=2.5%");
    let number: f64 = value.strip_suffix('%').unwrap_or(value).parse().map_err(|_| meant())?;
    if (0.0..=100.0).contains(&number) { Ok((number * 10_000.0).round() as u32) } else { Err(meant()) }
}

fn time(word: &str, value: &str) -> Result<Duration, String> {
    let meant = || format!("{word}={value}: a time up to 10s is meant, as {word}=200us or {word}=5ms");
    let end = value.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(meant)?;
    let unit = match &value[end..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(meant()),
    };
    let number: f64 = value[..end].parse().map_err(|_| meant())?;
    let delay = Duration::try_from_secs_f64(number * unit).map_err(|_| meant())?;
    if delay <= MOST_DELAY { Ok(delay) } else { Err(meant()) }
}

fn count(word: &str, value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{word}: '{value}' is no number from 1 on"))
}

impl Spec {
    /// Reads a specification: words with commas between, each at most once.
    ///
    /// | word | fault |
    /// |---|---|
    /// | `seed=N` | what all that is left to chance follows from; 0 |
    /// | `loss=P%` | so many tries of requests get no answer, so many packets of other hosts are lost |
    /// | `duplicate=P%` | so many datagrams, and packets of other hosts, come twice |
    /// | `delay=TIME` | each request is carried out so much later |
    /// | `fail=OPERATION:N:STATUS` | the n-th request of an operation (or `any`) ends with this status |
    /// | `register=N` | the n-th registration of memory fails |
    ///
    /// # Errors
    /// What is wrong, and what may be meant.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut spec, mut seen) = (Self::default(), 0u32);
        for part in text.split(',').map(str::trim) {
            let (word, value) = part.split_once('=').unwrap_or((part, ""));
            let place = WORDS.iter().position(|known| *known == word);
            let place = place.ok_or_else(|| unknown("fault", word, &WORDS))?;
            if seen >> place & 1 == 1 {
                return Err(format!("{word} is there twice"));
            }
            seen |= 1 << place;
            match word {
                "seed" => spec.seed = value.parse().map_err(|_| format!("seed={value} is no number"))?,
                "loss" => spec.loss = share(word, value)?,
                "duplicate" => spec.duplicate = share(word, value)?,
                "delay" => spec.delay = time(word, value)?,
                "register" => spec.register = Some(count(word, value)?),
                _ => {
                    let mut parts = value.split(':');
                    let (Some(operation), Some(nth), Some(status), None) =
                        (parts.next(), parts.next(), parts.next(), parts.next())
                    else {
                        return Err(format!(
                            "fail={value}: OPERATION:N:STATUS is meant, as write:3:REM_ACCESS_ERR"
                        ));
                    };
                    spec.fail = Some(Failure {
                        operation: named("operation", operation, &OPERATIONS)?,
                        nth: count("fail", nth)?,
                        status: named("status", status, &STATUSES)?,
                    });
                }
            }
        }
        Ok(spec)
    }
}

/// What becomes of a try of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out.
    Carried,
    /// It is, twice.
    Twice,
    /// It is not, and nobody answers.
    Lost,
    /// It ends with this status.
    Fails(Status),
}

/// The faults of a process.
#[derive(Debug)]
pub(crate) struct Faults {
    spec: Spec,
    decisions: AtomicU64,
    requests: AtomicU32,
    registrations: AtomicU32,
}

// Without a lock, which a forked child would find taken for ever.
static ACTIVE: OnceBox<Faults> = OnceBox::new();

/// The process's faults; `None` before the device is opened, and where none are asked for.
#[inline]
pub(crate) fn active() -> Option<&'static Faults> {
    ACTIVE.get()
}

/// Begins with the faults that the environment asks for, once. A mistake is said on standard error.
pub(crate) fn begin() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if active().is_some() {
        return;
    }
    let Some(text) = trusted("IRONVERBS_SOFT_FAULTS").filter(|text| !text.is_empty()) else { return };
    let parsed = Spec::parse(&text.to_string_lossy());
    match parsed.and_then(|spec| try_box(Faults::new(spec)).map_err(|_| "no memory".to_string())) {
        // Another thread may have been first, with the same faults.
        Ok(faults) => drop(ACTIVE.set(faults)),
        Err(_) if IS_SAID.swap(true, Ordering::Relaxed) => {}
        Err(why) => eprintln!("ironverbs: no faults: {why}"),
    }
}

impl Faults {
    fn new(spec: Spec) -> Self {
        let (decisions, requests, registrations) = (0.into(), 0.into(), 0.into());
        Self { spec, decisions, requests, registrations }
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

    /// What becomes of a request. `is_first`: it was not tried before.
    pub(crate) fn request(&self, opcode: Opcode, is_datagram: bool, is_first: bool) -> Fate {
        if let Some(fail) = self.spec.fail.filter(|fail| is_first && fail.operation.is(opcode))
            && self.requests.fetch_add(1, Ordering::Relaxed) + 1 == fail.nth
        {
            return Fate::Fails(fail.status);
        }
        if matches!(opcode, Opcode::LocalInv | Opcode::BindMw) {
            // Nobody else takes part.
            return Fate::Carried;
        }
        if !self.spec.delay.is_zero() {
            std::thread::sleep(self.spec.delay);
        }
        if self.happens(self.spec.loss) {
            Fate::Lost
        } else if is_datagram && self.happens(self.spec.duplicate) {
            Fate::Twice
        } else {
            Fate::Carried
        }
    }

    /// How often a packet of another host has come.
    pub(crate) fn packet(&self) -> usize {
        if self.happens(self.spec.loss) { 0 } else { 1 + usize::from(self.happens(self.spec.duplicate)) }
    }

    /// Whether a registration of memory fails.
    pub(crate) fn registration(&self) -> bool {
        let nth = self.spec.register;
        nth.is_some_and(|nth| self.registrations.fetch_add(1, Ordering::Relaxed) + 1 == nth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_is_read_strictly() {
        let spec = Spec::parse(
            "seed=7, loss=2.5%,duplicate=1,delay=200us,fail=write:3:IBV_WC_REM_ACCESS_ERR,register=2",
        );
        let fail = Failure { operation: Operation::Write, nth: 3, status: Status::RemAccessErr };
        assert_eq!(
            spec.unwrap(),
            Spec {
                seed: 7,
                loss: 25_000,
                duplicate: 10_000,
                delay: Duration::from_micros(200),
                fail: Some(fail),
                register: Some(2)
            }
        );
        let wrong = |text: &str, part: &str| {
            let why = Spec::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        };
        wrong("los=1%", "'loss'");
        wrong("fail=wirte:1:rem_op_err", "'write'");
        wrong("fail=write:1:rem_acces_err", "'rem_access_err'");
        wrong("something-else=1", "they are seed, loss");
        wrong("", "they are");
        wrong("loss=1%,loss=2%", "twice");
        wrong("fail=write:3", "OPERATION:N:STATUS");
        for text in [
            "loss=101%",
            "loss=-1",
            "loss=nan",
            "delay=5",
            "delay=11s",
            "delay=5min",
            "register=0",
            "seed=x",
            "loss",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chance_follows_from_the_seed() {
        let fates = |seed: u64| {
            let faults = Faults::new(Spec { seed, loss: 300_000, duplicate: 300_000, ..Spec::default() });
            (0..1000).map(|_| faults.request(Opcode::Send, true, true)).collect::<Vec<_>>()
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
        let fate = |opcode, is_first| faults.request(opcode, false, is_first);
        assert_eq!(fate(Opcode::RdmaRead, true), Fate::Carried);
        assert_eq!(fate(Opcode::RdmaWrite, true), Fate::Carried);
        assert_eq!(fate(Opcode::RdmaRead, false), Fate::Carried);
        assert_eq!(fate(Opcode::RdmaRead, true), Fate::Fails(Status::RemOpErr));
        assert_eq!(fate(Opcode::RdmaRead, true), Fate::Carried);
        assert_eq!([(); 3].map(|()| faults.registration()), [false, true, false]);
    }
}
