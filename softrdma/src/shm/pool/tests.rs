use std::sync::atomic::AtomicU64;

use super::*;

fn waiting(tag: Tag) -> AtomicU64 {
    let word = AtomicU64::new(FREE);
    assert!(claim(&word, tag));
    word
}

#[test]
fn a_buffer_is_one_messages_at_a_time() {
    let (one, other) = (Tag::new(7, 1), Tag::new(7, 2));
    let word = waiting(one);
    assert!(!claim(&word, other) && !claim(&word, one));
    assert!(!is_over(&word, one) && is_over(&word, other));
    assert_eq!(take(&word, other, || true), Taken::Nothing);
    assert_eq!(begin(&word, other), Begun::Over);
    assert_eq!(take(&word, one, || true), Taken::Whole);
    assert_eq!(take(&word, one, || true), Taken::Nothing);
    assert_eq!(begin(&word, one), Begun::Owners);
    assert!(!is_over(&word, one));
    free(&word);
    assert!(is_over(&word, one) && claim(&word, other));
}

#[test]
fn tags_tell_queue_pairs_and_messages_apart() {
    let tags = [(0, 0), (0, 1), (1, 0), (0xff_ffff, u32::MAX), (0xff_fffe, u32::MAX)];
    let words = tags.map(|(qp, number)| Tag::new(qp, number).with(MOVED));
    for (n, word) in words.iter().enumerate() {
        assert!(!words[..n].contains(word) && *word != FREE);
    }
}

#[test]
fn what_the_sender_moves_is_not_moved_by_the_owner() {
    let tag = Tag::new(3, u32::MAX);
    let word = waiting(tag);
    assert_eq!(begin(&word, tag), Begun::Mine);
    assert_eq!(begin(&word, tag), Begun::Over);
    assert_eq!(take(&word, tag, || true), Taken::NotYet);
    assert!(!is_over(&word, tag));
    end(&word, tag, true);
    assert!(is_over(&word, tag));
    assert_eq!(begin(&word, tag), Begun::Over);
    assert_eq!(take(&word, tag, || true), Taken::Moved);
    free(&word);
    // It could not.
    assert!(claim(&word, tag));
    assert_eq!(begin(&word, tag), Begun::Mine);
    end(&word, tag, false);
    assert_eq!(take(&word, tag, || true), Taken::Whole);
}

#[test]
fn the_owner_does_not_wait_for_a_sender_that_died_over_it() {
    let tag = Tag::new(3, 9);
    let word = waiting(tag);
    assert_eq!(begin(&word, tag), Begun::Mine);
    assert_eq!(take(&word, tag, || false), Taken::Whole);
    // It did not die, after all.
    end(&word, tag, true);
    assert_eq!(begin(&word, tag), Begun::Owners);
    free(&word);
    end(&word, tag, true);
    assert!(claim(&word, Tag::new(3, 10)));
}

#[test]
fn what_nobody_takes_is_given_back() {
    let (tag, other) = (Tag::new(1, 2), Tag::new(1, 3));
    for state in [WAITS, MOVING, MOVED] {
        let word = AtomicU64::new(tag.with(state));
        forget(&word, other);
        give_back(&word, other);
        assert!(!claim(&word, other));
        forget(&word, tag);
        assert!(claim(&word, other));
    }
    let word = waiting(tag);
    give_back(&word, tag);
    assert!(claim(&word, other));
}
