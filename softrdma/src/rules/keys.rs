//! Keys: whether a key may be used for this access, and whether a window may be bound or invalidated.

use super::verbs::{Access, QpType};

/// What a key stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory region.
    Region,
    /// Memory window type 1: bound by a verb, belongs to a protection domain.
    Window1,
    /// Memory window type 2 (2B): bound by a work request, belongs to a queue pair.
    Window2 {
        /// The queue pair it is bound to, by number.
        qp_num: u32,
    },
}

/// A consistent copy of an entry of a key table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Region or window.
    pub kind: Kind,
    /// Whether it can be used: a window is not until it is bound, and no more once it is invalidated.
    pub valid: bool,
    /// Protection domain.
    pub pd: u32,
    /// First address, as users of the key name it.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: Access,
}

/// Why a key does not serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// No such key, or its entry is not valid.
    NoKey,
    /// Another protection domain.
    Domain,
    /// A window of another queue pair.
    QueuePair,
    /// A right is missing.
    Rights,
    /// Outside of the range.
    Range,
    /// Not of the kind that the operation needs.
    Kind,
}

impl Key {
    #[inline(always)]
    pub(crate) fn covers(&self, addr: u64, length: u64) -> bool {
        let rest = addr.checked_sub(self.start).and_then(|offset| self.length.checked_sub(offset));
        rest.is_some_and(|rest| length <= rest)
    }
}

/// Checks a remote access (IBA §10.6.3.1, §10.6.7.2 for windows). Not called for an access of no bytes, whose
/// key does not matter (IBA §9.7.4.1.5).
///
/// # Errors
/// The first rule that is broken.
///
/// # Examples
/// ```
/// use softrdma::rules::keys::{Denied, Key, Kind, check_remote};
/// use softrdma::rules::verbs::Access;
///
/// let (start, length, access) = (0x1000, 4096, Access::REMOTE_READ);
/// let key = Key { kind: Kind::Region, valid: true, pd: 1, start, length, access };
/// assert_eq!(check_remote(Some(&key), 1, 17, 0x1ff8, 8, Access::REMOTE_READ), Ok(()));
/// assert_eq!(check_remote(Some(&key), 1, 17, 0x1ff8, 9, Access::REMOTE_READ), Err(Denied::Range));
/// assert_eq!(check_remote(Some(&key), 1, 17, 0x1000, 8, Access::REMOTE_WRITE), Err(Denied::Rights));
/// ```
pub fn check_remote(
    key: Option<&Key>,
    pd: u32,
    qp_num: u32,
    addr: u64,
    length: u64,
    need: Access,
) -> Result<(), Denied> {
    let key = key.filter(|key| key.valid).ok_or(Denied::NoKey)?;
    if key.pd != pd {
        return Err(Denied::Domain);
    }
    // rule: mw2-queue-pair
    if matches!(key.kind, Kind::Window2 { qp_num: bound } if bound != qp_num) {
        return Err(Denied::QueuePair);
    }
    if !key.access.has(need) {
        return Err(Denied::Rights);
    }
    if !key.covers(addr, length) { Err(Denied::Range) } else { Ok(()) }
}

/// Checks a piece of local memory (IBA §10.6.3.1): regions only, own protection domain, `LOCAL_WRITE` where
/// the device writes.
///
/// # Errors
/// The first rule that is broken.
#[inline]
pub fn check_local(key: Option<&Key>, pd: u32, addr: u64, length: u32, write: bool) -> Result<(), Denied> {
    let key = key.filter(|key| key.valid).ok_or(Denied::NoKey)?;
    if key.kind != Kind::Region {
        return Err(Denied::Kind);
    }
    if key.pd != pd {
        return Err(Denied::Domain);
    }
    // rule: key-local-write
    if write && !key.access.has(Access::LOCAL_WRITE) {
        return Err(Denied::Rights);
    }
    if !key.covers(addr, u64::from(length)) { Err(Denied::Range) } else { Ok(()) }
}

/// A wish to bind a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bind {
    /// First address of the window in its region.
    pub addr: u64,
    /// Bytes; 0 unbinds a window of type 1.
    pub length: u64,
    /// Rights of the window.
    pub access: Access,
}

/// Checks a bind (IBA §10.6.7.2, compliance C10-72 to C10-75, o10-36.2.2, o10-37.2.30) on a queue pair of type
/// `qp_type` in protection domain `pd`. `region` is the entry of the region's key.
///
/// # Errors
/// The first rule that is broken; the request completes with
/// [`Status::MwBindErr`](super::verbs::Status::MwBindErr).
pub fn check_bind(
    window: &Key,
    region: Option<&Key>,
    qp_type: QpType,
    pd: u32,
    bind: Bind,
) -> Result<(), Denied> {
    // rule: mw-services
    if !matches!(qp_type, QpType::Rc | QpType::Uc | QpType::XrcSend) || window.kind == Kind::Region {
        return Err(Denied::Kind);
    }
    if window.pd != pd {
        return Err(Denied::Domain);
    }
    match window.kind {
        // A window of type 2 is bound once, then invalidated.
        // rule: mw2-free
        Kind::Window2 { .. } if window.valid || bind.length == 0 => return Err(Denied::Kind),
        // rule: mw1-zero-based
        Kind::Window1 if bind.access.has(Access::ZERO_BASED) => return Err(Denied::Rights),
        Kind::Window1 if bind.length == 0 => return Ok(()),
        _ => {}
    }
    let region = region.filter(|region| region.valid && region.kind == Kind::Region).ok_or(Denied::NoKey)?;
    if region.pd != pd {
        return Err(Denied::Domain);
    }
    // rule: mw-right
    if !region.access.has(Access::MW_BIND) || region.access.has(Access::ZERO_BASED) {
        return Err(Denied::Rights);
    }
    // rule: mw-write
    let writes = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);
    if bind.access.any(writes) && !region.access.has(Access::LOCAL_WRITE) {
        return Err(Denied::Rights);
    }
    // rule: mw-range
    if !region.covers(bind.addr, bind.length) { Err(Denied::Range) } else { Ok(()) }
}

/// Checks an invalidation, local or by a peer's send (IBA §10.6.5, o10-37.2.26): windows of type 2 of this
/// queue pair.
///
/// Regions cannot be invalidated: only those of fast registration can, which user space does not have.
///
/// # Errors
/// The first rule that is broken.
pub fn check_invalidate(key: Option<&Key>, pd: u32, qp_num: u32) -> Result<(), Denied> {
    let key = key.filter(|key| key.valid).ok_or(Denied::NoKey)?;
    if key.pd != pd {
        return Err(Denied::Domain);
    }
    match key.kind {
        Kind::Window2 { qp_num: bound } if bound == qp_num => Ok(()),
        Kind::Window2 { .. } => Err(Denied::QueuePair),
        // rule: mw1-not-invalidated
        Kind::Region | Kind::Window1 => Err(Denied::Kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Access = Access(0x1f);

    fn region() -> Key {
        Key { kind: Kind::Region, valid: true, pd: 1, start: 0x1000, length: 0x100, access: ALL }
    }

    #[test]
    // rule: mw2-queue-pair
    fn remote_accesses() {
        let key = region();
        let check = |key: &Key, pd, addr, length, need| check_remote(Some(key), pd, 7, addr, length, need);
        let write = Access::REMOTE_WRITE;
        assert_eq!(check(&key, 1, 0x1000, 0x100, write), Ok(()));
        assert_eq!(check(&key, 1, 0x10ff, 1, write), Ok(()));
        assert_eq!(check(&key, 1, 0x10ff, 2, write), Err(Denied::Range));
        assert_eq!(check(&key, 1, 0xfff, 1, write), Err(Denied::Range));
        assert_eq!(check(&key, 1, 0x1001, u64::MAX, write), Err(Denied::Range));
        assert_eq!(check(&key, 1, u64::MAX, 2, write), Err(Denied::Range));
        assert_eq!(check(&key, 2, 0x1000, 1, write), Err(Denied::Domain));
        assert_eq!(check(&Key { valid: false, ..key }, 1, 0x1000, 1, write), Err(Denied::NoKey));
        assert_eq!(
            check(&Key { access: Access::REMOTE_READ, ..key }, 1, 0x1000, 1, write),
            Err(Denied::Rights)
        );
        let window = Key { kind: Kind::Window2 { qp_num: 7 }, ..key };
        assert_eq!(check(&window, 1, 0x1000, 1, write), Ok(()));
        let other = Key { kind: Kind::Window2 { qp_num: 8 }, ..key };
        assert_eq!(check(&other, 1, 0x1000, 1, write), Err(Denied::QueuePair));
        assert_eq!(check_remote(None, 1, 7, 0, 1, write), Err(Denied::NoKey));
    }

    #[test]
    // rule: key-local-write
    fn local_accesses() {
        let key = region();
        assert_eq!(check_local(Some(&key), 1, 0x1000, 0x100, true), Ok(()));
        let read_only = Key { access: Access::NONE, ..key };
        assert_eq!(check_local(Some(&read_only), 1, 0x1000, 1, true), Err(Denied::Rights));
        assert_eq!(check_local(Some(&read_only), 1, 0x1000, 1, false), Ok(()));
        let window = Key { kind: Kind::Window1, ..key };
        assert_eq!(check_local(Some(&window), 1, 0x1000, 1, false), Err(Denied::Kind));
    }

    #[test]
    // rule: mw-services, mw-right, mw-write, mw-range, mw1-zero-based, mw2-free
    fn windows() {
        let mr = region();
        let bind = Bind { addr: 0x1010, length: 0x10, access: Access::REMOTE_WRITE };
        let mw1 = Key { kind: Kind::Window1, valid: false, length: 0, ..mr };
        let mw2 = Key { kind: Kind::Window2 { qp_num: 0 }, ..mw1 };
        let check = |mw: &Key, mr: &Key, bind| check_bind(mw, Some(mr), QpType::Rc, 1, bind);
        assert_eq!(check(&mw1, &mr, bind), Ok(()));
        assert_eq!(check(&Key { valid: true, ..mw1 }, &mr, bind), Ok(()));
        assert_eq!(check(&mw2, &mr, bind), Ok(()));
        assert_eq!(check(&Key { valid: true, ..mw2 }, &mr, bind), Err(Denied::Kind));
        assert_eq!(check(&mw2, &mr, Bind { length: 0, ..bind }), Err(Denied::Kind));
        assert_eq!(check(&mw1, &mr, Bind { length: 0x1000, ..bind }), Err(Denied::Range));
        assert_eq!(check(&mw1, &Key { access: Access::LOCAL_WRITE, ..mr }, bind), Err(Denied::Rights));
        assert_eq!(check(&mw1, &Key { access: Access::MW_BIND, ..mr }, bind), Err(Denied::Rights));
        let zero = Bind { access: Access::ZERO_BASED.union(Access::REMOTE_READ), ..bind };
        assert_eq!(check(&mw1, &mr, zero), Err(Denied::Rights));
        assert_eq!(check(&mw2, &mr, zero), Ok(()));
        assert_eq!(check_bind(&mw2, Some(&mr), QpType::Ud, 1, bind), Err(Denied::Kind));

        let bound = Key { kind: Kind::Window2 { qp_num: 7 }, valid: true, ..mr };
        assert_eq!(check_invalidate(Some(&bound), 1, 7), Ok(()));
        assert_eq!(check_invalidate(Some(&bound), 1, 8), Err(Denied::QueuePair));
        assert_eq!(check_invalidate(Some(&mr), 1, 7), Err(Denied::Kind));
        assert_eq!(check_invalidate(Some(&Key { valid: false, ..bound }), 1, 7), Err(Denied::NoKey));
    }

    /// Numbers at which ranges begin to wrap or to end.
    const EDGES: [u64; 18] = {
        const HALF: u64 = 1 << 63;
        const WORD: u64 = 1 << 32;
        [
            0,
            1,
            2,
            7,
            8,
            9,
            4095,
            4096,
            WORD / 2,
            WORD - 1,
            WORD,
            WORD + 1,
            HALF - 1,
            HALF,
            HALF + 1,
            u64::MAX - 8,
            u64::MAX - 1,
            u64::MAX,
        ]
    };

    #[test]
    fn ranges_are_those_of_numbers_without_end() {
        for (start, length) in EDGES.iter().flat_map(|start| EDGES.map(|length| (*start, length))) {
            let key = Key { start, length, ..region() };
            for (addr, bytes) in EDGES.iter().flat_map(|addr| EDGES.map(|bytes| (*addr, bytes))) {
                let wide = u128::from;
                let inside = addr >= start && wide(addr) + wide(bytes) <= wide(start) + wide(length);
                assert_eq!(key.covers(addr, bytes), inside, "{addr:#x}+{bytes:#x} in {start:#x}+{length:#x}");
                let expected = if inside { Ok(()) } else { Err(Denied::Range) };
                assert_eq!(check_remote(Some(&key), 1, 7, addr, bytes, ALL), expected);
                if let Ok(bytes) = u32::try_from(bytes) {
                    assert_eq!(check_local(Some(&key), 1, addr, bytes, true), expected);
                }
            }
        }
    }
}
