use super::*;
use crate::rules::verbs::Event;

#[test]
fn packed_words_come_back() {
    for take in [Take::Head(0), Take::Head(u32::MAX), Take::Claim(0), Take::Claim(7)] {
        for (published, breaks) in [(false, false), (false, true), (true, false), (true, true)] {
            let journal = QpJournal { published, cq: 0xff_ffff, take, breaks };
            assert_eq!(QpJournal::unpack(journal.pack()), Some(journal));
        }
    }
    let claim = Claim { srq: 0xab_cdef, count: u32::MAX };
    assert_eq!(Claim::unpack(claim.pack()), Some(claim));
    for reached in [false, true] {
        let journal = SrqJournal { qp: 0xff_ffff, count: 7, reached };
        assert_eq!(SrqJournal::unpack(journal.pack()), Some(journal));
    }
    for held in [false, true] {
        let fence = Fence::Claim { srq: 0xff_ffff, held };
        assert_eq!(Fence::unpack(fence.pack()), Some(fence));
    }
    let delivery = QpJournal { published: true, cq: 5, take: Take::Claim(3), breaks: true };
    assert_eq!(Fence::unpack(delivery.pack()), Some(Fence::Delivery(delivery)));
    assert_eq!(Fence::unpack(0), None);
    let journal = CqJournal { qp: 0xff_ffff, tail: 0 };
    assert_eq!(CqJournal::unpack(journal.pack()), Some(journal));
    assert_eq!(QpJournal::unpack(0), None);
    assert_eq!(Claim::unpack(0), None);
}

#[test]
fn counts_wrap_and_lies_are_seen() {
    assert_eq!(held(0, 0, 8), Some(0));
    assert_eq!(held(u64::from(u32::MAX), 3, 8), Some(4));
    assert_eq!(held(0, 9, 8), None);
    assert_eq!(held(1, 0, 8), None);
    assert_eq!(held(0, 0, 0), Some(0));
    assert_eq!(slot(u32::MAX, 8), 7);
}

#[test]
fn events_wait_until_collected_and_are_remembered() {
    let events = Events::default().raise_once(Event::CommEst);
    let (waiting, rest) = events.collect();
    assert_eq!(waiting, 1 << Event::CommEst as u32);
    assert_eq!(rest.raise_once(Event::CommEst).collect().0, 0);
    assert_eq!(rest.raise(Event::CommEst).collect().0, waiting);
}

#[test]
fn rings_are_those_of_counts_without_end() {
    // Under Miri all of them take an hour.
    let bits = (0..32).step_by(if cfg!(miri) { 10 } else { 1 });
    let edges: Vec<u32> = bits.flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]).collect();
    let wide = |count: u32| 1u64 << 32 | u64::from(count);
    for (&head, &tail) in edges.iter().flat_map(|head| edges.iter().map(move |tail| (head, tail))) {
        // Counts never end; 32 bits of them are kept, and whatever else a word says does not count.
        let apart = (wide(tail) + (1 << 32) - wide(head)) % (1 << 32);
        for &capacity in &edges {
            let expected = (apart <= u64::from(capacity)).then_some(apart as u32);
            for (head, tail) in [(u64::from(head), u64::from(tail)), (wide(head), wide(tail) << 8 >> 8)] {
                assert_eq!(held(head, tail, capacity), expected, "{head:#x} {tail:#x} {capacity:#x}");
            }
        }
    }
    for (&count, bit) in edges.iter().flat_map(|count| (0..32).map(move |bit| (count, bit))) {
        assert_eq!(u64::from(slot(count, 1 << bit)), u64::from(count) % (1 << bit));
    }
}
