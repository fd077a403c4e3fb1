//! Every interleaving of who moves a payload (`scripts/models`).

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::*;

const TAG: Tag = Tag(1 << 32 | 5);

/// A buffer's state, its payload, and the memory of the receive request.
struct Shared {
    word: AtomicU64,
    payload: UnsafeCell<u64>,
    request: UnsafeCell<u64>,
}

// SAFETY: the model finds any access to the two cells that is not ordered.
unsafe impl Sync for Shared {}

fn with_message() -> Arc<Shared> {
    let word = AtomicU64::new(FREE);
    assert!(claim(&word, TAG));
    Arc::new(Shared { word, payload: UnsafeCell::new(7), request: UnsafeCell::new(0) })
}

/// Moves the payload.
fn place(shared: &Shared) {
    // SAFETY: the model finds what would be wrong.
    let payload = shared.payload.with(|payload| unsafe { *payload });
    // SAFETY: as above.
    shared.request.with_mut(|request| unsafe { *request = payload });
}

/// The owner polls, a younger message is moved to the same memory by the sender: it comes last, whoever moves
/// the older one.
#[test]
fn a_younger_message_comes_after_the_older_whoever_moves_that() {
    loom::model(|| {
        let shared = with_message();
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || match take(&shared.word, TAG, || true) {
                Taken::Whole => {
                    place(&shared);
                    free(&shared.word);
                }
                Taken::Moved => free(&shared.word),
                Taken::NotYet => {}
                Taken::Nothing => panic!("it is there"),
            })
        };
        let is_before = match begin(&shared.word, TAG) {
            Begun::Mine => {
                place(&shared);
                end(&shared.word, TAG, true);
                true
            }
            Begun::Over => is_over(&shared.word, TAG),
            Begun::Owners => false,
        };
        if is_before {
            // SAFETY: as above.
            shared.request.with_mut(|request| unsafe { *request = 8 });
        }
        owner.join().unwrap();
        // SAFETY: as above.
        let seen = shared.request.with(|request| unsafe { *request });
        assert!(seen == if is_before { 8 } else { 7 });
    });
}

/// A buffer that is free again is written by the next message only after its owner has read it.
#[test]
fn a_buffer_is_written_again_after_it_was_read() {
    loom::model(|| {
        let shared = with_message();
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                assert_eq!(take(&shared.word, TAG, || true), Taken::Whole);
                place(&shared);
                free(&shared.word);
            })
        };
        if claim(&shared.word, Tag(1 << 32 | 6)) {
            // SAFETY: as above.
            shared.payload.with_mut(|payload| unsafe { *payload = 9 });
        }
        owner.join().unwrap();
        // SAFETY: as above.
        assert_eq!(shared.request.with(|request| unsafe { *request }), 7);
    });
}
