use std::collections::VecDeque;

use super::*;
use crate::queues::direct::ring_words;
use crate::queues::direct::words::{QP, SLOTS, Words};
use proptest::prelude::*;

const MANY: u32 = 1000;

fn header(mark: u8) -> Header {
    let imm = mark.is_multiple_of(2).then_some(mark.into());
    Header { qkey: 7, imm, solicited: mark.is_multiple_of(3) }
}

/// Sends so many bytes, all alike; `None` when they do not go this way.
fn send(sender: &mut Sender, words: &Words, bytes: u32, mark: u8, requests: u32) -> Option<bool> {
    if !sender.has_room(words, bytes, || requests) {
        return None;
    }
    let word = u64::from_ne_bytes([mark; 8]);
    if bytes <= SHORT {
        let mut slot = [word; SLOT_WORDS as usize];
        return Some(sender.send_short(words, &mut slot, bytes, &header(mark)));
    }
    Some(sender.send(words, bytes, &header(mark), |words, _| words.fill(word)))
}

/// Whether these are a datagram's words.
fn is_of(found: &Datagram, words: &[u64], bytes: u32, mark: u8) -> bool {
    let word = u64::from_ne_bytes([mark; 8]);
    (found.bytes, found.header) == (bytes, header(mark))
        && words[..bytes.div_ceil(8) as usize].iter().all(|other| *other == word)
}

fn take(receiver: &mut Receiver, words: &Words, bytes: u32, mark: u8) -> bool {
    let Some(found) = receiver.next(words) else { return false };
    let mut copy = [0; 32];
    receiver.copy(words, &found, &mut copy);
    assert!(is_of(&found, &copy, bytes, mark), "{found:?} {mark}");
    receiver.take(words, &found);
    true
}

#[test]
fn datagrams_come_as_they_were_sent() {
    let (words, mut receiver) = (Words::new(), Receiver::new(QP, SLOTS));
    let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
    for (mark, bytes) in [(1, 40), (2, 48), (3, 49), (4, 104), (5, 105), (6, 160), (7, 200)] {
        assert_eq!(send(&mut sender, &words, bytes, mark, MANY), Some(true));
        assert!(take(&mut receiver, &words, bytes, mark));
        assert_eq!(receiver.next(&words), None);
    }
    assert!(!sender.takes(201));
    assert_eq!(send(&mut sender, &words, 201, 1, MANY), None);
}

#[test]
fn there_is_room_for_as_many_as_there_are_slots_and_requests() {
    let (words, mut receiver) = (Words::new(), Receiver::new(QP, SLOTS));
    let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
    (0..8).for_each(|mark| assert_eq!(send(&mut sender, &words, 48, mark, MANY), Some(true)));
    assert_eq!(send(&mut sender, &words, 48, 8, MANY), None);
    assert!(sender.full_at(&words, 48).is_some());
    assert!(take(&mut receiver, &words, 48, 0));
    assert_eq!(sender.full_at(&words, 48), None);
    assert_eq!(send(&mut sender, &words, 49, 8, MANY), None);
    assert_eq!(send(&mut sender, &words, 48, 8, MANY), Some(true));
    (1..9).for_each(|mark| assert!(take(&mut receiver, &words, 48, mark)));
    // Those that wait have requests of which there are three.
    (0..3).for_each(|mark| assert_eq!(send(&mut sender, &words, 48, mark, 3), Some(true)));
    assert_eq!(send(&mut sender, &words, 48, 3, 3), None);
    assert!(take(&mut receiver, &words, 48, 0));
    assert_eq!(send(&mut sender, &words, 48, 3, 2), None);
    assert_eq!(send(&mut sender, &words, 48, 3, 3), Some(true));
}

#[test]
fn who_comes_later_goes_on_behind_what_was_sent() {
    let (words, mut receiver) = (Words::new(), Receiver::new(QP, SLOTS));
    for mark in 0..20 {
        let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
        assert_eq!(send(&mut sender, &words, 100, mark, MANY), Some(true));
        if mark % 2 == 1 {
            assert!(take(&mut receiver, &words, 100, mark - 1));
            assert!(take(&mut receiver, &words, 100, mark));
        }
    }
}

#[test]
fn a_closed_ring_says_what_came_before_its_end() {
    let (words, mut receiver) = (Words::new(), Receiver::new(QP, SLOTS));
    let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
    assert_eq!(send(&mut sender, &words, 48, 1, MANY), Some(true));
    // That the owner took none, as its sender took them back, and came round, changes nothing.
    for _ in 0..5 {
        (0..7).for_each(|mark| assert_eq!(send(&mut sender, &words, 48, mark, MANY), Some(true)));
        sender.take_back(&words);
    }
    assert_eq!(send(&mut sender, &words, 48, 1, MANY), Some(true));
    receiver.close(&words);
    assert!(sender.was_delivered(&words) && !sender.is_open(&words));
    assert_eq!(send(&mut sender, &words, 48, 1, MANY), Some(false));
    assert!(!sender.was_delivered(&words));
    assert_eq!(Sender::attach(&words, QP, SLOTS), None);
}

#[test]
fn a_word_that_cannot_be_true_leaves_no_room_and_nothing_to_take_back() {
    let words = Words::new();
    let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
    assert_eq!(send(&mut sender, &words, 48, 1, MANY), Some(true));
    for taken in [2, 100, 0x7fff_ffff, 1 << 31] {
        words.store(at(QP, DirectWord::Taken), taken);
        let mut sender = Sender { room: 0, ..sender };
        assert_eq!(send(&mut sender, &words, 48, 2, MANY), None);
        assert_eq!(sender.take_back(&words).read(&words, &mut [0; 32]), None);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Send(u32),
    Take,
    TakeBack,
    Attach,
    Forge(u32, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (40u32..=200).prop_map(Act::Send),
        3 => Just(Act::Take),
        1 => Just(Act::TakeBack),
        1 => Just(Act::Attach),
    ]
}

proptest! {
    #[test]
    fn each_datagram_is_taken_once_and_in_order(acts in proptest::collection::vec(act(), 1..200)) {
        let (words, mut receiver) = (Words::new(), Receiver::new(QP, SLOTS));
        let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
        let (mut waiting, mut mark) = (VecDeque::new(), 0u8);
        for act in acts {
            match act {
                Act::Send(bytes) => {
                    mark = mark.wrapping_add(1);
                    if send(&mut sender, &words, bytes, mark, MANY).is_some() {
                        waiting.push_back((bytes, mark));
                    }
                }
                Act::Take => {
                    let next = waiting.pop_front();
                    let (bytes, mark) = next.unwrap_or_default();
                    assert_eq!(take(&mut receiver, &words, bytes, mark), next.is_some());
                }
                Act::TakeBack => {
                    assert_eq!(sender.has_waiting(&words), !waiting.is_empty());
                    let (mut back, mut copy) = (sender.take_back(&words), [0; 32]);
                    for (bytes, mark) in waiting.drain(..) {
                        let found = back.read(&words, &mut copy).unwrap();
                        assert!(is_of(&found, &copy, bytes, mark));
                    }
                    assert_eq!(back.read(&words, &mut copy), None);
                }
                Act::Attach => sender = Sender::attach(&words, QP, SLOTS).unwrap(),
                Act::Forge(..) => unreachable!(),
            }
            assert_eq!(receiver.waiting(&words) as usize, waiting.len());
        }
    }

    /// Nothing but the datagrams is wrong then.
    #[test]
    fn what_others_write_ends_nothing(
        acts in proptest::collection::vec(
            prop_oneof![
                1 => act(),
                1 => (0..ring_words(SLOTS), any::<u64>()).prop_map(|(word, value)| Act::Forge(word, value)),
                1 => (0..ring_words(SLOTS), 0u64..20, 40u64..300).prop_map(|(word, count, bytes)| {
                    Act::Forge(word, count | bytes << 32 | 1 << 50)
                }),
            ],
            1..200,
        )
    ) {
        let (words, mut receiver) = (Words::new(), Receiver::new(QP, SLOTS));
        let mut sender = Sender::attach(&words, QP, SLOTS).unwrap();
        let mut copy = [0; 25];
        for act in acts {
            match act {
                Act::Send(bytes) => {
                    let _ = send(&mut sender, &words, bytes, 1, MANY);
                }
                Act::Take => {
                    if let Some(found) = receiver.next(&words) {
                        assert!(found.bytes <= 200);
                        receiver.copy(&words, &found, &mut copy);
                        receiver.take(&words, &found);
                    }
                }
                Act::TakeBack => {
                    let mut back = sender.take_back(&words);
                    let count = std::iter::from_fn(|| back.read(&words, &mut copy)).count();
                    assert!(count <= SLOTS as usize);
                }
                Act::Attach => {
                    let _ = Sender::attach(&words, QP, SLOTS);
                }
                Act::Forge(word, value) => words.0[word as usize].set(value),
            }
            let _ = (receiver.waiting(&words), receiver.watched(), sender.full_at(&words, 48));
        }
        receiver.close(&words);
    }
}
