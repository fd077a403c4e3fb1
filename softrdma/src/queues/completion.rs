//! Completion entries, and the owner's side of a completion queue: arming, and taking entries back.

use super::shared::{CqWord, Memory, Object, Word, held, slot};
use super::transaction::{Machine, Progress};
use crate::rules::completion::Completion;
use crate::rules::verbs::{Status, WcFlags, WcOpcode};

/// Most 64-bit words of a completion entry in shared memory.
pub const ENTRY_WORDS: u32 = 32;

/// Words of an entry in front of the payload that may travel in it:
///
/// | word | meaning |
/// |---|---|
/// | 0 | count of the entry in bits 31..0, status 39..32, what completed 47..40, bytes of payload 63..48 |
/// | 1 | number of the request |
/// | 2 | more about an error, or the key of the buffer that the payload is for; bytes moved in the high half |
/// | 3 | immediate data; queue pair in the high half |
/// | 4 | the sender's queue pair; flags in the high half |
/// | 5 | time |
/// | 6 | address of the buffer; of a send request, the places in the send queue that its poll sets free |
///
/// Word 0 is stored last: an entry whose count is the one that the owner waits for was published.
pub const HEAD_WORDS: u32 = 7;

/// Most words of payload in an entry.
pub const STAGE_WORDS: usize = (ENTRY_WORDS - HEAD_WORDS) as usize;

/// Most bytes of payload in an entry, with what stands in front of a datagram.
pub const MAX_STAGED: usize = 8 * STAGE_WORDS;

/// Flags of a completion queue: word 0 of its [attributes](Word::Attribute).
pub mod wants {
    /// Completions carry the time.
    pub const TIMESTAMPS: u64 = 1;
    /// A full queue takes no more entries for a while, and nobody learns of those that were lost
    /// (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    pub const IGNORE_OVERRUN: u64 = 2;
}

/// What a completion queue's owner wants: [`wants`].
#[must_use]
pub fn wanted(memory: &impl Memory, cq: u32) -> u64 {
    memory.load(Word::Attribute { object: Object::Cq(cq), word: 0 })
}

/// Payload that is to travel in a completion entry instead of to its buffer at once. The owner moves it there
/// when it takes the completion, after it has looked at the key in a table that nobody else writes.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// Where it goes.
    pub addr: u64,
    /// The key of the buffer.
    pub lkey: u32,
    /// The payload, at most [`stage_room`].
    pub bytes: &'a [u8],
}

/// Bytes of payload that an entry takes.
#[must_use]
pub fn stage_room(memory: &impl Memory, cq: u32) -> usize {
    8 * memory.entry_words(cq).min(ENTRY_WORDS).saturating_sub(HEAD_WORDS) as usize
}

impl Completion {
    /// The first words of entry `count`, with payload or without.
    #[must_use]
    #[inline(always)]
    pub fn pack(&self, count: u32, stage: Option<&Stage<'_>>) -> [u64; HEAD_WORDS as usize] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let kind = self.status as u32 | (self.opcode as u32) << 8;
        let bytes = stage.map_or(0, |stage| stage.bytes.len() as u32);
        [
            pair(count, kind | bytes << 16),
            self.wr_id,
            pair(stage.map_or(self.vendor_err, |stage| stage.lkey), self.byte_len),
            pair(self.imm_or_key, self.qp_num),
            pair(self.src_qp, self.flags.0),
            self.timestamp,
            stage.map_or(u64::from(self.places), |stage| stage.addr),
        ]
    }

    /// The completion in these words, and the bytes of payload; `None` when status or opcode is no number of
    /// ours, or the payload has no room in an entry.
    #[must_use]
    #[inline(always)]
    pub fn unpack(words: &[u64; HEAD_WORDS as usize]) -> Option<(Self, usize)> {
        let kind = (words[0] >> 32) as u32;
        let bytes = (kind >> 16) as usize;
        let completion = Self {
            wr_id: words[1],
            status: Status::from_number(kind & 0xff)?,
            opcode: WcOpcode::from_number(kind >> 8 & 0xff)?,
            vendor_err: if bytes == 0 { words[2] as u32 } else { 0 },
            byte_len: (words[2] >> 32) as u32,
            imm_or_key: words[3] as u32,
            qp_num: (words[3] >> 32) as u32,
            src_qp: words[4] as u32,
            flags: WcFlags((words[4] >> 32) as u32),
            timestamp: words[5],
            places: if bytes == 0 { words[6] as u32 } else { 0 },
        };
        (bytes <= MAX_STAGED).then_some((completion, bytes))
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
            // rule: notify-solicited
            1 => solicited || status != Status::Success,
            _ => true,
        }
    }

    /// The word after a request to be notified: asking for solicited completions does not take back a request
    /// for any (IBA §11.4.2.2). Behind the queue's lock: see [`Arm`].
    pub(crate) fn request(word: u64, solicited_only: bool) -> u64 {
        // rule: notify-kept
        if solicited_only { word.max(Self::Solicited as u64) } else { Self::Next as u64 }
    }
}

/// Asks for a bell (`ibv_req_notify_cq`). Behind the queue's lock, which it takes: a delivery that disarms the
/// queue at the same time would forget the request. Poll once more afterwards.
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

/// Rings the bell of a completion queue for a success that does not stand in it, where it waits for one. Behind
/// the queue's lock, which it takes.
#[derive(Clone, Copy, Debug)]
pub struct Notify {
    cq: u32,
    solicited: bool,
    step: NotifyStep,
}

#[derive(Clone, Copy, Debug)]
enum NotifyStep {
    Lock,
    Bell,
    Disarm,
    Unlock,
    Done,
}

impl Notify {
    /// For a message that its sender marked as solicited or not.
    #[must_use]
    pub fn new(cq: u32, solicited: bool) -> Self {
        Self { cq, solicited, step: NotifyStep::Lock }
    }
}

impl Machine for Notify {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        match self.step {
            NotifyStep::Lock => {
                self.step = NotifyStep::Bell;
                Progress::Lock(Object::Cq(self.cq))
            }
            NotifyStep::Bell => {
                let armed = memory.load(Word::Cq(self.cq, CqWord::Armed));
                if Armed::rings(armed, Status::Success, self.solicited) {
                    self.step = NotifyStep::Disarm;
                    return Progress::Bell(self.cq);
                }
                self.step = NotifyStep::Unlock;
                Progress::Continue
            }
            NotifyStep::Disarm => {
                self.step = NotifyStep::Unlock;
                memory.store(Word::Cq(self.cq, CqWord::Armed), Armed::No as u64);
                Progress::Continue
            }
            NotifyStep::Unlock => {
                self.step = NotifyStep::Done;
                Progress::Unlock(Object::Cq(self.cq))
            }
            NotifyStep::Done => Progress::Done(()),
        }
    }

    fn unheard(&mut self) {
        // It stays armed, so that the next entry rings.
        self.step = NotifyStep::Unlock;
    }
}

/// Takes all completions of a queue pair out of a queue that nobody polled yet, and closes the gaps: the queue
/// pair is destroyed. The owner's side, behind the queue's lock; nobody polls meanwhile. Answers how many went.
pub fn remove(memory: &impl Memory, cq: u32, qp_num: u32) -> u32 {
    let capacity = memory.capacity(Object::Cq(cq));
    let counts = [CqWord::Head, CqWord::Tail].map(|word| memory.load(Word::Cq(cq, word)));
    let (head, tail) = (counts[0] as u32, counts[1] as u32);
    let Some(waiting) = held(counts[0], counts[1], capacity) else { return 0 };
    let words = memory.entry_words(cq).min(ENTRY_WORDS);
    let mut to = tail;
    // From the youngest on: the oldest places become free.
    for count in (0..waiting).map(|back| tail.wrapping_sub(back + 1)) {
        let entry = |word| Word::Entry { cq, slot: slot(count, capacity), word };
        if (memory.load(entry(3)) >> 32) as u32 == qp_num {
            continue;
        }
        to = to.wrapping_sub(1);
        if to != count {
            for word in (0..words).rev() {
                let mut value = memory.load(entry(word));
                if word == 0 {
                    value = value >> 32 << 32 | u64::from(to.wrapping_add(1));
                }
                memory.store(Word::Entry { cq, slot: slot(to, capacity), word }, value);
            }
        }
    }
    memory.store(Word::Cq(cq, CqWord::Head), u64::from(to));
    to.wrapping_sub(head)
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
            flags: WcFlags::GRH.union(WcFlags::WITH_IMM),
            timestamp: 7,
            places: 4,
        };
        assert_eq!(Completion::unpack(&entry.pack(9, None)), Some((entry, 0)));
        assert_eq!(Completion::unpack(&[u64::MAX; 7]), None);
        let entry = Completion { status: Status::Success, vendor_err: 0, places: 0, ..entry };
        let stage = Stage { addr: 77, lkey: 8, bytes: &[1; 200] };
        let words = entry.pack(u32::MAX, Some(&stage));
        assert_eq!(Completion::unpack(&words), Some((entry, 200)));
        assert_eq!((words[0] as u32, words[2] as u32, words[6]), (u32::MAX, 8, 77));
    }

    #[test]
    // rule: notify-solicited, notify-kept
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
