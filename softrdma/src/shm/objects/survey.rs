//! All objects of a peer, as its segment shows them to who looks without taking part.
//!
//! Nothing is locked and nothing written. Each word is copied once, so two words of one object may be of two
//! moments.

use std::sync::atomic::Ordering;

use super::Objects;
use super::layout::{BODY_WORDS, CHUNK, MAX_OBJECTS, Shape, Spot, copy, kind, object_of, spot};
use crate::queues::shared::{Object, Word};
use crate::shm::segment::Peer;

/// A copy of an object's words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surveyed {
    /// Which object it is.
    pub(crate) object: Object,
    /// What it is made of, as its entry says.
    pub(crate) shape: Shape,
    body: [u64; BODY_WORDS],
}

impl Surveyed {
    /// What a word of its body said; 0 of one that is not in the body.
    pub(crate) fn word(&self, word: Word) -> u64 {
        match spot(&self.shape, word) {
            Spot::Body(at) if object_of(word) == self.object => self.body.get(at).copied().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Tells the objects of this kind (`like`, whose number is ignored), lowest index first, until `tell` says that
/// it has enough. The peer decides how many there are, up to [`MAX_OBJECTS`].
pub(crate) fn survey(peer: &Peer, like: Object, mut tell: impl FnMut(Surveyed) -> bool) {
    let Ok(directory) = peer.root(Objects::ROOTS[kind(like).0]) else { return };
    let memory = peer.memory();
    for chunk in 0..MAX_OBJECTS / CHUNK {
        let slot = directory.checked_add(8 * u64::from(chunk)).filter(|_| directory != 0);
        // Chunks are made where indices are chosen: most slots say nothing.
        if slot.and_then(|at| memory.u64(at).ok()).is_none_or(|word| word.load(Ordering::Acquire) == 0) {
            continue;
        }
        for index in chunk * CHUNK..(chunk + 1) * CHUNK {
            let object = match like {
                Object::Qp(_) => Object::Qp(index),
                Object::Srq(_) => Object::Srq(index),
                Object::Cq(_) => Object::Cq(index),
            };
            let Some(layout) = copy(memory, directory, object) else { continue };
            let Ok(words) = memory.words(layout.body, BODY_WORDS) else { continue };
            let mut body = [0; BODY_WORDS];
            for (to, from) in body.iter_mut().zip(words) {
                *to = from.load(Ordering::Acquire);
            }
            if !tell(Surveyed { object, shape: layout.shape, body }) {
                return;
            }
        }
    }
}
