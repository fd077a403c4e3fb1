//! Every interleaving of a sender and the owner (`scripts/models`).

use loom::sync::atomic::Ordering;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;
use crate::queues::direct::shared_words::{QP, Words};

fn send(sender: &mut Sender, words: &Words, mark: u32) -> Option<bool> {
    let header = Header { qkey: mark, imm: None, solicited: false };
    let mut slot = [u64::from(mark); SLOT_WORDS as usize];
    sender.has_room(words, 48, || 8).then(|| sender.send_short(words, &mut slot, 48, &header))
}

/// What comes to the program, behind the lock of the queue pair: by the ring and the other way.
type Arrivals = Arc<Mutex<Vec<u32>>>;

fn poll(receiver: &mut Receiver, words: &Words, arrivals: &Arrivals) {
    let (place, expected) = receiver.watched();
    if (words.0[place as usize].load(Ordering::Relaxed) as u32).wrapping_sub(expected) as i32 >= 0 {
        let mut arrivals = arrivals.lock().unwrap();
        if let Some(found) = receiver.next(words) {
            let mut copy = [0; 6];
            receiver.copy(words, &found, &mut copy);
            assert_eq!(copy, [u64::from(found.header.qkey); 6]);
            receiver.take(words, &found);
            arrivals.push(found.header.qkey);
        }
    }
}

#[test]
fn datagrams_that_go_both_ways_come_once_and_in_order() {
    loom::model(|| {
        let (words, arrivals) = (Words::new(), Arrivals::default());
        let mut receiver = Receiver::new(QP, MIN_SLOTS);
        let sent = {
            let (words, arrivals) = (words.clone(), arrivals.clone());
            thread::spawn(move || {
                let mut sender = Sender::attach(&words, QP, MIN_SLOTS).unwrap();
                assert_eq!(send(&mut sender, &words, 1), Some(true));
                if sender.has_waiting(&words) {
                    let mut back = {
                        let _locked = arrivals.lock().unwrap();
                        sender.take_back(&words)
                    };
                    // Each goes by itself.
                    while let Some(found) = back.read(&words, &mut [0; 6]) {
                        arrivals.lock().unwrap().push(found.header.qkey);
                    }
                }
                arrivals.lock().unwrap().push(2);
                assert_eq!(send(&mut sender, &words, 3), Some(true));
            })
        };
        poll(&mut receiver, &words, &arrivals);
        sent.join().unwrap();
        for _ in 0..3 {
            poll(&mut receiver, &words, &arrivals);
        }
        assert_eq!(*arrivals.lock().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_sender_knows_whether_it_came_before_the_end() {
    loom::model(|| {
        let (words, lock) = (Words::new(), Arc::new(Mutex::new(())));
        let mut receiver = Receiver::new(QP, MIN_SLOTS);
        let sent = {
            let (words, lock) = (words.clone(), lock.clone());
            thread::spawn(move || {
                let mut sender = Sender::attach(&words, QP, MIN_SLOTS)?;
                let is_there = send(&mut sender, &words, 1) == Some(true);
                let _locked = lock.lock().unwrap();
                Some(is_there || sender.was_delivered(&words))
            })
        };
        let before = {
            let _locked = lock.lock().unwrap();
            receiver.close(&words);
            End::unpack(words.load(at(QP, DirectWord::End)))
        };
        let was_sent = sent.join().unwrap();
        assert_eq!(before, if was_sent == Some(true) { End::At(1) } else { End::At(0) });
    });
}
