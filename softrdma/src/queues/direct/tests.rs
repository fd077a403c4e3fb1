use std::collections::VecDeque;

use super::*;
use crate::queues::direct::words::{QP, SLOTS, Words};
use crate::queues::shared::Object;
use crate::queues::transaction::{Machine as _, Progress};
use proptest::prelude::*;

/// Bytes of a message of four slots.
const FOUR: usize = 200;

fn close(pair: &mut Pair, head: u32) -> u32 {
    match Close::new(&mut pair.receiver, head).step(&pair.words) {
        Progress::Done(taken) => taken,
        other => panic!("{other:?}"),
    }
}

/// The words of a ring, where machines stop after each step.
struct Stepwise<'a>(&'a Words);

impl Memory for Stepwise<'_> {
    fn load(&self, word: Word) -> u64 {
        self.0.load(word)
    }
    fn store(&self, word: Word, value: u64) {
        self.0.store(word, value);
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

/// Both ends of a ring.
struct Pair {
    words: Words,
    sender: Sender,
    receiver: Receiver,
    credit: Credit,
}

fn pair(head: u32) -> Pair {
    let words = Words::new();
    let sender = Sender::attach(&words, QP, SLOTS, head).unwrap();
    let credit = Credit::new(&words, QP, head);
    Pair { words, sender, receiver: Receiver::new(QP, SLOTS, head), credit }
}

impl Pair {
    fn post(&mut self, bytes: u32, key: u32) {
        let completed = self.receiver.completed();
        self.credit.posted(&self.words, QP, bytes, key, || completed);
    }

    /// Sends so many bytes, all alike; `None` when they do not go this way.
    fn send(&mut self, bytes: usize, fill: u8) -> Option<bool> {
        let key = self.sender.has_room(&self.words, bytes as u32)?;
        assert!(bytes == 0 || key == 5);
        let bytes = vec![fill; bytes];
        let message = Message { bytes: &bytes, imm: Some(fill.into()) };
        match Send::new(&mut self.sender, message).step(&self.words) {
            Progress::Done(is_there) => Some(is_there),
            other => panic!("{other:?}"),
        }
    }

    /// Takes a message: its number, its bytes, and what they are filled with.
    fn take(&mut self) -> Option<(u32, usize, u8)> {
        let found = self.receiver.look(&self.words, || false)?;
        let fill = found.imm.unwrap() as u8;
        let mut bytes = Vec::new();
        for word in 0..found.bytes.div_ceil(8) {
            bytes.extend(self.receiver.payload(&self.words, &found, word).to_ne_bytes());
        }
        assert!(bytes[..found.bytes as usize].iter().all(|byte| *byte == fill));
        assert!(bytes[found.bytes as usize..].iter().all(|byte| *byte == 0));
        self.receiver.take(&self.words, &found);
        Some((found.number, found.bytes as usize, fill))
    }
}

#[test]
fn room_that_was_found_is_for_so_many_messages_of_one_slot() {
    let mut pair = pair(0);
    (0..3).for_each(|_| pair.post(48, 5));
    assert!(!pair.sender.has_quick_room(8));
    assert_eq!(pair.sender.look_for_room(&pair.words, 8), Some(5));
    assert!(pair.sender.has_quick_room(48) && !pair.sender.has_quick_room(49));
    // Nothing is known after a message that goes without a look at that.
    assert_eq!(pair.send(8, 1), Some(true));
    assert!(!pair.sender.has_quick_room(8));
    assert_eq!(pair.sender.look_for_room(&pair.words, 8), Some(5));
    for _ in 0..2 {
        assert!(pair.sender.has_quick_room(8));
        assert!(pair.sender.send_word(&pair.words, 7));
    }
    assert!(!pair.sender.has_quick_room(8));
    assert_eq!(pair.sender.look_for_room(&pair.words, 8), None);
    // There is a request again, and the message that takes it leaves none.
    pair.post(48, 5);
    assert_eq!(pair.send(8, 1), Some(true));
    assert!(!pair.sender.has_quick_room(8));
}

#[test]
fn slots_have_room_for_every_length() {
    assert_eq!((slots_of(0), slots_of(48), slots_of(49), slots_of(104), slots_of(105)), (1, 1, 2, 2, 3));
    for slots in [8, 16, 64, 256, 1024] {
        let most = most_bytes(slots);
        assert!(2 * slots_of(most) <= slots && most <= MAX_DIRECT as u32 && MAX_DIRECT < 1 << 16);
        assert!(most == MAX_DIRECT as u32 || 2 * slots_of(most + 1) > slots);
    }
    let mut seen = std::collections::HashSet::new();
    for word in 0..MAX_DIRECT.div_ceil(8) as u32 {
        let (slot, word) = payload_at(word);
        assert!(slot < slots_of(MAX_DIRECT as u32) && word < SLOT_WORDS && word > u32::from(slot == 0));
        assert!(seen.insert((slot, word)));
    }
}

#[test]
fn nothing_goes_that_was_not_promised() {
    let mut pair = pair(u32::MAX - 1);
    assert_eq!(pair.send(0, 1), None, "no request");
    pair.post(16, 5);
    assert_eq!(pair.send(17, 1), None, "too long");
    assert_eq!(pair.send(16, 1), Some(true));
    assert_eq!(pair.send(0, 1), None, "no request left");
    assert_eq!(pair.take(), Some((u32::MAX - 1, 16, 1)));
    assert_eq!(pair.take(), None);
    pair.post(200, 5);
    pair.post(200, 5);
    assert_eq!(pair.send(200, 2), Some(true), "what was short is used up");
    assert_eq!(pair.send(100, 3), Some(true));
    assert_eq!((pair.take(), pair.take()), (Some((u32::MAX, 200, 2)), Some((0, 100, 3))));
}

#[test]
fn what_waits_says_what_all_requests_have_in_common() {
    let mut pair = pair(0);
    let seen = |pair: &Pair| {
        let word = |word| pair.words.load(at(QP, word));
        (word(DirectWord::Credit) as u32, word(DirectWord::Credit) >> 32, word(DirectWord::Key))
    };
    pair.post(64, 5);
    assert_eq!(seen(&pair), (1, 64, 5));
    pair.post(100, 6);
    assert_eq!(seen(&pair), (2, 64, 0), "several keys");
    pair.post(0, 0);
    assert_eq!(seen(&pair), (3, 0, 0), "a request without memory");
    for _ in 0..2 {
        pair.receiver.passed();
    }
    pair.post(70, 7);
    assert_eq!(seen(&pair), (4, 0, 0), "that one waits");
    for _ in 0..2 {
        pair.receiver.passed();
    }
    pair.post(80, 7);
    assert_eq!(seen(&pair), (5, 80, 7), "all before are completed");
    pair.post(90, 7);
    assert_eq!(seen(&pair), (6, 80, 7));
    for _ in 0..2 {
        pair.receiver.passed();
    }
    pair.post(1 << 20, 8);
    assert_eq!(seen(&pair), (7, MAX_POOLED.into(), 8));
}

#[test]
fn one_unlike_many_before_it_is_noticed_and_forgotten() {
    let head = u32::MAX - 3;
    let mut pair = pair(head);
    let seen = |pair: &Pair| {
        let word = |word| pair.words.load(at(QP, word));
        let count = (word(DirectWord::Credit) as u32).wrapping_sub(head);
        (count, word(DirectWord::Credit) >> 32, word(DirectWord::Key))
    };
    for n in 1..=8 {
        pair.post(200, 5);
        assert_eq!(seen(&pair), (n, 200, 5));
        if n > 2 {
            pair.receiver.passed();
        }
    }
    pair.post(64, 6);
    assert_eq!(seen(&pair), (9, 64, 0), "two by the other key wait");
    pair.receiver.passed();
    pair.receiver.passed();
    pair.post(200, 5);
    assert_eq!(seen(&pair), (10, 64, 0), "that one waits");
    pair.receiver.passed();
    pair.post(200, 5);
    assert_eq!(seen(&pair), (11, 200, 5), "it is completed");
}

#[test]
fn a_full_ring_takes_what_fits() {
    let mut pair = pair(0);
    (0..40).for_each(|_| pair.post(200, 5));
    let four = FOUR;
    assert_eq!((pair.send(four, 1), pair.send(four, 2), pair.send(0, 3)), (Some(true), Some(true), None));
    assert_eq!(pair.receiver.waiting(&pair.words), 2);
    assert_eq!(pair.take(), Some((0, four, 1)));
    assert_eq!((pair.send(60, 3), pair.send(60, 4), pair.send(0, 5)), (Some(true), Some(true), None));
    for expected in [(1, four, 2), (2, 60, 3), (3, 60, 4)] {
        assert_eq!(pair.take(), Some(expected));
    }
    assert_eq!(pair.take(), None);
}

#[test]
fn messages_of_both_ways_come_in_order() {
    let mut pair = pair(0);
    (0..9).for_each(|_| pair.post(64, 5));
    assert_eq!(pair.send(1, 1), Some(true));
    // One goes the other way.
    assert_eq!(pair.sender.number, 1);
    pair.sender.number = 2;
    assert_eq!(pair.send(1, 2), Some(true));
    assert_eq!(pair.take(), Some((0, 1, 1)));
    assert_eq!(pair.receiver.look(&pair.words, || true), None, "not before the one in between");
    pair.receiver.passed();
    let found = pair.receiver.look(&pair.words, || panic!("nothing is in between")).unwrap();
    assert_eq!(found.number, 2);
    pair.receiver.take(&pair.words, &found);
    // One that was lost is not waited for once nothing is left that it could be among.
    pair.sender.number = 4;
    assert_eq!(pair.send(1, 3), Some(true));
    assert_eq!(pair.receiver.look(&pair.words, || true), None);
    assert_eq!(pair.take(), Some((4, 1, 3)));
    assert_eq!(pair.receiver.completed(), 5);
}

#[test]
fn who_comes_later_goes_on_where_the_one_before_ended() {
    let mut pair = pair(7);
    (0..20).for_each(|_| pair.post(200, 5));
    assert_eq!((pair.send(1, 1), pair.send(100, 2), pair.send(1, 3)), (Some(true), Some(true), Some(true)));
    assert_eq!(pair.take(), Some((7, 1, 1)));
    pair.sender = Sender::attach(&pair.words, QP, SLOTS, 7).unwrap();
    assert_eq!(pair.send(1, 4), Some(true));
    for expected in [(8, 100, 2), (9, 1, 3), (10, 1, 4)] {
        assert_eq!(pair.take(), Some(expected));
    }
    pair.sender = Sender::attach(&pair.words, QP, SLOTS, 12).unwrap();
    assert_eq!(pair.sender.number, 12, "more went the other way");
    assert_eq!(Sender::attach(&pair.words, QP, MIN_SLOTS / 2, 7), None);
}

#[test]
fn what_a_sender_left_half_written_counts_for_nothing() {
    // Rings that went round, of which all was taken; the last message takes one slot or several.
    for (last, begun) in [(1, 1), (FOUR, 1), (1, FOUR), (FOUR, FOUR)] {
        let mut pair = pair(7);
        (0..20).for_each(|_| pair.post(200, 5));
        for n in 0..9 {
            assert_eq!(pair.send(1, n), Some(true));
            assert_eq!(pair.take(), Some((7 + u32::from(n), 1, n)));
        }
        assert_eq!(pair.send(last, 9), Some(true));
        assert_eq!(pair.take(), Some((16, last, 9)));
        // As one that died before its message was there.
        let bytes = vec![1; begun];
        let message = Message { bytes: &bytes, imm: None };
        let mut dies = pair.sender;
        assert_eq!(dies.has_room(&pair.words, begun as u32), Some(5));
        let words = Stepwise(&pair.words);
        assert_eq!(Send::new(&mut dies, message).step(&words), Progress::Continue);
        pair.sender = Sender::attach(&pair.words, QP, SLOTS, 7).unwrap();
        assert_eq!(pair.sender.number, 17, "{last} {begun}");
        assert_eq!(pair.take(), None);
        for n in 10..14 {
            assert_eq!(pair.send(1, n), Some(true));
            assert_eq!(pair.take(), Some((7 + u32::from(n), 1, n)), "{last} {begun}");
        }
        assert_eq!(pair.take(), None);
    }
}

#[test]
fn a_closed_ring_ends_with_the_last_message_that_came_before() {
    let mut pair = pair(0);
    (0..9).for_each(|_| pair.post(64, 5));
    assert_eq!((pair.send(64, 1), pair.send(1, 2)), (Some(true), Some(true)));
    assert_eq!(pair.sender.was_delivered(&pair.words), Some(true));
    assert_eq!(close(&mut pair, 0), 2);
    assert_eq!(pair.sender.was_delivered(&pair.words), Some(true));
    assert_eq!(pair.send(1, 3), None, "it is closed");
    // As a sender that looked before.
    let message = Message { bytes: &[1], imm: Some(1) };
    assert_eq!(Send::new(&mut pair.sender, message).step(&pair.words), Progress::Done(false));
    assert_eq!(pair.sender.was_delivered(&pair.words), Some(false));
    assert_eq!(close(&mut pair, 2), 2, "closed before");
    assert_eq!((pair.take(), pair.receiver.is_over()), (Some((0, 64, 1)), false));
    assert_eq!((pair.take(), pair.receiver.is_over()), (Some((1, 1, 2)), true));
    assert_eq!((pair.take(), pair.receiver.waiting(&pair.words)), (None, 0));
    assert_eq!(Sender::attach(&pair.words, QP, SLOTS, 2), None);
    pair.words.store(at(QP, DirectWord::End), End::Closing.pack());
    assert_eq!(pair.sender.was_delivered(&pair.words), None);
}

#[test]
fn what_nobody_honest_wrote_is_not_taken() {
    for (first, second) in [
        // Too long; the midst of another, or of none; a number that is completed.
        (START | 1 | u64::from(most_bytes(SLOTS) + 1) << 32, 5),
        (START | 1 | MIDST, 5),
        (1, 5),
        (START | 1, 4),
        (START | 1, u64::from(u32::MAX)),
        // Another slot's.
        (START | 2, 5),
    ] {
        let mut pair = pair(5);
        pair.words.store(slot_word(QP, SLOTS, 0, 1), second);
        pair.words.store(slot_word(QP, SLOTS, 0, 0), first);
        assert_eq!(pair.receiver.look(&pair.words, || false), None, "{first:#x} {second:#x}");
        assert_eq!(close(&mut pair, 5), 5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 5 } else { 300 }))]

    /// What is promised holds for each request that waits, whatever was posted and completed before it.
    #[test]
    fn a_promise_holds_for_all_that_wait(
        head in any::<u32>(),
        acts in prop::collection::vec((any::<bool>(), 0..3usize, 5..7u32, 1..6usize), 0..100),
    ) {
        let mut pair = pair(head);
        let (mut waiting, mut tail) = (VecDeque::new(), head);
        for (posts, length, key, count) in acts {
            let bytes = [0, 64, 300][length];
            for _ in 0..count {
                if posts {
                    pair.post(bytes, if bytes > 0 { key } else { 0 });
                    tail = tail.wrapping_add(1);
                    waiting.push_back((bytes, key));
                } else if waiting.pop_front().is_some() {
                    pair.receiver.passed();
                }
                let word = |word| pair.words.load(at(QP, word));
                let (credit, promised) = (word(DirectWord::Credit), word(DirectWord::Key) as u32);
                let least = (credit >> 32) as u32;
                prop_assert_eq!(credit as u32, tail);
                for (bytes, key) in &waiting {
                    prop_assert!(least <= *bytes, "{least} {bytes}");
                    prop_assert!(least == 0 || promised == 0 || promised == *key, "{promised} {key}");
                }
            }
        }
    }

    /// Whatever is sent and taken in whatever order comes once, in order and whole.
    #[test]
    fn all_arrives_once(
        head in any::<u32>(),
        acts in prop::collection::vec((0..5u8, 0..=FOUR), 0..200),
    ) {
        let mut pair = pair(head);
        let mut under_way = VecDeque::new();
        let (mut number, mut posted, mut settled) = (head, head, head);
        for (n, (act, bytes)) in acts.into_iter().enumerate() {
            match act {
                0 => {
                    pair.post(MAX_DIRECT as u32, 5);
                    posted = posted.wrapping_add(1);
                }
                1 | 2 => {
                    let fill = n as u8;
                    if pair.send(bytes, fill).is_some() {
                        under_way.push_back(Some((number, bytes, fill)));
                        number = number.wrapping_add(1);
                    }
                }
                3 if number != posted => {
                    // The other way.
                    number = number.wrapping_add(1);
                    pair.sender.number = number;
                    settled = number;
                    under_way.push_back(None);
                }
                _ => match under_way.front() {
                    Some(None) => {
                        prop_assert_eq!(pair.receiver.look(&pair.words, || true), None);
                        pair.receiver.passed();
                        under_way.pop_front();
                    }
                    _ => prop_assert_eq!(pair.take(), under_way.pop_front().flatten()),
                },
            }
        }
        prop_assert_eq!(pair.sender.number, number);
        // Who comes after it, and who closes the ring, know as much by what was stored last.
        let next = Sender::attach(&pair.words, QP, SLOTS, settled).unwrap();
        prop_assert_eq!((next.count, next.number), (pair.sender.count, number));
        let end = close(&mut pair, settled);
        prop_assert_eq!(end, number);
    }
}
