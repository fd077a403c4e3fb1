use super::super::testing::{TestDir, in_child};
use std::sync::Arc;
use std::time::Instant;

use softrdma_testing::thread::{asleep, until};

use crate::shm::error::Error;
use crate::shm::numbering::Numbering;

use super::*;
use std::sync::atomic::AtomicBool;

const NOW: Duration = Duration::ZERO;
/// Longer than anybody waits who is not to wait for ever.
const LIMIT: Duration = Duration::from_secs(300);

fn entry(n: u64) -> Entry {
    let kind = match n % 3 {
        0 => Kind::Region,
        1 => Kind::Window1,
        _ => Kind::Window2 { qp_num: n as u32 },
    };
    let key = Key {
        kind,
        valid: !n.is_multiple_of(5),
        pd: n as u32,
        start: n,
        length: n << 8,
        access: Access(n as u32),
    };
    Entry { key, base: !n }
}

fn keys(dir: &TestDir) -> (Arc<Segment>, Keys) {
    let segment = Arc::new(Segment::create(dir.folder()).unwrap());
    let keys = Keys::new(segment.clone()).unwrap();
    (segment, keys)
}

#[test]
fn the_owner_goes_by_its_own_books() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let table = me.root(ROOT).unwrap().load(Ordering::Relaxed);
    let all: Vec<u32> = (0..5000).map(|n| keys.add(&entry(n)).unwrap()).collect();
    for (n, key) in (0..).zip(&all) {
        assert_eq!(keys.local(*key), Some(entry(n)));
        assert_eq!(keys.local(key ^ 1), None);
    }
    assert_eq!((keys.local(0), keys.local(u32::MAX)), (None, None));
    let chunk = me.memory().u64(table + DIRECTORY).unwrap().load(Ordering::Relaxed);
    me.memory().write(chunk, &[0; 4096 * ENTRY as usize]).unwrap();
    assert_eq!(Table::shared(&me).lookup(all[1]), Err(Lookup::NoKey));
    assert_eq!(keys.local(all[1]), Some(entry(1)));
    keys.remove(all[1], &*me, NOW).unwrap();
    assert_eq!(keys.local(all[1]), None);
}

#[test]
fn a_window_that_a_peer_invalidated_is_valid_again_once_bound() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let peer = Peer::open(me.folder(), 0).unwrap();
    let valid = |key| {
        [
            Table::shared(&me).lookup(key).unwrap(),
            Table::of(&peer).lookup(key).unwrap(),
            keys.window(key).unwrap(),
        ]
        .map(|e| e.key.valid)
    };
    let (window, region) = (entry(2), entry(3));
    let (key, other) = (keys.add(&window).unwrap(), keys.add(&region).unwrap());
    assert_eq!(valid(key), [true; 3]);
    assert!(Table::of(&peer).invalidate(key));
    assert_eq!(valid(key), [false; 3]);
    assert!(!Table::of(&peer).invalidate(key ^ 1) && !Table::of(&peer).invalidate(other));
    assert_eq!(valid(other), [true; 3]);
    let key = keys.change(key, 77, &window).unwrap();
    assert_eq!(valid(key), [true; 3]);
}

#[test]
fn a_key_that_was_seen_is_known_to_be_another() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let peer = Peer::open(me.folder(), 0).unwrap();
    for table in [Table::shared(&me), Table::of(&peer)] {
        let add = |n| {
            let Entry { key, base } = entry(n);
            keys.add(&Entry { key: Key { kind: Kind::Region, ..key }, base }).unwrap()
        };
        let (key, other) = (add(3), add(4));
        let seen = table.look(key).unwrap();
        assert_eq!(Ok(seen.entry), table.lookup(key));
        assert!(table.is_unchanged(&seen, key));
        assert!(!table.is_unchanged(&seen, other) && !table.is_unchanged(&seen, key ^ 1));
        // The same once more is another entry.
        let again = keys.change(key, key as u8, &seen.entry).unwrap();
        assert_eq!(again, key);
        assert!(!table.is_unchanged(&seen, key));
        let seen = table.look(key).unwrap();
        assert!(table.is_unchanged(&seen, key));
        keys.remove(key, &*me, NOW).unwrap();
        assert!(!table.is_unchanged(&seen, key));
        assert_eq!(table.look(key).err(), Some(Lookup::NoKey));
        // Peers may end a window at any time.
        let Entry { key, base } = entry(5);
        let window = Entry { key: Key { kind: Kind::Window2 { qp_num: 1 }, ..key }, base };
        let window = keys.add(&window).unwrap();
        let seen = table.look(window).unwrap();
        assert!(!table.is_unchanged(&seen, window));
    }
}

#[test]
fn a_key_in_use_can_be_waited_for_again() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let other = Segment::create(me.folder().clone()).unwrap();
    let wait = |key| keys.wait_unused(key, &*me, NOW);
    let first = keys.add(&entry(3)).unwrap();
    let pinned = Table::shared(&me).pin(first, other.owner(), &*me).unwrap();
    let second = keys.change(first, 99, &entry(4)).unwrap();
    assert_eq!((wait(first), wait(second)), (Ok(false), Ok(true)));
    drop(pinned);
    assert_eq!(wait(first), Ok(true));
    let pinned = Table::shared(&me).pin(second, other.owner(), &*me).unwrap();
    assert_eq!(keys.remove(second, &*me, NOW), Ok(false));
    assert_eq!(wait(second), Ok(false));
    assert!(keys.records().free.is_empty());
    drop(pinned);
    assert_eq!((wait(second), wait(second), wait(first)), (Ok(true), Ok(true), Ok(true)));
    assert_eq!(keys.records().free, [second >> 8]);
}

#[test]
fn a_forked_child_changes_no_key() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let key = keys.add(&entry(3)).unwrap();
    let status = in_child(|| {
        keys.remove(key, &*me, NOW) == Err(Error::Forked)
            && keys.change(key, 9, &entry(4)) == Err(Error::Forked)
            && keys.add(&entry(5)) == Err(Error::Forked)
    });
    assert_eq!(status, 0);
    assert_eq!(Table::shared(&me).lookup(key), Ok(entry(3)));
}

#[test]
fn a_key_opens_its_entry_and_nothing_else() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let peer = Peer::open(me.folder(), 0).unwrap();
    let found = |key| {
        peer.refresh().unwrap();
        let found = Table::of(&peer).lookup(key);
        assert_eq!(found, Table { sealed: None, ..Table::of(&peer) }.lookup(key));
        found
    };
    let all: Vec<u32> = (0..10_000).map(|n| keys.add(&entry(n)).unwrap()).collect();
    for (n, key) in all.iter().enumerate() {
        assert_eq!(found(*key), Ok(entry(n as u64)));
        assert_eq!(found(key ^ 1), Err(Lookup::NoKey));
    }
    assert_eq!(found(0), Err(Lookup::NoKey));
    assert_eq!(found(u32::MAX), Err(Lookup::NoKey));
    assert_eq!(keys.remove(all[7], &*me, NOW), Ok(true));
    assert_eq!(found(all[7]), Err(Lookup::NoKey));
    assert_eq!(keys.remove(all[7], &*me, NOW), Err(Error::OutOfBounds));
    assert_eq!(keys.remove(0, &*me, NOW), Err(Error::OutOfBounds));
    let bound = keys.change(all[8], 200, &entry(3)).unwrap();
    assert_eq!((bound >> 8, bound & 0xff), (all[8] >> 8, 200));
    assert_eq!(found(bound), Ok(entry(3)));
    assert_eq!(found(all[8]), Err(Lookup::NoKey));
    assert_eq!(keys.change(all[8], 1, &entry(3)), Err(Error::OutOfBounds));
    // An index that is used again has another key.
    for _ in 0..200 {
        let key = keys.add(&entry(1)).unwrap();
        assert!(!all.contains(&key));
        keys.remove(key, &*me, NOW).unwrap();
    }
    assert_eq!(Entry { key: Key { start: 0x1000, ..entry(0).key }, base: 0x7000 }.translate(0x1010), 0x7010);
}

#[test]
fn readers_see_whole_entries() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let key = keys.add(&entry(0)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0..50_000 {
                keys.change(key, key as u8, &entry(n)).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            match Table::shared(&me).lookup(key) {
                Ok(seen) => assert_eq!(seen, entry(seen.key.start)),
                Err(e) => assert_eq!(e, Lookup::Torn),
            }
        }
    });
}

#[test]
fn an_entry_whose_writer_died_is_torn() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let key = keys.add(&entry(1)).unwrap();
    let at = keys.records().chunks[0] + ENTRY * u64::from(key >> 8);
    me.memory().u64(at).unwrap().fetch_or(1, Ordering::Relaxed);
    assert_eq!(Table::shared(&me).lookup(key), Err(Lookup::Torn));
}

#[test]
fn removal_waits_for_the_living_and_not_for_the_dead() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let other = Segment::create(me.folder().clone()).unwrap();
    let key = keys.add(&entry(1)).unwrap();
    let held = Table::shared(&me).pin(key, other.owner(), &*me).unwrap();
    let (seen, held) = held;
    assert_eq!(seen, entry(1));
    assert_eq!(keys.remove(key, &*me, Duration::from_millis(30)), Ok(false));
    assert!(matches!(Table::shared(&me).pin(key, other.owner(), &*me), Err(Lookup::NoKey)));
    drop(held);
    let key = keys.add(&entry(2)).unwrap();
    let folder = me.folder().clone();
    let status = in_child(|| {
        let own = Segment::create(folder.clone()).unwrap();
        let peer = Peer::open(&folder, 0).unwrap();
        // More than there are: those of the dead are used again, those of the living are not.
        for _ in 0..PINS {
            std::mem::forget(Table::of(&peer).pin(key, own.owner(), &own).unwrap());
        }
        let full = Table::of(&peer).pin(key, own.owner(), &own);
        std::mem::forget(own);
        matches!(full, Err(Lookup::Busy))
    });
    assert_eq!(status, 0);
    drop(Table::shared(&me).pin(key, other.owner(), &*me).unwrap());
    let start = Instant::now();
    assert_eq!(keys.remove(key, &*me, LIMIT), Ok(true));
    assert!(start.elapsed() < LIMIT / 2);
    assert_eq!(keys.wait_unused(key, &*me, NOW), Ok(true));
}

#[test]
fn removal_waits_for_the_own_threads() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let (key, other) = (keys.add(&entry(1)).unwrap(), keys.add(&entry(2)).unwrap());
    let (seen, held) = keys.hold(key).unwrap();
    assert_eq!(seen, entry(1));
    assert!(keys.hold(key ^ 1).is_none());
    assert_eq!(keys.wait_unused(key, &*me, NOW), Ok(false));
    assert_eq!(keys.remove(other, &*me, NOW), Ok(true));
    assert_eq!(keys.remove(key, &*me, NOW), Ok(false));
    assert!(keys.hold(key).is_none());
    drop(held);
    assert_eq!(keys.wait_unused(key, &*me, NOW), Ok(true));
}

#[test]
fn nobody_uses_what_was_removed() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let (used, gone) = (AtomicBool::new(false), AtomicBool::new(false));
    for n in 0..100 {
        let key = keys.add(&entry(n)).unwrap();
        used.store(false, Ordering::SeqCst);
        gone.store(false, Ordering::SeqCst);
        std::thread::scope(|s| {
            s.spawn(|| {
                while let Some((_, _held)) = keys.hold(key) {
                    used.store(true, Ordering::SeqCst);
                    (0..100).for_each(|_| std::hint::spin_loop());
                    assert!(!gone.load(Ordering::SeqCst));
                }
            });
            while !used.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert_eq!(keys.remove(key, &*me, LIMIT), Ok(true));
            gone.store(true, Ordering::SeqCst);
        });
    }
}

#[test]
fn removal_ends_when_the_pin_does() {
    let dir = TestDir::new("keys");
    let (me, keys) = keys(&dir);
    let other = Segment::create(me.folder().clone()).unwrap();
    let key = keys.add(&entry(1)).unwrap();
    let held = Table::shared(&me).pin(key, other.owner(), &*me).unwrap();
    std::thread::scope(|s| {
        let (remover, task) = asleep(s, || assert_eq!(keys.remove(key, &*me, LIMIT), Ok(true)));
        // It has looked again and again, at whether the other process lives as well.
        std::thread::sleep(Duration::from_millis(50));
        let many = task.sleeps() + 2;
        until(|| task.sleeps() >= many || remover.is_finished());
        assert!(!remover.is_finished());
        drop(held);
    });
}

#[test]
fn keys_at_random_are_found_by_all_and_say_nothing_of_each_other() {
    let dir = TestDir::new("keys");
    let makers: Vec<_> = (0..4)
        .map(|_| {
            let made = Segment::create_with(dir.folder(), Numbering::AtRandom).unwrap();
            let segment = Arc::new(made);
            let keys = Keys::new(segment.clone()).unwrap();
            (segment, keys)
        })
        .collect();
    let first = |(_, keys): &(_, Keys)| keys.add(&entry(0)).unwrap() >> 8;
    // Which chunk it is, the place there, and the 8 bits: none is the same each time.
    let chunks: Vec<u32> = makers.iter().map(|maker| first(maker) / CHUNK).collect();
    assert!(chunks.iter().any(|chunk| *chunk != chunks[0]));
    let (me, keys) = &makers[0];
    let peer = Peer::open(me.folder(), me.owner().slot()).unwrap();
    let all: Vec<u32> = (0..5000).map(|n| keys.add(&entry(n)).unwrap()).collect();
    peer.refresh().unwrap();
    assert!(!all.is_sorted_by_key(|key| key >> 8) && all.iter().any(|key| *key as u8 != all[0] as u8));
    for (n, key) in (0..).zip(&all) {
        assert_eq!(keys.local(*key), Some(entry(n)));
        assert_eq!(Table::shared(me).lookup(*key), Ok(entry(n)));
        assert_eq!(Table::of(&peer).lookup(*key), Ok(entry(n)));
        assert_eq!((key >> 8 == 0, key >> 8 == MAX_KEYS - 1), (false, false));
        for bit in 0..8 {
            assert_eq!(Table::of(&peer).lookup(key ^ 1 << bit), Err(Lookup::NoKey));
        }
    }
    // A change, and an end, are those of this key alone.
    keys.change(all[2], all[2] as u8 ^ 1, &entry(7)).unwrap();
    assert_eq!(Table::of(&peer).lookup(all[2] ^ 1), Ok(entry(7)));
    keys.remove(all[1], &**me, NOW).unwrap();
    assert_eq!((keys.local(all[1]), keys.local(all[0])), (None, Some(entry(0))));
    assert_eq!(Table::of(&peer).lookup(all[1]), Err(Lookup::NoKey));
    // Who was removed rests, and does not come back as it was.
    for n in 0..1000 {
        let key = keys.add(&entry(n)).unwrap();
        assert_ne!(key, all[1]);
        keys.remove(key, &**me, NOW).unwrap();
        assert_eq!(keys.local(key), None);
    }
}

#[test]
fn an_index_that_is_used_again_at_random_has_another_key() {
    let dir = TestDir::new("keys");
    let me = Arc::new(Segment::create_with(dir.folder(), Numbering::AtRandom).unwrap());
    let keys = Keys::new(me.clone()).unwrap();
    let mut last = std::collections::HashMap::new();
    let mut again = 0;
    // As many as make all of them pass several times.
    for n in 0..20_000 {
        let key = keys.add(&entry(n)).unwrap();
        again += u32::from(last.insert(key >> 8, key).is_some_and(|before| {
            assert_ne!(before, key);
            true
        }));
        keys.remove(key, &*me, NOW).unwrap();
    }
    assert!(again > 10_000);
}
