//! Taking completions from a ring by its words alone, as its owner does.

use softrdma::queues::completion::{HEAD_WORDS, STAGE_WORDS, stage_room};
use softrdma::queues::shared::{CqWord, Memory, Object, Word, slot};
use softrdma::rules::completion::Completion;

/// Payload that came in a completion entry.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    /// Where it is to go.
    pub addr: u64,
    /// The key of the buffer.
    pub lkey: u32,
    len: usize,
    words: [u64; STAGE_WORDS],
}

impl Staged {
    /// Bytes; 0 when there is nothing to move.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to move.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The payload, in words as they stand in memory; the last may be used in part.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len.div_ceil(8)]
    }
}

/// An entry that cannot be true: its words were damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqBroken;

/// Takes the oldest completion, and the payload that came with it, which the caller moves to its buffer. The
/// owner's side: one thread at a time, without the queue's lock.
///
/// # Errors
/// [`CqBroken`] when the entry cannot be true; it is skipped then. Entries that were published before an
/// overrun are still handed out.
pub fn poll(memory: &impl Memory, cq: u32, staged: &mut Staged) -> Result<Option<Completion>, CqBroken> {
    let head = memory.load(Word::Cq(cq, CqWord::Head)) as u32;
    let slot = slot(head, memory.capacity(Object::Cq(cq)));
    let first = memory.load(Word::Entry { cq, slot, word: 0 });
    if first as u32 != head.wrapping_add(1) {
        return Ok(None);
    }
    let completion = read(memory, cq, slot, first, staged);
    memory.store(Word::Cq(cq, CqWord::Head), u64::from(head.wrapping_add(1)));
    completion.map(Some).ok_or(CqBroken)
}

fn read(memory: &impl Memory, cq: u32, slot: u32, first: u64, staged: &mut Staged) -> Option<Completion> {
    let load = |word| memory.load(Word::Entry { cq, slot, word });
    let mut head = [first; HEAD_WORDS as usize];
    for (word, value) in (0..).zip(head.iter_mut()).skip(1) {
        *value = load(word);
    }
    staged.len = 0;
    let (completion, bytes) = Completion::unpack(&head)?;
    if bytes > 0 {
        if bytes > stage_room(memory, cq) {
            return None;
        }
        (staged.addr, staged.lkey, staged.len) = (head[6], head[2] as u32, bytes);
        for (word, value) in (HEAD_WORDS..).zip(staged.words.iter_mut().take(bytes.div_ceil(8))) {
            *value = load(word);
        }
    }
    Some(completion)
}
