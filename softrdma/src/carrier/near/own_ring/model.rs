//! A consumer takes, arms, looks again and sleeps, while another thread completes: by the ring, or by a queue
//! that rings where it is armed. A wake-up that is lost ends the model as a deadlock.

use loom::sync::{Arc as Shared, Condvar, Mutex};
use loom::thread;

use super::*;

/// The shared queue, as far as it matters here.
#[derive(Default)]
struct Queue {
    entries: Vec<u64>,
    polled: usize,
    armed: bool,
    rings: usize,
}

#[derive(Default)]
struct Both(Mutex<Queue>, Condvar);

fn completion(wr_id: u64) -> Completion {
    Completion { places: 1, ..Completion::flushed(wr_id, WcOpcode::Send, 7) }
}

/// Completes a request; `fails`: with an error, which goes to the shared queue.
fn complete(ring: &OwnRing, both: &Both, wr_id: u64, fails: bool) {
    let status = if fails { Status::WrFlushErr } else { Status::Success };
    let polled = || both.0.lock().unwrap().polled as u32;
    if ring.append(&Completion { status, ..completion(wr_id) }, polled) {
        return;
    }
    let mut queue = both.0.lock().unwrap();
    queue.entries.push(wr_id);
    if std::mem::take(&mut queue.armed) {
        queue.rings += 1;
        both.1.notify_one();
    }
    drop(queue);
    ring.passed_by(|| {
        let queue = both.0.lock().unwrap();
        (queue.entries.len() as u32, queue.armed)
    });
}

/// Takes what there is, as a poll does; into `seen`.
fn poll(reader: &mut OwnReader, both: &Both, seen: &mut Vec<u64>) -> bool {
    let before = seen.len();
    loop {
        let next = {
            let queue = both.0.lock().unwrap();
            queue.entries.get(queue.polled).copied()
        };
        match next {
            Some(wr_id) if !reader.is_first(0, 8) => {
                seen.push(wr_id);
                both.0.lock().unwrap().polled += 1;
            }
            _ => match reader.take() {
                Some(completion) => seen.push(completion.wr_id),
                None => return seen.len() > before,
            },
        }
    }
}

/// Each completion is seen, in order, though the consumer sleeps whenever it finds nothing.
fn consume(ring: &OwnRing, mut reader: OwnReader, both: &Both, count: u64) {
    let mut seen = Vec::new();
    while seen.len() < count as usize {
        if poll(&mut reader, both, &mut seen) {
            continue;
        }
        both.0.lock().unwrap().armed = true;
        ring.arm();
        if poll(&mut reader, both, &mut seen) {
            continue;
        }
        let mut queue = both.0.lock().unwrap();
        while queue.rings == 0 {
            queue = both.1.wait(queue).unwrap();
        }
        queue.rings = 0;
    }
    assert!(seen.iter().copied().eq(0..count), "{seen:?}");
}

fn check(fails: &'static [bool]) {
    loom::model(move || {
        let (ring, mut reader) = OwnRing::new(None).unwrap();
        ring.open_if(|| Some(0));
        reader.make_room(2).unwrap();
        let both = Shared::new(Both::default());
        let other = (ring.clone(), both.clone());
        let poster = thread::spawn(move || {
            for (fails, wr_id) in fails.iter().zip(0..) {
                complete(&other.0, &other.1, wr_id, *fails);
            }
        });
        consume(&ring, reader, &both, fails.len() as u64);
        poster.join().unwrap();
    });
}

#[test]
fn who_sleeps_is_woken() {
    check(&[false, false]);
}

#[test]
fn completions_of_both_ways_come_in_order() {
    check(&[false, true, false]);
}
