//! Objects that are left: at the end of the process, and where their device is closed.

use super::objects::{Ledger, Object, words};
use super::report::Findings;
use super::rules::Id;

/// Those of a context that the program closes.
pub fn left_in(ledger: &Ledger, found: &mut Findings, context: u64) {
    let Some(device) = ledger.objects.get(context) else { return };
    let left =
        ledger.objects.iter().filter(|(address, object)| *address != context && object.context == context);
    let count = left.count();
    if count > 0 {
        let what = || format!("the device is closed, and {count} of its objects are left");
        found.note(Id::ObjectsLeft, what, device.about());
    }
}

/// All, together for each place at which some were made.
pub fn left(ledger: &Ledger, found: &mut Findings) {
    let same = |one: &Object, other: &Object| {
        one.kind == other.kind && one.verb == other.verb && one.place == other.place
    };
    let mut seen: Vec<(&Object, usize)> = Vec::new();
    for object in ledger.objects.values() {
        if let Some((_, count)) = seen.iter_mut().find(|(other, _)| same(object, other)) {
            *count += 1;
        } else if ironverbs_os::growth::TryPush::try_push(&mut seen, (object, 1)).is_err() {
            break;
        }
    }
    seen.sort_unstable_by_key(|(object, _)| (object.kind, object.number));
    for (object, count) in seen {
        let kind = words(object.kind);
        let what = match count {
            1 => format!("when the program ends, one {kind} is left"),
            _ => format!("when the program ends, {count} of this kind are left: {kind}"),
        };
        if let Some(about) = object.about() {
            found.note_of(Id::ObjectsLeft, what, about);
        }
    }
}
