//! The specification: which faults there are, and how the words are read that ask for them.

use std::time::Duration;

use super::link::Link;
use crate::rules::verbs::{Opcode, Status};

/// Longest delay of a request, in seconds.
const MOST_DELAY: u64 = 10;
/// Longest time until a link goes down, and until it comes back.
const MOST_LINK: u64 = 3600;

/// Which faults there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spec {
    pub(super) seed: u64,
    /// Of a million tries, those that get no answer.
    pub(super) loss: u32,
    /// Of a million datagrams or packets, those that come twice.
    pub(super) duplicate: u32,
    pub(super) delay: Duration,
    pub(super) fail: Option<Failure>,
    pub(super) register: Option<u32>,
    pub(super) cm: Option<LostMessages>,
    pub(super) link: Option<Link>,
    /// Of a million datagrams or packets, those that come behind the next.
    pub(super) reorder: u32,
    /// Bytes a second; 0: any number.
    pub(super) rate: u64,
}

/// The request that ends with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) operation: Operation,
    pub(super) nth: u32,
    pub(super) status: Status,
}

/// Operations by the words of a specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Any,
    Send,
    Write,
    Read,
    Atomic,
}

/// Messages of rdma_cm that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostMessages {
    /// Those of this kind (`AttributeID` of the MAD); `None`: of any.
    pub(super) kind: Option<u16>,
    pub(super) which: Which,
}

/// Which of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The n-th, from 1.
    Nth(u32),
    /// So many of a million.
    Share(u32),
}

const WORDS: [&str; 10] =
    ["seed", "loss", "duplicate", "reorder", "delay", "rate", "fail", "register", "cm", "link"];
const UNITS: [(&str, u32); 7] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("b", 1),
];
const OPERATIONS: [(&str, Operation); 5] = [
    ("any", Operation::Any),
    ("send", Operation::Send),
    ("write", Operation::Write),
    ("read", Operation::Read),
    ("atomic", Operation::Atomic),
];
const MESSAGES: [(&str, Option<u16>); 10] = [
    ("any", None),
    ("req", Some(0x10)),
    ("mra", Some(0x11)),
    ("rej", Some(0x12)),
    ("rep", Some(0x13)),
    ("rtu", Some(0x14)),
    ("dreq", Some(0x15)),
    ("drep", Some(0x16)),
    ("sidr_req", Some(0x17)),
    ("sidr_rep", Some(0x18)),
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
    pub(super) fn is(self, opcode: Opcode) -> bool {
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
    let nearest = known.iter().min_by_key(|one| distance(word, one));
    // Nothing of a word is left where all letters are others.
    match nearest.filter(|one| distance(word, one) < one.len().min(4)) {
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

/// Bytes a second.
fn rate(word: &str, value: &str) -> Result<u64, String> {
    let meant = || format!("{word}={value}: bytes a second are meant, as {word}=500KB/s or {word}=1.5MiB/s");
    let lower = value.to_ascii_lowercase();
    let size = lower.strip_suffix("/s").ok_or_else(meant)?;
    let found = UNITS.iter().find_map(|(unit, bytes)| Some((size.strip_suffix(unit)?, *bytes)));
    let (number, unit) = found.ok_or_else(meant)?;
    let number: f64 = number.parse().map_err(|_| meant())?;
    let bytes = (number * f64::from(unit)).round();
    if (1.0..1e15).contains(&bytes) { Ok(bytes as u64) } else { Err(meant()) }
}

/// A time, up to so many seconds.
fn time(word: &str, value: &str, most: u64) -> Result<Duration, String> {
    let meant = || format!("{word}={value}: a time up to {most}s is meant, as 200us, 5ms or 1.5s");
    let end = value.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(meant)?;
    let unit = match &value[end..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(meant()),
    };
    let number: f64 = value[..end].parse().map_err(|_| meant())?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| meant())?;
    if time <= Duration::from_secs(most) { Ok(time) } else { Err(meant()) }
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
    /// | `reorder=P%` | so many of them come behind the next |
    /// | `delay=TIME` | each request is carried out so much later, each packet of other hosts taken |
    /// | `rate=SIZE/s` | no more bytes go in a second |
    /// | `fail=OPERATION:N:STATUS` | the n-th request of an operation (or `any`) ends with this status |
    /// | `register=N` | the n-th registration of memory fails |
    /// | `cm=MESSAGE:N`, `cm=MESSAGE:P%` | the n-th message of rdma_cm of a kind, or so many, are lost |
    /// | `link=TIME`, `link=TIME:TIME` | the link goes down after a time, and comes back after another |
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
                "reorder" => spec.reorder = share(word, value)?,
                "rate" => spec.rate = rate(word, value)?,
                "delay" => spec.delay = time(word, value, MOST_DELAY)?,
                "register" => spec.register = Some(count(word, value)?),
                "cm" => spec.cm = Some(LostMessages::parse(value)?),
                "link" => spec.link = Some(Link::parse(value)?),
                _ => spec.fail = Some(Failure::parse(value)?),
            }
        }
        Ok(spec)
    }
}

impl Failure {
    fn parse(value: &str) -> Result<Self, String> {
        let mut parts = value.split(':');
        let (Some(operation), Some(nth), Some(status), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("fail={value}: OPERATION:N:STATUS is meant, as write:3:REM_ACCESS_ERR"));
        };
        Ok(Self {
            operation: named("operation", operation, &OPERATIONS)?,
            nth: count("fail", nth)?,
            status: named("status", status, &STATUSES)?,
        })
    }
}

impl LostMessages {
    fn parse(value: &str) -> Result<Self, String> {
        let Some((kind, which)) = value.split_once(':') else {
            return Err(format!("cm={value}: MESSAGE:N or MESSAGE:P% is meant, as rtu:1 or any:5%"));
        };
        let kind = named("message", kind, &MESSAGES)?;
        let which = if which.ends_with('%') {
            Which::Share(share("cm", which)?)
        } else {
            Which::Nth(count("cm", which)?)
        };
        Ok(Self { kind, which })
    }
}

impl Link {
    fn parse(value: &str) -> Result<Self, String> {
        let (down, length) =
            value.split_once(':').map_or((value, None), |(down, length)| (down, Some(length)));
        let down = time("link", down, MOST_LINK)?;
        let length = length.map(|length| time("link", length, MOST_LINK)).transpose()?;
        Ok(Self { down, up: length.map(|length| down + length) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_is_read_strictly() {
        let spec = Spec::parse(
            "seed=7, loss=2.5%,duplicate=1,delay=200us,fail=write:3:IBV_WC_REM_ACCESS_ERR,register=2,cm=RTU:1,\
             link=2s:500ms,reorder=0.5%,rate=1.5MB/s",
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
                register: Some(2),
                cm: Some(LostMessages { kind: Some(0x14), which: Which::Nth(1) }),
                link: Some(Link { down: Duration::from_secs(2), up: Some(Duration::from_millis(2500)) }),
                reorder: 5000,
                rate: 1_500_000,
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
        wrong("cm=3", "MESSAGE:N");
        wrong("cm=reqq:3", "'req'");
        let any = LostMessages { kind: None, which: Which::Share(500_000) };
        assert_eq!(Spec::parse("cm=any:50%").unwrap().cm, Some(any));
        assert_eq!(Spec::parse("rate=2KiB/s").unwrap().rate, 2048);
        assert_eq!(Spec::parse("rate=7b/s").unwrap().rate, 7);
        let lost = Link { down: Duration::from_millis(1500), up: None };
        assert_eq!(Spec::parse("link=1.5s").unwrap().link, Some(lost));
        for text in [
            "rate=10MB",
            "rate=10/s",
            "rate=0B/s",
            "rate=infB/s",
            "reorder=-1%",
            "link=1h",
            "link=1s:",
            "link=1s:1s:1s",
            "link=3601s",
            "loss=101%",
            "loss=-1",
            "loss=nan",
            "delay=5",
            "delay=11s",
            "delay=5min",
            "register=0",
            "seed=x",
            "loss",
            "cm=req:0",
            "cm=req:101%",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
    }
}
