//! Rules at the post of requests.

use core::ffi::c_int;

use ironverbs_os::growth::TryPush;

use super::buffers::ELEMENTS;
use super::objects::{Ledger, Object, Region};
use super::place::Place;
use super::queue_pair::{Buffer, QueuePair, Request, Seen};
use super::report::Findings;
use super::rules::Id;
use super::{is_complete, thread};
use crate::abi::verbs::*;

/// Requests of one list that are looked at.
const LIST: usize = 1 << 16;
/// Elements of one request that are looked at; no device has more.
const SGES: usize = 256;

/// Where a receive request goes.
#[derive(Clone, Copy)]
pub enum Receives {
    /// A queue pair's own queue.
    Qp(*mut ibv_qp),
    /// A shared one.
    Srq(*mut ibv_srq),
}

/// What the device does with an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Reads,
    Writes,
}

/// Of an element: where it is in this process, and whether others may write there.
struct Reached {
    host: Option<u64>,
    is_shared: bool,
}

/// Judges an element by the region of its key.
fn element(
    ledger: &Ledger,
    found: &mut Findings,
    context: u64,
    domain: u64,
    sge: &ibv_sge,
    use_: Use,
) -> Option<Reached> {
    let key = sge.lkey;
    if sge.length == 0 {
        return None;
    }
    let Some((object, region)) = ledger.region(context, key) else {
        if let Some(ended) = ledger.ended(context, key) {
            let what = format!(
                "lkey {key:#x} of {} bytes at {:#x} is of a region that was deregistered",
                sge.length, sge.addr
            );
            found.error(Id::KeyDeregistered, what, ended.about.clone());
        }
        return None;
    };
    if region.domain != domain && region.domain != 0 && domain != 0 {
        let what = format!("lkey {key:#x} is of another protection domain");
        found.error(Id::KeyDomain, what, object.about());
    }
    if use_ == Use::Writes {
        needs(found, object, region, IBV_ACCESS_LOCAL_WRITE as u32, "IBV_ACCESS_LOCAL_WRITE");
    }
    let range = region.range?;
    let inside = sge
        .addr
        .checked_sub(range.first)
        .is_some_and(|from| from <= range.length && u64::from(sge.length) <= range.length - from);
    if !inside {
        let what = format!(
            "{} bytes at {:#x} are not within the {} bytes at {:#x} of lkey {key:#x}",
            sge.length, sge.addr, range.length, range.first
        );
        found.error(Id::KeyRange, what, object.about());
        return None;
    }
    let remote = IBV_ACCESS_REMOTE_WRITE as u32 | IBV_ACCESS_REMOTE_ATOMIC as u32;
    let is_shared = region.access.is_none_or(|access| access & remote != 0);
    Some(Reached { host: range.host.map(|distance| sge.addr.wrapping_add(distance)), is_shared })
}

fn needs(found: &mut Findings, object: &Object, region: Region, right: u32, name: &str) {
    if region.access.is_some_and(|access| access & right == 0) {
        let what = format!("the region of lkey {:#x} lacks {name}", region.lkey);
        found.error(Id::KeyAccess, what, object.about());
    }
}

/// A program's list as a slice.
///
/// # Safety
/// `first` is null or followed by `count` elements.
pub(super) unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count > SGES {
        return &[];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// What the device does with the elements of an operation; None where it has none.
fn uses(opcode: u32) -> Option<Use> {
    const WRITES: [ibv_wr_opcode; 3] =
        [IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD];
    const READS: [ibv_wr_opcode; 6] = [
        IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_SEND,
        IBV_WR_SEND_WITH_IMM,
        IBV_WR_SEND_WITH_INV,
        IBV_WR_ATOMIC_WRITE,
    ];
    let among = |all: &[ibv_wr_opcode]| all.iter().any(|one| *one as u32 == opcode);
    if among(&WRITES) {
        Some(Use::Writes)
    } else if among(&READS) {
        Some(Use::Reads)
    } else {
        None
    }
}

/// An atomic operation at an address of the peer's.
pub(super) fn atomic(found: &mut Findings, object: &Object, address: u64) {
    if !address.is_multiple_of(8) {
        let what = format!("an atomic operation at remote address {address:#x}");
        found.error(Id::AtomicAlignment, what, object.about());
    }
}

/// Which queue pair a request goes to.
pub(super) struct To<'a> {
    /// The context of its device.
    context: u64,
    /// What is known of it.
    pub qp: &'a QueuePair,
    /// The same as an object.
    pub object: &'a Object,
}

/// The queue pair at an address.
pub(super) fn to(ledger: &Ledger, address: u64) -> Option<To<'_>> {
    let object = ledger.objects.get(address)?;
    match &object.detail {
        super::objects::Detail::Qp(qp) => Some(To { context: object.context, qp, object }),
        _ => None,
    }
}

/// Judges the elements of a send request. What they send, where that is asked for and can be looked at.
pub(super) fn elements(
    ledger: &Ledger,
    found: &mut Findings,
    to: &To<'_>,
    request: &mut Request,
    sges: &[ibv_sge],
    looks: bool,
) -> Option<Buffer> {
    let use_ = uses(request.opcode)?;
    let (mut parts, mut count, mut is_shared) = ([(0, 0); ELEMENTS], 0, false);
    for (at, sge) in sges.iter().enumerate() {
        let place = element(ledger, found, to.context, to.qp.domain, sge, use_);
        if let Some(key) = request.keys.get_mut(at) {
            *key = sge.lkey;
        }
        if looks
            && let Some(Reached { host: Some(host), is_shared: shared }) = place
            && let Some(part) = parts.get_mut(count)
        {
            *part = (host, u64::from(sge.length));
            count += 1;
            is_shared |= shared;
        }
    }
    if use_ == Use::Reads && count > 0 && to.qp.follows_sends {
        Buffer::of(&parts[..count], is_shared)
    } else {
        None
    }
}

/// Judges inline data of so many bytes.
pub(super) fn inline(found: &mut Findings, to: &To<'_>, length: u64) {
    let most = to.qp.max_inline;
    if length > u64::from(most) {
        let what = format!("{length} bytes of inline data, where the queue pair takes {most}");
        found.error(Id::InlineSize, what, to.object.about());
    }
}

/// A request of a list, judged, and what it sends, where that is asked for.
///
/// # Safety
/// A request of the program's with as many elements as it says.
unsafe fn judged(
    ledger: &Ledger,
    found: &mut Findings,
    to: &To<'_>,
    wr: &ibv_send_wr,
    looks: bool,
) -> (Request, Option<Buffer>) {
    let is_signaled = to.qp.signals_all || wr.send_flags & IBV_SEND_SIGNALED as u32 != 0;
    let mut request =
        Request { wr_id: wr.wr_id, is_signaled, serial: 0, opcode: wr.opcode, keys: [0; ELEMENTS] };
    let mut buffer = None;
    // SAFETY: by the contract.
    let sges = unsafe { list(wr.sg_list, usize::try_from(wr.num_sge).unwrap_or(0)) };
    if wr.send_flags & IBV_SEND_INLINE as u32 != 0 {
        inline(found, to, sges.iter().map(|sge| u64::from(sge.length)).sum());
    } else {
        buffer = elements(ledger, found, to, &mut request, sges, looks);
    }
    // SAFETY: words of unions of plain C data, of which the operation says what they are.
    unsafe {
        match wr.opcode {
            op if op == IBV_WR_ATOMIC_CMP_AND_SWP as u32 || op == IBV_WR_ATOMIC_FETCH_AND_ADD as u32 => {
                atomic(found, to.object, wr.wr.atomic.remote_addr);
            }
            op if op == IBV_WR_ATOMIC_WRITE as u32 => atomic(found, to.object, wr.wr.rdma.remote_addr),
            op if op == IBV_WR_BIND_MW as u32 => {
                bind(ledger, found, wr.anon2.bind_mw.bind_info.mr as u64, wr.anon2.bind_mw.bind_info.length);
            }
            _ => {}
        }
    }
    (request, buffer)
}

/// A window is bound to a region.
pub fn bind(ledger: &Ledger, found: &mut Findings, mr: u64, length: u64) {
    if let Some(object) = ledger.objects.get(mr)
        && let super::objects::Detail::Region(region) = &object.detail
        && length > 0
    {
        needs(found, object, *region, IBV_ACCESS_MW_BIND as u32, "IBV_ACCESS_MW_BIND");
    }
}

/// What holds of any post of sends, before the first of them.
pub(super) fn begins(ledger: &mut Ledger, found: &mut Findings, address: u64) -> Option<()> {
    let mine = thread();
    let about = |ledger: &Ledger| ledger.objects.get(address).and_then(Object::about);
    let qp = ledger.qp(address)?;
    let (within, poster) = (qp.within, core::mem::replace(&mut qp.poster, mine));
    qp.within = mine;
    let (is_for_one, again) = (qp.is_for_one, qp.seen == Seen::Again);
    let (early, number) = (qp.takes_sends() == Some(false), qp.number);
    if within != 0 && within != mine {
        // Nobody knows which of them comes first.
        give_up(ledger, address);
        if is_for_one {
            let what = format!("two threads post to queue pair {number:#x} at the same time");
            found.error(Id::QpThreads, what, about(ledger));
        }
    } else if is_for_one && poster != 0 && poster != mine {
        let what = || format!("another thread has posted to queue pair {number:#x} before");
        found.note(Id::QpThreads, what, about(ledger));
    }
    if early {
        let what = format!("a send is posted to queue pair {number:#x} in state {}", state(ledger, address));
        found.error(Id::QpState, what, about(ledger));
    }
    if again && ledger.objects.get_mut(address)?.is_first(Id::ErrorIgnored) {
        let what = format!("requests of queue pair {number:#x} complete in error, and others are posted");
        found.error(Id::ErrorIgnored, what, about(ledger));
    }
    Some(())
}

fn state(ledger: &mut Ledger, address: u64) -> &'static str {
    const NAMES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
    let state = ledger.qp(address).and_then(|qp| qp.state);
    state.and_then(|state| NAMES.get(state as usize).copied()).unwrap_or("unknown")
}

/// The ledger does not know any more what the queue pair has outstanding.
pub fn give_up(ledger: &mut Ledger, address: u64) {
    let Some(qp) = ledger.qp(address) else { return };
    let (signaled, send_cq) = (qp.give_up_sends(), qp.send_cq);
    if let Some(cq) = ledger.cq(send_cq) {
        cq.sends = cq.sends.saturating_sub(signaled);
    }
}

/// Enters a request that is about to be posted, and judges the queues it fills. What it sends is looked at
/// where that is told, with the place of the post.
pub(super) fn enter(
    ledger: &mut Ledger,
    found: &mut Findings,
    address: u64,
    mut request: Request,
    looked: Option<(Buffer, Place)>,
) {
    let Some(qp) = ledger.qp(address) else { return };
    request.serial = qp.posted;
    qp.posted += 1;
    if !is_complete() {
        return give_up(ledger, address);
    }
    if !qp.follows_sends {
        return;
    }
    let looked = looked.and_then(|(buffer, place)| Some((buffer.now(qp.received)?, place)));
    let (before, most, number) = (qp.sends.len(), qp.max_send as usize, qp.number);
    let none_signaled = qp.signaled == 0;
    let send_cq = qp.send_cq;
    if !qp.push(request, looked) {
        return;
    }
    if none_signaled && most > 0 && before >= most {
        let what = format!("queue pair {number:#x} has {before} outstanding sends, none of them signaled");
        tell(ledger, found, address, Id::SendQueueUnsignaled, what);
    } else if none_signaled && !request.is_signaled && before + 1 == most {
        let what = || format!("all {most} places of queue pair {number:#x} are taken by unsignaled sends");
        let about = ledger.objects.get(address).and_then(Object::about);
        found.note(Id::SendQueueUnsignaled, what, about);
    }
    if request.is_signaled {
        let Some(cq) = ledger.cq(send_cq) else { return };
        cq.sends += 1;
        if cq.is_too_full() {
            overrun(ledger, found, send_cq);
        }
    }
}

fn tell(ledger: &mut Ledger, found: &mut Findings, address: u64, id: Id, what: String) {
    if let Some(object) = ledger.objects.get_mut(address)
        && object.is_first(id)
    {
        found.error(id, what, object.about());
    }
}

/// A completion queue may come to have more completions than entries.
#[cold]
fn overrun(ledger: &mut Ledger, found: &mut Findings, address: u64) {
    let Some(cq) = ledger.cq(address) else { return };
    let (sends, receives, entries) = (cq.sends, cq.receives, u64::from(cq.entries));
    if sends > entries {
        let what =
            format!("{sends} signaled sends are outstanding on a completion queue of {entries} entries");
        return tell(ledger, found, address, Id::CqOverrun, what);
    }
    let what = || {
        format!(
            "{sends} signaled sends and {receives} receives are outstanding on {entries} entries of a queue"
        )
    };
    let about = ledger.objects.get(address).and_then(Object::about);
    found.note(Id::CqOverrun, what, about);
}

/// Before a list of sends is posted. `place` says where, where their buffers are looked at.
///
/// # Safety
/// `first` is null or a list of requests.
pub unsafe fn send_begins(
    ledger: &mut Ledger,
    found: &mut Findings,
    qp: u64,
    first: *const ibv_send_wr,
    place: Option<Place>,
) {
    if begins(ledger, found, qp).is_none() {
        return;
    }
    let mut at = first;
    for _ in 0..LIST {
        // SAFETY: by the contract.
        let Some(wr) = (unsafe { at.as_ref() }) else { return };
        let Some(to) = to(ledger, qp) else { return };
        // SAFETY: by the contract.
        let (request, buffer) = unsafe { judged(ledger, found, &to, wr, place.is_some()) };
        enter(ledger, found, qp, request, buffer.zip(place));
        at = wr.next;
    }
    give_up(ledger, qp);
}

/// After it was: requests from the refused one on are not outstanding.
///
/// # Safety
/// As for [`send_begins`]; `bad` is null or where the provider has written which request it refused.
pub unsafe fn send_ended(
    ledger: &mut Ledger,
    qp: u64,
    first: *const ibv_send_wr,
    bad: *const *mut ibv_send_wr,
    answer: c_int,
) {
    if let Some(entry) = ledger.qp(qp) {
        entry.within = 0;
    }
    if answer == 0 {
        return;
    }
    // SAFETY: by the contract.
    let bad = unsafe { bad.as_ref() }.map_or(core::ptr::null(), |bad| bad.cast_const());
    let (mut at, mut refused, mut is_known) = (first, 0, false);
    for _ in 0..LIST {
        // SAFETY: by the contract.
        let Some(wr) = (unsafe { at.as_ref() }) else { break };
        is_known |= at == bad;
        refused += usize::from(is_known);
        at = wr.next;
    }
    if is_known { take_back(ledger, qp, refused) } else { give_up(ledger, qp) }
}

pub(super) fn take_back(ledger: &mut Ledger, address: u64, refused: usize) {
    let Some(qp) = ledger.qp(address) else { return };
    let (signaled, send_cq) = (qp.take_back(refused), qp.send_cq);
    if let Some(cq) = ledger.cq(send_cq) {
        cq.sends = cq.sends.saturating_sub(signaled);
    }
}

/// A window is bound by a verb that posts a request itself.
pub fn bound(ledger: &mut Ledger, found: &mut Findings, qp: u64, wr_id: u64, flags: u32) {
    let Some(to) = to(ledger, qp) else { return };
    let request = Request {
        wr_id,
        is_signaled: to.qp.signals_all || flags & IBV_SEND_SIGNALED as u32 != 0,
        serial: 0,
        opcode: IBV_WR_BIND_MW as u32,
        keys: [0; ELEMENTS],
    };
    enter(ledger, found, qp, request, None);
}

/// Before a list of receives is posted.
///
/// # Safety
/// `first` is null or a list of requests.
pub unsafe fn receive_begins(
    ledger: &mut Ledger,
    found: &mut Findings,
    to: Receives,
    first: *const ibv_recv_wr,
) {
    let (address, Some(object)) = (to.address(), ledger.objects.get(to.address())) else { return };
    let context = object.context;
    let domain = match &object.detail {
        super::objects::Detail::Qp(qp) => {
            if qp.state == Some(IBV_QPS_RESET as u32) && qp.service != IBV_QPT_DRIVER as u32 {
                let what = format!("a receive is posted to queue pair {:#x} in state RESET", qp.number);
                found.error(Id::QpState, what, object.about());
            }
            qp.domain
        }
        super::objects::Detail::Srq(domain) => *domain,
        _ => return,
    };
    let mut at = first;
    for _ in 0..LIST {
        // SAFETY: by the contract.
        let Some(wr) = (unsafe { at.as_ref() }) else { return };
        // SAFETY: by the contract.
        for sge in unsafe { list(wr.sg_list, usize::try_from(wr.num_sge).unwrap_or(0)) } {
            element(ledger, found, context, domain, sge, Use::Writes);
        }
        if let Some(qp) = ledger.qp(address)
            && qp.srq == 0
            && qp.follows_receives
        {
            qp.follows_receives = is_complete() && qp.receives.try_push(wr.wr_id).is_ok();
            let recv_cq = qp.recv_cq;
            if let Some(cq) = ledger.cq(recv_cq) {
                cq.receives += 1;
                if cq.is_too_full() {
                    overrun(ledger, found, recv_cq);
                }
            }
        }
        at = wr.next;
    }
}

impl Receives {
    fn address(self) -> u64 {
        match self {
            Self::Qp(qp) => qp as u64,
            Self::Srq(srq) => srq as u64,
        }
    }
}

/// After it was.
///
/// # Safety
/// As for [`send_ended`].
pub unsafe fn receive_ended(
    ledger: &mut Ledger,
    to: Receives,
    first: *const ibv_recv_wr,
    bad: *const *mut ibv_recv_wr,
    answer: c_int,
) {
    if answer == 0 {
        return;
    }
    let Some(qp) = ledger.qp(to.address()) else { return };
    // SAFETY: by the contract.
    let bad = unsafe { bad.as_ref() }.map_or(core::ptr::null(), |bad| bad.cast_const());
    let (mut at, mut refused, mut is_known, mut all) = (first, 0, false, 0_u64);
    for _ in 0..LIST {
        // SAFETY: by the contract.
        let Some(wr) = (unsafe { at.as_ref() }) else { break };
        is_known |= at == bad;
        refused += usize::from(is_known);
        all += 1;
        at = wr.next;
    }
    let before = qp.receives.len();
    if is_known {
        qp.receives.truncate(before.saturating_sub(refused));
    } else if all > 0 {
        qp.follows_receives = false;
        qp.receives.clear();
    }
    let (gone, recv_cq) = ((before - qp.receives.len()) as u64, qp.recv_cq);
    if let Some(cq) = ledger.cq(recv_cq) {
        cq.receives = cq.receives.saturating_sub(gone);
    }
}
