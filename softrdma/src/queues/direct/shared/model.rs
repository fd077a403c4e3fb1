//! Every interleaving of senders into a shared receive queue, one who takes requests behind its lock, and the
//! owner (`scripts/models`).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::*;
use crate::queues::claim::{ClaimRequest, Claimed};
use crate::queues::direct::{Close, Credit, MIN_SLOTS, Receiver, Sender, ring_words};
use crate::queues::shared::{Claim, Object, QpWord};
use crate::queues::transaction::{Machine as _, Progress};

const SRQ: u32 = 0;
/// Records, and entries of the queue.
const SLOTS: u32 = 4;
/// The queue pair that takes requests behind the lock; those below have rings.
const OTHER: u32 = 2;
const WORDS: usize = 6;

/// Rings, the head and the board; other words, which one thread alone uses, are not modelled.
struct Shared {
    rings: [Vec<AtomicU64>; OTHER as usize],
    head: AtomicU64,
    board: Vec<AtomicU64>,
    others: std::sync::Mutex<std::collections::HashMap<Word, u64>>,
}

#[derive(Clone)]
struct Words(Arc<Shared>);

impl Words {
    /// A queue that rings take requests of, of which so many wait. The first ring has slots, or none of them.
    fn with_requests(count: u32, has_slots: bool) -> Self {
        let ring = |words: u32| (0..words).map(|_| AtomicU64::new(0)).collect();
        let first = if has_slots { ring_words(MIN_SLOTS) } else { HEADER_WORDS };
        let words = Self(Arc::new(Shared {
            rings: [ring(first), ring(HEADER_WORDS)],
            head: AtomicU64::new(Head::open(0, 1, false).0),
            board: (0..board_words(SLOTS)).map(|_| AtomicU64::new(0)).collect(),
            others: std::sync::Mutex::default(),
        }));
        let mut credit = Credit::new(&Promises(&words), 0, 0);
        (0..count).for_each(|_| credit.posted(&Promises(&words), 0, 8, 5, || 0));
        words.store(Word::Srq(SRQ, SrqWord::Tail), count.into());
        words.store(Word::Srq(SRQ, SrqWord::Board), Board { at: 64, slots: SLOTS }.pack());
        words
    }

    fn word(&self, word: Word) -> Option<&AtomicU64> {
        match word {
            Word::Srq(SRQ, SrqWord::Head) => Some(&self.0.head),
            Word::Shared { srq: SRQ, word } => Some(&self.0.board[word as usize]),
            Word::Direct { qp, word } => Some(&self.0.rings[qp as usize][word as usize]),
            _ => None,
        }
    }

    fn head(&self) -> Head {
        Head(self.load(Word::Srq(SRQ, SrqWord::Head)))
    }
}

impl Memory for Words {
    fn is_stepwise(&self) -> bool {
        false
    }
    fn load(&self, word: Word) -> u64 {
        match self.word(word) {
            Some(word) => word.load(Ordering::Acquire),
            None => self.0.others.lock().unwrap().get(&word).copied().unwrap_or(0),
        }
    }
    fn store(&self, word: Word, value: u64) {
        match self.word(word) {
            Some(word) => word.store(value, Ordering::Release),
            None => drop(self.0.others.lock().unwrap().insert(word, value)),
        }
    }
    fn compare_exchange(&self, word: Word, before: u64, now: u64) -> bool {
        let word = self.word(word).unwrap();
        word.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    fn publish(&self, word: Word, value: u64) {
        self.word(word).unwrap().swap(value, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
    fn exists(&self, _: Object) -> bool {
        true
    }
    fn capacity(&self, _: Object) -> u32 {
        SLOTS
    }
    fn receive_words(&self, _: Object) -> u32 {
        WORDS as u32
    }
    fn entry_words(&self, _: u32) -> u32 {
        0
    }
}

/// The board, where the owner's promises stand as in a ring.
struct Promises<'a>(&'a Words);

impl Memory for Promises<'_> {
    fn load(&self, word: Word) -> u64 {
        let Word::Direct { word, .. } = word else { panic!("{word:?}") };
        self.0.load(Word::Shared { srq: SRQ, word })
    }
    fn store(&self, word: Word, value: u64) {
        let Word::Direct { word, .. } = word else { panic!("{word:?}") };
        self.0.store(Word::Shared { srq: SRQ, word }, value);
    }
    fn exists(&self, _: Object) -> bool {
        true
    }
    fn capacity(&self, _: Object) -> u32 {
        0
    }
    fn receive_words(&self, _: Object) -> u32 {
        0
    }
    fn entry_words(&self, _: u32) -> u32 {
        0
    }
}

fn is_open(words: &Words, qp: u32) -> bool {
    words.load(Word::Direct { qp, word: DirectWord::End as u32 }) == 0
}

/// Takes a request for a message in a ring.
fn take(words: &Words, qp: u32) -> Option<u32> {
    let mut taker = Taker::new(words, SRQ, qp, SLOTS);
    taker.key_for(words, 8)?;
    taker.take(words, || is_open(words, qp), |_| ())
}

/// Takes one behind the lock, which nobody else wants.
fn take_behind(words: &Words) -> Option<u32> {
    let mut claim = ClaimRequest::new(OTHER, SRQ);
    loop {
        match claim.step(words) {
            Progress::Done(Claimed::Request) => {
                return Claim::unpack(words.load(Word::Qp(OTHER, QpWord::Claim))).map(|claim| claim.count);
            }
            Progress::Done(_) => return None,
            _ => {}
        }
    }
}

#[test]
fn a_request_is_taken_once() {
    for takes_behind in [false, true] {
        loom::model(move || {
            let words = Words::with_requests(2, false);
            let sender = {
                let words = words.clone();
                thread::spawn(move || [take(&words, 0), take(&words, 0)])
            };
            let first = if takes_behind { take_behind(&words) } else { take(&words, 1) };
            let mut taken: Vec<_> = sender.join().unwrap().into_iter().chain([first]).flatten().collect();
            taken.sort_unstable();
            assert!(taken.iter().zip(0..).all(|(taken, count)| *taken == count), "{taken:?}");
            assert_eq!(words.head().count(), taken.len() as u32);
            assert!(words.head().0 & Head::HELD == 0);
        });
    }
}

/// A sender that dies after it has taken a request, or finds its ring closed, while others take some.
#[test]
fn what_was_taken_for_nothing_is_found_when_the_ring_is_closed() {
    for (others, dies) in [(0, true), (1, false), (1, true), (2, true)] {
        loom::model(move || {
            let words = Words::with_requests(3, true);
            let sender = {
                let words = words.clone();
                thread::spawn(move || {
                    let mut sender = Sender::attach(&words, 0, MIN_SLOTS, 0)?;
                    let mut taken = None;
                    let take = || {
                        taken = take(&words, 0);
                        taken.filter(|_| !dies)
                    };
                    let fill = |_: &mut [u64], _| Some(());
                    let sent = sender.send_shared(&words, 8, None, fill, take);
                    Some((taken, sent))
                })
            };
            let other = (others > 0).then(|| {
                let words = words.clone();
                thread::spawn(move || if others == 1 { take(&words, 1) } else { take_behind(&words) })
            });
            let mut receiver = Receiver::new(0, MIN_SLOTS, 0);
            assert!(matches!(Close::new(&mut receiver, 0).step(&words), Progress::Done(_)));
            let head = touch(&words, SRQ);
            let mut sent = Vec::new();
            receiver.each_request(&words, |count| sent.push(count));
            let lost = unsent(&words, SRQ, SLOTS, head, 0..head.count(), 0, |count| sent.contains(&count));
            let taken = sender.join().unwrap().and_then(|(taken, _)| taken);
            other.map(|other| other.join().unwrap());
            // By its message or given back, and nothing else is.
            assert_eq!(lost.or(sent.first().copied()), taken);
            assert!(lost.is_none() || sent.is_empty());
            // Once, also by who closes it again.
            let again = unsent(&words, SRQ, SLOTS, words.head(), 0..words.head().count(), 0, |count| {
                sent.contains(&count) || lost == Some(count)
            });
            assert_eq!(again, None);
        });
    }
}

/// Where the limit is armed, no ring takes a request without anybody looking at it.
#[test]
fn the_limit_holds_rings_up_from_when_it_is_armed() {
    loom::model(|| {
        let words = Words::with_requests(2, false);
        let sender = {
            let words = words.clone();
            thread::spawn(move || take(&words, 0))
        };
        hold(&words, SRQ);
        let before = words.head().count();
        words.store(Word::Srq(SRQ, SrqWord::Limit), 1);
        release(&words, SRQ);
        let taken = sender.join().unwrap();
        assert_eq!(words.head().count(), before);
        assert_eq!(taken.is_some(), before == 1);
        assert_eq!(take(&words, 1), None);
    });
}
