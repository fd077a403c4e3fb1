//! Every interleaving of one owner and one user (`scripts/models`).

use super::pin::{changes, count_change, enter, in_use};
use super::*;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread;

fn words<const N: usize>() -> Arc<[AtomicU64; N]> {
    Arc::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

/// An entry of whose words each gives the others away.
fn entry(n: u64) -> [u64; 6] {
    let key = Key { kind: Kind::Region, valid: true, pd: 0, start: n, length: n, access: Access(n as u32) };
    pack(&Entry { key, base: n }, 0)
}

fn whole(seen: std::result::Result<Entry, Lookup>) -> Option<u64> {
    let Ok(Entry { key, base }) = seen else { return None };
    assert!(key.start == base && key.length == base && u64::from(key.access.0) == base, "{key:?} {base}");
    Some(base)
}

#[test]
fn a_reader_sees_all_of_an_entry_or_none() {
    loom::model(|| {
        let words = words::<8>();
        publish(&words[..], entry(1), 2);
        let owner = {
            let words = words.clone();
            thread::spawn(move || publish(&words[..], entry(2), 4))
        };
        assert!(matches!(whole(read(&words[..], 0)), None | Some(1 | 2)));
        owner.join().unwrap();
        assert_eq!(whole(read(&words[..], 0)), Some(2));
    });
}

/// A key is removed while somebody begins to use it: who got the entry is waited for.
fn removed_or_waited_for(
    begin: impl Fn(&[AtomicU64]) + Send + Sync + Copy + 'static,
    used: impl Fn(&[AtomicU64]) -> bool + Send + Sync + Copy + 'static,
    end: impl Fn(&[AtomicU64]) + Send + Sync + Copy + 'static,
) {
    loom::model(move || {
        // The entry, and a pin.
        let words = words::<10>();
        let memory = Arc::new(AtomicBool::new(true));
        publish(&words[..8], entry(1), 2);
        let user = {
            let (words, memory) = (words.clone(), memory.clone());
            thread::spawn(move || {
                begin(&words[..]);
                if whole(read(&words[..8], 0)).is_some() {
                    assert!(memory.load(Ordering::Relaxed), "memory in use was let go");
                }
                end(&words[..]);
            })
        };
        publish(&words[..8], [0; 6], 4);
        AtomicU64::fence(Ordering::SeqCst);
        if !used(&words[..]) {
            memory.store(false, Ordering::Relaxed);
        }
        user.join().unwrap();
        assert!(!used(&words[..]));
    });
}

#[test]
fn a_pin_that_found_the_entry_is_waited_for() {
    let begin = |words: &[AtomicU64]| {
        words[8].store(2, Ordering::Relaxed);
        announce(&words[8..], 5);
    };
    let end = |words: &[AtomicU64]| {
        words[9].store(0, Ordering::Release);
        words[8].store(0, Ordering::Release);
    };
    removed_or_waited_for(begin, |words| in_use(&words[8..], 5).is_some(), end);
}

#[test]
fn a_thread_that_holds_the_entry_is_waited_for() {
    let end = |words: &[AtomicU64]| {
        words[USERS].fetch_sub(1, Ordering::Release);
    };
    removed_or_waited_for(|words| enter(&words[..8]), |words| words[USERS].load(Ordering::Acquire) > 0, end);
}

/// As `device::known` uses it: the entry is looked up once, and gone by as long as no change was counted.
#[test]
fn who_goes_by_an_entry_that_it_knows_is_waited_for() {
    loom::model(|| {
        // The entry, and how often it changed.
        let words = words::<9>();
        let memory = Arc::new(AtomicBool::new(true));
        publish(&words[..8], entry(1), 2);
        let user = {
            let (words, memory) = (words.clone(), memory.clone());
            thread::spawn(move || {
                let uses = |goes_by: &dyn Fn() -> bool| {
                    enter(&words[..8]);
                    if goes_by() {
                        assert!(memory.load(Ordering::Relaxed), "memory in use was let go");
                    }
                    words[USERS].fetch_sub(1, Ordering::Release);
                };
                let known = std::cell::Cell::new((0, false));
                uses(&|| {
                    let before = changes(&words[8]);
                    known.set((before, whole(read(&words[..8], 0)).is_some()));
                    known.get().1
                });
                let (before, is_known) = known.get();
                uses(&|| is_known && changes(&words[8]) == before);
            })
        };
        publish(&words[..8], [0; 6], 4);
        count_change(&words[8]);
        AtomicU64::fence(Ordering::SeqCst);
        if words[USERS].load(Ordering::Acquire) == 0 {
            memory.store(false, Ordering::Relaxed);
        }
        user.join().unwrap();
    });
}

/// Who sees that a change was counted finds the entry as it is since then, and so need not look again.
#[test]
fn what_was_looked_up_after_a_change_is_no_older() {
    loom::model(|| {
        let words = words::<9>();
        publish(&words[..8], entry(1), 2);
        let owner = {
            let words = words.clone();
            thread::spawn(move || {
                publish(&words[..8], entry(2), 4);
                count_change(&words[8]);
            })
        };
        let counted = changes(&words[8]);
        let found = whole(read(&words[..8], 0));
        assert!(counted == 0 || found == Some(2), "{counted} {found:?}");
        owner.join().unwrap();
    });
}
