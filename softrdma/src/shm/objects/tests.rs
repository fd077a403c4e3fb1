//! Tests of the queues in a segment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use softrdma_testing::thread::asleep;

use super::layout::*;
use super::table::RESTING;
use super::*;
use crate::queues::claim::ClaimRequest;
use crate::queues::completion::{Armed, ENTRY_WORDS};
use crate::queues::deliver::{Deliver, Delivered};
use crate::queues::receive::RECEIVE_WORDS;
use crate::queues::shared::{
    ATTRIBUTES, CqWord, Fence, Memory, Object, QpJournal, QpWord, SrqWord, Take, Word,
};
use crate::queues::transaction::{LockError, Locked};
use crate::queues::transaction::{Machine, Progress};
use crate::queues::transport::{Operation, Transport, acquire, run};
use crate::rules::completion::Completion;
use crate::rules::verbs::WcOpcode;
use crate::shm::bell::Bell;
use crate::shm::error::Error;
use crate::shm::memory::Memory as Mapping;
use crate::shm::numbering::Numbering;
use crate::shm::segment::{Peer, Segment};
use crate::shm::testing::{TestDir, in_child};

const SHAPE: Shape = Shape { capacity: 8, receive_words: 8, bell: None, alert: None };

/// Posts a receive request without memory, as the queue's owner.
fn post(own: &Host, queue: Object, wr_id: u64) {
    let tail = match queue {
        Object::Qp(qp) => Word::Qp(qp, QpWord::Tail),
        Object::Srq(srq) => Word::Srq(srq, SrqWord::Tail),
        Object::Cq(_) => panic!("a completion queue takes no requests"),
    };
    let count = own.load(tail) as u32;
    let slot = crate::queues::shared::slot(count, own.capacity(queue));
    own.store(Word::Receive { queue, slot, word: 0 }, wr_id);
    own.store(Word::Receive { queue, slot, word: 1 }, 0);
    own.store(tail, u64::from(count + 1));
}

#[test]
fn every_word_has_its_own_place() {
    let dir = TestDir::new("objects");
    let me = Arc::new(Segment::create(dir.folder()).unwrap());
    let objects = Objects::new(me.clone()).unwrap();
    let mut words = Vec::new();
    for _ in 0..2 {
        for like in [Object::Qp(0), Object::Srq(0), Object::Cq(0)] {
            let cq = Shape { receive_words: 0, ..SHAPE };
            let shape = if like == Object::Cq(0) { cq } else { SHAPE };
            let object = objects.create(like, shape).unwrap();
            words.extend((0..ATTRIBUTES).map(|word| Word::Attribute { object, word }));
            match object {
                qp @ Object::Qp(i) => {
                    use QpWord::*;
                    words.extend([State, Journal, Head, Tail, Claim, Events, Seen].map(|w| Word::Qp(i, w)));
                    words.extend((0..RECEIVE_WORDS).map(|word| Word::Claimed { qp: i, word }));
                    words.extend((0..64).map(|n| Word::Receive { queue: qp, slot: n / 8, word: n % 8 }));
                }
                srq @ Object::Srq(i) => {
                    use SrqWord::*;
                    words.extend([Journal, Head, Tail, Limit, Events, Seen].map(|w| Word::Srq(i, w)));
                    words.extend((0..64).map(|n| Word::Receive { queue: srq, slot: n / 8, word: n % 8 }));
                }
                Object::Cq(i) => {
                    use CqWord::*;
                    words.extend([Journal, Head, Tail, Armed, Events, Seen].map(|w| Word::Cq(i, w)));
                    words.extend((0..8 * ENTRY_WORDS).map(|n| Word::Entry {
                        cq: i,
                        slot: n / ENTRY_WORDS,
                        word: n % ENTRY_WORDS,
                    }));
                }
            }
        }
    }
    let own = Host::own(me.clone());
    let peer = Host::of_peer(me.clone(), Arc::new(Peer::open(me.folder(), 0).unwrap()));
    let held = peer.find([Some(Object::Qp(1)), Some(Object::Srq(0)), Some(Object::Cq(1))]);
    let view = peer.with(&held);
    for (n, word) in words.iter().enumerate() {
        assert_eq!(own.load(*word), 0);
        own.store(*word, n as u64 + 1);
    }
    for (n, word) in words.iter().enumerate() {
        assert_eq!((peer.load(*word), view.load(*word)), (n as u64 + 1, n as u64 + 1), "{word:?}");
    }
    // The locks are none of these words.
    for object in [Object::Qp(0), Object::Srq(1), Object::Cq(0)] {
        assert_eq!(view.lock(object), Ok(Locked::Clean));
        view.unlock(object);
    }
    for (n, word) in words.iter().enumerate() {
        assert_eq!(view.load(*word), n as u64 + 1, "{word:?}");
    }
}

#[test]
fn shapes_that_are_not_possible() {
    let dir = TestDir::new("objects");
    let me = Arc::new(Segment::create(dir.folder()).unwrap());
    let objects = Objects::new(me).unwrap();
    for shape in [
        Shape { capacity: 3, ..SHAPE },
        Shape { capacity: MAX_CAPACITY * 2, ..SHAPE },
        Shape { receive_words: 1, ..SHAPE },
        Shape { receive_words: RECEIVE_WORDS + 1, ..SHAPE },
    ] {
        assert_eq!(objects.create(Object::Qp(0), shape), Err(Error::OutOfBounds), "{shape:?}");
    }
    let none = Shape { capacity: 0, ..SHAPE };
    assert_eq!(objects.create(Object::Qp(0), none), Ok(Object::Qp(0)));
    assert_eq!(objects.create(Object::Srq(0), none), Err(Error::OutOfBounds));
    assert_eq!(objects.create(Object::Cq(0), none), Err(Error::OutOfBounds));
    assert_eq!(objects.destroy(Object::Cq(0)), Err(Error::OutOfBounds));
    assert_eq!(objects.destroy(Object::Qp(0)), Ok(()));
    assert_eq!(objects.destroy(Object::Qp(0)), Err(Error::OutOfBounds));
}

/// Makes objects until one has this place again.
fn create_again(objects: &Objects, object: Object, shape: Shape) {
    for _ in 0..=RESTING {
        let fresh = objects.create(object, shape).unwrap();
        if fresh == object {
            return;
        }
        objects.destroy(fresh).unwrap();
    }
    panic!("the index is not used again");
}

#[test]
fn an_index_that_is_used_again_is_another_object() {
    let dir = TestDir::new("objects");
    let me = Arc::new(Segment::create(dir.folder()).unwrap());
    let objects = Objects::new(me.clone()).unwrap();
    let peer = Host::of_peer(me.clone(), Arc::new(Peer::open(me.folder(), 0).unwrap()));
    assert!(!peer.exists(Object::Cq(0)) && !peer.exists(Object::Cq(u32::MAX)));
    // More than one chunk, and more than the segment had when it was mapped.
    let all: Vec<Object> = (0..600).map(|_| objects.create(Object::Cq(0), SHAPE).unwrap()).collect();
    let cq = all[599];
    assert_eq!(cq, Object::Cq(599));
    let held = peer.find([Some(cq), None, None]);
    let view = peer.with(&held);
    assert!(peer.exists(cq) && view.exists(cq));
    assert_eq!(view.capacity(cq), 8);
    objects.destroy(cq).unwrap();
    assert!(!peer.exists(cq) && !view.exists(cq));
    create_again(&objects, cq, Shape { capacity: 16, ..SHAPE });
    assert!(peer.exists(cq) && !view.exists(cq));
    assert_eq!(peer.capacity(cq), 16);
}

/// A segment with a queue pair and a completion queue, and how another process of the folder sees it.
fn pair(dir: &TestDir) -> (Objects, Host, Host, Object, Object) {
    let me = Arc::new(Segment::create(dir.folder()).unwrap());
    let other = Arc::new(Segment::create(dir.folder()).unwrap());
    let objects = Objects::new(me.clone()).unwrap();
    let qp = objects.create(Object::Qp(0), SHAPE).unwrap();
    let cq = objects.create(Object::Cq(0), SHAPE).unwrap();
    let peer = Arc::new(Peer::open(me.folder(), me.owner().slot()).unwrap());
    (objects, Host::own(me), Host::of_peer(other, peer), qp, cq)
}

#[test]
fn a_lock_that_is_kept_fails_one_operation_and_no_other() {
    let dir = TestDir::new("objects");
    let (_objects, own, peer, qp, cq) = pair(&dir);
    let waiter = peer.with_limit(Duration::from_millis(30));
    assert_eq!(own.lock(cq), Ok(Locked::Clean));
    // Another operation of the waiting process, half done.
    assert_eq!(waiter.lock(qp), Ok(Locked::Clean));
    assert_eq!(waiter.lock(cq), Err(LockError::Busy));
    waiter.store(Word::Qp(0, QpWord::Head), 5);
    assert_eq!((waiter.exists(cq), own.load(Word::Qp(0, QpWord::Head))), (true, 5));
    waiter.unlock(qp);
    // What is not had is not given back, neither in the own segment nor in another's.
    own.unlock(cq);
    assert_eq!(own.lock(cq), Ok(Locked::Clean));
    own.unlock(cq);
    assert_eq!(waiter.lock(cq), Ok(Locked::Clean));
    waiter.unlock(cq);
}

#[test]
fn a_repair_that_cannot_go_on_leaves_the_news_to_the_next() {
    let dir = TestDir::new("objects");
    let (_objects, own, peer, qp, cq) = pair(&dir);
    let waiter = peer.with_limit(Duration::from_millis(30));
    let journal = QpJournal { published: true, cq: 0, take: Take::Head(1), breaks: false };
    own.store(Word::Qp(0, QpWord::Tail), 1);
    own.store(Word::Qp(0, QpWord::Journal), journal.pack());
    assert_eq!(own.lock(qp), Ok(Locked::Clean));
    own.abandon(qp);
    assert_eq!(own.lock(cq), Ok(Locked::Clean));
    assert_eq!(acquire(&waiter, qp), Err(LockError::Busy));
    assert_eq!(own.load(Word::Qp(0, QpWord::Journal)), journal.pack());
    own.unlock(cq);
    assert_eq!(acquire(&waiter, qp), Ok(()));
    let after = (own.load(Word::Qp(0, QpWord::Journal)), own.load(Word::Qp(0, QpWord::Head)));
    assert_eq!(after, (0, 1));
    waiter.unlock(qp);
    assert_eq!(own.lock(qp), Ok(Locked::Clean));
}

#[test]
fn a_repair_goes_by_the_queues_as_they_are_whatever_was_known_of_them() {
    let completion = Completion::flushed(1, WcOpcode::Recv, 1);
    // Resized before the sender who dies, or after.
    for (shared, before) in [(false, false), (false, true), (true, false), (true, true)] {
        // However far the delivery got: what was published uses up its request.
        for life in 0.. {
            let dir = TestDir::new("objects");
            let (objects, own, peer, qp, cq) = pair(&dir);
            let srq = objects.create(Object::Srq(0), SHAPE).unwrap();
            let queue = if shared { srq } else { qp };
            for wr_id in 0..4 {
                post(&own, queue, wr_id);
            }
            // Somebody who knows the queues as they are now.
            let held = peer.find([Some(qp), Some(srq), Some(cq)]);
            let view = peer.with(&held);
            let resize = || {
                for (object, words) in [(srq, SHAPE.receive_words), (cq, ENTRY_WORDS)] {
                    acquire(&own, object).unwrap();
                    let from = own.offset(first_word(object)).unwrap();
                    let copy = |memory: &Mapping, to| {
                        for word in 0..8 * u64::from(words) {
                            let word = |at| memory.u64(at + 8 * word).unwrap();
                            word(to).store(word(from).load(Ordering::Relaxed), Ordering::Relaxed);
                        }
                    };
                    objects.resize(object, 16, words, copy).unwrap();
                    own.unlock(object);
                }
            };
            if before {
                resize();
            }
            assert_eq!(own.lock(qp), Ok(Locked::Clean));
            let mut left = life;
            let mut done = true;
            if shared {
                done = until_death(&own, ClaimRequest::new(0, 0), &mut left);
            }
            let take = if shared { Take::Claim(0) } else { Take::Head(0) };
            done = done && until_death(&own, Deliver::receive(0, take, 0, &completion, false), &mut left);
            if done {
                own.unlock(qp);
            } else {
                own.abandon(qp);
            }
            if !before {
                resize();
            }
            assert_eq!(acquire(&view, qp), Ok(()));
            view.unlock(qp);
            // The owner visits its queues sooner or later.
            for object in [srq, cq] {
                acquire(&own, object).unwrap();
                own.unlock(object);
            }
            let load = |word| own.load(word);
            let published = load(Word::Cq(0, CqWord::Tail));
            let (head, claim) = if shared {
                (load(Word::Srq(0, SrqWord::Head)), load(Word::Qp(0, QpWord::Claim)) >> 63)
            } else {
                (load(Word::Qp(0, QpWord::Head)), 0)
            };
            assert_eq!(published, head - claim, "shared {shared}, before {before}, after {life} steps");
            assert_eq!(load(Word::Qp(0, QpWord::Journal)), 0);
            if done {
                assert_eq!(published, 1);
                break;
            }
        }
    }
}

fn first_word(object: Object) -> Word {
    match object {
        Object::Cq(cq) => Word::Entry { cq, slot: 0, word: 0 },
        queue => Word::Receive { queue, slot: 0, word: 0 },
    }
}

/// Carries a machine on for so many steps. What it has locked then is abandoned, as by death.
fn until_death<M: Machine>(host: &Host, mut machine: M, left: &mut u32) -> bool {
    let mut operation = Operation::new(host);
    while let Some(rest) = left.checked_sub(1) {
        *left = rest;
        match machine.step(host) {
            Progress::Done(_) => return true,
            progress => {
                operation.proceed(&progress).unwrap();
            }
        }
    }
    false
}

#[test]
fn a_bell_that_cannot_be_rung_stays_asked_for() {
    let dir = TestDir::new("objects");
    let folder = dir.folder();
    let status = in_child(|| {
        let me = Arc::new(Segment::create(folder.clone()).unwrap());
        let bell = Bell::new(&me).unwrap();
        let objects = Objects::new(me.clone()).unwrap();
        let shape = Shape { bell: Some(bell.number()), ..SHAPE };
        assert_eq!(objects.create(Object::Cq(0), shape), Ok(Object::Cq(0)));
        let host = Host::own(me);
        host.store(Word::Cq(0, CqWord::Armed), Armed::Next as u64);
        let descriptors = |n| {
            let limit = libc::rlimit { rlim_cur: n, rlim_max: 1000 };
            // SAFETY: reads the struct given.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
            let entry = Completion::flushed(1, WcOpcode::Send, 1);
            assert_eq!(run(&host, Deliver::append(0, &entry)), Ok(Delivered::Published));
            host.load(Word::Cq(0, CqWord::Armed))
        };
        descriptors(0) == Armed::Next as u64 && descriptors(1000) == Armed::No as u64
    });
    assert_eq!(status, 0);
}

#[test]
fn a_forked_child_changes_nothing() {
    let dir = TestDir::new("objects");
    let (objects, own, peer, qp, cq) = pair(&dir);
    own.store(Word::Qp(0, QpWord::Head), 1);
    assert_eq!(own.lock(qp), Ok(Locked::Clean));
    let status = in_child(|| {
        for host in [&own, &peer] {
            assert_eq!(host.lock(cq), Err(LockError::Gone));
            host.store(Word::Qp(0, QpWord::Head), 2);
            assert_eq!(host.load(Word::Qp(0, QpWord::Head)), 1);
            host.unlock(qp);
        }
        objects.destroy(qp) == Err(Error::Forked)
    });
    assert_eq!(status, 0);
    let waiter = peer.with_limit(Duration::from_millis(1));
    assert_eq!(waiter.lock(qp), Err(LockError::Busy));
    assert!(own.exists(qp));
    own.unlock(qp);
    assert_eq!(own.lock(cq), Ok(Locked::Clean));
}

#[test]
fn an_object_that_went_away_leaves_no_lock_behind() {
    let dir = TestDir::new("objects");
    let (objects, own, peer, qp, _) = pair(&dir);
    for views in [false, true] {
        assert!(peer.exists(qp));
        let held = peer.find([Some(qp), None, None]);
        let view = peer.with(&held);
        assert_eq!(own.lock(qp), Ok(Locked::Clean));
        std::thread::scope(|s| {
            let (waiter, _) = asleep(s, || if views { view.lock(qp) } else { peer.lock(qp) });
            assert!(!waiter.is_finished());
            objects.destroy(qp).unwrap();
            own.unlock(qp);
            assert_eq!(waiter.join().unwrap(), Err(LockError::Gone));
        });
        create_again(&objects, qp, SHAPE);
        assert_eq!(own.lock(qp), Ok(Locked::Clean), "born locked");
        // Who looks whether it is still there can give it back all the same.
        objects.destroy(qp).unwrap();
        assert!(!own.exists(qp));
        own.unlock(qp);
        create_again(&objects, qp, SHAPE);
        assert_eq!(own.lock(qp), Ok(Locked::Clean), "born locked");
        own.unlock(qp);
    }
}

/// A delivery of which the owner has said by a fence that it happened; its sender died. Its completion queue is
/// being moved while somebody repairs.
#[test]
fn a_queue_that_is_moved_just_now_is_there() {
    let dir = TestDir::new("objects");
    let (objects, own, peer, qp, cq) = pair(&dir);
    post(&own, qp, 1);
    let entry = own.offset(Word::Cq(0, CqWord::Journal)).unwrap() - WORDS;
    let word = own.memory().u64(entry + GENERATION).unwrap();
    let held = peer.find([Some(qp), None, None]);
    for as_view in [false, true] {
        let head = own.load(Word::Qp(0, QpWord::Head)) as u32;
        let delivery = QpJournal { published: false, cq: 0, take: Take::Head(head), breaks: false };
        assert_eq!(own.lock(qp), Ok(Locked::Clean));
        own.store(Word::Qp(0, QpWord::Journal), delivery.pack());
        let take = Take::Head(head.wrapping_add(1));
        let fence = Fence::Delivery(QpJournal { published: true, take, ..delivery });
        own.store(Word::Qp(0, QpWord::Fence), fence.pack());
        own.abandon(qp);
        let before = word.fetch_or(MOVING, Ordering::AcqRel);
        let repair = || if as_view { acquire(&peer.with(&held), qp) } else { acquire(&peer, qp) };
        assert!(peer.exists(cq) && peer.with(&peer.find([None, None, Some(cq)])).exists(cq));
        assert_eq!(repair(), Err(LockError::Gone));
        word.store(before, Ordering::Release);
        assert_eq!(repair(), Ok(()));
        peer.unlock(qp);
        let words = [QpWord::Head, QpWord::Journal, QpWord::Fence].map(|word| own.load(Word::Qp(0, word)));
        assert_eq!(words, [u64::from(head) + 1, 0, 0]);
    }
    drop(objects);
}

/// Whoever changes an own object may have lost the processor in the midst of it.
#[test]
fn an_own_object_is_found_when_its_change_is_done() {
    let dir = TestDir::new("objects");
    let (objects, own, _, _, cq) = pair(&dir);
    let entry = own.offset(Word::Cq(0, CqWord::Journal)).unwrap() - WORDS;
    let word = own.memory().u64(entry + GENERATION).unwrap();
    // Who makes the change here may lose it for longer than anybody waits for that, and then tries again.
    let is_found = |_| {
        let before = word.fetch_or(MOVING, Ordering::AcqRel);
        let begun = Instant::now();
        std::thread::scope(|s| {
            let seeker = s.spawn(|| acquire(&own, cq));
            std::thread::sleep(STUCK / 4);
            let waits = !seeker.is_finished();
            word.store(before + MOVE, Ordering::Release);
            let in_time = begun.elapsed() < STUCK;
            let found = seeker.join().unwrap();
            assert!(waits && found == Ok(()) || !in_time && found == Err(LockError::Gone), "{found:?}");
            if found.is_ok() {
                own.unlock(cq);
            }
            in_time
        })
    };
    assert!((0..1000).any(is_found));
    drop(objects);
}

#[test]
fn what_was_destroyed_is_freed_though_somebody_closed_its_lock() {
    let dir = TestDir::new("objects");
    let (objects, own, _, _, cq) = pair(&dir);
    let lock = own.offset(Word::Cq(0, CqWord::Journal)).unwrap() - WORDS + LOCK;
    objects.retire(cq).unwrap();
    for forged in [4, 6] {
        own.memory().u64(lock).unwrap().store(forged, Ordering::Release);
        let is_last = forged == 6;
        if is_last {
            create_again(&objects, cq, SHAPE);
            own.memory().u64(lock).unwrap().store(forged, Ordering::Release);
            objects.retire(cq).unwrap();
        }
        assert_eq!(objects.try_free(cq), Ok(true));
    }
}

/// Who waits for less long uses what is known: looking for many objects costs no table each.
#[test]
fn who_waits_briefly_knows_what_is_known() {
    let dir = TestDir::new("objects");
    let (objects, own, _, _, _) = pair(&dir);
    let brief = own.within(Duration::ZERO);
    let late = objects.create(Object::Cq(0), SHAPE).unwrap();
    assert!(!own.is_known(late) && brief.exists(late) && own.is_known(late));
    assert_eq!(own.lock(late), Ok(Locked::Clean));
    assert_eq!(brief.lock(late), Err(LockError::Busy));
    own.unlock(late);
}

/// A queue pair was taken from a sender within a delivery, and the completion queue as well: what that sender
/// publishes reaches nobody, and it does not take it for delivered.
#[test]
fn who_lost_the_queue_pair_does_not_take_it_for_delivered() {
    let dir = TestDir::new("objects");
    let (objects, own, peer, qp, cq) = pair(&dir);
    post(&own, qp, 1);
    let held = peer.find([Some(qp), None, Some(cq)]);
    let view = peer.with(&held);
    let mut operation = Operation::new(&view);
    operation.lock(qp).unwrap();
    let completion = Completion::flushed(1, WcOpcode::Recv, 9);
    let mut deliver = Deliver::receive(0, Take::Head(0), 0, &completion, false);
    loop {
        let progress = deliver.step(&view);
        operation.proceed(&progress).unwrap();
        if progress == Progress::Lock(cq) {
            break;
        }
    }
    let holder = own.holder(qp).unwrap();
    assert!(own.revoke(qp, holder));
    assert_eq!(acquire(&own.within(Duration::ZERO), qp), Err(LockError::Held), "the queue is not moved yet");
    assert_eq!(objects.relocate(&own, cq, holder, 0), Ok(true));
    assert_eq!(acquire(&own, qp), Ok(()));
    own.unlock(qp);
    let ended = loop {
        match deliver.step(&view) {
            Progress::Done(delivered) => break Ok(delivered),
            progress => {
                if let Err(why) = operation.proceed(&progress) {
                    break Err(why);
                }
            }
        }
    };
    assert_eq!(ended, Err(LockError::Unclear));
    drop(operation);
    assert_eq!([Word::Cq(0, CqWord::Tail), Word::Qp(0, QpWord::Head)].map(|word| own.load(word)), [0; 2]);
    assert_eq!(own.lock(cq), Ok(Locked::Clean));
}

#[test]
fn a_lock_of_a_queue_pair_that_was_taken_away_is_noticed() {
    let dir = TestDir::new("objects");
    let (_objects, own, peer, qp, _) = pair(&dir);
    let held = peer.find([Some(qp), None, None]);
    let view = peer.with(&held);
    let mut operation = Operation::new(&view);
    operation.lock(qp).unwrap();
    assert!(own.revoke(qp, own.holder(qp).unwrap()));
    assert_eq!(operation.give_back(qp), Err(LockError::Unclear));
}

#[test]
fn however_often_a_queue_was_moved_it_is_not_being_moved() {
    let most = (MOVING - MOVE) | 7;
    assert_eq!(moved(most), 7);
    assert_eq!(moved(7), MOVE | 7);
}

#[test]
fn queue_pairs_at_random_are_found_by_all_and_say_nothing_of_each_other() {
    let dir = TestDir::new("objects");
    let me = Arc::new(Segment::create_with(dir.folder(), Numbering::AtRandom).unwrap());
    let other = Arc::new(Segment::create(dir.folder()).unwrap());
    let objects = Objects::new(me.clone()).unwrap();
    let peer = Arc::new(Peer::open(me.folder(), me.owner().slot()).unwrap());
    let peer = Host::of_peer(other, peer);
    let empty = Shape { capacity: 0, ..SHAPE };
    let index = |object| match object {
        Object::Qp(index) => index,
        other => panic!("{other:?}"),
    };
    let make = || objects.create(Object::Qp(0), empty);
    let some: Vec<u32> = (0..64).map(|_| index(make().unwrap())).collect();
    assert!(!some.is_sorted() && some.iter().all(|index| *index < MAX_NUMBERED));
    assert!(some.iter().all(|index| peer.exists(Object::Qp(*index))));
    assert_eq!((0..MAX_NUMBERED).filter(|index| peer.exists(Object::Qp(*index))).count(), some.len());
    // One that ends rests.
    objects.destroy(Object::Qp(some[5])).unwrap();
    assert!(!peer.exists(Object::Qp(some[5])));
    // All that there can be, each once, those that rested too.
    let mut all = some.clone();
    all.swap_remove(5);
    while let Ok(made) = make() {
        let is_last = all.len() + 1 == MAX_NUMBERED as usize;
        assert!(index(made) != some[5] || is_last);
        all.push(index(made));
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..MAX_NUMBERED));
    objects.destroy(Object::Qp(77)).unwrap();
    assert_eq!(make(), Ok(Object::Qp(77)));
    // The others are named by nobody on another host.
    assert_eq!(objects.create(Object::Srq(0), SHAPE), Ok(Object::Srq(0)));
    assert_eq!(objects.create(Object::Cq(0), SHAPE), Ok(Object::Cq(0)));
}
