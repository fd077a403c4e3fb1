//! The keys of a process as its service looks at them.

use super::super::keys::{Entry, Keys};
use super::{Piece, Purpose};
use crate::rules::keys::Kind;

/// [`Registered::with`](super::Registered::with) for a process that has its keys in a [`Keys`]: by its private
/// records, and the key counts as in use meanwhile, so its removal waits. `access` learns the key's entry, and
/// may refuse after all.
pub fn with_keys(
    keys: &Keys,
    purpose: Purpose,
    piece: &Piece,
    access: &mut dyn FnMut(&Entry) -> bool,
) -> bool {
    let Some((entry, _in_use)) = keys.hold(piece.key) else { return false };
    let valid = match entry.key.kind {
        // What stands in the segment, where peers write, may take rights away and gives none.
        Kind::Window2 { .. } => keys.window(piece.key).is_some_and(|window| window.key.valid),
        Kind::Region | Kind::Window1 => entry.key.valid,
    };
    let inside = piece
        .addr
        .checked_sub(entry.base)
        .is_some_and(|at| at <= entry.key.length && piece.len <= entry.key.length - at);
    valid && entry.key.access.has(purpose.access()) && inside && access(&entry)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::super::super::keys::{Entry, ROOT, Table};
    use super::super::super::segment::Segment;
    use super::super::super::testing::TestDir;
    use super::*;
    use crate::rules::keys::Key;
    use crate::rules::verbs::Access;

    #[test]
    fn what_a_key_opens() {
        let dir = TestDir::new("registered");
        let segment = Arc::new(Segment::create(dir.folder()).unwrap());
        let keys = Keys::new(segment.clone()).unwrap();
        let key = Key {
            kind: Kind::Region,
            valid: true,
            pd: 1,
            start: 0,
            length: 100,
            access: Access::LOCAL_WRITE.union(Access::REMOTE_READ),
        };
        let region = keys.add(&Entry { key, base: 5000 }).unwrap();
        let kind = Kind::Window2 { qp_num: 4 };
        let window = Key { kind, access: Access::REMOTE_WRITE, length: 10, ..key };
        let window = keys.add(&Entry { key: window, base: 5050 }).unwrap();
        let with = |purpose, key, addr, len| {
            let mut calls = 0;
            let open = with_keys(&keys, purpose, &Piece { key, addr, len }, &mut |_| {
                calls += 1;
                true
            });
            assert_eq!(calls, i32::from(open));
            open
        };
        for purpose in [Purpose::Receive, Purpose::Read] {
            assert!(with(purpose, region, 5000, 100) && with(purpose, region, 5099, 1));
            assert!(!with(purpose, region, 5000, 101) && !with(purpose, region, 4999, 1));
            assert!(!with(purpose, region, 5100, 1) && !with(purpose, region, 5001, u64::MAX));
            assert!(!with(purpose, region ^ 1, 5000, 1) && !with(purpose, 0, 5000, 1));
            assert!(!with(purpose, window, 5050, 1));
        }
        assert!(!with_keys(&keys, Purpose::Read, &Piece { key: region, addr: 5000, len: 1 }, &mut |_| false));
        assert!(!with(Purpose::Write, region, 5000, 1) && !with(Purpose::Atomic, region, 5000, 8));
        assert!(with(Purpose::Write, window, 5050, 10) && !with(Purpose::Write, window, 5049, 2));
        // Peers who have all pins keep nobody out.
        let mut pins = Vec::new();
        while let Ok(pin) = Table::shared(&segment).pin(region, segment.owner(), &*segment) {
            pins.push(pin);
        }
        assert!(with(Purpose::Read, region, 5000, 100) && !with(Purpose::Read, region, 5000, 101));
        drop(pins);
        // A window that a peer invalidated.
        assert!(Table::shared(&segment).invalidate(window));
        assert!(!with(Purpose::Write, window, 5050, 10));
        // Nobody removes a key within, whatever peers write about who uses it.
        let table = segment.root(ROOT).unwrap().load(Ordering::Relaxed);
        let piece = Piece { key: region, addr: 5000, len: 1 };
        let now = Duration::ZERO;
        let mut removed = None;
        assert!(with_keys(&keys, Purpose::Read, &piece, &mut |_| {
            segment.memory().write(table, &[0; 2048]).unwrap();
            removed = keys.remove(region, &*segment, now).ok();
            true
        }));
        assert_eq!(removed, Some(false));
        assert_eq!(keys.wait_unused(region, &*segment, now), Ok(true));
        assert!(!with(Purpose::Read, region, 5000, 1));
    }
}
