//! The pools of this process, one for each process that sends longer messages by direct rings.

use std::sync::{Arc, Mutex, PoisonError};

use ironverbs_os::growth::{TryPush, try_arc};

use crate::carrier::near::endpoint::Endpoint;
use crate::shm::lock::{Liveness as _, Owner};
use crate::shm::pool::{POOL_BYTES, PoolWords};

/// Most pools. Processes beyond that send longer messages by the kernel.
const MOST: usize = 64;

/// A pool of this process.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Its place in the segment, in bytes from the start.
    pub(super) at: u64,
    pub(super) words: PoolWords,
}

/// See the module. A pool has no other writer as long as its writer lives, or messages wait in it.
#[derive(Debug, Default)]
pub(crate) struct Pools(Mutex<Vec<(Owner, Arc<Pool>)>>);

impl Pools {
    /// The pool that this process writes, made now if there is none; `None` without memory for it.
    #[cold]
    pub(super) fn of(&self, endpoint: &Endpoint, writer: Owner) -> Option<Arc<Pool>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = all.iter().find(|(owner, _)| *owner == writer) {
            return Some(pool.clone());
        }
        let segment = &endpoint.segment;
        // Only the list has it: no ring says any more that a message is there.
        let is_left =
            |(owner, pool): &(Owner, Arc<Pool>)| Arc::strong_count(pool) == 1 && !segment.lives(*owner);
        if let Some(place) = all.iter().position(is_left) {
            let (owner, pool) = &mut all[place];
            segment.memory().clear(pool.at, POOL_BYTES).ok()?;
            *owner = writer;
            return Some(pool.clone());
        }
        if all.len() >= MOST {
            return None;
        }
        all.try_reserve(1).ok()?;
        let at = segment.alloc(POOL_BYTES, 64).ok()?.offset;
        let pool = try_arc(Pool { at, words: PoolWords::hold(&endpoint.own, at)? }).ok()?;
        all.push_reserved((writer, pool.clone()));
        Some(pool)
    }
}
