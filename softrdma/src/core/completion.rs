//! Completion entries, and the owner's side of a completion queue: polling and arming.

use super::shared::{CqWord, Events, Memory, Object, Word, held, slot};
use super::transport::{Machine, Progress};
use super::verbs::{Event, Status, WcFlags, WcOpcode};

/// 64-bit words of a completion entry in shared memory.
pub const ENTRY_WORDS: u32 = 6;

/// A completion (`struct ibv_wc`; IBA §11.4.2.1).
///
/// The fields that RoCE has no use for (`pkey_index`, `slid`, `dlid_path_bits`) are always 0 and not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The number that the program gave its request.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// What it was.
    pub opcode: WcOpcode,
    /// More about an error.
    pub vendor_err: u32,
    /// Bytes moved, for receive requests, reads and atomics.
    pub byte_len: u32,
    /// Immediate data as it was posted (network order), or the key that was invalidated.
    pub imm_or_key: u32,
    /// The queue pair it belongs to.
    pub qp_num: u32,
    /// The sender's queue pair (datagrams).
    pub src_qp: u32,
    /// What else is there.
    pub flags: WcFlags,
    /// When it was published, by the publisher's clock in nanoseconds.
    pub timestamp: u64,
}

impl Completion {
    /// A completion of a request that never ran (IBA §10.3.1: error state): only number, status and queue pair count.
    #[must_use]
    pub fn flushed(wr_id: u64, opcode: WcOpcode, qp_num: u32) -> Self {
        Self {
            wr_id,
            status: Status::WrFlushErr,
            opcode,
            vendor_err: 0,
            byte_len: 0,
            imm_or_key: 0,
            qp_num,
            src_qp: 0,
            flags: WcFlags::NONE,
            timestamp: 0,
        }
    }

    /// The words of the entry.
    #[must_use]
    pub fn pack(&self) -> [u64; ENTRY_WORDS as usize] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            self.wr_id,
            pair(self.status as u32, self.opcode as u32),
            pair(self.vendor_err, self.byte_len),
            pair(self.imm_or_key, self.qp_num),
            pair(self.src_qp, self.flags.0),
            self.timestamp,
        ]
    }

    /// The completion in these words; `None` when status or opcode is no number of ours.
    #[must_use]
    pub fn unpack(words: &[u64; ENTRY_WORDS as usize]) -> Option<Self> {
        Some(Self {
            wr_id: words[0],
            status: Status::from_number(words[1] as u32)?,
            opcode: WcOpcode::from_number((words[1] >> 32) as u32)?,
            vendor_err: words[2] as u32,
            byte_len: (words[2] >> 32) as u32,
            imm_or_key: words[3] as u32,
            qp_num: (words[3] >> 32) as u32,
            src_qp: words[4] as u32,
            flags: WcFlags((words[4] >> 32) as u32),
            timestamp: words[5],
        })
    }
}

/// What the bell of a completion queue waits for (`ibv_req_notify_cq`; IBA §11.4.2.2).
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Armed {
    /// Nothing.
    No = 0,
    /// A completion that the sender marked as solicited, or one with an error.
    Solicited = 1,
    /// Any completion.
    Next = 2,
}

impl Armed {
    /// Whether this entry rings. A number that is none of ours rings: one bell too many harms nobody.
    #[must_use]
    pub fn rings(word: u64, status: Status, solicited: bool) -> bool {
        match word {
            0 => false,
            1 => solicited || status != Status::Success,
            _ => true,
        }
    }

    /// The word after a request to be notified: asking for solicited completions does not take back a request for any
    /// (IBA §11.4.2.2). Behind the queue's lock: see [`Arm`].
    pub(crate) fn request(word: u64, solicited_only: bool) -> u64 {
        if solicited_only { word.max(Self::Solicited as u64) } else { Self::Next as u64 }
    }
}

/// Asks for a bell (`ibv_req_notify_cq`). Behind the queue's lock, which it takes: a delivery that disarms the queue at the
/// same time would forget the request. Poll once more afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    cq: u32,
    solicited_only: bool,
    step: ArmStep,
}

#[derive(Clone, Copy, Debug)]
enum ArmStep {
    Lock,
    Store,
    Unlock,
    Done,
}

impl Arm {
    /// The request for the next completion, or the next that is solicited or an error.
    #[must_use]
    pub fn new(cq: u32, solicited_only: bool) -> Self {
        Self { cq, solicited_only, step: ArmStep::Lock }
    }
}

impl Machine for Arm {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        match self.step {
            ArmStep::Lock => {
                self.step = ArmStep::Store;
                Progress::Lock(Object::Cq(self.cq))
            }
            ArmStep::Store => {
                self.step = ArmStep::Unlock;
                let word = Word::Cq(self.cq, CqWord::Armed);
                memory.store(word, Armed::request(memory.load(word), self.solicited_only));
                Progress::Continue
            }
            ArmStep::Unlock => {
                self.step = ArmStep::Done;
                Progress::Unlock(Object::Cq(self.cq))
            }
            ArmStep::Done => Progress::Done(()),
        }
    }
}

/// A completion queue that cannot be believed: it overran, or its words were damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqBroken;

/// Takes the oldest completion. The owner's side: one thread at a time, without the queue's lock.
///
/// # Errors
/// [`CqBroken`] when the counts or the entry cannot be true. Entries that were published before an overrun are still
/// handed out.
pub fn poll(memory: &impl Memory, cq: u32) -> Result<Option<Completion>, CqBroken> {
    let capacity = memory.capacity(Object::Cq(cq));
    let head = memory.load(Word::Cq(cq, CqWord::Head));
    let tail = memory.load(Word::Cq(cq, CqWord::Tail));
    if held(head, tail, capacity).ok_or(CqBroken)? == 0 {
        return Ok(None);
    }
    let mut words = [0; ENTRY_WORDS as usize];
    for (word, value) in (0..).zip(words.iter_mut()) {
        *value = memory.load(Word::Entry { cq, slot: slot(head as u32, capacity), word });
    }
    memory.store(Word::Cq(cq, CqWord::Head), u64::from((head as u32).wrapping_add(1)));
    Completion::unpack(&words).map(Some).ok_or(CqBroken)
}

/// Whether the queue overran: it takes no more entries.
#[must_use]
pub fn overran(memory: &impl Memory, cq: u32) -> bool {
    Events(memory.load(Word::Cq(cq, CqWord::Events))).was_raised(Event::CqErr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back() {
        let entry = Completion {
            wr_id: u64::MAX,
            status: Status::RemAccessErr,
            opcode: WcOpcode::RecvRdmaWithImm,
            vendor_err: 1,
            byte_len: 1 << 30,
            imm_or_key: 3,
            qp_num: 0xff_ffff,
            src_qp: 5,
            flags: WcFlags::GRH.and(WcFlags::WITH_IMM),
            timestamp: 7,
        };
        assert_eq!(Completion::unpack(&entry.pack()), Some(entry));
        assert_eq!(Completion::unpack(&[u64::MAX; 6]), None);
    }

    #[test]
    fn arming() {
        assert!(!Armed::rings(0, Status::Success, true));
        assert!(!Armed::rings(1, Status::Success, false));
        assert!(Armed::rings(1, Status::Success, true));
        assert!(Armed::rings(1, Status::WrFlushErr, false));
        assert!(Armed::rings(2, Status::Success, false));
        assert_eq!(Armed::request(2, true), 2);
        assert_eq!(Armed::request(0, true), 1);
        assert_eq!(Armed::request(1, false), 2);
    }
}
