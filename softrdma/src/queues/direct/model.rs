//! Every interleaving of a sender and the owner (`scripts/models`).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::*;
use crate::queues::direct::shared_words::{QP, Words};
use crate::queues::transaction::{Machine as _, Progress};

/// A ring whose owner has promised so many requests.
fn with_requests(count: u32) -> Words {
    let words = Words::new();
    let mut credit = Credit::new(&words, QP, 0);
    (0..count).for_each(|_| credit.posted(&words, QP, 8, 5, || 0));
    words
}

fn send(sender: &mut Sender, words: &Words, fill: u8) -> Option<bool> {
    // Both ways to write one.
    if fill % 2 == 1 {
        sender.look_for_room(words, 8)?;
        let mut slot = Slot::default();
        slot[2] = u64::from_ne_bytes([fill; 8]);
        return Some(sender.send_short(words, &mut slot, 8, None));
    }
    sender.has_room(words, 8)?;
    let message = Message { bytes: &[fill; 8], imm: None };
    match Send::new(sender, message).step(words) {
        Progress::Done(is_there) => Some(is_there),
        other => panic!("{other:?}"),
    }
}

fn take(receiver: &mut Receiver, words: &Words, expected: u32) -> bool {
    let Some(found) = receiver.look(words, || false) else { return false };
    assert_eq!(found.number, expected);
    let payload = receiver.payload(words, &found, 0);
    assert_eq!(payload, u64::from_ne_bytes([expected as u8 + 1; 8]));
    receiver.take(words, &found);
    true
}

#[test]
fn a_message_is_there_whole_or_not_at_all() {
    loom::model(|| {
        let words = with_requests(2);
        let sender = {
            let words = words.clone();
            thread::spawn(move || {
                let mut sender = Sender::attach(&words, QP, MIN_SLOTS, 0).unwrap();
                assert_eq!(send(&mut sender, &words, 1), Some(true));
                assert_eq!(send(&mut sender, &words, 2), Some(true));
            })
        };
        let mut receiver = Receiver::new(QP, MIN_SLOTS, 0);
        let mut taken = 0;
        for _ in 0..2 {
            taken += u32::from(take(&mut receiver, &words, taken));
        }
        sender.join().unwrap();
        while taken < 2 {
            assert!(take(&mut receiver, &words, taken));
            taken += 1;
        }
    });
}

#[test]
fn both_sides_agree_on_what_came_before_the_end() {
    loom::model(|| {
        let words = with_requests(2);
        let sender = {
            let words = words.clone();
            thread::spawn(move || {
                let mut sender = Sender::attach(&words, QP, MIN_SLOTS, 0)?;
                let sent = [send(&mut sender, &words, 1), send(&mut sender, &words, 2)];
                Some((sender, sent))
            })
        };
        let mut receiver = Receiver::new(QP, MIN_SLOTS, 0);
        let taken = match Close::new(&mut receiver, 0).step(&words) {
            Progress::Done(taken) => taken,
            other => panic!("{other:?}"),
        };
        let Some((sender, sent)) = sender.join().unwrap() else {
            assert_eq!(taken, 0);
            return;
        };
        let last = sent.iter().position(|sent| *sent != Some(true)).unwrap_or(2);
        let through = match sent.get(last) {
            // What came at the same time is cleared up behind the lock, that is afterwards.
            Some(Some(false)) => last as u32 + u32::from(sender.was_delivered(&words).unwrap()),
            _ => last as u32,
        };
        assert!(sent[last..].iter().skip(1).all(|sent| sent.is_none()));
        assert_eq!(taken, through);
        let mut count = 0;
        while take(&mut receiver, &words, count) {
            count += 1;
        }
        assert_eq!(count, taken);
    });
}

/// Sends a message, and then looks whether the completion queue is armed.
fn send_and_look(words: &Words, armed: &Arc<AtomicU64>) -> thread::JoinHandle<bool> {
    let (words, armed) = (words.clone(), armed.clone());
    thread::spawn(move || {
        let mut sender = Sender::attach(&words, QP, MIN_SLOTS, 0).unwrap();
        assert_eq!(send(&mut sender, &words, 1), Some(true));
        armed.load(Ordering::Acquire) == 1
    })
}

#[test]
fn who_goes_to_sleep_finds_the_message_or_is_seen() {
    loom::model(|| {
        // What the bell of the completion queue waits for.
        let (words, armed) = (with_requests(1), Arc::new(AtomicU64::new(0)));
        let sender = send_and_look(&words, &armed);
        armed.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let found = take(&mut Receiver::new(QP, MIN_SLOTS, 0), &words, 0);
        assert!(sender.join().unwrap() || found);
    });
}

#[test]
fn a_message_is_rung_for_where_nobody_looks_any_more() {
    loom::model(|| {
        let words = with_requests(1);
        let sender = {
            let words = words.clone();
            thread::spawn(move || {
                let mut sender = Sender::attach(&words, QP, MIN_SLOTS, 0).unwrap();
                assert_eq!(send(&mut sender, &words, 1), Some(true));
            })
        };
        let mut receiver = Receiver::new(QP, MIN_SLOTS, 0);
        assert!(!receiver.unwatch(&words));
        let is_found = take(&mut receiver, &words, 0);
        // It may ring after a look at the ring, which finds the message then.
        let is_rung = words.doorbell().swap(0, Ordering::AcqRel) != 0;
        if is_rung {
            receiver.watch(&words);
            assert!(is_found || take(&mut receiver, &words, 0));
        }
        sender.join().unwrap();
        assert!(is_found || is_rung || words.doorbell().load(Ordering::Acquire) != 0);
    });
}

#[test]
fn who_goes_to_sleep_finds_the_doorbell_rung_or_is_seen() {
    loom::model(|| {
        let (words, armed) = (with_requests(1), Arc::new(AtomicU64::new(0)));
        let receiver = Receiver::new(QP, MIN_SLOTS, 0);
        assert!(!receiver.unwatch(&words));
        let sender = send_and_look(&words, &armed);
        armed.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let is_rung = words.doorbell().load(Ordering::Acquire) != 0;
        assert!(sender.join().unwrap() || is_rung);
    });
}

#[test]
fn a_slot_is_written_again_only_once_it_was_taken() {
    loom::model(|| {
        let words = with_requests(MIN_SLOTS + 1);
        let mut sender = Sender::attach(&words, QP, MIN_SLOTS, 0).unwrap();
        for fill in 0..MIN_SLOTS as u8 {
            assert_eq!(send(&mut sender, &words, fill + 1), Some(true));
        }
        let owner = {
            let words = words.clone();
            thread::spawn(move || {
                let mut receiver = Receiver::new(QP, MIN_SLOTS, 0);
                assert!(take(&mut receiver, &words, 0));
                assert!(take(&mut receiver, &words, 1));
                receiver
            })
        };
        let sent = send(&mut sender, &words, MIN_SLOTS as u8 + 1);
        assert!(matches!(sent, None | Some(true)));
        let mut receiver = owner.join().unwrap();
        let most = MIN_SLOTS + u32::from(sent.is_some());
        assert!((2..most).all(|number| take(&mut receiver, &words, number)));
        assert!(!take(&mut receiver, &words, most));
    });
}
