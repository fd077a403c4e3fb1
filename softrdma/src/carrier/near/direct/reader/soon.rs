//! The memory that a long message most likely goes to soon.

use super::{RingReader, RingReaders};
use crate::carrier::near::bytes;

impl RingReader {
    /// Fetches the memory that the next long message most likely goes to: queues of thousands of requests have
    /// more than a cache holds.
    #[cold]
    fn fetch(&mut self) {
        let request = self.soon.take().zip(self.shared.as_ref());
        if let Some(((count, bytes), shared)) = request
            && let Some([_, pieces, addr, length_key]) = shared.request(count)
            && pieces > 0
        {
            bytes::fetch_many(addr, bytes.min(length_key as u32));
        }
    }
}

impl RingReaders {
    /// Whether memory is known that messages most likely go to soon.
    #[inline(always)]
    pub(crate) fn foresees(&self) -> bool {
        self.leads_to_shared && self.watched.iter().any(|reader| reader.soon.is_some())
    }

    /// Fetches that memory into the cache.
    pub(crate) fn fetch(&mut self) {
        self.watched.iter_mut().for_each(RingReader::fetch);
    }
}
