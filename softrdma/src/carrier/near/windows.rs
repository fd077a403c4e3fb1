//! Requests about own memory windows, which leave no process.

use crate::carrier::initiator::Initiator;
use crate::rules::keys::{Key, Kind, check_bind, check_invalidate};
use crate::rules::request::BindWindow;
use crate::rules::requester::Outcome;
use crate::rules::verbs::{Access, Status};
use crate::shm::keys::Entry;

use super::endpoint::Endpoint;

/// Invalidates an own window (IBA §10.8.2.3.4, local invalidate).
pub(crate) fn local_invalidate(endpoint: &Endpoint, from: &Initiator, key: u32) -> Outcome {
    let window = endpoint.keys.window(key);
    let checked = check_invalidate(window.as_ref().map(|entry| &entry.key), from.pd, from.qp_num);
    let (Some(entry), Ok(())) = (window, checked) else { return Outcome::Local(Status::MwBindErr) };
    let ended = Entry { key: Key { valid: false, ..entry.key }, ..entry };
    if endpoint.keys.change(key, key as u8, &ended).is_err() {
        return Outcome::Local(Status::MwBindErr);
    }
    // Who found it valid before is done with it afterwards.
    let ended = endpoint.keys.end_use(key, &*endpoint.segment).is_ok();
    if ended { Outcome::Done(0) } else { Outcome::Local(Status::MwBindErr) }
}

/// Binds an own window (IBA §10.6.7.2).
pub(crate) fn bind(endpoint: &Endpoint, from: &Initiator, wish: &BindWindow) -> Outcome {
    let refused = Outcome::Local(Status::MwBindErr);
    let Some(window) = endpoint.keys.window(wish.window) else { return refused };
    let region = endpoint.keys.local(wish.region);
    let checked =
        check_bind(&window.key, region.as_ref().map(|region| &region.key), from.qp_type, from.pd, wish.bind);
    if checked.is_err() {
        return refused;
    }
    let rights = region.as_ref().map_or(Access::NONE, |region| region.key.access);
    let kind = match window.key.kind {
        Kind::Window2 { .. } => Kind::Window2 { qp_num: from.qp_num },
        other => other,
    };
    let start = if wish.bind.access.has(Access::ZERO_BASED) { 0 } else { wish.bind.addr };
    let key = Key {
        kind,
        valid: wish.bind.length > 0,
        pd: window.key.pd,
        start,
        length: wish.bind.length,
        // The kernel reaches the window's memory where it reaches the region's.
        access: wish.bind.access.union(Access(rights.0 & Access::UNPINNABLE.0)),
    };
    let base = region.map_or(0, |region| region.translate(wish.bind.addr));
    if window.key.valid {
        let ended = Entry { key: Key { valid: false, ..window.key }, ..window };
        if endpoint.keys.change(wish.window, wish.window as u8, &ended).is_err() {
            return refused;
        }
    }
    // Who uses it as it was is done first: also where a peer invalidated it.
    if endpoint.keys.end_use(wish.window, &*endpoint.segment).is_err()
        || endpoint.keys.change(wish.window, wish.key8, &Entry { key, base }).is_err()
    {
        return refused;
    }
    Outcome::Done(0)
}
