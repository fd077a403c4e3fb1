//! The shared words that transactions read and write, and how each is packed.
//!
//! Every queue that more than one process touches is a handful of 64-bit words behind a lock:
//!
//! | object | words | lock order |
//! |---|---|---|
//! | queue pair, responder side | [`QpWord`], receive ring, the request held of a shared queue | first |
//! | shared receive queue | [`SrqWord`], its ring | second |
//! | completion queue | [`CqWord`], its ring | last |
//!
//! Indexes of rings are free-running 32-bit counts; a slot is the count masked by the capacity. A count or an
//! index that was read from shared memory belongs to somebody else: it is bounded before it is used (see
//! [`Memory`]).

/// Memory that several processes write, one 64-bit word at a time.
///
/// A store is a release, a load is an acquire: a reader of a word sees everything its writer had stored before.
/// That alone makes the journal readable after its writer died without giving its lock back.
///
/// An implementation maps a [`Word`] to an address and never leaves its mapping: [`Memory::exists`] has said
/// yes to the object, slots are below [`Memory::capacity`], and words of a receive request are below
/// [`Memory::receive_words`]. None of these answers may be read from memory that a peer can change meanwhile.
pub trait Memory {
    /// Whether machines stop after each store, as tests need that look at the memory in between.
    #[inline(always)]
    fn is_stepwise(&self) -> bool {
        true
    }
    /// Reads one word.
    fn load(&self, word: Word) -> u64;
    /// Writes one word.
    fn store(&self, word: Word, value: u64);
    /// Writes one word if it still says what was read there; whether it was written. By itself it is so where
    /// one thread at a time uses the memory.
    fn compare_exchange(&self, word: Word, before: u64, now: u64) -> bool {
        let is_as_before = self.load(word) == before;
        if is_as_before {
            self.store(word, now);
        }
        is_as_before
    }
    /// Writes one word, before whatever this process reads afterwards.
    #[inline]
    fn publish(&self, word: Word, value: u64) {
        self.store(word, value);
    }
    /// Orders what was written before with what is read afterwards.
    #[inline(always)]
    fn fence(&self) {}
    /// Has all who write this memory without a [`Memory::fence`] do so, behind what was written here before.
    fn fence_everywhere(&self) {}
    /// Tells who polls that a message was written to the direct ring of this queue pair, and orders that with
    /// what is read afterwards.
    fn ring_doorbell(&self, _qp: u32) {}
    /// Reads words that follow one another, in any order, of a request, an entry or attributes.
    #[inline]
    fn load_all(&self, first: Word, values: &mut [u64]) {
        for (value, count) in values.iter_mut().zip(0..) {
            *value = self.load(first.after(count));
        }
    }
    /// Writes words that follow one another, in any order, which nobody reads before a later [`Memory::store`].
    #[inline]
    fn store_all(&self, first: Word, values: &[u64]) {
        for (value, count) in values.iter().zip(0..) {
            self.store(first.after(count), *value);
        }
    }
    /// As [`Memory::store_all`] of all but the first, then [stores](Memory::store) that, which says that the
    /// others are there.
    #[inline]
    fn publish_all(&self, first: Word, values: &[u64]) {
        if let [value, others @ ..] = values {
            self.store_all(first.after(1), others);
            self.store(first, *value);
        }
    }
    /// As [`Memory::publish_all`] of the slot of a direct ring that has this count, where a ring knows by the
    /// count alone which slot that is.
    #[inline(always)]
    fn publish_slot(&self, first: Word, _count: u32, values: &[u64]) {
        self.publish_all(first, values);
    }
    /// The cache line of this word is written soon. A hint to the processor: nothing changes.
    #[inline(always)]
    fn will_write(&self, _word: Word) {}
    /// The same of a slot, as for [`Memory::publish_slot`].
    #[inline(always)]
    fn will_write_slot(&self, first: Word, _count: u32) {
        self.will_write(first);
    }
    /// The same of one that is read soon.
    #[inline(always)]
    fn will_read(&self, _word: Word) {}
    /// Whether the object is there. Asked before an index that came from shared memory is followed.
    fn exists(&self, object: Object) -> bool;
    /// Entries of the object's ring (receive ring of a queue pair): a power of two, or 0 where it has no ring.
    fn capacity(&self, object: Object) -> u32;
    /// Words of one slot in the receive ring of a queue pair or shared receive queue (`2 + 2 × max_sge`, at
    /// most [`RECEIVE_WORDS`](super::receive::RECEIVE_WORDS)).
    fn receive_words(&self, queue: Object) -> u32;
    /// Words of one entry of a completion queue: more than [`HEAD_WORDS`](super::completion::HEAD_WORDS), at
    /// most [`ENTRY_WORDS`](super::completion::ENTRY_WORDS).
    fn entry_words(&self, cq: u32) -> u32;
}

/// An object that has a lock. The number is its index in the owner's segment, below 2²⁴.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Object {
    /// Responder side of a queue pair.
    Qp(u32),
    /// Shared receive queue.
    Srq(u32),
    /// Completion queue.
    Cq(u32),
}

/// The address of a shared word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Word {
    /// A word of the queue pair with this index.
    Qp(u32, QpWord),
    /// A word of the shared receive queue with this index.
    Srq(u32, SrqWord),
    /// A word of the completion queue with this index.
    Cq(u32, CqWord),
    /// A word of a receive request in a ring (queue pair or shared receive queue).
    Receive {
        /// Whose ring.
        queue: Object,
        /// Slot in it, already masked.
        slot: u32,
        /// Word of the request.
        word: u32,
    },
    /// A word of the request that a queue pair has taken from a shared receive queue.
    Claimed {
        /// The queue pair that holds it.
        qp: u32,
        /// Word of the request.
        word: u32,
    },
    /// A word of a completion entry.
    Entry {
        /// The completion queue.
        cq: u32,
        /// Slot in it, already masked.
        slot: u32,
        /// Word of the entry, below [`Memory::entry_words`].
        word: u32,
    },
    /// A word of the direct ring of a queue pair ([`direct`](super::direct)).
    Direct {
        /// The queue pair.
        qp: u32,
        /// Word of it, below [`ring_words`](super::direct::ring_words).
        word: u32,
    },
    /// A word of what direct rings into a shared receive queue go by
    /// ([`direct::shared`](super::direct::shared)).
    Shared {
        /// The shared receive queue.
        srq: u32,
        /// Word of it, below [`board_words`](super::direct::shared::board_words).
        word: u32,
    },
    /// A word of what the owner set: read by others behind the object's lock, written by the owner behind it.
    /// The meaning of the words is the writer's.
    Attribute {
        /// The object.
        object: Object,
        /// Word of it, below [`ATTRIBUTES`].
        word: u32,
    },
}

impl Word {
    /// The word so many words later, of a request, an entry or attributes; others stand alone.
    #[must_use]
    pub fn after(mut self, count: u32) -> Self {
        match &mut self {
            Self::Receive { word, .. }
            | Self::Claimed { word, .. }
            | Self::Entry { word, .. }
            | Self::Direct { word, .. }
            | Self::Shared { word, .. }
            | Self::Attribute { word, .. } => *word += count,
            Self::Qp(..) | Self::Srq(..) | Self::Cq(..) => {}
        }
        self
    }
}

/// Words of attributes that each object has. All are 0 in a fresh object.
pub const ATTRIBUTES: u32 = 8;

/// Words of a queue pair that its peers write. All are 0 in a fresh queue pair.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum QpWord {
    /// [`QpState`](crate::rules::verbs::QpState) by number. Changed only behind the lock.
    State,
    /// [`QpJournal`]: the delivery or burst under way.
    Journal,
    /// Receive requests taken so far, be they from the own ring or from a shared receive queue.
    Head,
    /// [`Claim`]: the request held from a shared receive queue.
    Claim,
    /// [`Events`]: asynchronous events of the queue pair.
    Events,
    /// [`QpWord::Tail`] as it was last seen behind the lock, so that taking a request need not read what the
    /// owner writes.
    Seen,
    /// Receive requests posted so far to the own ring. Written by the owner alone, without the lock.
    Tail,
    /// [`Fence`]: what had become of a transaction when the lock of its second queue was taken from its living
    /// holder. Written by the owner of the segment, cleared by the holder of the queue pair's lock.
    Fence,
}

impl QpWord {
    /// How many words there are.
    pub const COUNT: u32 = 8;
    /// Whether the owner writes it without the lock: such words are best kept apart from the others.
    #[must_use]
    pub const fn is_owners(self) -> bool {
        matches!(self, Self::Tail)
    }
}

/// Words of a shared receive queue. All are 0 in a fresh one.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SrqWord {
    /// [`SrqJournal`]: the claim under way.
    Journal,
    /// [`Head`](super::direct::shared::Head): receive requests taken so far.
    Head,
    /// Limit below which one event is raised, 0 when none is asked for (`ibv_modify_srq`, `IBV_SRQ_LIMIT`).
    Limit,
    /// [`Events`]: asynchronous events of the queue.
    Events,
    /// [`SrqWord::Tail`] as it was last seen behind the lock.
    Seen,
    /// Receive requests posted so far. Written by the owner alone, without the lock.
    Tail,
    /// [`Board`](super::direct::shared::Board): where that is, 0 when there is none. Written by the owner
    /// behind the lock.
    Board,
}

impl SrqWord {
    /// How many words there are.
    pub const COUNT: u32 = 7;
    /// As [`QpWord::is_owners`].
    #[must_use]
    pub const fn is_owners(self) -> bool {
        matches!(self, Self::Tail)
    }
}

/// Words of a completion queue. All are 0 in a fresh one.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CqWord {
    /// [`CqJournal`]: the delivery or burst under way.
    Journal,
    /// Entries published so far, those of a burst under way not counted. The owner does not look at it: an
    /// entry says itself whether it was published.
    Tail,
    /// [`Armed`](super::completion::Armed) by number: what the next bell waits for.
    Armed,
    /// [`Events`]: asynchronous events of the queue. [`Event::CqErr`](crate::rules::verbs::Event::CqErr) once
    /// raised stays: the queue takes no more entries.
    Events,
    /// [`CqWord::Head`] as it was last seen behind the lock.
    Seen,
    /// Entries polled so far. Written by the owner alone, without the lock.
    Head,
}

impl CqWord {
    /// How many words there are.
    pub const COUNT: u32 = 6;
    /// As [`QpWord::is_owners`].
    #[must_use]
    pub const fn is_owners(self) -> bool {
        matches!(self, Self::Head)
    }
}

/// Indexes of objects are packed into 24 bits of a journal word, as queue-pair numbers are 24 bits wide.
pub const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// What deliveries take away from the queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Requests at the head of its own ring; the number is the head.
    Head(u32),
    /// The request that it holds from a shared receive queue; the number is how many it took before.
    Claim(u32),
}

impl Take {
    /// The same once so many deliveries are done.
    #[must_use]
    pub fn after(self, deliveries: u32) -> Self {
        match self {
            Self::Head(head) => Self::Head(head.wrapping_add(deliveries)),
            Self::Claim(taken) => Self::Claim(taken.wrapping_add(deliveries)),
        }
    }
}

/// Journal of a queue pair: which delivery is under way, or which burst of them, and whether what it publishes
/// was published.
///
/// Bits: 63 there is one, 62 published, 61 takes the claim, 60 breaks, 55..32 completion queue, 31..0 head, or
/// requests taken so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpJournal {
    /// All that is going to be was published: the requests are used up.
    pub published: bool,
    /// The completion queue that the entry goes to.
    pub cq: u32,
    /// What is taken: before, and once it is published, afterwards.
    pub take: Take,
    /// The queue pair goes to ERR when it happened: the completion says why.
    pub breaks: bool,
}

impl QpJournal {
    /// The word for this journal.
    #[must_use]
    pub fn pack(self) -> u64 {
        let (claim, head) = match self.take {
            Take::Head(head) => (0, u64::from(head)),
            Take::Claim(taken) => (1, u64::from(taken)),
        };
        1 << 63
            | u64::from(self.published) << 62
            | claim << 61
            | u64::from(self.breaks) << 60
            | (u64::from(self.cq) & INDEX_MASK) << 32
            | head
    }

    /// The journal in this word, if there is one.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        (word >> 63 == 1).then_some(Self {
            published: word >> 62 & 1 == 1,
            cq: (word >> 32 & INDEX_MASK) as u32,
            take: if word >> 61 & 1 == 1 { Take::Claim(word as u32) } else { Take::Head(word as u32) },
            breaks: word >> 60 & 1 == 1,
        })
    }
}

/// A request held from a shared receive queue: bit 63 there is one, 55..32 the queue, 31..0 its count in the
/// ring. Bit 62 alone: one is being asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The shared receive queue.
    pub srq: u32,
    /// The head of that queue before the request was taken.
    pub count: u32,
}

impl Claim {
    /// The word for this claim.
    #[must_use]
    pub fn pack(self) -> u64 {
        1 << 63 | (u64::from(self.srq) & INDEX_MASK) << 32 | u64::from(self.count)
    }

    /// The word of a queue pair that asks for a request of this shared receive queue, from before it has the
    /// queue's lock until it has a request or learns that there is none.
    #[must_use]
    pub fn asking(srq: u32) -> u64 {
        1 << 62 | (u64::from(srq) & INDEX_MASK) << 32
    }

    /// The claim in this word, if there is one.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        (word >> 63 == 1).then_some(Self { srq: (word >> 32 & INDEX_MASK) as u32, count: word as u32 })
    }
}

/// What had become of a transaction of a queue pair at the moment when the lock of its completion queue or
/// shared receive queue was taken from its living holder ([`fence`](super::fence)). Whatever the holder wrote
/// since is not so.
///
/// As [`QpJournal`], with bit 59 for a claim: then bit 62 says that it happened, 55..32 are the shared receive
/// queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// The journal of the queue pair as it was, published or not.
    Delivery(QpJournal),
    /// Whether the queue pair had got a request of this shared receive queue.
    Claim {
        /// The shared receive queue.
        srq: u32,
        /// The claim happened.
        held: bool,
    },
}

impl Fence {
    /// The word for this fence.
    #[must_use]
    pub fn pack(self) -> u64 {
        match self {
            Self::Delivery(journal) => journal.pack(),
            Self::Claim { srq, held } => {
                1 << 63 | u64::from(held) << 62 | 1 << 59 | (u64::from(srq) & INDEX_MASK) << 32
            }
        }
    }

    /// The fence in this word, if there is one.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        if word >> 59 & 1 == 0 {
            return QpJournal::unpack(word).map(Self::Delivery);
        }
        let srq = (word >> 32 & INDEX_MASK) as u32;
        (word >> 63 == 1).then_some(Self::Claim { srq, held: word >> 62 & 1 == 1 })
    }
}

/// Journal of a shared receive queue: bit 63 there is one, 62 the limit was reached, 55..32 the claiming queue
/// pair, 31..0 the head before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqJournal {
    /// The queue pair that claims.
    pub qp: u32,
    /// The head before the claim.
    pub count: u32,
    /// The claim left fewer than the limit: its event is to be raised, whatever is posted meanwhile.
    pub reached: bool,
}

impl SrqJournal {
    /// The word for this journal.
    #[must_use]
    pub fn pack(self) -> u64 {
        let reached = u64::from(self.reached) << 62;
        1 << 63 | reached | (u64::from(self.qp) & INDEX_MASK) << 32 | u64::from(self.count)
    }

    /// The journal in this word, if there is one.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        (word >> 63 == 1).then_some(Self {
            qp: (word >> 32 & INDEX_MASK) as u32,
            count: word as u32,
            reached: word >> 62 & 1 == 1,
        })
    }
}

/// Journal of a completion queue: bit 63 there is one, 55..32 the delivering queue pair, 31..0 the tail after
/// the first entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqJournal {
    /// The queue pair whose delivery is under way, or [`CqJournal::NOBODY`].
    pub qp: u32,
    /// The tail once the first entry is published; more may follow in a burst.
    pub tail: u32,
}

impl CqJournal {
    /// A completion of the own process, which uses up no receive request.
    pub const NOBODY: u32 = INDEX_MASK as u32;

    /// The word for this journal.
    #[must_use]
    pub fn pack(self) -> u64 {
        1 << 63 | (u64::from(self.qp) & INDEX_MASK) << 32 | u64::from(self.tail)
    }

    /// The journal in this word, if there is one.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        (word >> 63 == 1).then_some(Self { qp: (word >> 32 & INDEX_MASK) as u32, tail: word as u32 })
    }
}

/// Asynchronous events of one object: bit n (event by number) waits to be collected, bit n + 32 was raised
/// since the object was reset. One word, so that raising is one store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events(pub u64);

impl Events {
    /// With this event raised once more.
    #[must_use]
    pub fn raise(self, event: crate::rules::verbs::Event) -> Self {
        let bit = 1u64 << (event as u32 & 31);
        Self(self.0 | bit | bit << 32)
    }

    /// With this event raised unless it was raised before (communication established, last request reached).
    #[must_use]
    pub fn raise_once(self, event: crate::rules::verbs::Event) -> Self {
        if self.was_raised(event) { self } else { self.raise(event) }
    }

    /// Whether the event was raised since the object was reset.
    #[must_use]
    pub fn was_raised(self, event: crate::rules::verbs::Event) -> bool {
        self.0 >> 32 >> (event as u32 & 31) & 1 == 1
    }

    /// The events that wait, as bits by number, and the word without them.
    #[must_use]
    pub fn collect(self) -> (u32, Self) {
        (self.0 as u32, Self(self.0 >> 32 << 32))
    }
}

/// How many entries a ring holds, from its two counts; `None` when the counts cannot be true for this capacity.
#[must_use]
pub fn held(head: u64, tail: u64, capacity: u32) -> Option<u32> {
    let held = (tail as u32).wrapping_sub(head as u32);
    (held <= capacity).then_some(held)
}

/// The slot of a count. `capacity` is a power of two.
#[must_use]
pub fn slot(count: u32, capacity: u32) -> u32 {
    count & capacity.wrapping_sub(1)
}

#[cfg(test)]
mod tests;
