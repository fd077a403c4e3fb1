//! The receive requests of a datagram queue pair, as who has its lock takes them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::mapped::Mapped;
use crate::queues::direct::datagram::Datagram;
use crate::queues::shared::{Object, QpWord, Word, held, slot};
use crate::rules::qp::receives;
use crate::rules::receive::Sge;
use crate::rules::responder::GRH_BYTES;
use crate::rules::verbs::QpState;
use crate::shm::lock::Lock;
use crate::shm::objects::{Held, HeldWords};

use super::Datagrams;

/// Words of the queue pair, and where its requests are.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) lock: Mapped<Lock>,
    state: Mapped<AtomicU64>,
    head: Mapped<AtomicU64>,
    tail: Mapped<AtomicU64>,
    /// The ring of requests: words of each, entries.
    requests: (HeldWords, usize, u32),
    /// Keeps what the words above are in.
    _held: Held,
}

/// A receive request.
pub(super) struct Request {
    pub(super) wr_id: u64,
    /// Its first piece.
    pub(super) sge: Sge,
    /// Bytes of all pieces.
    pub(super) bytes: u64,
}

impl Own {
    /// Those of the queue pair with this index.
    pub(super) fn find(endpoint: &Endpoint, qp: u32, requests: (HeldWords, usize, u32)) -> Option<Self> {
        let object = Object::Qp(qp);
        let held = endpoint.own.find([Some(object), None, None]);
        let (lock, [state, head, tail]) = {
            let view = endpoint.own.with(&held);
            let word = |word| view.word_at(Word::Qp(qp, word));
            let words = [word(QpWord::State)?, word(QpWord::Head)?, word(QpWord::Tail)?];
            // SAFETY: all of it is in the mapping that `held` keeps beside it.
            unsafe { (Mapped::new(view.lock_word(object)?), words.map(|word| Mapped::new(word))) }
        };
        Some(Self { lock, state, head, tail, requests, _held: held })
    }

    /// The request behind so many that were passed, from the head on. Behind the lock.
    #[inline(always)]
    pub(super) fn request(&self, passed: u32) -> Option<Request> {
        let (requests, stride, capacity) = &self.requests;
        let load = |word: &Mapped<AtomicU64>| word.get().load(Ordering::Acquire);
        let (head, tail) = (load(&self.head), load(&self.tail));
        if held(head, tail, *capacity).is_none_or(|waiting| waiting <= passed) {
            return None;
        }
        let count = (head as u32).wrapping_add(passed);
        let words = requests.get().get(stride * slot(count, *capacity) as usize..)?.get(..*stride)?;
        let word = |n: usize| words.get(n).map_or(0, |word| word.load(Ordering::Relaxed));
        let (pieces, length_key) = (word(1), word(3));
        let sge = Sge { addr: word(2), length: length_key as u32, lkey: (length_key >> 32) as u32 };
        let mut bytes = if pieces > 0 { u64::from(sge.length) } else { 0 };
        for n in 1..pieces.min(*stride as u64 / 2 - 1) as usize {
            bytes += u64::from(word(3 + 2 * n) as u32);
        }
        Some(Request { wr_id: word(0), sge, bytes })
    }

    /// The request for this datagram, behind so many that were passed; `None`: it comes to nobody, or is too
    /// long. Behind the lock.
    #[inline(always)]
    pub(super) fn request_for(&self, datagram: &Datagram, passed: u32, key: Option<u32>) -> Option<Request> {
        let is_for_it = key == Some(datagram.header.qkey) && datagram.bytes >= GRH_BYTES as u32;
        let request = if is_for_it { self.request(passed)? } else { return None };
        (request.bytes >= u64::from(datagram.bytes)).then_some(request)
    }

    /// The key that datagrams need, as long as there is one that they may have. Behind the lock.
    #[inline(always)]
    pub(super) fn key(&self, datagrams: &Datagrams) -> Option<u32> {
        let state = QpState::from_number(self.state.get().load(Ordering::Acquire) as u32);
        state.is_some_and(receives).then(|| datagrams.qkey.load(Ordering::Relaxed))
    }

    /// So many requests are taken. Behind the lock.
    #[inline(always)]
    pub(super) fn pass(&self, count: u32) {
        let head = self.head.get();
        let taken = (head.load(Ordering::Relaxed) as u32).wrapping_add(count);
        head.store(taken.into(), Ordering::Release);
    }
}
