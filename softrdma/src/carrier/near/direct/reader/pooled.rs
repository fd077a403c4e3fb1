//! Messages of a ring whose payload is in a pool.

use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::queues::direct::Arrived;
use crate::shm::objects::DirectRing;
use crate::shm::pool::{Tag, Taken, forget, free, take};

use super::RingReader;

impl RingReader {
    /// Moves a payload that is in the pool, unless its sender did, and frees its buffer; whether it is where it
    /// belongs. `None` where its sender moves it just now.
    #[inline(never)]
    pub(super) fn place_pooled(
        &mut self,
        endpoint: &Endpoint,
        message: &Arrived,
        to: (u64, u32),
        fits: bool,
    ) -> Option<bool> {
        let direct = &*self.direct;
        let pool = direct.pool.get().zip(message.pooled);
        let words = pool.and_then(|(pool, buffer)| pool.words.state(buffer).zip(pool.words.payload(buffer)));
        let Some((state, payload)) = words else { return Some(false) };
        let awaited = || !self.receiver.is_closed() && direct.is_written(endpoint);
        let is_placed = match take(state, Tag::new(direct.qp, message.number), awaited) {
            Taken::NotYet => return None,
            // Nobody honest sent that.
            Taken::Nothing => return Some(false),
            Taken::Moved => true,
            Taken::Whole => {
                let (key_cache, pd, bytes) = (&mut self.key_cache, direct.pd, message.bytes);
                fits && bytes::place_many(endpoint, key_cache, pd, to, payload, bytes).is_some()
            }
        };
        free(state);
        Some(is_placed)
    }

    /// Fetches the payload of the next message, where that is there already.
    #[inline(always)]
    pub(super) fn fetch_next_pooled(&self) {
        if let Some(pool) = self.direct.pool.get()
            && let Some(message) = self.receiver.plain_pooled(&DirectRing::of(&self.ring))
            && let Some(buffer) = message.pooled
        {
            pool.words.fetch_to_take(buffer, message.bytes);
        }
    }

    /// Gives the buffers of messages back that nobody takes any more.
    pub(super) fn forget_pooled(&self) {
        let Some(pool) = self.direct.pool.get() else { return };
        for message in self.receiver.all(&DirectRing::of(&self.ring)) {
            if let Some(state) = message.pooled.and_then(|buffer| pool.words.state(buffer)) {
                forget(state, Tag::new(self.direct.qp, message.number));
            }
        }
    }
}
