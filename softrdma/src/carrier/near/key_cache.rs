//! A key of the own process that is asked for again and again.

use crate::rules::keys::{Key, Kind, check_local};
use crate::rules::verbs::Access;
use crate::shm::keys::{Entry, Keys};

/// The key of a region that was looked up last, for one protection domain and one use.
///
/// Whoever goes to the memory by it [counts as its user](Keys::enter) first: the key that is found then is not
/// ended before its user is gone.
#[derive(Debug)]
pub(crate) struct KeyCache {
    lkey: u32,
    /// How often keys had changed; [`NEVER`] where there is none.
    changes: u64,
    entry: Entry,
}

/// Keys do not change so often.
const NEVER: u64 = u64::MAX;

impl Default for KeyCache {
    fn default() -> Self {
        let key = Key { kind: Kind::Region, valid: false, pd: 0, start: 0, length: 0, access: Access::NONE };
        Self { lkey: 0, changes: NEVER, entry: Entry { key, base: 0 } }
    }
}

impl KeyCache {
    /// The region, if so many bytes from this address on are memory of it that is there, in this protection
    /// domain; `write`: if the device may write to it. The last two are the same at each call.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        keys: &Keys,
        pd: u32,
        lkey: u32,
        addr: u64,
        length: u32,
        write: bool,
    ) -> Option<&Entry> {
        let is_known = self.lkey == lkey && self.changes == keys.changes();
        if !is_known && !self.look(keys, pd, lkey, write) {
            return None;
        }
        self.entry.key.covers(addr, u64::from(length)).then_some(&self.entry)
    }

    /// As [`KeyCache::find`], where it was found the last time.
    #[inline(always)]
    pub(crate) fn known(&self, keys: &Keys, lkey: u32, addr: u64, length: u32) -> Option<&Entry> {
        let is_known = self.lkey == lkey && self.changes == keys.changes();
        (is_known && self.entry.key.covers(addr, length.into())).then_some(&self.entry)
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, keys: &Keys, pd: u32, lkey: u32, write: bool) -> bool {
        self.changes = NEVER;
        // What changes in between is looked up anew the next time, too.
        let changes = keys.changes();
        let is_good = |entry: &Entry| {
            // Where in it is looked at each time.
            check_local(Some(&entry.key), pd, entry.key.start, 0, write).is_ok() && entry.is_in_place()
        };
        let found = keys.local(lkey).filter(is_good);
        if let Some(entry) = found {
            *self = Self { lkey, changes, entry };
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::shm::segment::Segment;
    use crate::shm::testing::TestDir;

    fn region(access: Access) -> Entry {
        let key = Key { kind: Kind::Region, valid: true, pd: 3, start: 0x1000, length: 64, access };
        Entry { key, base: 0x7000 }
    }

    #[test]
    fn a_key_is_found_only_as_it_is_now_and_where_its_memory_is() {
        let dir = TestDir::new("key-cache");
        let segment = Arc::new(Segment::create(dir.folder()).unwrap());
        let keys = Keys::new(segment.clone()).unwrap();
        let entry = region(Access::LOCAL_WRITE);
        let lkey = keys.add(&entry).unwrap();
        let mut key_cache = KeyCache::default();
        // Once looked up, once found again.
        for _ in 0..2 {
            assert_eq!(key_cache.find(&keys, 3, lkey, 0x1000, 64, true), Some(&entry));
            assert_eq!(key_cache.find(&keys, 3, lkey, 0x1040, 0, true), Some(&entry));
            assert_eq!(key_cache.find(&keys, 3, lkey, 0x1001, 64, true), None);
            assert_eq!(key_cache.find(&keys, 3, lkey, 0xfff, 1, true), None);
            assert_eq!(key_cache.find(&keys, 3, lkey, 0, u32::MAX, true), None);
            assert_eq!(key_cache.find(&keys, 3, lkey, u64::MAX, 2, true), None);
        }
        assert_eq!(key_cache.find(&keys, 3, lkey ^ 1, 0x1000, 1, true), None);
        assert_eq!(key_cache.find(&keys, 3, lkey, 0x1000, 1, true), Some(&entry));
        // Another key changes nothing but that it is looked up anew.
        let other = keys.add(&region(Access(0))).unwrap();
        assert_eq!(key_cache.find(&keys, 3, lkey, 0x1000, 64, true), Some(&entry));
        assert_eq!(KeyCache::default().find(&keys, 3, other, 0x1000, 1, true), None);
        assert_eq!(KeyCache::default().find(&keys, 3, other, 0x1000, 1, false), Some(&region(Access(0))));
        assert_eq!(KeyCache::default().find(&keys, 4, lkey, 0x1000, 1, true), None);
        let faulting = keys.add(&region(Access(Access::LOCAL_WRITE.0 | Access::ON_DEMAND.0))).unwrap();
        assert_eq!(KeyCache::default().find(&keys, 3, faulting, 0x1000, 1, true), None);
        keys.remove(lkey, &*segment, Duration::ZERO).unwrap();
        assert_eq!(key_cache.find(&keys, 3, lkey, 0x1000, 1, true), None);
    }
}
